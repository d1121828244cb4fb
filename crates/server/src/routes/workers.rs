//! Workers: the long poll, lease renewal, and the list of workers.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::Request;
use jobhall_core::needs::{Abilities, Accepts};
use jobhall_protocol::{Assignments, Code, Page, Renewals, Vacancy};

use crate::app::App;
use crate::error::{self, Answer, ApiError};
use crate::poll::{self, Offer, Parked};
use crate::tokens::Identity;
use crate::{body, params, to_wire};

/// Maximum time that a long poll may wait, in seconds.
const WAIT_S: u64 = 60;
/// Maximum number of attempts in one renewal.
const RENEWALS: usize = 10_000;

/// Thousands of these futures may wait, so each is kept small: the setup runs in a boxed future that is dropped before
/// the wait starts.
pub(super) async fn vacancy(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    request: Request<Body>,
) -> Answer {
    let waiting = Box::pin(park(&app, &who, request)).await?.wait();
    let assignments = tokio::select! {
        assignments = waiting => assignments?,
        () = app.tokens.gone(&who) => return Err(gone()),
    };
    if assignments.is_empty() {
        return Ok(error::nothing());
    }
    let attempts = assignments.iter().map(|given| to_wire::assigned(given, app.lease_ms, &app.tokens));
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
    };
    Ok(poll::park(app, offer).await?)
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
    Ok(error::ok(&app.poll_sessions.renew(&worker, attempts).await?))
}

pub(super) async fn workers(State(app): State<Arc<App>>) -> Answer {
    let mut items = app.sessions.workers(app.poll_sessions.workers());
    for known in app.engine.workers().await? {
        // Both lists are sorted by name.
        let Ok(at) = items.binary_search_by(|item| item.name.as_str().cmp(known.worker.as_str())) else {
            continue;
        };
        items[at].uses = known.taken.to_string();
        items[at].reserved_for = known.reserved_for.map(|id| id.get());
    }
    Ok(error::ok(&Page { items, next_cursor: None }))
}
