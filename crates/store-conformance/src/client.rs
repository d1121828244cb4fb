//! A simple client of one store, for the rules: it has a clock that advances at every read, an id block, and a
//! method for each move of a job.

use std::cell::Cell;

use jobhall_core::{Dice, Event, Job, JobId, Report, Time};
use jobhall_store::{Change, Committed, Conflict, Done, Prune, Pruned, Store, Unit};

use crate::fixture::wait;
use crate::samples::{
    at, behind, change_of, changing, claim, decide, failure, id, inserting, passed, queued, spec,
};

pub(crate) struct Client<'a> {
    pub(crate) store: &'a dyn Store,
    clock: Cell<u64>,
    next: Cell<u64>,
}

impl<'a> Client<'a> {
    /// A client with a block of a thousand ids.
    pub(crate) fn new(store: &'a dyn Store) -> Client<'a> {
        let block = wait(store.take_block(1_000)).expect("a block");
        Client { store, clock: Cell::new(0), next: Cell::new(block.first.get()) }
    }

    /// One second after the previous time.
    pub(crate) fn now(&self) -> Time {
        self.clock.set(self.clock.get() + 1_000);
        at(self.clock.get())
    }

    /// An unused id.
    pub(crate) fn id(&self) -> JobId {
        let n = self.next.get();
        self.next.set(n + 1);
        id(n)
    }

    /// A new queued job of type `t`, not stored yet.
    pub(crate) fn fresh(&self, key: Option<&str>) -> Job {
        self.fresh_of("t", key)
    }

    /// A new queued job, not stored yet.
    pub(crate) fn fresh_of(&self, job_type: &str, key: Option<&str>) -> Job {
        queued(self.id(), spec(job_type, key, self.now()))
    }

    /// A new job that waits for the holder of its key, not stored yet.
    pub(crate) fn fresh_behind(&self, holder: &Job) -> Job {
        let mut spec = (*holder.spec).clone();
        spec.created_at = self.now();
        behind(self.id(), spec, holder.id)
    }

    pub(crate) fn commit(&self, units: impl Into<Vec<Unit>>) -> Committed {
        wait(self.store.commit(units.into())).expect("a commit that works")
    }

    pub(crate) fn unit(&self, unit: Unit) -> Result<Done, Vec<Conflict>> {
        let mut results = self.commit([unit]).results;
        assert_eq!(results.len(), 1, "one unit has one result");
        results.remove(0)
    }

    /// Commits one unit that must be refused.
    pub(crate) fn refused(&self, unit: Unit) -> Vec<Conflict> {
        self.unit(unit).expect_err("a refusal")
    }

    pub(crate) fn put(&self, job: Job) -> Job {
        self.unit(inserting(job.clone())).expect("the insert fits");
        job
    }

    /// Writes a change; returns the job as stored afterwards.
    pub(crate) fn apply(&self, change: Change) -> Job {
        let id = change.id;
        self.unit(changing([change])).expect("the change fits");
        self.get(id).expect("a changed job is there")
    }

    pub(crate) fn get(&self, id: JobId) -> Option<Job> {
        let mut jobs = wait(self.store.jobs(vec![id])).expect("jobs can be read");
        assert_eq!(jobs.len(), 1, "one id has one answer");
        jobs.remove(0)
    }

    /// The change for an event, decided by `core`.
    pub(crate) fn decide(&self, job: &Job, event: &Event<'_>) -> Change {
        change_of(job, decide(job, event, self.now()))
    }

    pub(crate) fn claim(&self, job: &Job, worker: &str) -> Change {
        self.decide(job, &claim(u128::from(job.status.claim) + 7, worker))
    }

    pub(crate) fn cancel(&self, job: &Job) -> Change {
        self.decide(job, &Event::Cancel(&failure("cancelled")))
    }

    /// A report by the holder.
    pub(crate) fn report(&self, job: &Job, report: &Report) -> Change {
        let lease = job.status.state.lease().expect("a held job").id;
        let retry = &job.spec.retry;
        let event = Event::Report { claim: job.status.claim, lease, report, retry, dice: Dice(0) };
        self.decide(job, &event)
    }

    /// The end of its worker's session.
    pub(crate) fn lease_end(&self, job: &Job) -> Change {
        self.decide(job, &Event::LeaseEnd { retry: &job.spec.retry })
    }

    /// A stored job that a worker holds.
    pub(crate) fn held(&self, key: Option<&str>) -> Job {
        let job = self.put(self.fresh(key));
        self.apply(self.claim(&job, "w"))
    }

    pub(crate) fn accept(&self, job: &Job) -> Change {
        let lease = job.status.state.lease().expect("a held job").id;
        self.decide(job, &Event::Accept { claim: job.status.claim, lease })
    }

    /// A stored job that a worker has accepted: when its attempt ends, the attempt is recorded in the history.
    pub(crate) fn accepted(&self, key: Option<&str>) -> Job {
        let held = self.held(key);
        self.apply(self.accept(&held))
    }

    /// A stored job that succeeded.
    pub(crate) fn succeeded(&self, key: Option<&str>) -> Job {
        let held = self.held(key);
        self.apply(self.report(&held, &passed("1")))
    }

    pub(crate) fn prune_jobs(&self, ids: impl Into<Vec<JobId>>) -> Pruned {
        self.prune(Prune { jobs: ids.into(), ..Prune::default() })
    }

    pub(crate) fn prune(&self, prune: Prune) -> Pruned {
        wait(self.store.prune(prune)).expect("a prune that works")
    }
}
