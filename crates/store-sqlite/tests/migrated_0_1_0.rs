//! A file written by jobhall 0.1.0 is migrated when it is opened, and all data can be read. `fixtures/README.md`
//! describes how the file was made; the golden file has the expected content.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

mod fixture;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fixture::{integrity, open, wait};
use jobhall_core::{Outcome, StateName, Time};
use jobhall_store::{JobFilter, Store, StoredIdempotencyKey};
use jobhall_store_conformance::listing::{answer_of, assert_golden, listing};
use rusqlite::Connection;

fn path_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/0.1.0").join(name)
}

/// The file of 0.1.0, recreated in this directory.
fn recreate(folder: &Path) -> PathBuf {
    let path = folder.join("jobs.db");
    let dump = std::fs::read_to_string(path_of("jobs.sql")).unwrap();
    Connection::open(&path).unwrap().execute_batch(&dump).unwrap();
    path
}

/// The idempotency keys with the stored texts of their answers, in the format of 0.1.0.
fn stored_keys(path: &Path) -> Vec<(StoredIdempotencyKey, String)> {
    let file = Connection::open(path).unwrap();
    let mut rows = file.prepare("SELECT scope, key, body, answer, at FROM submit_keys").unwrap();
    let rows = rows.query_map([], |row| {
        let body = u128::from_be_bytes(row.get(2)?);
        let at = Time::from_ms(row.get(4)?).unwrap();
        let (scope, key, answer, forget_before) = (row.get(0)?, row.get(1)?, Vec::new(), Time::EPOCH);
        Ok((StoredIdempotencyKey { scope, key, body, answer, at, forget_before }, row.get(3)?))
    });
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn every_row_that_0_1_0_wrote_reads_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = recreate(folder.path());
    let read = listing(&open(&path));
    assert_golden(&path_of("golden.txt"), &read);
    assert_eq!(integrity(&path), "ok");
    assert_eq!(listing(&open(&path)), read, "the same when it is opened again");
}

#[test]
fn idempotency_keys_of_0_1_0_have_their_answers() {
    let folder = tempfile::tempdir().unwrap();
    let path = recreate(folder.path());
    let keys = stored_keys(&path);
    let store = open(&path);
    let mut dispositions = BTreeSet::new();
    for (key, text) in keys {
        let answer = answer_of(&store, &key).unwrap_or_default();
        dispositions.extend(answer.iter().map(|made| made.disposition.as_str()));
        let pairs: Vec<_> =
            answer.iter().map(|made| format!("[{},{}]", made.id, made.disposition as u8)).collect();
        assert_eq!(format!("[{}]", pairs.join(",")), text, "{key:?}");
        assert_eq!(
            answer_of(&store, &StoredIdempotencyKey { key: format!("{}, not stored", key.key), ..key }),
            None
        );
    }
    assert_eq!(
        dispositions.into_iter().collect::<Vec<_>>(),
        ["again", "created", "joined", "reused", "superseding"]
    );
}

#[test]
fn the_fixture_has_every_stored_state_and_every_outcome() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&recreate(folder.path()));
    let page = wait(store.list(JobFilter::default(), None, 1_000)).unwrap();
    assert_eq!(page.next, None);
    let states: BTreeSet<_> = page.jobs.iter().map(|job| job.status.state.name()).collect();
    let derived = [StateName::Scheduled, StateName::Retrying];
    let stored = StateName::ALL.into_iter().filter(|name| !derived.contains(name));
    assert_eq!(states, stored.collect());
    let outcomes: BTreeSet<_> = page.jobs.iter().filter_map(|job| job.status.state.outcome()).collect();
    assert_eq!(outcomes, Outcome::ALL.into_iter().collect());
}
