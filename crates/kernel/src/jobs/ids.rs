//! Ids: the pool for new jobs, the number of open jobs of each block, and the tasks that wait for ids.

use std::collections::{BTreeMap, VecDeque};

use jobhall_core::JobId;
pub(crate) use jobhall_core::{IdHash, IdMap};
use jobhall_store::Block;

use crate::api::time::Mono;
use crate::kernel::Task;

/// The largest block.
const LARGEST: u64 = 64_000;
/// Maximum number of open jobs for which a block lists them.
pub(crate) const FEW: u32 = 16;

/// The ids of new jobs.
#[derive(Debug)]
pub(crate) struct Ids {
    pool: Pool,
    blocks: Blocks,
    /// Tasks that wait for ids.
    waiting: Vec<Task>,
}

impl Ids {
    pub fn new(size: u64) -> Ids {
        Ids { pool: Pool::new(size), blocks: Blocks::default(), waiting: Vec::new() }
    }

    /// At start: allocates from new blocks only.
    pub fn begin(&mut self, size: u64) {
        self.pool = Pool::new(size);
    }

    /// The next `n` ids, or none if there are not enough yet. Each counts as open in its block until its job has ended
    /// or was not stored, so that no block is closed while one of its jobs is in flight.
    pub fn take(&mut self, n: usize) -> Option<Vec<JobId>> {
        let ids = self.pool.take(n)?;
        for &id in &ids {
            self.blocks.opened(id);
        }
        Some(ids)
    }

    /// How many ids to allocate from the store now, if any.
    pub fn ask(&mut self, wanted: u64) -> Option<u64> {
        self.pool.ask(wanted)
    }

    /// Adds a new block from the store.
    pub fn lend(&mut self, block: &Block, now: Mono) {
        self.pool.lend(block, now);
        self.blocks.add(block);
        self.blocks.review();
    }

    /// The store could not allocate a block; it may be requested again.
    pub fn lending_failed(&mut self) {
        self.pool.lending_failed();
    }

    /// Keeps a task until there are ids.
    pub fn wait(&mut self, task: Task) {
        self.waiting.push(task);
    }

    pub fn take_waiting(&mut self) -> Vec<Task> {
        std::mem::take(&mut self.waiting)
    }

    /// At start: a block that may have open jobs.
    pub fn add(&mut self, block: &Block) {
        self.blocks.add(block);
    }

    /// At start: an open job.
    pub fn opened(&mut self, id: JobId) {
        self.blocks.opened(id);
    }

    /// The job with this id has ended, or was not stored.
    pub fn ended(&mut self, id: JobId) {
        self.blocks.ended(id);
    }

    /// Whether the number of open jobs of a block has become small.
    pub fn has_low(&self) -> bool {
        !self.blocks.low.is_empty()
    }

    /// Takes the blocks whose number of open jobs has become small since the last call.
    pub fn take_low(&mut self) -> Vec<JobId> {
        let mut low = std::mem::take(&mut self.blocks.low);
        low.sort();
        low.dedup();
        low
    }

    /// A block of which no more ids are allocated.
    pub fn settled(&self, first: JobId) -> Option<&BlockState> {
        self.blocks.get(first).filter(|block| !self.pool.uses(block.last))
    }

    /// A block must be examined again.
    pub fn look_again(&mut self, first: JobId) {
        self.blocks.low.push(first);
    }

    /// The store lists the open jobs of a block.
    pub fn listed(&mut self, first: JobId) {
        self.blocks.listed(first);
    }

    /// The store has closed a block.
    pub fn close(&mut self, first: JobId) {
        self.blocks.close(first);
    }
}

/// Ids allocated from the store and not used yet.
#[derive(Debug)]
struct Pool {
    free: VecDeque<(u64, u64)>,
    size: u64,
    asked: bool,
    taken_at: Mono,
}

impl Pool {
    pub fn new(size: u64) -> Pool {
        Pool { free: VecDeque::new(), size: size.max(1), asked: false, taken_at: Mono(0) }
    }

    /// The next `n` ids, or none if there are not enough yet.
    pub fn take(&mut self, n: usize) -> Option<Vec<JobId>> {
        if self.left() < n as u64 {
            return None;
        }
        let mut ids = Vec::with_capacity(n);
        while ids.len() < n {
            let (next, last) = self.free.front_mut()?;
            ids.push(JobId::new(*next).ok()?);
            *next += 1;
            if *next > *last {
                self.free.pop_front();
            }
        }
        Some(ids)
    }

    fn left(&self) -> u64 {
        self.free.iter().map(|(next, last)| last - next + 1).sum()
    }

    /// How many ids to allocate from the store now, if any: when half of a block is used, or `wanted` are missing.
    pub fn ask(&mut self, wanted: u64) -> Option<u64> {
        if self.asked || (self.left() > self.size / 2 && self.left() >= wanted) {
            return None;
        }
        self.asked = true;
        Some(self.size.max(wanted))
    }

    /// Adds a block from the store. If blocks are used up within a second, the next ones are larger.
    pub fn lend(&mut self, block: &Block, now: Mono) {
        if now.0 < self.taken_at.0 + 1_000 && self.taken_at.0 > 0 {
            self.size = (self.size * 4).min(LARGEST);
        }
        (self.asked, self.taken_at) = (false, Mono(now.0.max(1)));
        self.free.push_back((block.first.get(), block.last.get()));
    }

    /// The store could not allocate a block; it may be requested again.
    pub fn lending_failed(&mut self) {
        self.asked = false;
    }

    /// Whether an id of this block may still be used.
    pub fn uses(&self, last: JobId) -> bool {
        self.free.iter().any(|&(_, end)| end == last.get())
    }
}

/// Open jobs per block.
#[derive(Debug, Default)]
struct Blocks {
    /// By first id: last id, open jobs, whether the store lists them.
    open: BTreeMap<JobId, BlockState>,
    /// Blocks whose number of open jobs has become small since the last check.
    low: Vec<JobId>,
}

#[derive(Debug)]
pub(crate) struct BlockState {
    pub last: JobId,
    pub open: u32,
    pub listed: bool,
}

impl Blocks {
    pub fn add(&mut self, block: &Block) {
        let state = BlockState { last: block.last, open: 0, listed: block.live.is_some() };
        self.open.insert(block.first, state);
        self.low.push(block.first);
    }

    /// Checks all blocks again: the pool may have finished one.
    pub fn review(&mut self) {
        self.low = self.open.keys().copied().collect();
    }

    fn of(&mut self, id: JobId) -> Option<(&JobId, &mut BlockState)> {
        self.open.range_mut(..=id).next_back().filter(|(_, block)| id <= block.last)
    }

    pub fn opened(&mut self, id: JobId) {
        if let Some((_, block)) = self.of(id) {
            block.open += 1;
        }
    }

    pub fn ended(&mut self, id: JobId) {
        let Some((&first, block)) = self.of(id) else { return };
        block.open = block.open.saturating_sub(1);
        if block.open == 0 || (block.open <= FEW && !block.listed) {
            self.low.push(first);
        }
    }

    pub fn get(&self, first: JobId) -> Option<&BlockState> {
        self.open.get(&first)
    }

    pub fn listed(&mut self, first: JobId) {
        if let Some(block) = self.open.get_mut(&first) {
            block.listed = true;
        }
    }

    pub fn close(&mut self, first: JobId) {
        self.open.remove(&first);
    }
}
