//! Which databases are opened, and which are refused with the reason and left unchanged.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

mod fixture;

use std::time::Duration;

use fixture::{Database, Options, inserting, present, queued, take, wait};
use jobhall_store::{Store, StoreError};
use jobhall_throwaway::Cluster;

fn refusal(options: Options) -> String {
    let StoreError { message, .. } = Database::open(options).unwrap_err();
    message
}

/// Everything that a refused opening must leave unchanged.
fn picture(database: &jobhall_throwaway::Database) -> String {
    database.sql(
        "SELECT (SELECT string_agg(migrations::text, ' ' ORDER BY n) FROM jobhall.migrations), \
         (SELECT string_agg(relname || relfilenode, ' ' ORDER BY relname) FROM pg_class \
          WHERE relnamespace = 'jobhall'::regnamespace)",
    )
}

#[test]
fn what_was_acknowledged_is_there_after_reopening() {
    let shared = Cluster::shared();
    let database = shared.database();
    let store = take(Options::new(database.url()));
    wait(store.commit(vec![inserting((1..=50).map(|n| queued(n, None)))])).unwrap();
    drop(store);
    let store = take(Options::new(database.url()));
    assert_eq!(present(&store, 60).len(), 50);
    assert_eq!(
        wait(store.commit(vec![inserting([queued(51, None)])])).unwrap().feed,
        Some(2),
        "numbers continue"
    );
}

#[test]
fn a_newer_schema_is_refused_and_nothing_changed() {
    let shared = Cluster::shared();
    let database = shared.database();
    drop(Database::open(Options::new(database.url())).unwrap());
    database.sql("INSERT INTO jobhall.migrations VALUES (999, '0999_later', 5)");
    let before = picture(&database);
    let message = refusal(Options::new(database.url()));
    assert!(message.contains("has schema 999, this jobhall knows schemas up to "), "{message}");
    assert!(message.ends_with("nothing was changed in it"), "{message}");
    assert_eq!(picture(&database), before);
}

#[test]
fn an_edited_or_missing_migration_is_refused_by_name() {
    let shared = Cluster::shared();
    let database = shared.database();
    drop(Database::open(Options::new(database.url())).unwrap());
    let kept = database.sql("SELECT count(*) - 1 FROM jobhall.migrations");
    database.sql("UPDATE jobhall.migrations SET checksum = checksum + 1 WHERE n = 1");
    let message = refusal(Options::new(database.url()));
    assert!(message.contains("another text of migration 1 (0001_hall)"), "{message}");
    database.sql("UPDATE jobhall.migrations SET checksum = checksum - 1 WHERE n = 1; DELETE FROM jobhall.migrations WHERE n = 1");
    let message = refusal(Options::new(database.url()));
    assert!(message.contains(&format!("but records {kept} migrations")), "{message}");
}

#[test]
fn a_schema_of_another_program_is_refused_and_left_alone() {
    let shared = Cluster::shared();
    let database = shared.database();
    database.sql("CREATE SCHEMA jobhall; CREATE TABLE jobhall.jobs (a int)");
    let message = refusal(Options::new(database.url()));
    assert!(message.starts_with("the database has a schema jobhall of another program"), "{message}");
    assert_eq!(
        database.sql("SELECT count(*) FROM pg_class WHERE relnamespace = 'jobhall'::regnamespace"),
        "1"
    );
}

#[test]
fn a_server_that_does_not_sync_is_refused() {
    let cluster = Cluster::with(&["fsync=off"]);
    let database = cluster.database();
    let message = refusal(Options::new(database.url()));
    assert!(message.starts_with("the server runs with fsync=off"), "{message}");
    assert_eq!(database.sql("SELECT to_regnamespace('jobhall') IS NULL"), "t", "nothing was made");
}

#[test]
fn a_database_that_is_not_unicode_is_refused() {
    let cluster = Cluster::start();
    cluster.sql("postgres", "CREATE DATABASE plain ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0");
    let message = refusal(Options::new(cluster.url("plain")));
    assert!(message.starts_with("the database is encoded as SQL_ASCII, UTF8 is needed"), "{message}");
}

#[test]
fn a_standby_is_refused() {
    let primary = Cluster::start();
    let standby = primary.standby();
    let message = refusal(Options::new(standby.url("postgres")));
    assert!(message.starts_with("the server is a standby that takes no writes"), "{message}");
}

#[test]
fn two_nodes_that_open_a_new_database_at_once_migrate_it_once() {
    let shared = Cluster::shared();
    let database = shared.database();
    let opening: Vec<_> = (0..6)
        .map(|_| {
            let url = database.url();
            std::thread::spawn(move || Database::open(Options::new(url)).map(drop))
        })
        .collect();
    for opened in opening {
        opened.join().unwrap().unwrap();
    }
    assert_eq!(database.sql("SELECT count(*) FROM jobhall.leadership"), "1");
}

#[test]
fn commits_are_durable_even_where_the_database_says_they_need_not_be() {
    let shared = Cluster::shared();
    let database = shared.database();
    database.sql(&format!("ALTER DATABASE {} SET synchronous_commit = off", database.name()));
    drop(Database::open(Options::new(database.url())).unwrap());
    let told = database.sql(
        "SELECT current_setting('synchronous_commit'); BEGIN; SELECT jobhall.begin_commit(0, 1); \
         SELECT current_setting('synchronous_commit'); ROLLBACK",
    );
    let told: Vec<&str> = told.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(told, ["off", "on"]);
}

#[test]
fn bad_options_are_named_and_no_password_is_told() {
    let url = |text: &str| Options::new(text);
    let cases = [
        (url("mysql://u:hidden@h/d"), "it must begin with postgres://"),
        (url("postgres://u:hidden@h:port/d"), "failed to read the database url"),
        (
            url("postgres://u:hidden@h/d?sslmode=verify-ca"),
            "sslmode must be disable, prefer, require or verify-full",
        ),
        (url("postgres://u:hidden@h/d?sslmode=require&sslrootcert=/no/such.pem"), "sslrootcert /no/such.pem"),
        (url("postgres://u:hidden@h/d?sslrootcert=%2"), "not percent-encoded well"),
        (url("postgres://u:hidden@%2Ftmp/d?sslmode=require"), "there is no TLS on a unix socket"),
        (url("postgres://u:hidden@%2Fno%2Fsuch%2Fdirectory/d"), "failed to open the database"),
        (url("postgres://u:hidden@h/d?nonsense=1"), "failed to read the database url"),
        (Options { term: Duration::ZERO, ..url("postgres://u:hidden@h/d") }, "the leadership's term must be"),
        (Options { readers: 0, ..url("postgres://u:hidden@h/d") }, "at least one reading connection"),
    ];
    for (options, part) in cases {
        let message = refusal(options);
        assert!(message.contains(part), "{message}");
        assert!(!message.contains("hidden"), "{message}");
    }
}
