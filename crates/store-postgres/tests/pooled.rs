//! The same rules through a pooler in transaction mode: no prepared statements, no session state.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

mod fixture;

use fixture::{Options, take, wipe};
use jobhall_store_conformance::rules::{DURABLE_RULES, RULES};
use jobhall_store_conformance::{Fixture, model};
use jobhall_store_postgres::Database as Opened;
use jobhall_throwaway::{Cluster, Database, Pooler};

fn opened(database: &Database, pooler: &Pooler) -> Fixture {
    wipe(database);
    let url = pooler.url(database.name());
    Fixture::durable(move || take(Options { pooled: true, ..Options::new(url.as_str()) }))
}

#[test]
fn every_rule_is_kept_through_a_transaction_pooler() {
    let shared = Cluster::shared();
    let database = shared.database();
    // Fewer connections than the store opens: transactions must take turns.
    let pooler = shared.pgbouncer(3);
    for (name, rule) in RULES {
        println!("{name}");
        rule(opened(&database, &pooler).store());
    }
    for (name, rule) in DURABLE_RULES {
        println!("{name}");
        rule(&mut opened(&database, &pooler));
    }
}

#[test]
fn random_operations_agree_through_a_transaction_pooler() {
    let shared = Cluster::shared();
    let (database, pooler) = (shared.database(), shared.pgbouncer(3));
    model::compare(|| opened(&database, &pooler), 2_000, 77).unwrap();
}

#[test]
fn a_transaction_pooler_that_nobody_told_of_is_refused() {
    let shared = Cluster::shared();
    for connections in [1, 3] {
        let (database, pooler) = (shared.database(), shared.pgbouncer(connections));
        let url = pooler.url(database.name());
        let error = Opened::open(Options::new(url.as_str())).unwrap_err();
        assert!(error.message.contains("seems to be behind a pooler in transaction mode"), "{error}");
        assert!(error.message.contains("--database-pooled"), "{error}");
        assert_eq!(database.sql("SELECT to_regnamespace('jobhall') IS NULL"), "t");
        drop(Opened::open(Options { pooled: true, ..Options::new(url) }).unwrap());
    }
}
