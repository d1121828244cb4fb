//! Admission: connects limits with the life of a job, from its share and claim to its end, and releases waiting jobs.
//!
//! ```text
//!   place ──▶ ready ──▶ claim: acquires all its buckets ──▶ leased ──▶ leaves them
//!               ▲          │ cannot acquire one
//!               └─ released ◀── waits there, until a place or a token becomes free: the bucket is dirty
//! ```

#[cfg(test)]
mod alone;
mod lending;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use jobhall_core::limits::Limit;
use jobhall_core::{Class, Job, JobId, JobSpec};

use crate::api::effect::VacancyId;
use crate::api::time::Mono;
use crate::jobs::entry::{Busy, Placed, Shared};
use crate::jobs::ids::IdMap;
use crate::jobs::load::rank;
use crate::kernel::{AgendaItem, Kernel, StoreRequest};
use crate::limits::{BucketId, LimitOf, Limits, Share};
use crate::matching::board::{ClassId, Rank};

/// Jobs read at once to determine their shares.
const READS: usize = 64;
/// Jobs that one fill of a vacancy may send to wait for their limits, before other work continues.
pub(crate) const SENT_AWAY: usize = 1_000;

/// The kernel's state of limits.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    limits: Limits,
    /// Jobs whose share is unknown because their spec is not in memory.
    unread: VecDeque<JobId>,
    reading: BTreeSet<JobId>,
    /// Vacancies that have not examined all ready jobs yet.
    unfilled: BTreeSet<VacancyId>,
    /// New jobs in flight to the store that belong to buckets or are already assigned.
    pending: IdMap<JobId, PendingJob>,
    /// Jobs whose claim is in flight and whose share is unknown: the limits changed while their spec was not in
    /// memory. Until it is known, no other job of their queue or type is claimed under a limit.
    unknown: BTreeSet<JobId>,
    /// While all parked vacancies are examined one after the other: the classes in which a job became ready. Such a job
    /// takes no vacancy that was not examined, because a job of a better rank may wait for it.
    sweep: Option<BTreeSet<ClassId>>,
}

/// A job in flight.
#[derive(Debug)]
struct PendingJob {
    spec: Arc<JobSpec>,
    share: Shared,
    /// Whether it is already assigned and has taken its share.
    taken: bool,
}

impl Admission {
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The version of the limits; it changes whenever limits are set.
    pub fn version(&self) -> u64 {
        self.limits.version()
    }

    /// Acquires all buckets of a share; none if one cannot be acquired.
    pub fn take(&mut self, rank: Rank, share: &Share, lenders: &[JobId], now: Mono) -> Option<()> {
        self.limits.take(rank, share, lenders, now).ok()
    }

    /// Reverts [`Admission::take`] for a claim made under this version of the limits.
    pub fn give_back(&mut self, id: JobId, share: &Share, version: u64, now: Mono) {
        self.limits.give_back(id, share, version, now);
    }

    /// A job no longer waits in this bucket.
    pub fn wait_no_more(&mut self, at: BucketId, class: ClassId, rank: Rank) {
        self.limits.wait_no_more(at, class, rank);
    }

    /// The jobs that wait in the buckets of a share may look for a vacancy.
    pub fn mark_all_dirty(&mut self, share: &Share) {
        self.limits.mark_all_dirty(share);
    }

    /// The same for the buckets that got a token by this time.
    pub fn mark_due_dirty(&mut self, now: Mono) {
        self.limits.mark_due_dirty(now);
    }

    /// Continues to fill a vacancy after other work.
    pub fn fill_later(&mut self, vacancy: VacancyId) {
        self.unfilled.insert(vacancy);
    }

    pub fn take_unfilled(&mut self) -> BTreeSet<VacancyId> {
        std::mem::take(&mut self.unfilled)
    }

    /// When a waiting job gets a token, or a vacancy is to be filled further.
    pub fn next_due(&self) -> Option<Mono> {
        let unfilled = self.unfilled.first().map(|_| Mono(0));
        unfilled.or_else(|| self.limits.next_due())
    }

    /// Tracks a new job that is sent to the store. Limits that change meanwhile apply to it.
    fn track_pending(&mut self, job: &Job, share: Shared, taken: bool) {
        if taken || share != Shared::Free {
            self.pending.insert(job.id, PendingJob { spec: job.spec.clone(), share, taken });
        }
    }

    /// Returns the share of a tracked job, and whether it was taken; none if the job was not tracked.
    fn take_pending(&mut self, id: JobId) -> Option<(Shared, bool)> {
        self.pending.remove(&id).map(|pending| (pending.share, pending.taken))
    }

    /// Reverts a tracked job that was not stored and was sent under this version of the limits.
    fn drop_pending(&mut self, id: JobId, version: u64, now: Mono) {
        let Some(PendingJob { share: Shared::Of(share), taken, .. }) = self.pending.remove(&id) else {
            return;
        };
        if taken {
            self.limits.give_back(id, &share, version, now);
        }
        self.limits.drop_share(None, &share, &[], now);
    }

    /// The limits have changed: determines the shares of the tracked jobs again.
    fn reshare_pending(&mut self, now: Mono) {
        for (&id, PendingJob { spec, share, taken }) in &mut self.pending {
            self.limits.reshare(id, Some(spec), share, *taken, now);
        }
    }

    /// Whether another job may be read: not too many are, and the shares of all claims in flight are known.
    fn can_read(&self) -> bool {
        self.unknown.is_empty() && self.reading.len() < READS
    }

    /// From now on, a job that becomes ready waits until the vacancies have been examined. Returns false if it does so
    /// already.
    pub fn begin_sweep(&mut self) -> bool {
        let began = self.sweep.is_none();
        self.sweep.get_or_insert_default();
        began
    }

    pub fn is_sweeping(&self) -> bool {
        self.sweep.is_some()
    }

    /// While vacancies are examined: notes that a job of this class became ready, and returns true.
    pub fn wakes_later(&mut self, class: ClassId) -> bool {
        self.sweep.as_mut().map(|later| later.insert(class)).is_some()
    }

    /// Ends the sweep, and returns the classes in which jobs became ready meanwhile.
    pub fn end_sweep(&mut self) -> BTreeSet<ClassId> {
        self.sweep.take().unwrap_or_default()
    }
}

impl Limits {
    /// Replaces the share of a job. A job that has taken its share keeps its places.
    fn reshare(&mut self, id: JobId, spec: Option<&JobSpec>, share: &mut Shared, taken: bool, now: Mono) {
        let after = match spec {
            Some(spec) => self.share(spec, now).map_or(Shared::Free, Shared::of),
            None => Shared::Unread,
        };
        let before = std::mem::replace(share, after);
        if let Some(share) = share.get().filter(|_| taken) {
            self.occupy(id, share);
        }
        if let Shared::Of(before) = before {
            let kept = share.get().map_or(&[][..], |share| &share.buckets);
            self.drop_share(taken.then_some(id), &before, kept, now);
        }
    }
}

impl Kernel {
    /// Determines the buckets of an open job under the current limits, if its spec is in memory.
    pub(crate) fn find_share(&mut self, id: JobId) {
        let now = self.env.mono();
        let Some(entry) = self.jobs.get_mut(id) else { return };
        let mut share = entry.set_share(Shared::Free);
        self.admission.limits.reshare(id, entry.spec.as_deref(), &mut share, entry.taken, now);
        let unknown = entry.taken && share == Shared::Unread;
        entry.set_share(share);
        if unknown {
            self.admission.unknown.insert(id);
        } else {
            self.share_known(id);
        }
    }

    /// The share of a job whose claim was in flight is known, or the claim failed: other jobs continue.
    fn share_known(&mut self, id: JobId) {
        if self.admission.unknown.remove(&id) {
            self.read_shares();
        }
    }

    /// Whether a claim in flight may have taken what a job of this class is about to take.
    pub(crate) fn is_share_unknown(&self, class: ClassId) -> bool {
        let class_of = |id: &JobId| self.jobs.get(*id).and_then(|entry| self.board.class(entry.class));
        let Some(class) = self.board.class(class) else { return false };
        let same = |other: &Class| other.queue == class.queue || other.job_type == class.job_type;
        self.admission.unknown.iter().filter_map(class_of).any(same)
    }

    /// The same for a job that is not open yet.
    pub(crate) fn share_of(&mut self, job: &Job) -> Shared {
        self.admission.limits.share(&job.spec, self.env.mono()).map_or(Shared::Free, Shared::of)
    }

    /// Tracks a new job that is sent to the store. Limits that change meanwhile apply to it.
    pub(crate) fn track_pending(&mut self, job: &Job, share: Shared, taken: bool) {
        self.admission.track_pending(job, share, taken);
    }

    /// Returns the share of a tracked job, and whether it was taken; none if the job was not tracked.
    pub(crate) fn take_pending(&mut self, id: JobId) -> Option<(Shared, bool)> {
        self.admission.take_pending(id)
    }

    /// Reverts a tracked job that was not stored and was sent under this version of the limits.
    pub(crate) fn drop_pending(&mut self, id: JobId, version: u64) {
        self.admission.drop_pending(id, version, self.env.mono());
    }

    /// Returns the jobs whose places a job may borrow now. A lender with a unit in flight lends nothing: the unit may
    /// end its lease, and then its place goes to the first waiting job.
    pub(crate) fn free_lenders(&self, id: JobId) -> Vec<JobId> {
        let mut lenders = self.admission.limits.lenders(id);
        lenders.retain(|lender| self.jobs.get(*lender).is_some_and(|entry| entry.busy == Busy::Free));
        lenders
    }

    /// Acquires all limits for a claim of this job. If one cannot be acquired, the job waits for it.
    pub(crate) fn take_limits(&mut self, id: JobId) -> bool {
        let now = self.env.mono();
        let lenders = self.free_lenders(id);
        let unknown = self.jobs.get(id).is_some_and(|entry| self.is_share_unknown(entry.class));
        let Some(entry) = self.jobs.get_mut(id) else { return false };
        let Some(share) = entry.share().get() else {
            // Limits that are set while the claim is in flight count it.
            entry.taken = true;
            return true;
        };
        let (class, queue, rank) = (entry.class, entry.queue, rank(id, entry));
        if unknown {
            entry.set_placed(Placed::Unread);
            self.unready(class, queue, rank);
            self.admission.unread.push_back(id);
            return false;
        }
        let limits = &mut self.admission.limits;
        match limits.take(rank, share, &lenders, now) {
            Ok(()) => {
                entry.taken = true;
                true
            }
            Err((at, why)) => {
                limits.wait(at, class, rank, share.weight, why);
                // Jobs of the same class that wait in the other buckets may look for a vacancy now.
                share
                    .buckets
                    .iter()
                    .filter(|&&other| other != at)
                    .for_each(|&other| limits.mark_dirty(other));
                entry.set_placed(Placed::Limited(at));
                self.unready(class, queue, rank);
                false
            }
        }
    }

    /// Reverts the limits of a failed claim. Returns the jobs whose places it had borrowed.
    pub(crate) fn give_back_limits(&mut self, id: JobId, version: u64) -> Vec<JobId> {
        let now = self.env.mono();
        let Some(entry) = self.jobs.get_mut(id) else { return Vec::new() };
        let share = entry.share().get().filter(|_| entry.taken);
        let free = share.map(|share| self.admission.limits.give_back(id, share, version, now));
        entry.taken = false;
        self.share_known(id);
        free.unwrap_or_default()
    }

    /// The job was stored: it has places exactly while it is leased.
    pub(crate) fn follow_limits(&mut self, id: JobId) {
        let Some(entry) = self.jobs.get_mut(id) else { return };
        let leased = entry.is_leased();
        let taken = std::mem::replace(&mut entry.taken, leased);
        let Some(share) = entry.share().get() else { return };
        if taken && !leased {
            let free = self.admission.limits.leave(id, share);
            self.help_borrowers(id, free);
        } else if leased && !taken {
            self.admission.limits.occupy(id, share);
        }
    }

    /// A job is no longer open.
    pub(crate) fn forget_limits(&mut self, id: JobId, share: Shared, taken: bool) {
        let now = self.env.mono();
        let free = match share {
            Shared::Of(share) => self.admission.limits.drop_share(taken.then_some(id), &share, &[], now),
            Shared::Free | Shared::Unread => Vec::new(),
        };
        self.help_borrowers(id, free);
        self.admission.limits.forget(id);
        self.share_known(id);
    }

    /// Releases the waiting jobs that may now fit, so that they look for a vacancy again.
    pub(crate) fn retry_waiters(&mut self) {
        while self.matches() {
            if self.agenda.grew() {
                return self.agenda.push(AgendaItem::RetryWaiters);
            }
            let jobs = &self.jobs;
            let looks = |id: JobId| jobs.get(id).is_some_and(|entry| entry.placed() == Placed::Ready);
            let Some(id) = self.admission.limits.next_out(looks, self.env.mono()) else { break };
            self.replace(id);
        }
    }

    /// Removes a job from where it waits and places it again.
    pub(crate) fn replace(&mut self, id: JobId) {
        self.unplace(id);
        self.place(id);
    }

    /// Sets the limits of a queue or type, and whether it is paused. `known` means that this applied before a restart.
    pub(crate) fn apply_limits(&mut self, of: &LimitOf, limits: &[Limit], paused: bool, known: bool) {
        // Pauses take effect before any job looks for a vacancy under the new limits.
        let resumed = self.board.pause(of, paused);
        if !self.admission.limits.has(of, limits) {
            self.admission.limits.configure(of, limits, known, self.env.mono());
            self.limits_changed(of);
        }
        if resumed {
            self.agenda.push(AgendaItem::WakeAll);
        }
    }

    /// The limits of a queue or type have changed: its jobs get other shares, and may become eligible.
    fn limits_changed(&mut self, of: &LimitOf) {
        let mut ids: Vec<JobId> = Vec::new();
        for (id, entry) in self.jobs.iter() {
            let class = self.board.class(entry.class);
            let concerned = class.is_some_and(|class| match of {
                LimitOf::Queue(name) => class.queue == *name,
                LimitOf::Type(name) => class.job_type == *name,
            });
            ids.extend(Some(id).filter(|_| concerned));
        }
        ids.sort_unstable();
        self.admission.reshare_pending(self.env.mono());
        // All jobs are counted under the new limits before the first is matched, and they are matched together, so
        // that the job with the best rank is first.
        self.agenda.push(AgendaItem::WakeAll);
        for &id in &ids {
            self.unplace(id);
            self.find_share(id);
        }
        // Otherwise a place whose borrower is counted separately would be lent a second time.
        let mut buckets = self.buckets_of_leased(&ids);
        buckets.retain(|at| self.admission.limits.is_exceeded(*at));
        self.admission.limits.borrow_again(&buckets);
        for id in ids {
            if let Some(class) = self.put(id) {
                self.age_head(class);
            }
            self.forget_specs();
            // Its place may no longer be borrowed.
            self.look_at_wait(id);
        }
    }

    /// Queues a waiting job whose spec must be read to determine its limits.
    pub(crate) fn read_share(&mut self, id: JobId) {
        self.admission.unread.push_back(id);
        self.read_shares();
    }

    /// Reads as many jobs as may be read at once, unless the shares of claims in flight must be determined first.
    pub(crate) fn read_shares(&mut self) {
        while self.matches() && self.admission.can_read() {
            let Some(id) = self.admission.unread.pop_front() else { return };
            let waits = self.jobs.get(id).is_some_and(|entry| entry.placed() == Placed::Unread);
            if waits && self.admission.reading.insert(id) {
                self.make_busy(id, Busy::Reading);
                self.want(StoreRequest::Job(id));
            }
        }
    }

    /// A job was read, or the read failed.
    pub(crate) fn share_read(&mut self, id: JobId) {
        if self.admission.reading.remove(&id) {
            self.read_shares();
        }
    }
}

impl Shared {
    /// A job with this share.
    pub fn of(share: Share) -> Shared {
        Shared::Of(Box::new(share))
    }

    /// The share, where there is one.
    pub fn get(&self) -> Option<&Share> {
        match self {
            Shared::Of(share) => Some(share),
            Shared::Free | Shared::Unread => None,
        }
    }
}
