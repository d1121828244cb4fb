//! Id blocks, and the open jobs found through them.

use jobhall_core::{Job, JobId};
use jobhall_store::{Block, BlockChange, Store};

use crate::client::Client;
use crate::fixture::wait;
use crate::samples::{id, queued, spec};

pub(crate) fn take(store: &dyn Store, size: u64) -> Block {
    wait(store.take_block(size)).expect("a block")
}

fn settle(store: &dyn Store, changes: impl Into<Vec<BlockChange>>) {
    wait(store.settle_blocks(changes.into())).expect("blocks can be settled");
}

fn blocks(store: &dyn Store) -> Vec<Block> {
    wait(store.blocks()).expect("blocks can be read")
}

fn open_ids(store: &dyn Store, after: Option<JobId>, limit: usize) -> Vec<JobId> {
    let jobs = wait(store.open_jobs(after, limit)).expect("open jobs can be read");
    jobs.iter().map(|job| job.id).collect()
}

/// Stores a queued job with each of these ids.
fn fill(client: &Client<'_>, ids: impl IntoIterator<Item = u64>) -> Vec<Job> {
    ids.into_iter().map(|n| client.put(queued(id(n), spec("t", None, client.now())))).collect()
}

/// Ids are handed out from 1 on, block after block, each of the requested size.
pub fn blocks_follow_each_other(store: &dyn Store) {
    let expected: Vec<Block> = [(1, 10), (11, 11), (12, 111)]
        .map(|(first, last)| Block { first: id(first), last: id(last), live: None })
        .into();
    let taken: Vec<Block> = [10, 1, 100].map(|size| take(store, size)).into();
    assert_eq!(taken, expected);
    assert_eq!(blocks(store), expected);
}

/// Neither a closed block nor a pruned job makes an id available again.
pub fn ids_are_never_lent_twice(store: &dyn Store) {
    let first = take(store, 5);
    let client = Client::new(store);
    let job = fill(&client, [first.first.get()]).remove(0);
    client.apply(client.cancel(&job));
    client.prune_jobs([job.id]);
    for block in blocks(store) {
        settle(store, [BlockChange::Close(block.first)]);
    }
    assert_eq!(take(store, 3), Block { first: id(1_006), last: id(1_008), live: None });
}

/// A closed block is removed, the others remain.
pub fn a_closed_block_is_gone(store: &dyn Store) {
    let (one, two, three) = (take(store, 5), take(store, 5), take(store, 5));
    settle(store, [BlockChange::Close(two.first)]);
    assert_eq!(blocks(store), [one.clone(), three.clone()]);
    settle(store, [BlockChange::Close(one.first), BlockChange::Close(three.first)]);
    assert_eq!(blocks(store), []);
}

/// A shrunk block lists its open jobs, and may shrink further.
pub fn a_shrunk_block_lists_its_open_jobs(store: &dyn Store) {
    let (one, two) = (take(store, 5), take(store, 5));
    settle(store, [BlockChange::Shrink(one.first, vec![id(2), id(5)])]);
    let shrunk = Block { live: Some(vec![id(2), id(5)]), ..one };
    assert_eq!(blocks(store), [shrunk, two.clone()]);
    settle(store, [BlockChange::Shrink(one.first, vec![]), BlockChange::Shrink(two.first, vec![id(7)])]);
    let expected = [Block { live: Some(vec![]), ..one }, Block { live: Some(vec![id(7)]), ..two }];
    assert_eq!(blocks(store), expected);
}

/// Settling an unknown block changes nothing and is not an error.
pub fn settling_an_unknown_block_changes_nothing(store: &dyn Store) {
    let one = take(store, 5);
    settle(store, [BlockChange::Close(id(2)), BlockChange::Shrink(id(40), vec![id(41)])]);
    settle(store, []);
    assert_eq!(blocks(store), [one]);
}

/// Open jobs, in any state, are those of the open blocks; of a shrunk block only the listed jobs are read.
pub fn open_jobs_are_found_by_their_blocks(store: &dyn Store) {
    let (one, two, three) = (take(store, 4), take(store, 4), take(store, 4));
    let client = Client::new(store);
    let jobs = fill(&client, 1..=12);
    client.apply(client.claim(&jobs[1], "w"));
    client.apply(client.cancel(&jobs[2]));
    client.apply(client.cancel(&jobs[6]));
    let all: Vec<JobId> = (1..=12).filter(|n| ![3, 7].contains(n)).map(id).collect();
    assert_eq!(open_ids(store, None, 100), all);
    assert_eq!(
        wait(store.open_jobs(Some(id(1)), 1)).expect("it can be read"),
        [client.get(id(2)).expect("it is there")]
    );
    settle(
        store,
        [BlockChange::Shrink(two.first, vec![id(5), id(7), id(8)]), BlockChange::Close(three.first)],
    );
    assert_eq!(open_ids(store, None, 100), [1, 2, 4, 5, 8].map(id));
    settle(store, [BlockChange::Close(one.first)]);
    assert_eq!(open_ids(store, None, 100), [5, 8].map(id));
}

/// Open jobs are returned in id order, after a given id, up to a limit, across blocks.
pub fn open_jobs_come_in_pages(store: &dyn Store) {
    let (one, _) = (take(store, 4), take(store, 4));
    let client = Client::new(store);
    fill(&client, [8, 3, 1, 6, 2, 5]);
    assert_eq!(open_ids(store, None, 4), [1, 2, 3, 5].map(id));
    assert_eq!(open_ids(store, Some(id(5)), 4), [6, 8].map(id));
    assert_eq!(open_ids(store, Some(id(4)), 1), [id(5)]);
    assert_eq!(open_ids(store, Some(id(8)), 4), []);
    assert_eq!(open_ids(store, None, 0), []);
    settle(store, [BlockChange::Shrink(one.first, vec![id(1), id(3)])]);
    assert_eq!(open_ids(store, Some(id(1)), 2), [3, 5].map(id));
}
