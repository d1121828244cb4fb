//! An older schema is migrated with its data; a failed migration leaves no changes.

use jobhall_throwaway::Cluster;

use super::{ALL, Migration};
use crate::database::Database;
use crate::options::Options;

/// The first migration only.
const OLDER: &[Migration] = &[ALL[0]];
/// Up to the first version of `jobhall.submit`.
const FIRST_SUBMIT: &[Migration] = &[ALL[0], ALL[1], ALL[2]];
const BROKEN: &[Migration] =
    &[ALL[0], Migration { name: "0002_broken", sql: "CREATE TABLE jobhall.half (); SELECT 1 / 0" }];

#[test]
fn an_older_schema_is_migrated_with_what_it_holds() {
    let shared = Cluster::shared();
    let database = shared.database();
    drop(Database::open_with(Options::new(database.url()), OLDER).expect("the first schema"));
    assert_eq!(database.sql("SELECT count(*) FROM jobhall.migrations"), "1");
    database.sql("UPDATE jobhall.meta SET value = 77 WHERE name = 'last_id'");
    database.sql(
        "INSERT INTO jobhall.jobs (id, run_at, updated_at, rev, claim, attempt, lost, snoozed, unaccepted, state)
         VALUES (70, 1, 2, 3, 4, 5, 6, 7, 8, 1)",
    );
    let job = || database.sql("SELECT * FROM jobhall.jobs");
    let before = job();
    drop(Database::open_with(Options::new(database.url()), ALL).expect("an older schema"));
    // Columns that later schemas added are NULL.
    assert_eq!(job().trim_end_matches('|'), before.trim_end_matches('|'));
    assert_eq!(database.sql("SELECT count(*) FROM jobhall.migrations"), ALL.len().to_string());
    assert_eq!(database.sql("SELECT value FROM jobhall.meta WHERE name = 'last_id'"), "77");
    let error = Database::open_with(Options::new(database.url()), OLDER).expect_err("an older program");
    let expected = format!("has schema {}, this jobhall knows schemas up to 1", ALL.len());
    assert!(error.message.contains(&expected), "{error}");
}

#[test]
fn whoever_may_submit_still_may_after_a_migration_and_nobody_else() {
    let shared = Cluster::shared();
    let database = shared.database();
    drop(Database::open_with(Options::new(database.url()), FIRST_SUBMIT).expect("a hall"));
    let role = format!("app_{}", database.name());
    database.sql(&format!("CREATE ROLE {role}; GRANT EXECUTE ON FUNCTION jobhall.submit TO {role}"));
    drop(Database::open_with(Options::new(database.url()), ALL).expect("an older schema"));
    let may = format!(
        "SELECT has_function_privilege('{role}', oid, 'EXECUTE'), has_function_privilege('public', oid, 'EXECUTE'),
            pronargs FROM pg_proc WHERE proname = 'submit' AND pronamespace = 'jobhall'::regnamespace"
    );
    assert_eq!(database.sql(&may), "t|f|15", "and there is one submit");
    database.sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}

#[test]
fn a_migration_that_fails_leaves_nothing() {
    let shared = Cluster::shared();
    let database = shared.database();
    let error = Database::open_with(Options::new(database.url()), BROKEN).expect_err("it divides by zero");
    assert!(error.message.contains("division by zero"), "{error}");
    assert_eq!(
        database.sql("SELECT to_regclass('jobhall.half') IS NULL, count(*) FROM jobhall.migrations"),
        "t|1"
    );
    drop(Database::open_with(Options::new(database.url()), ALL).expect("the right text"));
}
