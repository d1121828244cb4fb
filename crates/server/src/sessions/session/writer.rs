//! Sends messages to the worker: everything that is ready goes into one frame, and one flush sends it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::FusedFuture;
use jobhall_core::{AttemptId, JobId};
use jobhall_engine::{Answer, Rejected, Session, SessionEvent, Waited};
use jobhall_protocol::{ToWorker, Word};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior};

use super::Caller;
use super::end::End;
use super::outlet::Outlet;
use super::present::{Given, Present};
use super::reader::Told;
use super::words::{Note, refused};
use crate::auth::tokens::Identity;
use crate::decode;
use crate::error::ApiError;
use crate::response::to_wire;
use crate::server::app::App;

/// Maximum number of events read at once.
const EVENTS: usize = 1_024;
/// Interval between two checks of the token.
const TOKEN: Duration = Duration::from_secs(2);

pub(super) struct Writer<'a> {
    app: &'a Arc<App>,
    caller: &'a Caller,
    session: Session,
    present: &'a Present,
    told: mpsc::Receiver<Told>,
    /// The next messages to send, when their answers are ready.
    front: Option<Told>,
    /// Whether accepts and progress are answered too.
    all: bool,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        app: &'a Arc<App>,
        caller: &'a Caller,
        session: Session,
        present: &'a Present,
        told: mpsc::Receiver<Told>,
        all: bool,
    ) -> Writer<'a> {
        Writer { app, caller, session, present, told, front: None, all }
    }

    /// Sends messages until the session ends.
    pub(super) async fn run(&mut self, outlet: &mut Outlet) -> End {
        match self.tell(outlet).await {
            Ok(never) => match never {},
            Err(end) => end,
        }
    }

    async fn tell(&mut self, outlet: &mut Outlet) -> Result<std::convert::Infallible, End> {
        let mut events = Vec::with_capacity(EVENTS);
        let (mut token, mut ping) = (every(TOKEN), every(Duration::from_millis(self.session.lease_ms / 3)));
        let app = self.app.clone();
        let (mut drained, mut closed) = (std::pin::pin!(app.drained().fuse()), std::pin::pin!(app.closed()));
        loop {
            let mut heard = None;
            tokio::select! {
                () = &mut closed => return self.drain(outlet).await,
                () = &mut drained, if !drained.is_terminated() => self.withdraw().await?,
                n = self.session.next_many(&mut events, EVENTS) => {
                    if n == 0 {
                        return Err(End::Broken);
                    }
                }
                next = next(&mut self.told, &mut self.front) => heard = Some(next?),
                () = self.present.finish.notified() => outlet.push(&ToWorker::Finish {}).await?,
                _ = token.tick() => self.check_token()?,
                _ = ping.tick() => outlet.ping().await?,
            }
            self.events(&mut events, outlet).await?;
            while let Some((told, answers)) = heard {
                self.answered(told, answers, outlet).await?;
                heard = next(&mut self.told, &mut self.front).now_or_never().transpose()?;
            }
            outlet.flush().await?;
        }
    }

    async fn events(&mut self, events: &mut Vec<SessionEvent>, outlet: &mut Outlet) -> Result<(), End> {
        for event in events.drain(..) {
            let message = match event {
                SessionEvent::Assigned(assignment) => {
                    let (attempt, lease) = (assignment.attempt, assignment.lease);
                    let mut book = self.present.book();
                    book.given += 1;
                    book.attempts.insert(attempt, Given { lease, logged: false, noted: false });
                    drop(book);
                    let job = to_wire::assigned_job(&assignment).map_err(|trouble| broken(&trouble))?;
                    let token = self.app.tokens.of_attempt(attempt, lease);
                    ToWorker::Assign { attempt, lease, token, job }
                }
                SessionEvent::Cancel(attempt) => ToWorker::Cancel { attempt, timed_out: false },
                SessionEvent::TimeOut(attempt) => ToWorker::Cancel { attempt, timed_out: true },
                SessionEvent::Resumed(attempt, jobs) => resumed(self.app, attempt, &jobs).await?,
                SessionEvent::Revoked(attempt) => {
                    self.present.book().attempts.remove(&attempt);
                    ToWorker::Revoke { attempt }
                }
                SessionEvent::VacancyEnded(..) => continue,
                SessionEvent::Ended => {
                    self.check_token()?;
                    return Err(End::Expired);
                }
            };
            outlet.push(&message).await?;
        }
        Ok(())
    }

    async fn answered(&self, told: Told, heard: Heard, outlet: &mut Outlet) -> Result<(), End> {
        for message in &told.said {
            outlet.push(message).await?;
        }
        self.present.book().forget(ended(&told.notes, &heard));
        for message in answers(self.app, told.notes, heard, self.all).await? {
            outlet.push(&message).await?;
        }
        Ok(())
    }

    /// Ends the session if its token was revoked.
    fn check_token(&self) -> Result<(), End> {
        let who = self.app.tokens.who(&self.caller.token);
        // The address of the request and the worker that an administrator named are not part of the token.
        let (from, worker) = (self.caller.who.from, self.caller.who.worker.clone());
        let is_valid = who.is_some_and(|who| Identity { from, worker, ..who } == self.caller.who);
        if is_valid { Ok(()) } else { Err(End::TokenRevoked) }
    }

    /// Withdraws the free credit while the server drains; the worker may finish its current attempts.
    async fn withdraw(&self) -> Result<(), End> {
        let total = {
            let book = self.present.book();
            book.total.min(book.given.cast_signed())
        };
        self.session.credit(total).await.map(drop).map_err(|_| End::Broken)
    }

    /// Ends the session while the server stops: no more assignments, received messages are answered.
    async fn drain(&mut self, outlet: &mut Outlet) -> Result<std::convert::Infallible, End> {
        self.session.disconnect().await.map_err(|_| End::Drained)?;
        let mut events = Vec::new();
        while let Some(n) = self.session.next_many(&mut events, EVENTS).now_or_never() {
            if n == 0 {
                break;
            }
            self.events(&mut events, outlet).await?;
        }
        self.told.close();
        while let Ok((told, answers)) = next(&mut self.told, &mut self.front).await {
            self.answered(told, answers, outlet).await?;
        }
        outlet.push(&ToWorker::Drain {}).await?;
        outlet.flush().await?;
        Err(End::Drained)
    }
}

type Heard = Vec<Result<Answer, Rejected>>;

fn every(time: Duration) -> Interval {
    let mut interval = tokio::time::interval(time.max(Duration::from_millis(1)));
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// The answers to the oldest unanswered frame. This future is cancel-safe.
async fn next(told: &mut mpsc::Receiver<Told>, front: &mut Option<Told>) -> Result<(Told, Heard), End> {
    if front.is_none() {
        *front = Some(told.recv().await.ok_or(End::Gone)?);
    }
    let waiting = front.as_mut().ok_or(End::Broken)?;
    let heard = (&mut waiting.answers).await.map_err(|_| End::Broken)?;
    Ok((front.take().ok_or(End::Broken)?, heard))
}

fn ended<'a>(notes: &'a [Note], heard: &'a Heard) -> impl Iterator<Item = AttemptId> + 'a {
    let good =
        notes.iter().zip(heard).filter(|(note, answer)| note.to == Some(Word::Outcome) && answer.is_ok());
    good.filter_map(|(note, _)| note.attempt)
}

/// Attempts that continue immediately because the jobs they wait for have ended.
fn over<'a>(notes: &'a [Note], heard: &'a Heard) -> impl Iterator<Item = (AttemptId, Vec<JobId>)> + 'a {
    notes.iter().zip(heard).filter_map(|(note, answer)| match answer {
        Ok(Answer::Waited(Waited { jobs, over: true })) => Some((note.attempt?, jobs.clone())),
        _ => None,
    })
}

/// The message that an attempt continues, with the states of the jobs it waited for.
async fn resumed(app: &App, attempt: AttemptId, jobs: &[JobId]) -> Result<ToWorker, End> {
    let jobs = decode::sub_job::states(app, jobs).await.map_err(|trouble| broken(&trouble))?;
    Ok(ToWorker::Resumed { attempt, jobs })
}

/// Converts engine answers to messages. Outcomes, renewals, and waits that are over are always answered; other
/// successes only if the worker requested the feature.
pub(super) async fn answers(
    app: &App,
    notes: Vec<Note>,
    heard: Heard,
    all: bool,
) -> Result<Vec<ToWorker>, End> {
    let mut messages = Vec::new();
    let over: Vec<_> = over(&notes, &heard).collect();
    for (attempt, jobs) in over {
        messages.push(resumed(app, attempt, &jobs).await?);
    }
    let answer = |(note, answer): (Note, Result<Answer, Rejected>)| {
        let (to, attempt) = (note.to?, note.attempt);
        match (answer, attempt) {
            (Err(why), _) => Some(refused(to, attempt, &ApiError::from(why))),
            (Ok(Answer::State(state)), Some(attempt))
                if note.waits || (all && !matches!(to, Word::Log | Word::Note)) =>
            {
                Some(ToWorker::Moved { attempt, to, state: state.to_string() })
            }
            (Ok(_), None) if to == Word::Renew => Some(ToWorker::Renewed {}),
            (Ok(_), None) if to == Word::Abilities => Some(ToWorker::AbilitiesSet {}),
            (Ok(_), _) => None,
        }
    };
    messages.extend(notes.into_iter().zip(heard).filter_map(answer));
    Ok(messages)
}

fn broken(trouble: &ApiError) -> End {
    tracing::error!("{}", trouble.inside().unwrap_or("an assignment could not be sent"));
    End::Broken
}
