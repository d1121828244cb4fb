//! An open job as the kernel remembers it.

use std::sync::Arc;

use jobhall_core::{JobSpec, JobStatus, State, StateName, Time};

use crate::board::ClassId;
use crate::limits::{BucketId, Share};
use crate::membership::Membership;
use crate::queues::{QueueId, Queues};
use crate::windows::Timed;

/// An open job.
#[derive(Debug)]
pub(crate) struct Entry {
    pub life: JobStatus,
    /// The rev in the store: behind that of `life` while accepted or running is not stored yet.
    pub stored_rev: u32,
    pub class: ClassId,
    pub queue: QueueId,
    /// The state that its queue counts it in.
    pub counted: StateName,
    pub priority: i32,
    /// Whether the job can be dealt with now.
    pub busy: Busy,
    /// Where it can be found.
    pub placed: Placed,
    /// Its part in a group, if it has one.
    pub member: Option<Box<Membership>>,
    /// When on a day it may start, if not at any time.
    pub timed: Option<Box<Timed>>,
    /// What limits it.
    pub share: Shared,
    /// Whether it has taken its share: from its claim on, which may not be stored yet, to the end of its lease.
    pub taken: bool,
    /// None while it waits and memory is short: it is read back when needed.
    pub spec: Option<Arc<JobSpec>>,
}

/// Where a waiting job can be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    /// Nowhere: it does not wait, or something that touches it is on its way.
    Nowhere,
    /// Under its time.
    Due,
    /// Among the ready.
    Ready,
    /// In a bucket that it does not get into now.
    Limited(BucketId),
    /// Aside: somebody holds it back.
    OnHold,
    /// Among those whose spec must be read before it is known what limits them.
    Unread,
}

/// What limits a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shared {
    /// Nothing.
    Free,
    /// These buckets.
    Of(Share),
    /// Nobody knows: limits were changed while its spec was not in memory.
    Unread,
}

/// Whether a job can be dealt with now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Busy {
    /// It can.
    Free,
    /// A unit that touches it is on its way.
    Unit,
    /// Its spec is being read.
    Reading,
}

impl Entry {
    /// Whether a worker has it, or has begun what is completed from outside: it has its places in its limits.
    pub(crate) fn is_leased(&self) -> bool {
        self.life.state.held().is_some() || matches!(self.life.state, State::Waiting(_))
    }

    /// Has the job counted in the state that it is in now. One that is completed is counted out when it is removed.
    pub(crate) fn recount(&mut self, queues: &mut Queues, now: Time) {
        let name = self.life.name(now);
        if name != self.counted && !name.is_terminal() {
            queues.step(self.queue, Some(self.counted), Some(name));
            if let Some(part) = &self.member {
                queues.groups.step(part, Some(self.counted), Some(name));
            }
            self.counted = name;
        }
    }
}
