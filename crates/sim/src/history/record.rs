//! Records all inputs and all outputs of the engine, with all fields.

use std::fmt::{Debug, Display, Write};

use jobhall_core::{Job, JobStatus, LeaseId, Submitted};
use jobhall_kernel::{
    Answer, AttemptRef, Effect, GroupCreated, OpenedSession, Rejected, Request, StoreReply, StoreRequest,
    TypedAnswer, Waited,
};
use jobhall_store::{Change, Committed, Insert, Unit};

use super::BAR;
use crate::run::finish;
use crate::script::Script;
use crate::simulation::Sim;
use crate::tally::variant;

/// The history of a seed's run.
pub fn record(seed: u64) -> String {
    let mut sim = Sim::new(Script::new(seed), None, false);
    sim.history.lines = Some(format!("seed {seed}\n"));
    let violation = finish(&mut sim);
    sim.history.line(sim.ms, "end", violation);
    sim.history.lines.unwrap_or_default()
}

/// The recorded lines, if recording is enabled.
#[derive(Debug, Default)]
pub(crate) struct History {
    lines: Option<String>,
}

impl History {
    fn line(&mut self, ms: u64, head: impl Display, text: impl Debug) {
        self.line_with(ms, head, text, &[]);
    }

    /// A line with the leases that the debug form of the value hides.
    fn line_with(&mut self, ms: u64, head: impl Display, text: impl Debug, leases: &[LeaseId]) {
        let Some(lines) = &mut self.lines else { return };
        let _ = write!(lines, "{ms} {head}{BAR}{text:?}");
        for lease in leases {
            let _ = write!(lines, " {:032x}", lease.0);
        }
        lines.push('\n');
    }

    /// Records a value that the engine is started with.
    pub fn start(&mut self, ms: u64, given: impl Debug) {
        self.line(ms, "start", given);
    }

    /// Records a stored job that the engine is started with.
    pub fn start_job(&mut self, ms: u64, job: &Job) {
        self.line_with(ms, "start", job, &lease_of(&job.status));
    }

    pub fn crash(&mut self, ms: u64) {
        self.line(ms, "crash", ());
    }

    pub fn request(&mut self, ms: u64, ticket: u64, request: &Request) {
        let leases = if self.lines.is_some() { leases_of(request) } else { Vec::new() };
        self.line_with(ms, format_args!("request {ticket}"), request, &leases);
    }

    pub fn effect(&mut self, ms: u64, effect: &Effect) {
        match effect {
            Effect::Answer(answer) => self.answer(ms, answer),
            Effect::Assign(_, assignment) => self.line_with(ms, "effect", effect, &[assignment.lease]),
            effect => self.line(ms, "effect", effect),
        }
    }

    fn answer(&mut self, ms: u64, answer: &TypedAnswer) {
        if self.lines.is_some() {
            let (ticket, answer) = answer.clone().untyped();
            self.line(ms, format_args!("answer {ticket}{BAR}{}", brief(&answer)), answer);
        }
    }

    pub fn read(&mut self, ms: u64, asked: &StoreRequest) {
        self.line(ms, "read", asked);
    }

    pub fn commit(&mut self, ms: u64, number: u64, units: &[Unit]) {
        if self.lines.is_some() {
            self.line(ms, format_args!("commit {number}"), units.len());
            units
                .iter()
                .enumerate()
                .for_each(|(at, unit)| self.unit(ms, &format!("commit {number}.{at}"), unit));
        }
    }

    fn unit(&mut self, ms: u64, head: &str, unit: &Unit) {
        // Every field is named, so that a new field does not compile until it is recorded too.
        let Unit {
            checks,
            changes,
            inserts,
            settings,
            groups,
            records,
            links,
            unlinked,
            audit,
            idempotency_key,
        } = unit;
        checks.iter().for_each(|check| self.line(ms, format_args!("{head} check"), check));
        changes.iter().for_each(|change| self.change(ms, head, change));
        inserts.iter().for_each(|insert| self.insert(ms, head, insert));
        settings.iter().for_each(|setting| self.line(ms, format_args!("{head} setting"), setting));
        groups.iter().for_each(|group| self.line(ms, format_args!("{head} group"), group));
        records.iter().for_each(|record| self.line(ms, format_args!("{head} record"), record));
        links.iter().for_each(|link| self.line(ms, format_args!("{head} link"), link));
        unlinked.iter().for_each(|parent| self.line(ms, format_args!("{head} unlink"), parent));
        audit.iter().for_each(|entry| self.line(ms, format_args!("{head} audit"), entry));
        idempotency_key.iter().for_each(|key| self.line(ms, format_args!("{head} idempotency"), key));
    }

    fn change(&mut self, ms: u64, head: &str, change: &Change) {
        let mut leases = lease_of(&change.status);
        leases.extend(change.past.as_ref().map(|past| past.lease));
        self.line_with(ms, format_args!("{head} change"), change, &leases);
    }

    fn insert(&mut self, ms: u64, head: &str, insert: &Insert) {
        self.line_with(ms, format_args!("{head} insert"), insert, &lease_of(&insert.job.status));
    }

    pub fn reply(&mut self, ms: u64, told: &StoreReply) {
        match told {
            StoreReply::Committed(number, Ok(Committed { feed, results })) => {
                self.line(ms, format_args!("reply {number}"), feed);
                for (at, result) in results.iter().enumerate() {
                    self.line(ms, format_args!("result {number}.{at}"), result);
                }
            }
            told => self.line(ms, "reply", told),
        }
    }
}

/// The lease of the current or last claim of a job.
fn lease_of(status: &JobStatus) -> Vec<LeaseId> {
    status.state.lease().map(|lease| lease.id).into_iter().collect()
}

fn leases_of(request: &Request) -> Vec<LeaseId> {
    match request {
        Request::Accept { of: AttemptRef { lease, .. }, .. }
        | Request::Progress { of: AttemptRef { lease, .. }, .. }
        | Request::Call { of: AttemptRef { lease, .. }, .. }
        | Request::Wait { of: AttemptRef { lease, .. }, .. }
        | Request::Started { of: AttemptRef { lease, .. }, .. }
        | Request::Report { of: AttemptRef { lease, .. }, .. } => vec![*lease],
        Request::OpenSession { attempts, .. } => attempts.iter().map(|(_, lease)| *lease).collect(),
        _ => Vec::new(),
    }
}

/// The part of an answer that must not change when answers get more fields.
fn brief(answer: &Result<Answer, Rejected>) -> String {
    match answer {
        Ok(Answer::Submitted(jobs)) => submitted(jobs),
        Ok(Answer::GroupCreated(GroupCreated { id, jobs, .. })) => format!("{id} {}", submitted(jobs)),
        Ok(Answer::Group(shown)) => format!("{} {:?}", shown.group.id, shown.state),
        Ok(Answer::State(state)) => state.to_string(),
        Ok(Answer::Shown(shown)) => format!("{} {}", shown.job.id, shown.job.status.state.name()),
        Ok(Answer::Explained(explained)) => format!("{} {}", explained.id, explained.state),
        Ok(Answer::Session(OpenedSession { session, .. })) => session.0.to_string(),
        Ok(Answer::Vacancy(vacancy)) => vacancy.0.to_string(),
        Ok(Answer::Waited(Waited { jobs, over })) => format!("{jobs:?} {over}"),
        Ok(_) => "ok".to_owned(),
        Err(Rejected::Event(refusal)) => variant(refusal),
        Err(refused) => variant(refused),
    }
}

fn submitted(jobs: &[Submitted]) -> String {
    let one = |job: &Submitted| format!("{} {}", job.id, job.disposition);
    jobs.iter().map(one).collect::<Vec<_>>().join(", ")
}
