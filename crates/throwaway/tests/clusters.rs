//! Clusters start, answer, stop as requested, and leave nothing behind.

use std::fs;
use std::path::PathBuf;

use jobhall_throwaway::{Cluster, Stop};

/// The socket directory in a URL.
fn directory(url: &str) -> PathBuf {
    let part = url.split('@').nth(1).and_then(|rest| rest.split(':').next()).expect("a URL with a directory");
    PathBuf::from(part.replace("%2F", "/"))
}

#[test]
fn a_cluster_syncs_survives_a_crash_and_leaves_nothing_behind() {
    let cluster = Cluster::start();
    let database = cluster.database();
    assert_eq!(database.sql("SHOW fsync"), "on");
    database.sql("CREATE TABLE t (n int); INSERT INTO t VALUES (7)");
    cluster.restart(Stop::Immediate);
    assert_eq!(database.sql("SELECT n FROM t"), "7");
    cluster.pause();
    cluster.resume();
    cluster.restart(Stop::Fast);
    assert_eq!(database.sql("SELECT n FROM t"), "7");
    let directory = directory(&database.url());
    assert!(directory.exists());
    drop(database);
    assert_eq!(
        cluster.sql("postgres", "SELECT count(*) FROM pg_database WHERE datname LIKE 'throwaway%'"),
        "0"
    );
    drop(cluster);
    assert!(!directory.exists());
}

#[test]
fn a_promoted_standby_has_all_that_was_committed() {
    let primary = Cluster::start();
    let standby = primary.standby();
    primary.sql("postgres", "CREATE TABLE t (n int); INSERT INTO t SELECT generate_series(1, 100)");
    primary.stop_immediate();
    standby.promote();
    assert_eq!(standby.sql("postgres", "SELECT count(*) FROM t"), "100");
    standby.sql("postgres", "INSERT INTO t VALUES (101)");
}

#[test]
fn tests_share_a_server_but_no_database() {
    let (one, two) = (Cluster::shared(), Cluster::shared());
    let (first, second) = (one.database(), two.database());
    assert_ne!(first.name(), second.name());
    assert_eq!(directory(&first.url()), directory(&second.url()));
    first.sql("CREATE TABLE t (n int)");
    assert_eq!(second.sql("SELECT to_regclass('t') IS NULL"), "t");
}

#[test]
fn a_pooler_stands_before_a_cluster_and_ends_with_its_value() {
    let shared = Cluster::shared();
    let database = shared.database();
    let pooler = shared.pgbouncer(2);
    let directory = directory(&pooler.url(database.name()));
    assert!(directory.join(".s.PGSQL.6432").exists());
    drop(pooler);
    assert!(fs::metadata(&directory).is_err());
}
