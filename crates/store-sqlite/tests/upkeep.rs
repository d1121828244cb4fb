//! Id blocks and removals by maintenance, across restarts.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

mod fixture;

use std::sync::Arc;

use fixture::{at, change, claim, id, inserting, open, present, queued, spec, step, wait};
use jobhall_core::needs::Needs;
use jobhall_core::{Event, Failure, Job, JobSpec, JobStatus, Json, QueueName, RetryPolicy, Tag, TypeName};
use jobhall_store::{Block, BlockChange, CommitError, Memory, Prune, Store, Unit};
use jobhall_store_sqlite::Sqlite;

fn cancel(store: &Sqlite, numbers: impl Iterator<Item = u64>) {
    let failure = Failure::new("test", "");
    let changes = numbers.map(|n| {
        let job = queued(n, None);
        change(&job, step(&job, &Event::Cancel(&failure), at(9)))
    });
    let unit = Unit { changes: changes.collect(), ..Unit::default() };
    assert!(wait(store.commit(vec![unit])).unwrap().results[0].is_ok());
}

#[test]
fn ids_are_never_lent_twice_even_when_nothing_is_left_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hall.db");
    let store = open(&path);
    let block = wait(store.take_block(100)).unwrap();
    assert_eq!(block, Block { first: id(1), last: id(100), live: None });
    wait(store.commit(vec![inserting((1..=100).map(|n| queued(n, None)))])).unwrap();
    cancel(&store, 1..=100);
    let all = Prune { jobs: (1..=100).map(id).collect(), feed_before: Some(at(10)), ..Prune::default() };
    let pruned = wait(store.prune(all)).unwrap();
    assert_eq!((pruned.jobs.len(), pruned.feed), (100, 2));
    wait(store.settle_blocks(vec![BlockChange::Close(id(1))])).unwrap();
    assert_eq!(wait(store.blocks()).unwrap(), []);
    assert_eq!(present(&store, 100), [0u64; 0]);
    drop(store);
    let store = open(&path);
    assert_eq!(wait(store.take_block(1)).unwrap().first, id(101));
    let page = wait(store.feed(0, 9)).unwrap();
    assert_eq!((page.rows.len(), page.pruned_to), (0, 2));
    let committed = wait(store.commit(vec![inserting([queued(101, None)])])).unwrap();
    assert_eq!(committed.feed, Some(3), "nor are the numbers of the feed");
}

#[test]
fn ids_run_out_without_harm() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("hall.db"));
    wait(store.take_block(10)).unwrap();
    for size in [u64::MAX, 1 << 53] {
        let error = wait(store.take_block(size)).unwrap_err();
        assert!(matches!(error, CommitError::NotCommitted { full: false, .. }), "{error:?}");
    }
    assert_eq!(wait(store.take_block(0)).unwrap().first, id(11), "at least one");
    assert_eq!(wait(store.take_block(1)).unwrap().first, id(12));
}

#[test]
fn open_jobs_are_found_by_their_blocks_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hall.db");
    let store = open(&path);
    for _ in 0..3 {
        wait(store.take_block(10)).unwrap();
    }
    wait(store.commit(vec![inserting((1..=30).map(|n| queued(n, None)))])).unwrap();
    cancel(&store, (1..=30).filter(|n| n % 10 > 3));
    let changes = vec![BlockChange::Shrink(id(1), vec![id(2), id(3), id(4)]), BlockChange::Close(id(11))];
    wait(store.settle_blocks(changes)).unwrap();
    drop(store);
    let store = open(&path);
    let open = |after: Option<u64>, limit| -> Vec<u64> {
        let jobs = wait(store.open_jobs(after.map(id), limit)).unwrap();
        jobs.iter().map(|job| job.id.get()).collect()
    };
    assert_eq!(open(None, 99), [2, 3, 21, 22, 23, 30]);
    assert_eq!(open(Some(2), 2), [3, 21]);
    assert_eq!(open(Some(23), 2), [30]);
    assert_eq!(open(Some(30), 2), [0u64; 0]);
    assert_eq!(open(None, 0), [0u64; 0]);
}

#[test]
fn open_jobs_of_every_kind_are_read_whole_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let (store, memory) = (open(&folder.path().join("hall.db")), Memory::new());
    assert_eq!(wait(store.take_block(20)).unwrap(), memory.take_block_now(20));
    let of = |n: u64, spec: JobSpec| Job { spec: Arc::new(spec), ..queued(n, None) };
    let new = JobStatus::queued(at(3), at(9));
    let jobs = vec![
        queued(1, None),
        queued(2, Some("key")),
        of(3, JobSpec { job_type: TypeName::new("other").unwrap(), ..spec(None) }),
        of(4, JobSpec { queue: QueueName::new("other").unwrap(), priority: -3, ..spec(None) }),
        of(5, JobSpec { needs: Needs::parse("gpu>=1").unwrap(), ..spec(None) }),
        of(6, JobSpec { retry: RetryPolicy::once(), params: Json::params("[1]").unwrap(), ..spec(None) }),
        of(7, JobSpec { tags: [Tag::new("red").unwrap()].into(), ..spec(None) }),
        of(8, JobSpec { retry_of: Some(id(1)), ..spec(None) }),
        of(9, JobSpec { throttle_factor: 0, ..spec(None) }),
        Job { status: JobStatus { hold: true, ..new.clone() }, ..queued(10, None) },
        Job { status: JobStatus { rev: 2, ..new.clone() }, ..queued(11, None) },
        Job { status: new.clone(), ..queued(12, None) },
        Job { status: new.after_others(), ..queued(13, None) },
        queued(14, None),
        queued(15, None),
    ];
    for unit in [inserting(jobs), Unit { changes: vec![claim(&queued(14, None), at(5))], ..Unit::default() }]
    {
        let answer = wait(store.commit(vec![unit.clone()])).unwrap();
        assert_eq!(answer, memory.commit_now(vec![unit]));
    }
    let all = memory.open_jobs_now(None, 99);
    assert_eq!(all.len(), 15);
    assert_eq!(wait(store.open_jobs(None, 99)).unwrap(), all);
    assert_eq!(wait(store.open_jobs(Some(id(6)), 5)).unwrap(), all[6..11]);
}

#[test]
fn an_open_job_is_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("hall.db"));
    wait(store.commit(vec![inserting([queued(1, None), queued(2, None)])])).unwrap();
    cancel(&store, 2..=2);
    let prune = Prune { jobs: vec![id(1), id(2), id(3)], ..Prune::default() };
    assert_eq!(wait(store.prune(prune)).unwrap().jobs.len(), 1);
    assert_eq!(present(&store, 9), [1]);
}
