//! A long poll: a session that offers its slots until a job is assigned or the poll times out.
//!
//! If the connection breaks, everything here is dropped. The session is then closed immediately: nothing more is
//! assigned to it, and jobs assigned in the meantime return to the queue because they were not accepted.

use std::sync::Arc;
use std::time::Duration;

use jobhall_core::WorkerName;
use jobhall_core::bounds::VACANCY_SLOTS;
use jobhall_core::needs::{Abilities, Accepts};
use jobhall_engine::{Assignment, Rejected, Session, SessionEvent, SessionId, VacancyId};

use crate::auth::tokens::TokenShare;
use crate::metrics::Counted;
use crate::request::params::PAGE_BYTES;
use crate::server::app::App;
use crate::sessions::poll_sessions::PollSessions;

/// Maximum number of slots that are offered at once. So many jobs with the largest params have 4 MiB.
const ROUND: u32 = 16;

/// The slots and jobs that a worker offers to take.
pub(crate) struct Offer {
    pub worker: WorkerName,
    pub abilities: Abilities,
    pub accepts: Accepts,
    pub slots: u32,
    pub wait_ms: u64,
    /// How long its leases last without a renewal.
    pub lease_ms: Option<u64>,
    /// Whether its process began anew.
    pub fresh: bool,
}

/// Closes the session unless an assignment was sent to the worker.
struct Guard {
    poll_sessions: Arc<PollSessions>,
    session: SessionId,
    kept: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.poll_sessions.waited(self.session);
        if !self.kept {
            self.poll_sessions.close(Some(self.session));
        }
    }
}

/// A waiting long poll. There may be thousands, so it keeps only what it needs.
pub(crate) struct Parked {
    app: Arc<App>,
    session: Session,
    vacancy: VacancyId,
    guard: Guard,
    worker: WorkerName,
    abilities: Arc<str>,
    slots: u32,
    _waiting: Counted,
    _share: TokenShare,
}

/// Starts to offer slots.
pub(crate) async fn park(app: &Arc<App>, offer: Offer, share: TokenShare) -> Result<Parked, Rejected> {
    let waiting = Counted::new(&app.metrics.waiting);
    let Offer { worker, abilities, accepts, slots, wait_ms, lease_ms, fresh } = offer;
    if !(1..=VACANCY_SLOTS).contains(&slots) {
        let (given, most) = (u64::from(slots), u64::from(VACANCY_SLOTS));
        return Err(Rejected::Bound { field: "slots", given, least: 1, most });
    }
    let text: Arc<str> = abilities.to_string().into();
    let session = app.poll_sessions.wait(&worker, abilities, accepts, (slots, lease_ms, fresh)).await?;
    let guard = Guard { poll_sessions: app.poll_sessions.clone(), session: session.id(), kept: false };
    let vacancy = session.vacancy(round(slots), wait_ms).await?;
    let (app, abilities, _waiting, _share) = (app.clone(), text, waiting, share);
    Ok(Parked { app, session, vacancy, guard, worker, abilities, slots, _waiting, _share })
}

impl Parked {
    /// How long the session of this poll, and its leases, live without a renewal.
    pub(crate) fn lease_ms(&self) -> u64 {
        self.session.lease_ms
    }

    /// Waits for an assignment; none if the poll times out or the server stops.
    pub(crate) async fn wait(mut self) -> Result<Vec<Assignment>, Rejected> {
        match first(&self.app, &mut self.session).await? {
            Some(first) => Box::pin(self.keep(first)).await,
            None => Ok(Vec::new()),
        }
    }

    async fn keep(mut self, first: Assignment) -> Result<Vec<Assignment>, Rejected> {
        let assignments = rest(&mut self.session, self.vacancy, first, self.slots).await?;
        self.guard.kept = true;
        let attempts: Vec<_> = assignments.iter().map(|given| (given.attempt, given.lease)).collect();
        self.app.poll_sessions.keep(self.session, &self.worker, &self.abilities, &attempts);
        Ok(assignments)
    }
}

/// Waits for the first assignment. It renews the session, because a poll may wait longer than a lease lasts.
async fn first(app: &App, session: &mut Session) -> Result<Option<Assignment>, Rejected> {
    let mut beat = tokio::time::interval(Duration::from_millis((session.lease_ms / 3).max(1)));
    loop {
        tokio::select! {
            biased;
            event = session.next() => match event {
                Some(SessionEvent::Assigned(assignment)) => return Ok(Some(*assignment)),
                Some(SessionEvent::VacancyEnded(..) | SessionEvent::Ended) | None => return Ok(None),
                Some(_) => {}
            },
            () = app.drained() => return Ok(None),
            _ = beat.tick() => {
                Box::pin(session.renew()).await?;
            }
        }
    }
}

/// Further assignments after the first. The remaining slots are withdrawn before the response, so that every assignment
/// is sent to the worker. What the response has no room for is not claimed: slots are offered again in rounds, as long
/// as jobs fill them, and the last round begins before the response is full.
async fn rest(
    session: &mut Session,
    mut vacancy: VacancyId,
    first: Assignment,
    slots: u32,
) -> Result<Vec<Assignment>, Rejected> {
    let mut assignments = vec![first];
    if slots == 1 {
        return Ok(assignments);
    }
    let mut offered = round(slots);
    loop {
        session.end_vacancy(vacancy).await?;
        while let Some(event) = session.next().await {
            match event {
                SessionEvent::Assigned(assignment) => assignments.push(*assignment),
                SessionEvent::VacancyEnded(..) | SessionEvent::Ended => break,
                _ => {}
            }
        }
        let taken = u32::try_from(assignments.len()).unwrap_or(u32::MAX);
        if taken < offered || taken >= slots || size(&assignments) >= PAGE_BYTES {
            return Ok(assignments);
        }
        let next = round(slots - taken);
        vacancy = session.vacancy(next, 0).await?;
        offered = taken + next;
    }
}

/// The slots that are offered at once.
fn round(slots: u32) -> u32 {
    slots.min(ROUND)
}

/// The bytes of the params of these jobs.
fn size(assignments: &[Assignment]) -> usize {
    assignments.iter().map(|given| given.spec.params.as_str().len()).sum()
}
