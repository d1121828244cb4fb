//! The index rule: the later writes of a job without a key touch no index.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

mod fixture;

use fixture::{Options, at, change, claim, inserting, queued, step, take, wait, wait_until};
use jobhall_core::{Dice, Event, Job, Json, Report};
use jobhall_store::{Change, Store, Unit};
use jobhall_throwaway::Cluster;

const BATCH: u64 = 100;
const BATCHES: u64 = 20;

fn changing(changes: impl Iterator<Item = Change>) -> Vec<Unit> {
    vec![Unit { changes: changes.collect(), ..Unit::default() }]
}

fn ended(job: &Job) -> Change {
    let lease = job.status.state.lease().unwrap().id;
    let (report, retry) = (Report::Succeeded(Json::null()), job.spec.retry);
    let event =
        Event::Report { claim: job.status.claim, lease, report: &report, retry: &retry, dice: Dice(0) };
    change(job, step(job, &event, at(9)))
}

#[test]
fn claims_and_ends_are_heap_only_updates() {
    let shared = Cluster::shared();
    let database = shared.database();
    let store = take(Options::new(database.url()));
    for batch in 0..BATCHES {
        let mut jobs: Vec<Job> = (1..=BATCH).map(|n| queued(batch * BATCH + n, None)).collect();
        wait(store.commit(vec![inserting(jobs.clone())])).unwrap();
        let claims: Vec<Change> = jobs.iter().map(|job| claim(job, at(5))).collect();
        jobs.iter_mut().zip(&claims).for_each(|(job, claim)| job.status = claim.status.clone());
        assert!(wait(store.commit(changing(claims.into_iter()))).unwrap().results[0].is_ok());
        assert!(wait(store.commit(changing(jobs.iter().map(ended)))).unwrap().results[0].is_ok());
    }
    drop(store);
    let counted = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE schemaname = 'jobhall' AND relname = 'jobs'";
    let updates = 2 * BATCH * BATCHES;
    wait_until("the counts of the server", || database.sql(counted).starts_with(&format!("{updates}|")));
    let counts = database.sql(counted);
    let hot: u64 = counts.split('|').nth(1).unwrap().parse().unwrap();
    println!("{hot} of {updates} updates were heap-only");
    // A page has room for the second version of its rows. The third version fits only if the page was pruned since,
    // which depends on other readers. Without the index rule no update would be hot.
    assert!(hot * 2 >= updates, "only {hot} of {updates} updates were heap-only");
}

#[test]
fn the_indexes_of_jobs_cover_what_never_changes_or_is_mostly_null() {
    let shared = Cluster::shared();
    let database = shared.database();
    drop(take(Options::new(database.url())));
    let listed = database.sql(
        "SELECT indexdef FROM pg_indexes WHERE schemaname = 'jobhall' AND tablename = 'jobs' ORDER BY indexname",
    );
    let indexes: Vec<&str> = listed.lines().collect();
    assert_eq!(indexes.len(), 3, "{listed}");
    assert!(indexes[0].ends_with("(live_key) WHERE (live_key IS NOT NULL)"), "{listed}");
    assert!(indexes[1].ends_with("(next_key) WHERE (next_key IS NOT NULL)"), "{listed}");
    assert!(indexes[2].ends_with("(id)"), "{listed}");
}
