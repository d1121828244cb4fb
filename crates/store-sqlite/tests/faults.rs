//! The errors that callers receive when the disk fails. Most faults are injected through the hook around BEGIN and
//! COMMIT, in place of errors of SQLite; one test has a real write error, caused by a limit on file sizes in a child
//! process.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

mod fixture;

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use fixture::{inserting, integrity, open, present, queued, wait};
use jobhall_core::{Job, JobSpec, Json};
use jobhall_store::{CommitError, Committed, Store};
use jobhall_store_sqlite::{Fault, Options, Point, Sqlite};

/// A store in which `fault` happens the `nth` time that `point` is reached.
fn failing(path: &std::path::Path, point: Point, fault: Fault, nth: usize) -> Sqlite {
    let reached = AtomicUsize::new(0);
    let hook =
        move |at: Point| (at == point && reached.fetch_add(1, Ordering::Relaxed) + 1 == nth).then_some(fault);
    Sqlite::open(path, Options { hook: Some(Arc::new(hook)), ..Options::default() }).unwrap()
}

fn insert(store: &Sqlite, n: u64) -> Result<Committed, CommitError> {
    wait(store.commit(vec![inserting([queued(n, None)])]))
}

#[test]
fn a_full_disk_writes_nothing_and_the_writer_goes_on() {
    for point in [Point::Begin, Point::Commit] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hall.db");
        let store = failing(&path, point, Fault::Full, 2);
        assert_eq!(insert(&store, 1).unwrap().feed, Some(1));
        let error = insert(&store, 2).unwrap_err();
        assert!(matches!(error, CommitError::NotCommitted { full: true, .. }), "{error:?}");
        assert_eq!(insert(&store, 3).unwrap().feed, Some(2), "the number of the lost row is used again");
        assert_eq!(present(&store, 9), [1, 3]);
        assert_eq!(store.stats().transactions, 2);
        drop(store);
        assert_eq!(integrity(&path), "ok");
    }
}

#[test]
fn an_error_before_the_commit_writes_nothing_and_the_writer_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = failing(&folder.path().join("hall.db"), Point::Begin, Fault::Other, 1);
    let error = insert(&store, 1).unwrap_err();
    let CommitError::NotCommitted { full: false, message } = error else { panic!("{error:?}") };
    assert!(message.contains("hall.db"), "{message}");
    insert(&store, 1).unwrap();
}

#[test]
fn every_call_of_a_failed_transaction_hears_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let (go, gate) = mpsc::channel::<()>();
    let (tell, arrived) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let failed = AtomicUsize::new(0);
    let hook = move |point: Point| match point {
        Point::Begin => {
            let _ = tell.send(());
            let _ = gate.lock().unwrap().recv();
            None
        }
        Point::Commit => (failed.fetch_add(1, Ordering::Relaxed) == 0).then_some(Fault::Full),
        _ => None,
    };
    let options = Options { hook: Some(Arc::new(hook)), ..Options::default() };
    let store = Sqlite::open(folder.path().join("hall.db"), options).unwrap();
    let first = store.commit(vec![inserting([queued(1, None)])]);
    arrived.recv().unwrap();
    let block = store.take_block(10);
    let second = store.commit(vec![inserting([queued(2, None)])]);
    drop(go);
    let full = |error: &CommitError| matches!(error, CommitError::NotCommitted { full: true, .. });
    assert!(full(&wait(first).unwrap_err()) && full(&wait(block).unwrap_err()));
    assert!(full(&wait(second).unwrap_err()));
    assert_eq!(present(&store, 9), [0u64; 0]);
    assert_eq!(wait(store.take_block(10)).unwrap().first.get(), 1, "a block that was not lent is lent later");
}

#[test]
fn after_a_failed_sync_nobody_knows_and_the_writer_stops() {
    for (point, left) in [(Point::Commit, vec![1]), (Point::Committed, vec![1, 2])] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hall.db");
        let store = failing(&path, point, Fault::Io, 2);
        insert(&store, 1).unwrap();
        let error = insert(&store, 2).unwrap_err();
        let CommitError::Unknown { message } = error else { panic!("{error:?}") };
        assert!(message.contains("hall.db"), "{message}");
        let stopped = CommitError::Stopped { message };
        assert_eq!(insert(&store, 3).unwrap_err(), stopped);
        assert_eq!(wait(store.take_block(1)).unwrap_err(), stopped);
        drop(store);
        assert_eq!(present(&open(&path), 9), left, "only a restart shows the outcome");
    }
}

#[test]
fn a_failed_sync_of_a_checkpoint_stops_the_writer_after_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hall.db");
    let store = failing(&path, Point::Checkpoint, Fault::Io, 1);
    // Large enough to require a checkpoint.
    let params = Json::trusted(&format!("\"{}\"", "x".repeat(100_000)));
    let spec = Arc::new(JobSpec { params, ..fixture::spec(None) });
    let units = (1..=60).map(|n| inserting([Job { spec: spec.clone(), ..queued(n, None) }])).collect();
    wait(store.commit(units)).unwrap();
    let error = insert(&store, 61).unwrap_err();
    let CommitError::Stopped { message } = error else { panic!("{error:?}") };
    assert!(message.contains("failed to checkpoint"), "{message}");
    drop(store);
    assert_eq!(present(&open(&path), 99).len(), 60);
}

#[test]
fn a_full_disk_only_puts_a_checkpoint_off() {
    let folder = tempfile::tempdir().unwrap();
    let store = failing(&folder.path().join("hall.db"), Point::Checkpoint, Fault::Full, 1);
    for batch in 0..10 {
        let ids = batch * 10_000 + 1..=(batch + 1) * 10_000;
        wait(store.commit(vec![inserting(ids.map(|n| queued(n, None)))])).unwrap();
    }
    assert!(store.stats().checkpoints > 0);
}

#[test]
fn damage_stops_the_writer_and_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hall.db");
    let store = failing(&path, Point::Begin, Fault::Corrupt, 2);
    insert(&store, 1).unwrap();
    for _ in 0..2 {
        let error = insert(&store, 2).unwrap_err();
        let CommitError::Stopped { message } = error else { panic!("{error:?}") };
        assert!(message.contains("hall.db"), "{message}");
    }
    drop(store);
    assert_eq!(present(&open(&path), 9), [1]);
}

#[test]
fn a_row_that_nobody_wrote_is_reported_and_not_invented() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hall.db");
    insert(&open(&path), 1).unwrap();
    rusqlite::Connection::open(&path).unwrap().execute("UPDATE jobs SET state = 99", []).unwrap();
    let store = open(&path);
    let error = wait(store.jobs(vec![fixture::id(1)])).unwrap_err();
    assert!(error.message.contains("hall.db") && error.message.contains("state code"), "{error}");
    let error = insert(&store, 1).unwrap_err();
    assert!(matches!(error, CommitError::Stopped { .. }), "{error:?}");
}

#[test]
fn a_panic_of_the_writer_leaves_nobody_waiting() {
    for (planted, left) in [(Point::Commit, vec![]), (Point::Committed, vec![1])] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hall.db");
        let hook = move |point: Point| {
            assert!(point != planted, "planted");
            None
        };
        let store =
            Sqlite::open(&path, Options { hook: Some(Arc::new(hook)), ..Options::default() }).unwrap();
        let error = insert(&store, 1).unwrap_err();
        assert!(matches!(error, CommitError::Unknown { .. }), "{error:?}");
        let error = insert(&store, 2).unwrap_err();
        assert!(matches!(error, CommitError::Stopped { .. }), "{error:?}");
        assert_eq!(present(&store, 9), left, "reads still work");
        drop(store);
        assert_eq!(present(&open(&path), 9), left);
    }
}

/// The working directory of the child in the next test.
const FOLDER: &str = "JOBHALL_TEST_LIMITED_FOLDER";

#[test]
fn child_fills_its_file_up_to_the_limit() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let store = open(&std::path::Path::new(&folder).join("hall.db"));
    let mut acknowledged = 0;
    let error = loop {
        match wait(store.commit(vec![inserting((0..100).map(|n| queued(acknowledged * 100 + n + 1, None)))]))
        {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < 10_000, "the limit was never met");
    };
    assert!(matches!(error, CommitError::Unknown { .. }), "{error:?}");
    let after = insert(&store, 1_000_000).unwrap_err();
    assert!(matches!(after, CommitError::Stopped { .. }), "{after:?}");
    println!("acknowledged={acknowledged}=");
}

#[test]
fn a_real_write_error_in_a_commit_stops_the_writer_and_loses_nothing_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let test = std::env::current_exe().unwrap();
    // Blocks of 512 bytes; the signal of the limit is ignored, so the write fails with EFBIG.
    let script =
        "trap '' XFSZ; ulimit -f 1500; exec \"$0\" --exact child_fills_its_file_up_to_the_limit --nocapture";
    let child =
        Command::new("sh").arg("-c").arg(script).arg(test).env(FOLDER, folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(child.status.success(), "{said}{}", String::from_utf8_lossy(&child.stderr));
    let acknowledged: u64 = said.split('=').nth(1).unwrap().parse().unwrap();
    let path = folder.path().join("hall.db");
    let found = present(&open(&path), acknowledged * 100 + 200);
    assert!(found.len() as u64 >= acknowledged * 100, "{} of {acknowledged} hundreds", found.len());
    assert_eq!(found.len() % 100, 0, "no unit is half written");
    assert_eq!(integrity(&path), "ok");
}
