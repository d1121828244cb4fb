//! The store's side of a run: commits are applied in order and late, fail, or end unknown; so does all else.

use jobhall_engine::{Asked, Told};
use jobhall_store::{CommitError, Committed, Prune, StoreError, Unit};

use crate::check::Shelf as _;
use crate::event::{Event, UnderWay};
use crate::hall::Sim;

fn unknown() -> CommitError {
    CommitError::Unknown { message: "the disk went away".to_owned() }
}

fn failed(full: bool) -> CommitError {
    CommitError::NotCommitted { full, message: "the disk said no".to_owned() }
}

impl Sim {
    /// The next commit is applied, or not.
    pub fn apply(&mut self) {
        let Some(at) = self.commits.iter().position(|commit| commit.result.is_none()) else { return };
        let units = self.commits[at].units.clone();
        let result = if self.faults.stopped {
            Err(CommitError::Stopped { message: "the disk went away".to_owned() })
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
        for (group, kind) in self.checker.take_seen() {
            self.tally.add(group, kind);
        }
        if self.checker.commits.is_multiple_of(32) {
            self.checker.whole(&self.vault);
        }
        committed
    }

    /// The kernel hears of the next commit.
    pub fn told(&mut self) {
        if self.commits.front().is_none_or(|commit| commit.result.is_none()) {
            return;
        }
        let now = self.now();
        self.split_first();
        let (Some(commit), Some(kernel)) = (self.commits.pop_front(), &mut self.kernel) else { return };
        self.checker.told(&commit.units);
        let Some(result) = commit.result else { return };
        self.checker.limits_told(&commit.units, result.as_ref().ok());
        self.checker.waits_told(&commit.units, result.as_ref().ok());
        if let Ok(committed) = &result {
            self.checker.acknowledges(&commit.units, committed);
        }
        kernel.told(now, Told::Committed(commit.number, result));
    }

    /// Sometimes the kernel hears of a part first, and of the rest later.
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
        self.tally.add("commits", "told in parts");
        let at = self.ms + roll.below(6);
        self.queue.at(at, Event::Told(self.epoch));
    }

    /// The store does something for the kernel besides commits.
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

    fn grant(&mut self, asked: Asked) -> Told {
        match asked {
            Asked::TakeBlock(size) => Told::Block(Ok(self.vault.take_block(size))),
            Asked::SettleBlocks(changes) => {
                self.vault.settle_blocks(changes.clone());
                Told::Settled(changes, Ok(()))
            }
            Asked::Prune(prune) => {
                let pruned = self.vault.prune(&prune);
                self.checker.pruned(&self.vault, &prune);
                if pruned.jobs > 0 {
                    self.tally.add("upkeep", "jobs removed by retention");
                }
                if !prune.groups.is_empty() {
                    self.tally.add("upkeep", "groups removed by retention");
                }
                if pruned.feed > 0 {
                    self.tally.add("upkeep", "feed pruned");
                }
                Told::Pruned(Ok(pruned))
            }
            Asked::Remove(ticket, jobs) => {
                let prune = Prune { jobs: jobs.clone(), ..Prune::default() };
                let pruned = self.vault.prune(&prune);
                self.checker.pruned(&self.vault, &prune);
                Told::Removed(ticket, jobs, Ok(pruned))
            }
            Asked::Job(id) => Told::Job(id, Ok((self.vault.row_for_kernel(id), self.vault.attempts(id)))),
            Asked::Completed(before, limit) => Told::Completed(Ok(self.vault.completed(before, limit))),
            Asked::Jobs(number, ids) => {
                let rows = ids.into_iter().map(|id| self.vault.row_for_kernel(id)).collect();
                Told::Jobs(number, Ok(rows))
            }
            Asked::Members(number, group) => Told::Members(number, Ok(self.vault.group(group))),
            Asked::Emptied(before, ended_before, limit) => {
                Told::Emptied(Ok(self.vault.emptied(before, ended_before, limit)))
            }
        }
    }

    fn refuse(&mut self, asked: Asked, error: &CommitError) -> Told {
        let message = StoreError::new("the disk said no");
        match asked {
            Asked::TakeBlock(_) => Told::Block(Err(error.clone())),
            Asked::SettleBlocks(changes) => Told::Settled(changes, Err(error.clone())),
            Asked::Prune(_) => Told::Pruned(Err(error.clone())),
            Asked::Remove(ticket, jobs) => Told::Removed(ticket, jobs, Err(error.clone())),
            Asked::Job(id) => Told::Job(id, Err(message)),
            Asked::Completed(..) => Told::Completed(Err(message)),
            Asked::Jobs(number, _) => Told::Jobs(number, Err(message)),
            Asked::Members(number, _) => Told::Members(number, Err(message)),
            Asked::Emptied(..) => Told::Emptied(Err(message)),
        }
    }

    pub fn served(&mut self, told: Told) {
        if let Told::Job(id, _) = &told {
            self.checker.has_read(*id);
        }
        let now = self.now();
        if let Some(kernel) = &mut self.kernel {
            kernel.told(now, told);
        }
    }
}

/// Whether nothing is written for it.
fn is_read(asked: &Asked) -> bool {
    matches!(
        asked,
        Asked::Job(_) | Asked::Completed(..) | Asked::Jobs(..) | Asked::Members(..) | Asked::Emptied(..)
    )
}
