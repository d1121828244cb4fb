//! An open job in the kernel's memory.

use std::sync::Arc;

use jobhall_core::{JobSpec, JobStatus, State, StateName, Time};

use crate::groups::membership::{Groups, Membership};
use crate::jobs::windows::Timed;
use crate::limits::{BucketId, Share};
use crate::matching::board::{Board, ClassId};
use crate::stats::queues::QueueId;

/// An open job.
#[derive(Debug)]
pub(crate) struct Entry {
    pub life: JobStatus,
    /// The revision in the store: behind that of `life` while accepted or running is not stored yet.
    pub stored_rev: u32,
    pub class: ClassId,
    pub queue: QueueId,
    /// The state in which its queue counts it.
    pub counted: StateName,
    pub priority: i32,
    /// Whether the job is busy.
    pub busy: Busy,
    /// Where it is placed.
    pub placed: Placed,
    /// Its membership in a group, if any.
    pub member: Option<Box<Membership>>,
    /// Its time windows, if it has any.
    pub timed: Option<Box<Timed>>,
    /// Its share of limits.
    pub share: Shared,
    /// Whether it has taken its share: from its claim on, which may not be stored yet, to the end of its lease.
    pub taken: bool,
    /// None while it waits and memory is short: it is read again when needed.
    pub spec: Option<Arc<JobSpec>>,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shared {
    /// It has no limits.
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
    /// Whether a worker holds it, or has started external work for it: it has its places in its limits.
    pub(crate) fn is_leased(&self) -> bool {
        self.life.state.held().is_some() || matches!(self.life.state, State::Waiting(_))
    }

    /// Counts the job in its current state. A completed job is subtracted when it is removed.
    pub(crate) fn recount(&mut self, board: &mut Board, groups: &mut Groups, now: Time) {
        let name = self.life.name(now);
        if name != self.counted && !name.is_terminal() {
            board.queues_mut().step(self.queue, Some(self.counted), Some(name));
            if let Some(part) = &self.member {
                groups.step(part, Some(self.counted), Some(name));
            }
            self.counted = name;
        }
    }
}
