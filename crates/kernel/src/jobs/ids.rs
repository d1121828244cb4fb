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
    /// The highest id that a job may have.
    highest: Option<u64>,
}

impl Ids {
    pub fn new(size: u64) -> Ids {
        Ids { pool: Pool::new(size), blocks: Blocks::default(), waiting: Vec::new(), highest: None }
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
        self.highest = self.highest.max(ids.iter().copied().max().map(JobId::get));
        Some(ids)
    }

    /// How many ids to allocate from the store now, if any.
    pub fn ask(&mut self, wanted: u64) -> Option<u64> {
        self.pool.ask(wanted)
    }

    /// Adds a new block from the store.
    pub fn lend(&mut self, block: &Block, now: Mono) {
        // No job has an id of the first block of this start.
        self.highest = self.highest.or(Some(block.first.get() - 1));
        self.pool.lend(block, now);
        self.blocks.add(block);
        self.blocks.review();
    }

    /// The highest id that a job may have, 0 if there is no job; none before the first block of this start.
    pub fn highest(&self) -> Option<u64> {
        self.highest
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{id, numbers, task};

    fn block(first: u64, last: u64) -> Block {
        Block { first: id(first), last: id(last), live: None }
    }

    /// Ids with one block, after the first check.
    fn ids(first: u64, last: u64) -> Ids {
        let mut ids = Ids::new(10);
        ids.lend(&block(first, last), Mono(1));
        ids.take_low();
        ids
    }

    #[test]
    fn ids_are_taken_in_order_across_blocks_and_only_if_all_are_there() {
        let mut ids = ids(1, 3);
        ids.lend(&block(11, 12), Mono(1));
        assert_eq!(ids.take(6), None);
        assert_eq!(ids.take(4), Some(vec![id(1), id(2), id(3), id(11)]), "a failed take uses no id");
        assert_eq!((ids.take(1), ids.take(1)), (Some(vec![id(12)]), None));
    }

    #[test]
    fn more_ids_are_requested_once_when_half_of_a_block_is_left() {
        let mut ids = ids(1, 10);
        ids.take(4);
        assert_eq!(ids.ask(6), None, "six of ten are left");
        ids.take(1);
        assert_eq!(ids.ask(1), Some(10));
        assert_eq!(ids.ask(1), None, "a request is in flight");
        ids.lending_failed();
        assert_eq!(ids.ask(1), Some(10));
        ids.lend(&block(11, 20), Mono(5_000));
        assert_eq!(ids.ask(1), None, "fifteen are left");
    }

    #[test]
    fn a_request_covers_what_is_wanted() {
        let mut ids = ids(1, 10);
        assert_eq!(ids.ask(10), None);
        assert_eq!(ids.ask(11), Some(11));
        assert_eq!(Ids::new(0).ask(0), Some(1), "a block has at least one id");
    }

    #[test]
    fn blocks_grow_while_they_are_used_up_within_a_second() {
        let mut pool = Pool::new(10);
        pool.lend(&block(1, 1), Mono(0));
        assert_eq!(pool.size, 10, "the first block shows no speed");
        pool.lend(&block(2, 2), Mono(1_000));
        assert_eq!(pool.size, 40, "the time zero counts as one");
        pool.lend(&block(3, 3), Mono(2_000));
        assert_eq!(pool.size, 40, "a second has passed");
        for n in 4..12 {
            pool.lend(&block(n, n), Mono(2_000));
        }
        assert_eq!(pool.size, LARGEST);
    }

    #[test]
    fn a_restart_uses_new_blocks_only_and_the_configured_size() {
        let mut ids = ids(1, 10);
        ids.begin(7);
        assert_eq!((ids.take(1), ids.ask(1)), (None, Some(7)));
    }

    #[test]
    fn a_block_becomes_low_once_when_few_of_its_jobs_are_open() {
        let mut ids = ids(1, 20);
        ids.take(20);
        (1..=3).for_each(|n| ids.ended(id(n)));
        assert!(!ids.has_low(), "{} are open", FEW + 1);
        ids.ended(id(4));
        assert!(ids.has_low(), "{FEW} are open");
        ids.ended(id(5));
        assert_eq!(ids.take_low(), [id(1)]);
        assert!(!ids.has_low());
    }

    #[test]
    fn a_listed_block_becomes_low_again_only_with_its_last_job() {
        let mut ids = ids(1, 3);
        ids.take(3);
        ids.listed(id(1));
        ids.ended(id(1));
        ids.ended(id(2));
        assert!(!ids.has_low());
        ids.ended(id(3));
        assert_eq!(ids.take_low(), [id(1)]);
    }

    #[test]
    fn a_block_found_listed_at_start_stays_listed() {
        let mut ids = Ids::new(10);
        ids.add(&Block { live: Some(vec![id(2)]), ..block(1, 9) });
        assert_eq!(ids.take_low(), [id(1)], "every block is examined at start");
        ids.opened(id(2));
        let state = ids.settled(id(1)).unwrap();
        assert_eq!((state.listed, state.open, state.last), (true, 1, id(9)));
    }

    #[test]
    fn an_id_counts_only_in_the_block_that_contains_it() {
        let mut ids = Ids::new(10);
        ids.add(&block(1, 9));
        ids.add(&block(20, 29));
        [9, 10, 19, 20, 29, 30].into_iter().for_each(|n| ids.opened(id(n)));
        let open = [1, 20].map(|first| ids.settled(id(first)).unwrap().open);
        assert_eq!(open, [1, 2]);
    }

    #[test]
    fn a_block_is_settled_when_its_last_id_is_taken() {
        let mut ids = ids(1, 2);
        ids.take(1);
        assert!(ids.settled(id(1)).is_none());
        ids.take(1);
        assert_eq!(ids.settled(id(1)).unwrap().open, 2);
    }

    #[test]
    fn a_new_block_and_a_failed_write_cause_another_check() {
        let mut ids = ids(1, 2);
        ids.lend(&block(11, 12), Mono(1));
        assert_eq!(ids.take_low(), [id(1), id(11)], "the pool may have finished the first");
        ids.look_again(id(11));
        assert_eq!(ids.take_low(), [id(11)]);
    }

    #[test]
    fn a_closed_block_counts_nothing() {
        let mut ids = ids(1, 2);
        ids.take(2);
        ids.close(id(1));
        ids.ended(id(1));
        assert!(ids.settled(id(1)).is_none() && !ids.has_low());
    }

    #[test]
    fn waiting_tasks_are_taken_once_and_in_order() {
        let mut ids = Ids::new(1);
        [3, 1].into_iter().for_each(|n| ids.wait(task(n)));
        assert_eq!(numbers(&ids.take_waiting()), [3, 1]);
        assert!(ids.take_waiting().is_empty());
    }
}
