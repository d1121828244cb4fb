//! What wakes the driver, and what is done with those who still ask when it has ended.

use jobhall_store::{CommitError, Committed};
use tokio::sync::mpsc;

use super::{Command, Driver, Reply};
use crate::answer::Rejected;
use crate::kernel::StoreReply;

/// What the driver was woken by.
pub(super) enum Woken {
    /// The oldest commit under way was answered.
    Committed(Result<Committed, CommitError>),
    /// The store answered something else.
    StoreReply(Box<StoreReply>),
    /// So many requests came; none when nobody can ask any more.
    Commands(usize),
    /// The kernel has not heard all that the store answered.
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

    /// Takes no more requests. Those that came are handed to a kernel that is idle; one that has stopped may not even
    /// tell what it remembers, so they are refused.
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
            // Whoever asked may have given up meanwhile.
            let _ = to.send(refused);
        }
        Command::Ask(_, Reply::Part(gather, at)) => gather.put(at, refused),
        Command::Stop => {}
    }
}
