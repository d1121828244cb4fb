//! Workers: the long poll, lease renewal, and the list of workers.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::Request;
use jobhall_core::WorkerName;
use jobhall_core::needs::{Abilities, Accepts};
use jobhall_engine::Silence;
use jobhall_protocol::{Assignments, Code, Page, RENEWALS, Renewals, Timestamp, Vacancy, WAIT_S, Worker};

use crate::auth::tokens::Identity;
use crate::error::{self, Answer, ApiError};
use crate::request::{body, params};
use crate::response::to_wire;
use crate::server::app::App;
use crate::sessions::poll::{self, Offer, Parked};

/// Thousands of these futures may wait, so each is kept small: the setup runs in a boxed future that is dropped before
/// the wait starts.
pub(super) async fn vacancy(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    request: Request<Body>,
) -> Answer {
    let parked = Box::pin(park(&app, &who, request)).await?;
    let lease_ms = parked.lease_ms();
    let waiting = parked.wait();
    let assignments = tokio::select! {
        // The end of the token is checked first, so that nothing is assigned to a session that began during it.
        biased;
        () = app.tokens.gone(&who) => return Err(gone()),
        assignments = waiting => assignments?,
    };
    if assignments.is_empty() {
        // The session may have ended with the token before this request was informed of it.
        return if app.tokens.knows(&who) { Ok(error::nothing()) } else { Err(gone()) };
    }
    let attempts = assignments.iter().map(|given| to_wire::assigned(given, lease_ms, &app.tokens));
    Ok(error::ok(&Assignments { attempts: attempts.collect::<Result<_, _>>()? }))
}

async fn park(app: &Arc<App>, who: &Identity, request: Request<Body>) -> Result<Parked, ApiError> {
    app.takes_work()?;
    let vacancy: Vacancy = body::json(request).await?;
    if vacancy.wait_s > WAIT_S {
        return Err(ApiError::bad(format!("wait_s of {} is outside 0 to {WAIT_S}", vacancy.wait_s)));
    }
    let named = |field: &str, error: &dyn ToString| ApiError::bad(format!("{field}: {}", error.to_string()));
    let offer = Offer {
        worker: params::worker(who)?,
        abilities: Abilities::parse(&vacancy.abilities).map_err(|error| named("abilities", &error))?,
        accepts: who.takes(Accepts::parse(&vacancy.accepts).map_err(|error| named("accepts", &error))?),
        slots: vacancy.slots,
        wait_ms: vacancy.wait_s * 1_000,
        lease_ms: vacancy.lease_ms,
        fresh: vacancy.fresh,
    };
    let share = app.shares.waiting(who)?;
    Ok(poll::park(app, offer, share).await?)
}

fn gone() -> ApiError {
    ApiError::new(Code::Unauthorized, "this token was revoked")
}

pub(super) async fn renewals(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    request: Request<Body>,
) -> Answer {
    let worker = params::worker(&who)?;
    let renewals: Renewals = body::json(request).await?;
    if renewals.attempts.len() > RENEWALS {
        return Err(ApiError::bad(format!("more than {RENEWALS} attempts in one renewal")));
    }
    let held = |held: &jobhall_protocol::RenewedAttempt| {
        Ok((params::attempt_id(&held.id)?, params::lease(&held.lease)?))
    };
    let attempts = renewals.attempts.iter().map(held).collect::<Result<Vec<_>, ApiError>>()?;
    let renewed = app.poll_sessions.renew(&worker, attempts).await?;
    // A renewal that met the end of the token may have opened a session after the others ended.
    if !app.tokens.knows(&who) {
        app.engine.end_worker(worker).await?;
        return Err(gone());
    }
    Ok(error::ok(&renewed))
}

pub(super) async fn workers(State(app): State<Arc<App>>) -> Answer {
    Ok(error::ok(&Page { items: list(&app).await?, next_cursor: None }))
}

/// The connected workers, and those that are paused or drain, by name.
pub(super) async fn list(app: &App) -> Result<Vec<Worker>, ApiError> {
    let mut items = app.sessions.workers(app.poll_sessions.workers());
    for known in app.engine.workers().await? {
        // Both lists are sorted by name.
        let at = match (position(&items, &known.worker), &known.silence) {
            (Ok(at), _) => at,
            (Err(_), None) => continue,
            (Err(at), Some(silence)) => {
                items.insert(at, silent(&known.worker, silence));
                at
            }
        };
        items[at].uses = known.taken.to_string();
        items[at].reserved_for = known.reserved_for.map(|id| id.get());
        items[at].silent_ms = known.silence.as_ref().map(|silence| silence.silent_ms);
        items[at].lost_at = known.silence.as_ref().map(|silence| Timestamp(silence.until));
    }
    for (name, config) in app.engine.worker_configs(None).await? {
        let at = position(&items, &name).unwrap_or_else(|at| {
            items.insert(at, Worker::named(name.to_string()));
            at
        });
        items[at].paused = config.paused;
        items[at].draining = config.draining.is_some();
    }
    Ok(items)
}

fn position(items: &[Worker], name: &WorkerName) -> Result<usize, usize> {
    items.binary_search_by(|item| item.name.as_str().cmp(name.as_str()))
}

/// A worker without a connection, which still holds leases.
fn silent(worker: &WorkerName, silence: &Silence) -> Worker {
    let attempts = silence.attempts.iter().map(ToString::to_string).collect();
    Worker { attempts, ..Worker::named(worker.to_string()) }
}
