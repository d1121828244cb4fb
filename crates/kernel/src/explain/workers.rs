//! Why no worker takes a ready job: each worker is checked with the rules of the match.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jobhall_core::needs::{Abilities, Number, Reason, Shortage, Unmet, Value};
use jobhall_core::{Class, JobId, WorkerName};

use super::Why;
use crate::jobs::entry::Entry;
use crate::jobs::load::rank;
use crate::kernel::Kernel;
use crate::matching::board::Line;
use crate::matching::session::SessionState;

/// Maximum number of workers, and of jobs of a worker, in an explanation.
const NAMED: usize = 20;

/// Why one worker does not take the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerWhy {
    /// The worker.
    pub worker: WorkerName,
    /// Terms of the job's needs that it does not meet.
    pub needs: Vec<Unmet>,
    /// What the job uses and the worker has too little of, even when idle.
    pub uses: Vec<Unmet>,
    /// Terms of the worker's accepts that the job does not meet.
    pub accepts: Vec<Unmet>,
}

/// A resource of which no worker has as much as the job uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// What the job uses, as it is written: `gpu=8`.
    pub term: Box<str>,
    /// The resource.
    pub name: Box<str>,
    /// The largest amount that a worker has of it, and that worker; none if no worker has any.
    pub largest: Option<(Number, WorkerName)>,
}

/// A worker whose resources are in use by other jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedUp {
    /// The worker.
    pub worker: WorkerName,
    /// The resources of which too little is left.
    pub missing: Vec<Shortage>,
    /// The first of the jobs that use them.
    pub jobs: Vec<JobId>,
}

/// What prevents matching workers from taking a job, one list for each reason.
#[derive(Default)]
struct Found {
    others: BTreeMap<WorkerName, WorkerWhy>,
    used_up: BTreeMap<WorkerName, UsedUp>,
    kept: BTreeMap<WorkerName, JobId>,
    avoided: Vec<WorkerName>,
    busy: Vec<WorkerName>,
    paused: BTreeSet<WorkerName>,
    draining: BTreeSet<WorkerName>,
    largest: BTreeMap<Box<str>, (Number, WorkerName)>,
}

impl Kernel {
    /// Why a ready job is not taken.
    pub(super) fn why_not_taken(&self, id: JobId, entry: &Entry) -> Vec<Why> {
        let (Some(class), Some(line)) = (self.board.class(entry.class), self.board.line(entry.class)) else {
            return Vec::new();
        };
        let mut found = Found::default();
        for session in self.fleet.sessions().filter(|session| session.connected) {
            let profile = session.profile.and_then(|profile| self.board.profile(profile));
            let Some((abilities, accepts)) = profile else { continue };
            let mut needs = class.needs.unmet(abilities);
            needs.extend(class.needs.unmet_by(&session.worker));
            let why = WorkerWhy {
                worker: session.worker.clone(),
                needs,
                uses: class.uses.unmet(abilities),
                accepts: accepts.unmet(class.queue.as_str(), class.job_type.as_str()),
            };
            found.note_size(class, abilities, &why);
            if why.needs.is_empty() && why.uses.is_empty() && why.accepts.is_empty() {
                self.why_not_now(id, entry, line, session, abilities, &mut found);
            } else {
                found.others.insert(why.worker.clone(), why);
            }
        }
        found.told(class, self.fleet.reserved_for(id))
    }

    /// Why a worker that matches does not take the job now.
    fn why_not_now(
        &self,
        id: JobId,
        entry: &Entry,
        line: &Line,
        session: &SessionState,
        abilities: &Abilities,
        found: &mut Found,
    ) {
        let worker = &session.worker;
        let state = self.fleet.worker(worker);
        let missing = state.map_or_else(Vec::new, |state| state.taken.missing(abilities, &line.demand.uses));
        let kept = state.and_then(|state| state.reserved_for.as_ref()).map(|kept| kept.rank.id);
        let gate = self.gate();
        if session.paused {
            found.paused.insert(worker.clone());
        } else if session.draining {
            found.draining.insert(worker.clone());
        } else if !missing.is_empty() {
            let jobs = self.users(worker, &missing);
            found.used_up.insert(worker.clone(), UsedUp { worker: worker.clone(), missing, jobs });
        } else if gate.meets(worker, abilities, line, rank(id, entry)) {
            found.busy.push(worker.clone());
        } else if gate.goes_elsewhere(id, worker, line) {
            found.avoided.push(worker.clone());
        } else if let Some(job) = kept {
            found.kept.insert(worker.clone(), job);
        }
    }

    /// The jobs that use the missing resources of a worker.
    fn users(&self, worker: &WorkerName, missing: &[Shortage]) -> Vec<JobId> {
        let sessions = self.fleet.worker(worker).into_iter().flat_map(|state| &state.sessions);
        let attempts =
            sessions.filter_map(|id| self.fleet.session(*id)).flat_map(|session| &session.attempts);
        let uses = |id: &&JobId| {
            let uses = self.uses_of(**id);
            missing.iter().any(|short| uses.get(&short.name).is_some())
        };
        let mut jobs: Vec<_> = attempts.filter(uses).copied().collect();
        jobs.sort();
        jobs.truncate(NAMED);
        jobs
    }
}

impl Found {
    /// Records how much a worker that otherwise matches has of what the job uses.
    fn note_size(&mut self, class: &Class, abilities: &Abilities, why: &WorkerWhy) {
        if !why.needs.is_empty() || !why.accepts.is_empty() {
            return;
        }
        for (name, _) in class.uses.iter() {
            let Some(Value::Number(has)) = abilities.get(name) else { continue };
            if self.largest.get(name).is_none_or(|(largest, _)| has > largest) {
                self.largest.insert(name.into(), (*has, why.worker.clone()));
            }
        }
    }

    /// The reasons, most immediate first.
    fn told(mut self, class: &Class, kept: Option<&WorkerName>) -> Vec<Why> {
        self.busy.sort();
        self.busy.dedup();
        self.avoided.sort();
        self.avoided.dedup();
        let mut told = Vec::new();
        told.extend(kept.cloned().map(Why::Reserved));
        if !self.busy.is_empty() {
            told.push(Why::NoVacancy(self.busy));
        }
        if !self.paused.is_empty() || !self.draining.is_empty() {
            let [paused, draining] =
                [self.paused, self.draining].map(|some| some.into_iter().take(NAMED).collect());
            told.push(Why::WorkersPaused { paused, draining });
        }
        if !self.used_up.is_empty() {
            told.push(Why::UsedUp(self.used_up.into_values().take(NAMED).collect()));
        }
        told.extend(
            self.kept.into_iter().take(NAMED).map(|(worker, job)| Why::ReservedForOther { worker, job }),
        );
        if !self.avoided.is_empty() {
            told.push(Why::Avoids(self.avoided));
        }
        if !told.is_empty() {
            return told;
        }
        if self.others.is_empty() {
            return vec![Why::NoWorkers(Box::new(class.clone()))];
        }
        let too_large = too_large(class, &self.largest, self.others.values());
        if !too_large.is_empty() {
            told.push(Why::TooLarge(too_large));
        }
        told.push(Why::NoMatchingWorker(self.others.into_values().collect()));
        told
    }
}

/// What the job uses more of than any otherwise matching worker has; empty if there is no such worker.
fn too_large<'a>(
    class: &Class,
    largest: &BTreeMap<Box<str>, (Number, WorkerName)>,
    mut others: impl Iterator<Item = &'a WorkerWhy>,
) -> Vec<TooLarge> {
    if !others.any(|why| why.needs.is_empty() && why.accepts.is_empty()) {
        return Vec::new();
    }
    let beyond =
        class.uses.iter().filter(|(name, asked)| largest.get(*name).is_none_or(|(has, _)| has < asked));
    let told = beyond.map(|(name, asked)| TooLarge {
        term: format!("{name}={asked}").into(),
        name: name.into(),
        largest: largest.get(name).cloned(),
    });
    told.collect()
}

/// Which matching workers take no new jobs.
pub(super) fn no_new_jobs(paused: &[WorkerName], draining: &[WorkerName]) -> String {
    let mut text = "matching workers take no new jobs".to_owned();
    for worker in paused {
        text += &format!("\n  worker {worker} is paused");
    }
    for worker in draining {
        text += &format!("\n  worker {worker} drains: it exits after its jobs; start it again");
    }
    text
}

/// What none of these workers accepts: the type of the job, or its queue.
#[must_use]
pub fn unserved(workers: &[WorkerWhy]) -> Option<&'static str> {
    let mut all = ["type", "queue"].into_iter();
    all.find(|what| !workers.is_empty() && workers.iter().all(|why| why.accepts_only(what).is_some()))
}

/// Why none of these workers matches. That none of them accepts the type or the queue comes first.
pub(super) fn no_match(workers: &[WorkerWhy]) -> String {
    let unserved = unserved(workers);
    let verb = if unserved == Some("queue") { "takes" } else { "runs" };
    let accepts = |what: &str| -> Vec<_> {
        let accepts = workers.iter().filter_map(|why| Some((&why.worker, why.accepts_only(what)?)));
        accepts.collect()
    };
    let mut text = match unserved.map(|what| (what, accepts(what))) {
        Some((what, accepts)) => {
            let wanted = accepts.first().map_or("", |(_, (wanted, _))| wanted);
            let list: Vec<_> =
                accepts.iter().map(|(worker, (_, others))| format!("{worker} {verb}: {others}")).collect();
            format!("no worker {verb} jobs of {what} {wanted} ({})", list.join("; "))
        }
        None => "no connected worker matches".to_owned(),
    };
    for why in workers {
        let terms: Vec<_> = why.unmet(unserved).map(ToString::to_string).collect();
        if !terms.is_empty() {
            text += &format!("\n  worker {}: {}", why.worker, terms.join("; "));
        }
    }
    text
}

impl WorkerWhy {
    /// The type (or queue) of the job and those that the worker accepts, if that of the job is not among them.
    fn accepts_only(&self, what: &str) -> Option<(&str, String)> {
        self.accepts.iter().find_map(|unmet| {
            let Reason::Different { has: Value::Word(wanted) } = &unmet.reason else { return None };
            let term = unmet.term.strip_prefix(what)?;
            let several = term.strip_prefix(" in (").and_then(|names| names.strip_suffix(')'));
            let names = several.or_else(|| term.strip_prefix('='))?;
            Some((&**wanted, names.replace(',', ", ")))
        })
    }

    /// The terms that are not met, without the one that was mentioned already.
    fn unmet(&self, mentioned: Option<&str>) -> impl Iterator<Item = &Unmet> {
        let accepts = self.accepts.iter().filter(move |unmet| mentioned != Some(&*unmet.name));
        self.needs.iter().chain(&self.uses).chain(accepts)
    }
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.largest {
            Some((has, worker)) => {
                write!(f, "{}: the largest worker, {worker}, has {}={has}", self.term, self.name)
            }
            None => write!(f, "{}: no worker has a number of {}", self.term, self.name),
        }
    }
}

impl fmt::Display for UsedUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missing: Vec<_> = self.missing.iter().map(ToString::to_string).collect();
        write!(f, "worker {}: {}", self.worker, missing.join("; "))?;
        let jobs: Vec<_> = self.jobs.iter().map(ToString::to_string).collect();
        if jobs.is_empty() { Ok(()) } else { write!(f, "; used by jobs {}", jobs.join(", ")) }
    }
}
