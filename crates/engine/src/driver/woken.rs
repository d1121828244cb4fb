//! What wakes the driver, and how pending requests are handled when it has ended.

use jobhall_store::{CommitError, Committed};
use tokio::sync::mpsc;

use super::{Command, Driver};
use jobhall_kernel::StoreReply;

/// What woke the driver.
pub(super) enum Woken {
    /// The oldest commit in progress has a result.
    Committed(Result<Committed, CommitError>),
    /// The store sent another reply.
    StoreReply(Box<StoreReply>),
    /// This many requests arrived; zero if all handles were dropped.
    Commands(usize),
    /// The kernel has not processed all replies of the store.
    Heard,
    /// Something may be due.
    Time,
}

impl Driver {
    pub(super) fn woken(&mut self, woken: Woken, taken: &mut Vec<Command>) {
        match woken {
            Woken::Committed(result) => self.committed(result),
            Woken::StoreReply(told) => self.kernel.store_replied(self.clock.now(), *told),
            Woken::Commands(n) => {
                self.stopping |= n == 0;
                let now = self.clock.now();
                for command in taken.drain(..) {
                    self.command(now, command);
                }
            }
            Woken::Heard | Woken::Time => {}
        }
    }

    /// Accepts no more requests. Those that have arrived are passed to the kernel, which rejects them if it has stopped.
    pub(super) fn finish(&mut self, taken: Vec<Command>, mut commands: mpsc::Receiver<Command>) {
        commands.close();
        let waiting = std::iter::from_fn(|| commands.try_recv().ok());
        for command in taken.into_iter().chain(waiting) {
            self.command(self.clock.now(), command);
        }
    }
}
