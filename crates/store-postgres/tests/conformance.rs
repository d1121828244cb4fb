//! The rules that every store must keep.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

mod fixture;

use fixture::{Options, take};
use jobhall_store_conformance::{Fixture, every_durable_rule, every_rule};
use jobhall_throwaway::Cluster;

fn open() -> Fixture {
    let shared = Cluster::shared();
    let database = shared.database();
    Fixture::durable(move || {
        let _keep = &shared;
        take(Options::new(database.url()))
    })
}

every_rule! { as_tests open }
every_durable_rule! { as_durable_tests open }

mod model {
    use std::sync::Arc;

    use jobhall_store_conformance::Fixture;
    use jobhall_store_conformance::model::agrees_over;
    use jobhall_throwaway::Cluster;

    use super::fixture::{Options, take, wipe};

    /// A read of one attempt is a round trip to the server, so there are fewer operations than for the embedded
    /// store.
    const OPERATIONS: u64 = 12_000;

    #[test]
    fn model_and_store_agree_on_random_operations() {
        let shared = Cluster::shared();
        let database = Arc::new(shared.database());
        agrees_over(OPERATIONS, || {
            wipe(&database);
            let database = database.clone();
            Fixture::durable(move || take(Options::new(database.url())))
        });
    }
}
