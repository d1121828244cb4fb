//! An open job in the kernel's memory.

use std::sync::Arc;

use jobhall_core::{Job, JobSpec, State, StateName, Time};

use crate::groups::membership::{Groups, Membership};
use crate::jobs::compact_status::CompactStatus;
use crate::jobs::windows::Timed;
use crate::limits::{BucketId, Share};
use crate::matching::board::{Board, ClassId};
use crate::stats::queues::QueueId;

/// An open job.
#[derive(Debug)]
pub(crate) struct Entry {
    pub status: CompactStatus,
    /// The revision in the store: behind that of `status` while accepted or running is not stored yet.
    pub stored_rev: u32,
    pub class: ClassId,
    pub queue: QueueId,
    /// The state in which its queue counts it.
    pub counted: StateName,
    pub priority: i32,
    /// Whether the job is busy.
    pub busy: Busy,
    /// Where it is placed; the bucket is in `extra`.
    at: At,
    /// Whether it has taken its share: from its claim on, which may not be stored yet, to the end of its lease.
    pub taken: bool,
    /// None while it waits and memory is short: it is read again when needed.
    pub spec: Option<Arc<JobSpec>>,
    /// What most jobs do not have. Millions of jobs may be queued, so it takes memory only if there is any.
    extra: Option<Box<Extra>>,
}

/// What most open jobs do not have.
#[derive(Debug, Default)]
struct Extra {
    member: Option<Membership>,
    timed: Option<Box<Timed>>,
    share: Shared,
    /// The bucket that it cannot enter now.
    bucket: Option<BucketId>,
}

/// [`Placed`] without the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Nowhere,
    Due,
    Ready,
    Limited,
    OnHold,
    Unread,
}

/// Where a waiting job is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    /// Nowhere: it does not wait, or something that touches it is in flight.
    Nowhere,
    /// Under its due time.
    Due,
    /// Among the ready jobs.
    Ready,
    /// In a bucket that it cannot enter now.
    Limited(BucketId),
    /// Aside: it is held.
    OnHold,
    /// Among the jobs whose spec must be read to determine their limits.
    Unread,
}

/// The share of a job in limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shared {
    /// It has no limits.
    #[default]
    Free,
    /// It belongs to these buckets.
    Of(Box<Share>),
    /// Unknown: the limits changed while its spec was not in memory.
    Unread,
}

/// Whether a job is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Busy {
    /// It is not.
    Free,
    /// A unit that touches it is in flight.
    Unit,
    /// Its spec is being read.
    Reading,
}

impl Entry {
    /// An entry of this job that is not placed; `taken` is whether it has taken its share.
    pub(crate) fn new(
        job: Job,
        (class, queue): (ClassId, QueueId),
        counted: StateName,
        (share, taken): (Shared, bool),
    ) -> Entry {
        let Job { id, spec, status } = job;
        let (member, timed) = (Membership::of(id, &spec), Timed::of(&spec.windows).map(Box::new));
        let plain = member.is_none() && timed.is_none() && share == Shared::Free;
        let extra = (!plain).then(|| Box::new(Extra { member, timed, share, bucket: None }));
        Entry {
            stored_rev: status.rev,
            status: status.into(),
            class,
            queue,
            counted,
            priority: spec.priority,
            busy: Busy::Free,
            at: At::Nowhere,
            taken,
            spec: Some(spec),
            extra,
        }
    }

    /// Where it is placed.
    pub(crate) fn placed(&self) -> Placed {
        let bucket = self.extra.as_ref().and_then(|extra| extra.bucket);
        match (self.at, bucket) {
            (At::Limited, Some(bucket)) => Placed::Limited(bucket),
            (At::Nowhere | At::Limited, _) => Placed::Nowhere,
            (At::Due, _) => Placed::Due,
            (At::Ready, _) => Placed::Ready,
            (At::OnHold, _) => Placed::OnHold,
            (At::Unread, _) => Placed::Unread,
        }
    }

    pub(crate) fn set_placed(&mut self, placed: Placed) {
        self.at = match placed {
            Placed::Nowhere => At::Nowhere,
            Placed::Due => At::Due,
            Placed::Ready => At::Ready,
            Placed::Limited(bucket) => {
                self.extra.get_or_insert_default().bucket = Some(bucket);
                At::Limited
            }
            Placed::OnHold => At::OnHold,
            Placed::Unread => At::Unread,
        };
    }

    /// Its membership in a group, if any.
    pub(crate) fn member(&self) -> Option<&Membership> {
        self.extra.as_ref()?.member.as_ref()
    }

    /// Its time windows, if it has any.
    pub(crate) fn timed(&self) -> Option<&Timed> {
        self.extra.as_ref()?.timed.as_deref()
    }

    pub(crate) fn timed_mut(&mut self) -> Option<&mut Timed> {
        self.extra.as_mut()?.timed.as_deref_mut()
    }

    pub(crate) fn set_timed(&mut self, timed: Option<Timed>) {
        if timed.is_some() || self.extra.is_some() {
            self.extra.get_or_insert_default().timed = timed.map(Box::new);
        }
    }

    /// Its share of limits.
    pub(crate) fn share(&self) -> &Shared {
        self.extra.as_ref().map_or(&Shared::Free, |extra| &extra.share)
    }

    /// Sets its share of limits, and returns the previous one.
    pub(crate) fn set_share(&mut self, share: Shared) -> Shared {
        if share == Shared::Free && self.extra.is_none() {
            return Shared::Free;
        }
        std::mem::replace(&mut self.extra.get_or_insert_default().share, share)
    }

    /// Whether a worker holds it, or has started external work for it: it has its places in its limits.
    pub(crate) fn is_leased(&self) -> bool {
        self.status.state().leased().is_some() || matches!(self.status.state(), State::Waiting(_))
    }

    /// Counts the job in its current state. A completed job is subtracted when it is removed.
    pub(crate) fn recount(&mut self, board: &mut Board, groups: &mut Groups, now: Time) {
        let name = self.status.get().name(now);
        if name != self.counted && !name.is_terminal() {
            board.queues_mut().step(self.queue, Some(self.counted), Some(name));
            if let Some(part) = self.member() {
                groups.step(part, Some(self.counted), Some(name));
            }
            self.counted = name;
        }
    }
}

#[cfg(test)]
mod tests {
    use jobhall_core::{Dice, Event, JobStatus, LeaseId};

    use super::*;
    use crate::fixtures::{after, assigned, entry, group, id, spec, time};

    fn board_and_entry(status: JobStatus) -> (Board, Entry) {
        let mut board = Board::default();
        let entry = entry(&mut board, spec(), status);
        board.queues_mut().step(entry.queue, None, Some(entry.counted));
        (board, entry)
    }

    /// The open jobs in these states.
    fn tally(board: &Board, states: [StateName; 2]) -> [u64; 2] {
        let queue = spec().queue;
        let tally = board.queues().tally(&queue);
        states.map(|state| tally.as_ref().map_or(0, |tally| tally.1.of(state)))
    }

    #[test]
    fn what_few_jobs_have_is_small_too() {
        assert!(size_of::<Extra>() <= 80, "{}", size_of::<Extra>());
    }

    #[test]
    fn a_plain_job_takes_no_memory_for_what_it_does_not_have() {
        let (_, mut entry) = board_and_entry(JobStatus::queued(time(0), time(0)));
        entry.set_timed(None);
        assert_eq!(entry.set_share(Shared::Free), Shared::Free);
        for placed in [Placed::Due, Placed::Ready, Placed::OnHold, Placed::Unread, Placed::Nowhere] {
            entry.set_placed(placed);
            assert_eq!(entry.placed(), placed);
        }
        assert!(entry.extra.is_none() && entry.member().is_none() && entry.timed().is_none());
    }

    #[test]
    fn a_share_is_replaced_and_can_be_removed() {
        let (_, mut entry) = board_and_entry(JobStatus::queued(time(0), time(0)));
        assert_eq!(entry.set_share(Shared::Unread), Shared::Free);
        assert_eq!(*entry.share(), Shared::Unread);
        assert_eq!(entry.set_share(Shared::Free), Shared::Unread);
        assert_eq!(*entry.share(), Shared::Free);
    }

    #[test]
    fn a_job_is_leased_while_a_worker_holds_it_or_it_waits() {
        let held = assigned();
        let accept = Event::Accept { claim: held.claim, lease: LeaseId(1) };
        let accepted = after(&held, &accept);
        let waiting = after(&accepted, &Event::Wait { claim: held.claim, lease: LeaseId(1) });
        let (until, retry, dice) = (time(9), &spec().retry, Dice(0));
        let external = Event::StartedExternal { claim: held.claim, lease: LeaseId(1), until, retry, dice };
        let external = after(&accepted, &external);
        assert!(external.state.leased().is_none(), "no worker holds it");
        let queued = JobStatus::queued(time(0), time(0));
        let blocked = queued.clone().after_others();
        let lives = [held, accepted, waiting, external, queued, blocked];
        let leased = lives.map(|status| board_and_entry(status).1.is_leased());
        assert_eq!(leased, [true, true, true, true, false, false]);
    }

    #[test]
    fn a_new_state_moves_the_job_in_the_counts_of_its_queue_and_group() {
        let (mut board, mut entry) = board_and_entry(JobStatus::queued(time(0), time(0)));
        let mut groups = Groups::default();
        groups.add(group());
        let member = Membership { group: group().id, id: id(1), root: id(1), attached: false };
        groups.step(&member, None, Some(StateName::Queued));
        entry.extra = Some(Box::new(Extra { member: Some(member), ..Extra::default() }));
        entry.status = assigned().into();
        entry.recount(&mut board, &mut groups, time(0));
        assert_eq!(entry.counted, StateName::Assigned);
        assert_eq!(tally(&board, [StateName::Queued, StateName::Assigned]), [0, 1]);
        let counts = groups.get(group().id).unwrap().counts;
        assert_eq!((counts.pending, counts.active), (0, 1));
    }

    #[test]
    fn a_queued_job_is_counted_as_scheduled_until_its_time() {
        let (mut board, mut entry) = board_and_entry(JobStatus::queued(time(0), time(5)));
        let (scheduled, queued) = (StateName::Scheduled, StateName::Queued);
        entry.recount(&mut board, &mut Groups::default(), time(4));
        assert_eq!(tally(&board, [scheduled, queued]), [1, 0]);
        entry.recount(&mut board, &mut Groups::default(), time(5));
        assert_eq!(tally(&board, [scheduled, queued]), [0, 1]);
    }

    #[test]
    fn a_completed_job_keeps_its_count_until_it_is_removed() {
        let (mut board, mut entry) = board_and_entry(JobStatus::queued(time(0), time(0)));
        let failure = jobhall_core::Failure::new("stop", "asked");
        entry.status = after(&entry.status.get(), &Event::Cancel(&failure)).into();
        entry.recount(&mut board, &mut Groups::default(), time(9));
        assert_eq!(entry.counted, StateName::Queued);
        assert_eq!(tally(&board, [StateName::Queued, StateName::Cancelled]), [1, 0]);
    }
}
