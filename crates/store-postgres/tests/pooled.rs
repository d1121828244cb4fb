//! The same rules through a pooler in transaction mode: nothing may be prepared, nothing left in a session.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

mod fixture;

use fixture::{Options, take, wipe};
use jobhall_store_conformance::rules::{DURABLE_RULES, RULES};
use jobhall_store_conformance::{Fixture, model};
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
    // Fewer connections than the store has of its own: transactions must take turns on them.
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
