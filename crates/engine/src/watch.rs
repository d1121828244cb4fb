//! Following the feed: first the stored rows after a position, then new commits, without gap or repetition.

use std::collections::VecDeque;
use std::sync::Arc;

use jobhall_core::{GroupId, GroupState, Indicator, JobId, StateName};
use jobhall_store::{FeedRow, Store, StoreError};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// Rows read at once.
const PAGE: usize = 500;

/// An event for a watcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// The changes of one commit; its number is the position to resume from.
    Row(FeedRow),
    /// A live attempt has changed; the event has no position and is not repeated.
    Live(JobId, StateName),
    /// The latest progress of a live attempt; at most ten times a second. It has no position and is not repeated.
    Progress(JobId, Arc<[Indicator]>),
    /// A group has ended in this state; the event has no position and is not repeated.
    Group(GroupId, GroupState),
    /// Events without a position were missed, because the watcher was too slow.
    Missed,
    /// The feed has been pruned beyond the position: reload everything. The feed continues after this number.
    Reset(u64),
}

/// What the driver publishes.
#[derive(Clone, Debug)]
pub(crate) enum Published {
    Row(Arc<FeedRow>),
    Live(JobId, StateName),
    Progress(JobId, Arc<[Indicator]>),
    Group(GroupId, GroupState),
}

/// The changes of one job from now on. Nothing is read from the store.
pub struct JobChanges {
    published: broadcast::Receiver<Published>,
    id: JobId,
}

impl JobChanges {
    pub(crate) fn new(published: broadcast::Receiver<Published>, id: JobId) -> JobChanges {
        JobChanges { published, id }
    }

    /// Waits until the job has changed, and returns the revision that was stored. It returns 0 if the change is not
    /// stored, if changes were missed, or if the engine has stopped.
    pub async fn next(&mut self) -> u32 {
        loop {
            match self.published.recv().await {
                Ok(Published::Live(id, _)) if id == self.id => return 0,
                Ok(Published::Live(..) | Published::Progress(..) | Published::Group(..)) => {}
                Ok(Published::Row(row)) => {
                    if let Some(entry) = row.entries.iter().rfind(|entry| entry.id == self.id) {
                        return entry.rev;
                    }
                }
                Err(RecvError::Lagged(_) | RecvError::Closed) => return 0,
            }
        }
    }
}

/// A reader of the feed.
pub struct Watch {
    store: Arc<dyn Store>,
    published: broadcast::Receiver<Published>,
    after: u64,
    read: VecDeque<FeedRow>,
    /// Whether everything stored up to `after` was returned, so that published changes come next.
    level: bool,
}

impl Watch {
    pub(crate) fn new(store: Arc<dyn Store>, published: broadcast::Receiver<Published>, after: u64) -> Watch {
        Watch { store, published, after, read: VecDeque::new(), level: false }
    }

    /// The position to resume from.
    pub fn position(&self) -> u64 {
        self.after
    }

    /// The next event; none if the engine has stopped.
    pub async fn next(&mut self) -> Result<Option<Watched>, StoreError> {
        loop {
            if let Some(row) = self.read.pop_front() {
                self.after = row.n;
                return Ok(Some(Watched::Row(row)));
            }
            if !self.level {
                let page = self.store.feed(self.after, PAGE).await?;
                if page.pruned_to > self.after {
                    self.after = page.pruned_to;
                    return Ok(Some(Watched::Reset(self.after)));
                }
                self.level = page.rows.is_empty();
                self.read.extend(page.rows);
                continue;
            }
            match self.published.recv().await {
                Ok(Published::Live(id, state)) => return Ok(Some(Watched::Live(id, state))),
                Ok(Published::Progress(id, progress)) => return Ok(Some(Watched::Progress(id, progress))),
                Ok(Published::Group(id, state)) => return Ok(Some(Watched::Group(id, state))),
                Ok(Published::Row(row)) if row.n <= self.after => {}
                Ok(Published::Row(row)) if row.n == self.after + 1 => {
                    self.after = row.n;
                    return Ok(Some(Watched::Row((*row).clone())));
                }
                Ok(Published::Row(_)) => self.level = false,
                Err(RecvError::Lagged(_)) => {
                    self.level = false;
                    return Ok(Some(Watched::Missed));
                }
                Err(RecvError::Closed) => return Ok(None),
            }
        }
    }
}
