//! The store's side of a run: commits are applied in order and with delay, fail, or have an unknown outcome; so do
//! all other requests.

pub(crate) mod vault;

use jobhall_kernel::{StoreReply, StoreRequest, abridge};
use jobhall_store::{CommitError, Committed, Prune, StoreError, Unit};

use crate::check::Shelf as _;
use crate::simulation::Sim;
use crate::simulation::event::{Event, UnderWay};

fn unknown() -> CommitError {
    CommitError::Unknown { message: "the disk was lost".to_owned() }
}

fn failed(full: bool) -> CommitError {
    CommitError::NotCommitted { full, message: "the disk failed".to_owned() }
}

impl Sim {
    /// Applies the next commit, or fails it.
    pub fn apply(&mut self) {
        let Some(at) = self.commits.iter().position(|commit| commit.result.is_none()) else { return };
        let units = self.commits[at].units.clone();
        let result = if self.faults.stopped {
            Err(CommitError::Stopped { message: "the disk was lost".to_owned() })
        } else if let Some(applied) = self.faults.unknown_commit.take() {
            self.faults.stopped = true;
            self.tally
                .add("faults", if applied { "unknown commit, applied" } else { "unknown commit, lost" });
            if applied {
                self.commit(&units);
            }
            Err(unknown())
        } else if let Some(full) = self.faults.fail_commits.pop() {
            self.tally.add("faults", if full { "commit failed, full" } else { "commit failed" });
            if self.vault.lies() { Ok(self.vault.lie(&units)) } else { Err(failed(full)) }
        } else {
            Ok(self.commit(&units))
        };
        self.commits[at].result = Some(result);
    }

    fn commit(&mut self, units: &[Unit]) -> Committed {
        let committed = self.vault.commit(units.to_vec());
        self.note_commit(units, &committed);
        self.checker.applied(&self.vault, units, &committed);
        if let Some(id) = self.vault.lose_input() {
            self.checker.lost_input(id);
        }
        for (group, kind) in self.checker.take_seen() {
            self.tally.add(group, kind);
        }
        if self.checker.commits.is_multiple_of(32) {
            self.checker.whole(&self.vault);
        }
        committed
    }

    /// The kernel receives the result of the next commit.
    pub fn told(&mut self) {
        if self.commits.front().is_none_or(|commit| commit.result.is_none()) {
            return;
        }
        let now = self.now();
        self.split_first();
        let (Some(commit), Some(kernel)) = (self.commits.pop_front(), &mut self.kernel) else { return };
        self.checker.told(&commit.units);
        let Some(result) = commit.result else { return };
        if result.is_err() {
            self.checker.store_failed();
        }
        self.checker.limits_told(&commit.units, result.as_ref().ok());
        self.checker.waits_told(&commit.units, result.as_ref().ok());
        if let Ok(committed) = &result {
            self.checker.acknowledges(&commit.units, committed);
        }
        let reply = StoreReply::Committed(commit.number, result);
        self.history.reply(self.ms, &reply);
        kernel.store_replied(now, reply);
    }

    /// Sometimes the kernel receives part of the results first, and the rest later.
    fn split_first(&mut self) {
        let mut roll = self.roll(&[35, self.ms]);
        let Some(commit) = self.commits.front_mut() else { return };
        let Some(Ok(committed)) = &mut commit.result else { return };
        let units = commit.units.len();
        if units < 2 || !roll.percent(30) {
            return;
        }
        let first = 1 + roll.at(units - 1);
        let rest = UnderWay {
            number: commit.number,
            units: commit.units.split_off(first),
            result: Some(Ok(Committed { feed: committed.feed, results: committed.results.split_off(first) })),
        };
        self.commits.insert(1, rest);
        self.tally.add("commits", "replied in parts");
        let at = self.ms + roll.below(6);
        self.queue.at(at, Event::StoreReply(self.epoch));
    }

    /// Executes a store request that is not a commit.
    pub fn serve(&mut self, number: u64) {
        let Some(asked) = self.asks.remove(&number) else { return };
        let lost = self.faults.unknown_ask && !is_read(&asked);
        let told = if lost || self.faults.stopped {
            self.faults.unknown_ask = false;
            self.tally.add("faults", "ask ended unknown");
            if !self.faults.stopped && self.roll(&[6, self.ms]).percent(50) {
                self.grant(asked.clone());
            }
            self.faults.stopped = true;
            self.refuse(asked, &unknown())
        } else if self.faults.fail_ask {
            self.faults.fail_ask = false;
            self.tally.add("faults", "ask failed");
            self.refuse(asked, &failed(false))
        } else {
            self.grant(asked)
        };
        let at = self.ms + self.roll(&[5, self.ms]).below(6);
        self.queue.at(at, Event::Served(self.epoch, Box::new(told)));
    }

    fn grant(&mut self, asked: StoreRequest) -> StoreReply {
        match asked {
            StoreRequest::TakeBlock(size) => StoreReply::Block(Ok(self.vault.take_block(size))),
            StoreRequest::SettleBlocks(changes) => {
                self.vault.settle_blocks(changes.clone());
                StoreReply::Settled(changes, Ok(()))
            }
            StoreRequest::Prune(prune) => {
                let pruned = self.vault.prune(&prune);
                self.checker.pruned(&self.vault, &prune);
                self.leaving += pruned.jobs.len() as u64;
                if !pruned.jobs.is_empty() {
                    self.tally.add("upkeep", "jobs removed by retention");
                }
                if !prune.groups.is_empty() {
                    self.tally.add("upkeep", "groups removed by retention");
                }
                if pruned.feed > 0 {
                    self.tally.add("upkeep", "feed pruned");
                }
                StoreReply::Pruned(prune.jobs, Ok(pruned))
            }
            StoreRequest::Remove(ticket, jobs) => {
                let prune = Prune { jobs: jobs.clone(), ..Prune::default() };
                let pruned = self.vault.prune(&prune);
                self.leaving += pruned.jobs.len() as u64;
                self.checker.pruned(&self.vault, &prune);
                StoreReply::Removed(ticket, jobs, Ok(pruned))
            }
            StoreRequest::Job(id) => {
                let (job, mut past) = (self.vault.row_for_kernel(id), self.vault.attempts(id));
                job.iter().for_each(|job| abridge(job, &mut past));
                StoreReply::Job(id, Ok((job, past)))
            }
            StoreRequest::Completed(after, limit) => {
                StoreReply::Completed(Ok(self.vault.completed(after, limit)))
            }
            StoreRequest::Count { round, after, last, except } => {
                StoreReply::Counted(round, Ok(self.vault.count_completed(after, last, &except)))
            }
            StoreRequest::Jobs(number, ids) => {
                let rows = ids.into_iter().map(|id| self.vault.row_for_kernel(id)).collect();
                StoreReply::Jobs(number, Ok(rows))
            }
            StoreRequest::Members(number, group) => StoreReply::Members(number, Ok(self.vault.group(group))),
            StoreRequest::Emptied(before, ended_before, limit) => {
                StoreReply::Emptied(Ok(self.vault.emptied(before, ended_before, limit)))
            }
        }
    }

    fn refuse(&mut self, asked: StoreRequest, error: &CommitError) -> StoreReply {
        let message = StoreError::new("the disk failed");
        match asked {
            StoreRequest::TakeBlock(_) => StoreReply::Block(Err(error.clone())),
            StoreRequest::SettleBlocks(changes) => StoreReply::Settled(changes, Err(error.clone())),
            StoreRequest::Prune(prune) => StoreReply::Pruned(prune.jobs, Err(error.clone())),
            StoreRequest::Remove(ticket, jobs) => StoreReply::Removed(ticket, jobs, Err(error.clone())),
            StoreRequest::Job(id) => StoreReply::Job(id, Err(message)),
            StoreRequest::Completed(..) => StoreReply::Completed(Err(message)),
            StoreRequest::Count { round, .. } => StoreReply::Counted(round, Err(message)),
            StoreRequest::Jobs(number, _) => StoreReply::Jobs(number, Err(message)),
            StoreRequest::Members(number, _) => StoreReply::Members(number, Err(message)),
            StoreRequest::Emptied(..) => StoreReply::Emptied(Err(message)),
        }
    }

    pub fn served(&mut self, told: StoreReply) {
        if let StoreReply::Job(id, _) = &told {
            self.checker.has_read(*id);
        }
        if let StoreReply::Pruned(_, Ok(pruned)) | StoreReply::Removed(_, _, Ok(pruned)) = &told {
            self.leaving = self.leaving.saturating_sub(pruned.jobs.len() as u64);
        }
        if is_failure(&told) {
            self.checker.store_failed();
        }
        let now = self.now();
        if let Some(kernel) = &mut self.kernel {
            self.history.reply(self.ms, &told);
            kernel.store_replied(now, told);
        }
    }
}

/// Whether the store refused a request.
fn is_failure(told: &StoreReply) -> bool {
    match told {
        StoreReply::Committed(_, result) => result.is_err(),
        StoreReply::Block(result) => result.is_err(),
        StoreReply::Settled(_, result) => result.is_err(),
        StoreReply::Pruned(_, result) | StoreReply::Removed(_, _, result) => result.is_err(),
        StoreReply::Job(_, result) => result.is_err(),
        StoreReply::Completed(result) => result.is_err(),
        StoreReply::Counted(_, result) => result.is_err(),
        StoreReply::Jobs(_, result) => result.is_err(),
        StoreReply::Members(_, result) => result.is_err(),
        StoreReply::Emptied(result) => result.is_err(),
    }
}

/// Whether the request writes nothing.
fn is_read(asked: &StoreRequest) -> bool {
    matches!(
        asked,
        StoreRequest::Job(_)
            | StoreRequest::Completed(..)
            | StoreRequest::Count { .. }
            | StoreRequest::Jobs(..)
            | StoreRequest::Members(..)
            | StoreRequest::Emptied(..)
    )
}
