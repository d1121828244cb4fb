//! A database written by jobhall 0.1.0 is migrated when it is opened, and all data can be read.
//! `store-sqlite/tests/fixtures/README.md` describes how it was made; the golden file has the expected content.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

mod fixture;

use std::path::{Path, PathBuf};

use fixture::{Options, take};
use jobhall_core::Time;
use jobhall_store::StoredIdempotencyKey;
use jobhall_store_conformance::listing::{answer_of, assert_golden, listing};
use jobhall_throwaway::{Cluster, Database};

fn path_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/0.1.0").join(name)
}

/// Fills a new database with the data of 0.1.0.
fn recreate(database: &Database) {
    database.load(&std::fs::read_to_string(path_of("dump.sql")).unwrap());
}

/// The idempotency keys with the stored texts of their answers, in the format of 0.1.0.
fn stored_keys(database: &Database) -> Vec<(StoredIdempotencyKey, String)> {
    let rows = database.sql("SELECT scope, key, encode(body, 'hex'), at, answer FROM jobhall.submit_keys");
    let row = |line: &str| {
        let fields: Vec<&str> = line.split('|').collect();
        let [scope, key, body, at, answer] = fields[..] else { panic!("five columns: {line}") };
        let key = StoredIdempotencyKey {
            scope: scope.to_owned(),
            key: key.to_owned(),
            body: u128::from_str_radix(body, 16).unwrap(),
            answer: Vec::new(),
            at: Time::from_ms(at.parse().unwrap()).unwrap(),
            forget_before: Time::EPOCH,
        };
        (key, answer.to_owned())
    };
    rows.lines().map(row).collect()
}

#[test]
fn every_row_that_0_1_0_wrote_reads_back() {
    let shared = Cluster::shared();
    let database = shared.database();
    recreate(&database);
    let read = listing(&take(Options::new(database.url())));
    assert_golden(&path_of("golden.txt"), &read);
    assert_eq!(listing(&take(Options::new(database.url()))), read, "the same when it is opened again");
}

#[test]
fn idempotency_keys_of_0_1_0_have_their_answers() {
    let shared = Cluster::shared();
    let database = shared.database();
    recreate(&database);
    let keys = stored_keys(&database);
    assert!(keys.iter().any(|(key, _)| key.scope == "sql:inbox"), "also those of the inbox");
    let store = take(Options::new(database.url()));
    // The inbox row was deleted when its job was created, so a unit with its key must not be sent again.
    for (key, text) in keys.into_iter().filter(|(key, _)| key.scope != "sql:inbox") {
        let answer = answer_of(&store, &key).unwrap_or_default();
        let pairs: Vec<_> =
            answer.iter().map(|made| format!("[{},{}]", made.id, made.disposition as u8)).collect();
        assert_eq!(format!("[{}]", pairs.join(",")), text, "{key:?}");
    }
}

#[test]
fn sql_functions_of_0_1_0_go_on_working() {
    let shared = Cluster::shared();
    let database = shared.database();
    recreate(&database);
    let before = database.sql("SELECT jobhall.job_of(1)");
    database.sql("GRANT EXECUTE ON FUNCTION jobhall.submit, jobhall.job_of TO pg_monitor");
    drop(take(Options::new(database.url())));
    for function in ["submit", "job_of"] {
        let may = |role: &str| {
            database.sql(&format!(
                "SELECT has_function_privilege('{role}', oid, 'EXECUTE') FROM pg_proc \
                 WHERE pronamespace = 'jobhall'::regnamespace AND proname = '{function}'"
            ))
        };
        assert_eq!(
            (may("pg_monitor"), may("pg_signal_backend")),
            ("t".to_owned(), "f".to_owned()),
            "{function}"
        );
    }
    assert_eq!(database.sql("SELECT jobhall.job_of(1)"), before, "the job of a row that was taken");
    let refused = "DO $$ BEGIN PERFORM jobhall.job_of(2); RAISE EXCEPTION 'it has no error'; \
                   EXCEPTION WHEN SQLSTATE 'JH004' THEN NULL; END $$";
    database.sql(refused);
    assert_eq!(database.sql("SELECT jobhall.submit('mail', queue => 'q')"), "4", "numbers continue");
    assert_eq!(database.sql("SELECT count(*) FROM jobhall.inbox"), "2");
}
