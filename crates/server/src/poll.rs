//! A long poll: a session that offers its slots until something is assigned or its time is over.
//!
//! A connection that breaks shows as a drop of everything here. Then the session is closed at once: nothing more is
//! assigned to it, and what crossed comes back, because nobody has accepted it.

use std::sync::Arc;
use std::time::Duration;

use jobhall_core::WorkerName;
use jobhall_core::needs::{Abilities, Accepts};
use jobhall_engine::{Assignment, Refused, Session, SessionEvent, SessionId, VacancyId};

use crate::app::App;
use crate::floor::Floor;
use crate::metrics::Counted;

/// What a worker offers.
pub(crate) struct Offer {
    pub worker: WorkerName,
    pub abilities: Abilities,
    pub accepts: Accepts,
    pub slots: u32,
    pub wait_ms: u64,
}

/// Closes the session unless the worker was told of an assignment.
struct Guard {
    floor: Arc<Floor>,
    session: SessionId,
    kept: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.floor.waited(self.session);
        if !self.kept {
            self.floor.close(Some(self.session));
        }
    }
}

/// Offers until there is something to do; nothing when the time is over or the hall stops.
pub(crate) async fn poll(app: &App, offer: Offer) -> Result<Vec<Assignment>, Refused> {
    let _waiting = Counted::new(&app.metrics.waiting);
    let Offer { worker, abilities, accepts, slots, wait_ms } = offer;
    let text: Arc<str> = abilities.to_string().into();
    let mut session = app.floor.wait(&worker, abilities, accepts, slots).await?;
    let mut guard = Guard { floor: app.floor.clone(), session: session.id(), kept: false };
    let vacancy = session.vacancy(slots, wait_ms).await?;
    let assignments = match first(app, &mut session).await? {
        Some(first) => rest(&mut session, vacancy, first, slots).await?,
        None => return Ok(Vec::new()),
    };
    guard.kept = true;
    let attempts: Vec<_> = assignments.iter().map(|given| (given.attempt, given.lease)).collect();
    app.floor.keep(session, &worker, &text, &attempts);
    Ok(assignments)
}

/// Waits for the first assignment. The session is renewed meanwhile: a poll may wait longer than a lease lives.
async fn first(app: &App, session: &mut Session) -> Result<Option<Assignment>, Refused> {
    let mut beat = tokio::time::interval(Duration::from_millis((app.lease_ms / 3).max(1)));
    loop {
        tokio::select! {
            biased;
            event = session.next() => match event {
                Some(SessionEvent::Assigned(assignment)) => return Ok(Some(*assignment)),
                Some(SessionEvent::VacancyEnded(..) | SessionEvent::Ended) | None => return Ok(None),
                Some(SessionEvent::Cancel(_) | SessionEvent::Revoked(_)) => {}
            },
            () = app.drained() => return Ok(None),
            _ = beat.tick() => {
                session.renew().await?;
            }
        }
    }
}

/// What was assigned with the first one. The slots that are left are withdrawn before the answer, so nothing can be
/// assigned that the worker is not told of.
async fn rest(
    session: &mut Session,
    vacancy: VacancyId,
    first: Assignment,
    slots: u32,
) -> Result<Vec<Assignment>, Refused> {
    let mut assignments = vec![first];
    if slots == 1 {
        return Ok(assignments);
    }
    session.end_vacancy(vacancy).await?;
    while let Some(event) = session.next().await {
        match event {
            SessionEvent::Assigned(assignment) => assignments.push(*assignment),
            SessionEvent::VacancyEnded(..) | SessionEvent::Ended => break,
            SessionEvent::Cancel(_) | SessionEvent::Revoked(_) => {}
        }
    }
    Ok(assignments)
}
