//! Waits: an attempt may wait by several requests at once. It resumes when all jobs of one of them have ended, and not
//! before.
//!
//! That it resumes in time is examined only where nothing but these jobs can hold it back: its session is connected and
//! certainly has a free slot, and its job has no limits and uses no resources.

use std::collections::{BTreeMap, BTreeSet};

use jobhall_core::{AttemptId, JobId};

use super::{Checker, Invariant};
use crate::script::words;

/// The time that the kernel pauses after a failure of the store, and more.
const MARGIN_MS: u64 = 2_000;

/// The requests of attempts to wait since they last resumed.
#[derive(Debug, Default)]
pub(super) struct Waits(BTreeMap<JobId, Vec<WaitRequest>>);

#[derive(Debug)]
struct WaitRequest {
    ticket: u64,
    claim: u32,
    /// The jobs that it names; none if it is for all sub-jobs.
    jobs: Option<BTreeSet<JobId>>,
    /// Since when all of them have certainly ended, as far as the kernel knows.
    ended_since: Option<u64>,
    /// When it was answered that they have ended.
    over_at: Option<u64>,
}

impl Checker {
    /// A request to wait arrives at the kernel.
    pub(super) fn wait_arrives(&mut self, ticket: u64, of: AttemptId, jobs: Option<&[JobId]>) {
        let jobs = jobs.map(|jobs| jobs.iter().copied().collect());
        let request = WaitRequest { ticket, claim: of.claim, jobs, ended_since: None, over_at: None };
        self.awaiting.0.entry(of.job).or_default().push(request);
    }

    /// A request to wait was answered that its jobs have ended; none if it was refused.
    pub(super) fn wait_over(&mut self, ticket: u64, of: AttemptId, over: Option<bool>) {
        let now = self.now.mono;
        let Some(requests) = self.awaiting.0.get_mut(&of.job) else { return };
        match over {
            None => requests.retain(|request| request.ticket != ticket),
            Some(false) => {}
            Some(true) => {
                let known = requests.iter_mut().find(|request| request.ticket == ticket);
                known.into_iter().for_each(|request| request.over_at = Some(now));
            }
        }
    }

    /// The worker is told that an attempt resumes because these jobs have ended.
    pub fn resumed(&mut self, of: AttemptId, jobs: &[JobId]) {
        if let Some(&open) = jobs.iter().find(|id| !self.has_ended(**id)) {
            let text = format!("{of} resumes because of job {open}, which is open");
            return self.fail(Invariant::Waits, &[of.job, open], text);
        }
        let (now, ended): (_, BTreeSet<_>) = (self.now.mono, jobs.iter().copied().collect());
        let mut requests = self.awaiting.0.remove(&of.job).unwrap_or_default();
        let current = |request: &&WaitRequest| {
            request.claim == of.claim && request.over_at.is_none_or(|over_at| over_at == now)
        };
        let is_over = |request: &WaitRequest| request.jobs.as_ref().is_none_or(|jobs| jobs.is_subset(&ended));
        let known: Vec<_> = requests.iter().filter(current).collect();
        // A request from before a restart of the server was for all jobs from then on.
        let good = known.is_empty() || known.iter().any(|request| is_over(request));
        let is_one_of_several = known.iter().any(|request| !is_over(request));
        let waited = format!("{known:?}");
        if is_one_of_several {
            self.seen.push(("waits", "resumed for one of several"));
        }
        // What the kernel has not dealt with yet may suspend the attempt again.
        requests.retain(|request| self.waiting.contains_key(&request.ticket));
        self.awaiting.0.insert(of.job, requests);
        self.must(good, Invariant::Waits, &[of.job], || {
            format!("{of} resumes because of {jobs:?}, but it waits for {waited}")
        });
    }

    fn has_ended(&self, id: JobId) -> bool {
        self.rows.get(&id).is_none_or(|row| row.status.state.is_terminal())
    }

    /// The server crashed: which jobs an attempt waits for was in memory only.
    pub(super) fn waits_forgotten(&mut self) {
        self.awaiting = Waits::default();
    }

    /// The kernel receives that the store has failed: it pauses.
    pub(super) fn waits_pause(&mut self) {
        self.awaiting.0.values_mut().flatten().for_each(|request| request.ended_since = None);
    }

    /// The kernel ran its timers: an attempt that can resume has resumed.
    pub(super) fn waits_in_time(&mut self) {
        let (now, mut waits) = (self.now.mono, std::mem::take(&mut self.awaiting));
        let mut late = None;
        for (&id, requests) in &mut waits.0 {
            let free = self.is_free_to_resume(id);
            for request in requests.iter_mut() {
                let ended = free
                    && request.over_at.is_none()
                    && self.rows.get(&id).is_some_and(|row| row.status.claim == request.claim)
                    && request.jobs.iter().flatten().all(|job| self.certainly_ended(*job))
                    && request.jobs.is_some();
                request.ended_since = ended.then(|| request.ended_since.unwrap_or(now));
                if request.ended_since.is_some_and(|since| now - since > MARGIN_MS) {
                    late = Some((id, format!("{request:?}")));
                }
            }
        }
        self.awaiting = waits;
        if let Some((id, request)) = late {
            let text = format!("job {id} still waits, but all jobs of one request have ended: {request}");
            self.fail(Invariant::Waits, &[id], text);
        }
    }

    fn certainly_ended(&self, id: JobId) -> bool {
        self.has_ended(id) && !self.untold.contains_key(&id) && !self.reading.contains_key(&id)
    }

    /// Whether nothing but the jobs that it waits for can hold back the attempt of this job.
    fn is_free_to_resume(&self, id: JobId) -> bool {
        let Some(row) = self.rows.get(&id).filter(|_| self.waits_for_jobs(id) && self.waits_known(id)) else {
            return false;
        };
        let Some(hold) = self.holds.get(&id).filter(|hold| hold.claim == row.status.claim) else {
            return false;
        };
        let Some(seen) = self.sessions.get(&hold.session) else { return false };
        let taken = (seen.assigned + self.pending_claims(hold.session)).cast_signed();
        let room = self.credit.last(hold.session).is_none_or(|total| total > taken);
        let stopped = row.status.state.leased().is_some_and(|held| held.stop.is_some());
        seen.connected
            && seen.announced
            && !seen.ended
            && !seen.closed
            && room
            && !stopped
            && !self.untold.contains_key(&id)
            && !self.reading.contains_key(&id)
            && words::used(&row.spec) == [0, 0]
            && !self.may_be_kept(row)
    }
}
