//! Calls that wait together share a transaction, keep their order, and are bounded.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

mod fixture;

use std::sync::{Arc, Mutex, mpsc};

use fixture::{at, claim, inserting, present, queued, wait};
use jobhall_store::{CommitError, Conflict, Store, Unit};
use jobhall_store_sqlite::{Options, Point, Sqlite};

/// A store whose writer stops before its first transaction until the sender sends.
fn held(path: &std::path::Path, waiting: usize) -> (Sqlite, mpsc::Sender<()>, mpsc::Receiver<()>) {
    let (go, gate) = mpsc::channel::<()>();
    let (tell, arrived) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let options = Options {
        waiting,
        hook: Some(Arc::new(move |point| {
            if point == Point::Begin {
                let _ = tell.send(());
                // When the sender is dropped, the gate is open.
                let _ = gate.lock().unwrap().recv();
            }
            None
        })),
        ..Options::default()
    };
    (Sqlite::open(path, options).unwrap(), go, arrived)
}

#[test]
fn commits_that_wait_together_share_a_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let (store, go, arrived) = held(&folder.path().join("hall.db"), 1_000);
    let first = store.commit(vec![inserting([queued(1, None)])]);
    arrived.recv().unwrap();
    let rest: Vec<_> = (2..=200).map(|n| store.commit(vec![inserting([queued(n, None)])])).collect();
    drop(go);
    let numbers: Vec<_> =
        std::iter::once(first).chain(rest).map(|later| wait(later).unwrap().feed.unwrap()).collect();
    assert_eq!(numbers, (1..=200).collect::<Vec<u64>>(), "each commit has its own feed row, in order");
    let stats = store.stats();
    assert_eq!((stats.calls, stats.rows), (200, 200));
    assert_eq!(stats.transactions, 1, "all of them waited when the transaction was filled");
    assert!(stats.bytes > 0);
    assert_eq!(present(&store, 200).len(), 200);
}

#[test]
fn a_transaction_is_bounded_by_rows() {
    let folder = tempfile::tempdir().unwrap();
    let (store, go, arrived) = held(&folder.path().join("hall.db"), 1_000);
    let units = |from: u64| vec![inserting((from..from + 1_500).map(|n| queued(n, None)))];
    let mut waiting = vec![store.commit(units(1))];
    arrived.recv().unwrap();
    waiting.extend([10_000, 20_000, 30_000, 40_000].map(|from| store.commit(units(from))));
    drop(go);
    for later in waiting {
        wait(later).unwrap();
    }
    assert_eq!((store.stats().transactions, store.stats().rows), (2, 7_500));
}

#[test]
fn a_refused_unit_leaves_the_others_of_its_transaction_standing() {
    let folder = tempfile::tempdir().unwrap();
    let (store, go, arrived) = held(&folder.path().join("hall.db"), 1_000);
    let first = store.commit(vec![inserting([queued(1, Some("k"))])]);
    arrived.recv().unwrap();
    let job = queued(1, Some("k"));
    let refused = store.commit(vec![
        inserting([queued(2, None), queued(3, Some("k"))]),
        inserting([queued(4, None)]),
        Unit { changes: vec![claim(&job, at(5))], ..Unit::default() },
        Unit { changes: vec![claim(&job, at(6))], ..Unit::default() },
    ]);
    drop(go);
    wait(first).unwrap();
    let results = wait(refused).unwrap().results;
    assert!(matches!(results[0].as_ref().unwrap_err()[..], [Conflict::KeyHeld { .. }]));
    assert!(results[1].is_ok() && results[2].is_ok());
    assert!(matches!(results[3].as_ref().unwrap_err()[..], [Conflict::Stale { job: Some(_), .. }]));
    assert_eq!(present(&store, 9), [1, 4], "of the refused unit nothing is left");
    assert_eq!(store.stats().transactions, 1);
}

#[test]
fn one_call_too_many_is_refused_and_nothing_of_it_written() {
    let folder = tempfile::tempdir().unwrap();
    let (store, go, arrived) = held(&folder.path().join("hall.db"), 2);
    let mut waiting = vec![store.commit(vec![inserting([queued(1, None)])])];
    arrived.recv().unwrap();
    waiting.extend((2..=3).map(|n| store.commit(vec![inserting([queued(n, None)])])));
    let refused = wait(store.commit(vec![inserting([queued(4, None)])]));
    let Err(CommitError::NotCommitted { full: false, message }) = refused else { panic!("{refused:?}") };
    assert_eq!(message, "2 calls are waiting for the disk already");
    drop(go);
    for later in waiting {
        wait(later).unwrap();
    }
    assert_eq!(present(&store, 9), [1, 2, 3]);
}

#[test]
fn dropping_the_store_lets_waiting_calls_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hall.db");
    let (store, go, arrived) = held(&path, 100);
    let mut waiting = vec![store.commit(vec![inserting([queued(1, None)])])];
    arrived.recv().unwrap();
    waiting.extend((2..=50).map(|n| store.commit(vec![inserting([queued(n, None)])])));
    let forgotten = store.commit(vec![inserting([queued(51, None)])]);
    drop(forgotten);
    let dropping = std::thread::spawn(move || drop(store));
    drop(go);
    for later in waiting {
        wait(later).unwrap();
    }
    dropping.join().unwrap();
    assert!(!folder.path().join("hall.db-wal").exists(), "closed cleanly");
    assert_eq!(
        present(&fixture::open(&path), 60).len(),
        51,
        "a call takes effect even if its caller stopped waiting"
    );
}
