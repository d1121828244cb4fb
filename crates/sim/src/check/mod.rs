//! The checkers: they record independently what was requested, answered, assigned and stored, and compare every
//! event with it. They never query the engine; the rules are implemented here a second time.

mod answers;
mod black_box;
mod counts;
mod credit;
mod dependencies;
mod ends;
mod groups;
mod leases;
mod lending;
mod limits;
mod order;
mod rows;
mod sessions;
mod shelf;
mod slots;
mod submits;
mod ticks;
mod told;
mod uses;
mod waits;
mod whole;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jobhall_core::{
    AttemptId, Group, GroupId, Job, JobId, Key, LeaseId, Report, Submitted, Time, TypeName, WorkerName,
};
use jobhall_kernel::{AttemptRef, Config, Request, SessionId};
use jobhall_store::FeedEntry;

pub use black_box::{BlackBox, Name, Stored};
use ends::End;
pub(crate) use limits::LimitOf;
pub(crate) use shelf::Shelf;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// I1: acknowledged data is stored as requested.
    Stored,
    /// I2: one terminal state per job, which never changes.
    Final,
    /// I3: claim and attempt numbers increase correctly, and only the holder of the current lease changes a leased
    /// job.
    Lease,
    /// I4: one live job per (type, key), one set of jobs per idempotency key.
    Key,
    /// I5: an acknowledged cancel holds.
    Cancel,
    /// I6: the store is consistent: feed, blocks, bounds.
    Sound,
    /// I7: when faults stop, all jobs end.
    Drained,
    /// No job starts before its dependencies have ended, and every cascade has a cause.
    Dependency,
    /// The counts of a group match its members, and its verdict follows from them.
    Group,
    /// An external outcome ends its attempt once.
    External,
    /// Matching ready jobs start in the order of priority, time and id.
    Order,
    /// Nothing is assigned to a worker that does not match or is not connected.
    Suits,
    /// No session is assigned more jobs than its credit.
    Credit,
    /// No worker is used beyond its resources, and the resources in use are those of live attempts.
    Used,
    /// A job that runs at most once is started at most once.
    Once,
    /// Every request has exactly one answer, unless a crash intervened.
    Answer,
    /// No job starts before its time, or outside its windows.
    Early,
    /// Every tick of a schedule has exactly one job.
    Tick,
    /// No lease is lost while its session is renewed, no session lives longer than its lease, and no assignment is taken
    /// back before its time.
    Renewed,
    /// A session of a process that began anew ends the disconnected ones of its worker.
    Fresh,
    /// A ready job takes a free matching slot, after its patience if it avoids workers.
    Slots,
    /// A waiting attempt resumes when all jobs of one of its requests have ended, and not before.
    Waits,
    /// No limit is exceeded, and no paused or held job is assigned.
    Limit,
    /// The counts of the kernel match the rows.
    Counted,
    /// Neither the engine nor the store panics.
    Panic,
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Invariant::Stored => "I1 acknowledged is stored",
            Invariant::Final => "I2 one terminal state, which never changes",
            Invariant::Lease => "I3 only the current lease moves a job",
            Invariant::Key => "I4 one live job per key, one answer per idempotency key",
            Invariant::Cancel => "I5 an acknowledged cancel holds",
            Invariant::Sound => "I6 the store is consistent",
            Invariant::Drained => "I7 drained",
            Invariant::Dependency => "never before its dependencies",
            Invariant::Group => "groups match their members",
            Invariant::External => "an external outcome counts once",
            Invariant::Order => "order among matching jobs",
            Invariant::Suits => "only to matching connected workers",
            Invariant::Credit => "no session gets more than its credit",
            Invariant::Used => "no worker is used beyond its resources",
            Invariant::Once => "an at-most-once job starts at most once",
            Invariant::Answer => "exactly one answer",
            Invariant::Early => "never before its time",
            Invariant::Tick => "one job per tick",
            Invariant::Renewed => "a renewed lease is kept",
            Invariant::Fresh => "a fresh session ends disconnected ones",
            Invariant::Slots => "a ready job takes a free slot in time",
            Invariant::Waits => "an attempt resumes for its jobs",
            Invariant::Limit => "no limit is exceeded",
            Invariant::Counted => "counts equal a recount",
            Invariant::Panic => "no panic",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub invariant: Invariant,
    pub jobs: Vec<JobId>,
    /// The observation.
    pub text: String,
}

/// The current time on the true clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub mono: u64,
    pub wall: Time,
}

/// A worker's session as the checkers saw it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub worker: WorkerName,
    pub skill: usize,
    pub accepts: usize,
    /// How long it lives without a renewal.
    pub lease_ms: u64,
    pub renewed: u64,
    /// When a renewal came last, answered or not.
    pub renewal_came: u64,
    /// Whether its worker has renewed it or offered slots. Until then, the kernel resumes none of the attempts that the
    /// session took over.
    pub announced: bool,
    pub connected: bool,
    pub closed: bool,
    pub ended: bool,
    /// Whether its worker began anew while it was disconnected.
    pub replaced: bool,
    /// Number of jobs assigned to the session.
    pub assigned: u64,
}

/// The holder of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holding {
    pub claim: u32,
    pub session: SessionId,
    pub since: u64,
}

/// A worker's report of the end of an attempt.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub lease: LeaseId,
    pub worker: WorkerName,
    pub report: Report,
}

#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub body: u128,
    pub answer: Vec<Submitted>,
    pub at: Time,
}

pub(crate) struct Checker {
    pub violation: Option<Violation>,
    pub now: Moment,
    config: Config,
    /// Distinguishes the units of one call to the kernel from those of others.
    exact: bool,
    /// The last seen rows.
    pub rows: BTreeMap<JobId, Job>,
    keys: BTreeMap<(TypeName, Key), BTreeSet<JobId>>,
    names: BTreeMap<(String, String), Vec<Named>>,
    acknowledged: BTreeSet<JobId>,
    removed: BTreeSet<JobId>,
    /// Types that had a retention rule at some time.
    ruled: BTreeSet<String>,
    feed: BTreeMap<u64, Vec<FeedEntry>>,
    feed_last: u64,
    leases: BTreeSet<LeaseId>,
    /// The attempt number of a job when it was last claimed.
    base: BTreeMap<JobId, u32>,
    /// Reports of workers about an attempt, whether or not they arrived.
    reports: BTreeMap<(JobId, u32), Vec<Said>>,
    ends: BTreeMap<(JobId, u32), End>,
    /// The attempts with which workers started jobs that run at most once.
    once: BTreeMap<JobId, AttemptId>,
    /// External outcomes of a job, whether or not they arrived.
    told: BTreeMap<JobId, Vec<Report>>,
    /// The accepted ones.
    taken: BTreeMap<JobId, Vec<Report>>,
    /// Workers that reported a claim as started external work, whether or not the report arrived.
    started_external: BTreeMap<(JobId, u32), BTreeSet<(LeaseId, WorkerName)>>,
    /// The last seen groups.
    groups: BTreeMap<GroupId, Group>,
    cancel_asked: BTreeSet<JobId>,
    cancelled: BTreeSet<JobId>,
    /// Number of pending units that change a job.
    untold: BTreeMap<JobId, u32>,
    /// Jobs whose unit was answered in this call to the kernel.
    touched: BTreeSet<JobId>,
    reading: BTreeMap<JobId, u32>,
    ticked_wall: Time,
    /// The latest time at which the kernel ran its timers, on a clock that may have been set back since.
    latest_wall: Time,
    /// The last stored schedules.
    schedules: BTreeMap<String, ticks::Seen>,
    pub sessions: BTreeMap<SessionId, Seen>,
    holds: BTreeMap<JobId, Holding>,
    assigned: BTreeSet<AttemptId>,
    accepted: BTreeSet<AttemptId>,
    /// When attempts were assigned since the last start of the server.
    begun: BTreeMap<AttemptId, u64>,
    /// When attempts were ordered to stop because of a timeout.
    stopped: BTreeMap<AttemptId, u64>,
    started: u64,
    waiting: BTreeMap<u64, (Request, u64)>,
    answered: BTreeSet<u64>,
    pub commits: u64,
    credit: credit::Credit,
    /// Ready jobs, by the time since which they certainly are.
    ready_since: BTreeMap<JobId, u64>,
    /// Workers that began anew since the last start of the server.
    anew: BTreeSet<WorkerName>,
    awaiting: waits::Waits,
    limited: limits::Limited,
    /// Occurrences to count since the last call of `take_seen`, by group and name.
    seen: Vec<(&'static str, &'static str)>,
}

impl Checker {
    pub fn new(config: Config, exact: bool, now: Moment) -> Checker {
        Checker {
            violation: None,
            now,
            config,
            exact,
            rows: BTreeMap::new(),
            keys: BTreeMap::new(),
            names: BTreeMap::new(),
            acknowledged: BTreeSet::new(),
            removed: BTreeSet::new(),
            ruled: BTreeSet::new(),
            feed: BTreeMap::new(),
            feed_last: 0,
            leases: BTreeSet::new(),
            base: BTreeMap::new(),
            reports: BTreeMap::new(),
            ends: BTreeMap::new(),
            once: BTreeMap::new(),
            told: BTreeMap::new(),
            taken: BTreeMap::new(),
            started_external: BTreeMap::new(),
            groups: BTreeMap::new(),
            cancel_asked: BTreeSet::new(),
            cancelled: BTreeSet::new(),
            untold: BTreeMap::new(),
            touched: BTreeSet::new(),
            reading: BTreeMap::new(),
            ticked_wall: now.wall,
            latest_wall: now.wall,
            schedules: BTreeMap::new(),
            sessions: BTreeMap::new(),
            holds: BTreeMap::new(),
            assigned: BTreeSet::new(),
            accepted: BTreeSet::new(),
            begun: BTreeMap::new(),
            stopped: BTreeMap::new(),
            started: now.mono,
            waiting: BTreeMap::new(),
            answered: BTreeSet::new(),
            commits: 0,
            credit: credit::Credit::default(),
            ready_since: BTreeMap::new(),
            anew: BTreeSet::new(),
            awaiting: waits::Waits::default(),
            limited: limits::Limited::default(),
            seen: Vec::new(),
        }
    }

    /// Records the first violation.
    fn fail(&mut self, invariant: Invariant, jobs: &[JobId], text: impl Into<String>) {
        if self.violation.is_none() {
            self.violation = Some(Violation { invariant, jobs: jobs.to_vec(), text: text.into() });
        }
    }

    /// Records a violation unless the condition holds.
    fn must(&mut self, holds: bool, invariant: Invariant, jobs: &[JobId], text: impl FnOnce() -> String) {
        if !holds {
            self.fail(invariant, jobs, text());
        }
    }

    /// Returns and clears the occurrences to count, by group and name.
    pub fn take_seen(&mut self) -> Vec<(&'static str, &'static str)> {
        std::mem::take(&mut self.seen)
    }

    /// Jobs that are not completed.
    pub fn open(&self) -> Vec<JobId> {
        let open = self.rows.values().filter(|job| !job.status.state.is_terminal());
        open.map(|job| job.id).collect()
    }

    /// A client or worker sends a request, which may or may not arrive.
    pub fn sent(&mut self, request: &Request) {
        match request {
            Request::Report { of: AttemptRef { worker, attempt, lease }, report, .. } => {
                let known = self.reports.entry((attempt.job, attempt.claim)).or_default();
                known.push(Said { lease: *lease, worker: worker.clone(), report: report.clone() });
            }
            Request::Cancel { id, .. } => {
                self.cancel_asked.insert(*id);
            }
            Request::Complete { id, report, .. } => self.told.entry(*id).or_default().push(report.clone()),
            Request::Started { of: AttemptRef { worker, attempt, lease } } => {
                let said = self.started_external.entry((attempt.job, attempt.claim)).or_default();
                said.insert((*lease, worker.clone()));
            }
            _ => {}
        }
    }

    /// A request arrives at the kernel.
    pub fn arrives(&mut self, ticket: u64, request: &Request) {
        if let Request::CloseSession { session } = request
            && let Some(seen) = self.sessions.get_mut(session)
        {
            seen.closed = true;
        }
        if let Request::Renew { session } = request
            && let Some(seen) = self.sessions.get_mut(session)
        {
            seen.renewal_came = self.now.mono;
        }
        if let Request::Renew { session } | Request::Credit { session, .. } | Request::Vacancy { session, .. } =
            request
            && let Some(seen) = self.sessions.get_mut(session)
        {
            seen.announced = true;
        }
        if let Request::Credit { session, total } = request {
            self.credit.given(*session, *total, self.now.mono);
        }
        if let Request::Wait { of, jobs, .. } = request {
            self.wait_arrives(ticket, of.attempt, jobs.as_deref());
        }
        self.waiting.insert(ticket, (request.clone(), self.now.mono));
    }

    /// The server crashed: pending messages are lost.
    pub fn crashed(&mut self) {
        self.untold.clear();
        self.touched.clear();
        self.reading.clear();
        self.sessions.clear();
        self.holds.clear();
        self.accepted.clear();
        self.waiting.clear();
        self.begun.clear();
        self.stopped.clear();
        self.ready_since.clear();
        self.anew.clear();
        self.credit = credit::Credit::default();
        self.waits_forgotten();
    }

    pub fn restarted(&mut self) {
        self.started = self.now.mono;
        self.ticked_wall = self.now.wall;
        self.lend_again();
    }

    /// The run is over.
    pub fn over(&mut self) {
        let open = self.open();
        if !open.is_empty() {
            let texts = open.iter().take(3).filter_map(|id| self.rows.get(id));
            let text =
                texts.map(|job| format!("{}: {:?}", job.id, job.status)).collect::<Vec<_>>().join("; ");
            self.fail(Invariant::Drained, &open, format!("{} jobs are still open: {text}", open.len()));
        }
        let groups = self.open_groups();
        self.must(groups.is_empty(), Invariant::Drained, &[], || {
            format!("groups are still open: {groups:?}")
        });
        if let Some((ticket, (request, at))) = self.waiting.first_key_value() {
            let text = format!("request {} of {at} ms has no answer: {request:?}", ticket);
            self.fail(Invariant::Answer, &[], text);
        }
    }

    /// Whether an answer is missing.
    pub fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }
}
