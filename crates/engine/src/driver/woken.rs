//! What wakes the driver, and how pending requests are handled when it has ended.

use jobhall_store::{CommitError, Committed};
use tokio::sync::mpsc;

use super::{Command, Driver, Reply};
use jobhall_kernel::Rejected;
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

    /// Accepts no more requests. Requests that have arrived are passed to an idle kernel; a stopped kernel cannot even
    /// answer reads, so they are rejected.
    pub(super) fn finish(&mut self, taken: Vec<Command>, mut commands: mpsc::Receiver<Command>) {
        commands.close();
        let waiting = std::iter::from_fn(|| commands.try_recv().ok());
        for command in taken.into_iter().chain(waiting) {
            match self.kernel.stopped().map(str::to_owned) {
                Some(why) => refuse(command, &why),
                None => self.command(self.clock.now(), command),
            }
        }
    }
}

fn refuse(command: Command, why: &str) {
    let refused = Err(Rejected::Stopped(why.to_owned()));
    match command {
        Command::Ask(_, Reply::One(to) | Reply::Session(to, _)) => {
            // The caller may have given up meanwhile.
            let _ = to.send(refused);
        }
        Command::Ask(_, Reply::Part(gather, at)) => gather.put(at, refused),
        Command::Ask(_, Reply::Job(reply)) => {
            let _ = reply.to.send(Err(Rejected::Stopped(why.to_owned())));
        }
        Command::Stop => {}
    }
}
