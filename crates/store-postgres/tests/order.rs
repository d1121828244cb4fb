//! Units are sent together, but have the effect of being applied in order: the results are those of the reference,
//! also if the writes of a later unit could be confused with those of an earlier one.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

mod fixture;

use fixture::{Options, at, change, claim, inserting, queued, step, take, wait};
use jobhall_core::{Dice, Event, Failure, Job, JobStatus, Json, Report};
use jobhall_store::{Change, Conflict, Memory, Store, StoredIdempotencyKey, Unit};
use jobhall_throwaway::Cluster;

/// Makes the same commits on a new store and on the reference, and compares all results.
fn agree(commits: Vec<Vec<Unit>>) -> Vec<Vec<Result<(), Vec<Conflict>>>> {
    let shared = Cluster::shared();
    let database = shared.database();
    let (store, reference) = (take(Options::new(database.url())), Memory::new());
    let mut told = Vec::new();
    for units in commits {
        let committed = wait(store.commit(units.clone())).unwrap();
        assert_eq!(committed, reference.commit_now(units));
        told.push(committed.results.into_iter().map(|result| result.map(|_| ())).collect());
    }
    let ids: Vec<_> = (1..=9).map(fixture::id).collect();
    assert_eq!(wait(store.jobs(ids.clone())).unwrap(), reference.jobs_now(&ids));
    told
}

fn changing(change: Change) -> Unit {
    Unit { changes: vec![change], ..Unit::default() }
}

fn after(job: &Job, change: &Change) -> Job {
    Job { status: change.status.clone(), ..job.clone() }
}

fn ended(job: &Job) -> Change {
    let lease = job.status.state.lease().unwrap().id;
    let (report, retry) = (Report::Succeeded(Json::null()), job.spec.retry);
    let event =
        Event::Report { claim: job.status.claim, lease, report: &report, retry: &retry, dice: Dice(0) };
    change(job, step(job, &event, at(9)))
}

/// A stored live job with a key: its units and its final state.
fn held() -> (Vec<Unit>, Job) {
    let job = queued(1, Some("k"));
    let claimed = claim(&job, at(5));
    let job_after = after(&job, &claimed);
    (vec![inserting([job]), changing(claimed)], job_after)
}

#[test]
fn an_insert_before_the_end_that_frees_its_key_is_refused() {
    let (units, holder) = held();
    let told = agree(vec![units, vec![inserting([queued(2, Some("k"))]), changing(ended(&holder))]]);
    assert!(matches!(told[1][0].as_ref().unwrap_err()[..], [Conflict::KeyHeld { .. }]));
    assert!(told[1][1].is_ok());
}

#[test]
fn an_insert_behind_the_end_that_frees_its_key_is_made() {
    let (units, holder) = held();
    let told = agree(vec![units, vec![changing(ended(&holder)), inserting([queued(2, Some("k"))])]]);
    assert!(told[1].iter().all(Result::is_ok));
}

#[test]
fn an_insert_of_a_free_key_before_an_end_of_another_job_is_made() {
    let (units, holder) = held();
    let told = agree(vec![units, vec![inserting([queued(2, Some("free"))]), changing(ended(&holder))]]);
    assert!(told[1].iter().all(Result::is_ok));
}

#[test]
fn a_successor_that_comes_before_the_end_of_its_holder_is_not_left_behind() {
    let (units, holder) = held();
    let successor = Job { status: JobStatus::behind(at(0), at(0), holder.id), ..queued(2, Some("k")) };
    let told = agree(vec![units, vec![inserting([successor]), changing(ended(&holder))]]);
    assert!(matches!(told[1][1].as_ref().unwrap_err()[..], [Conflict::Successor { .. }]));
}

#[test]
fn jobs_that_change_several_times_in_a_commit_end_as_the_last_change_says() {
    let job = queued(1, Some("k"));
    let claimed = claim(&job, at(5));
    let held = after(&job, &claimed);
    let end = ended(&held);
    let told = agree(vec![vec![
        inserting([job]),
        changing(claimed.clone()),
        changing(claimed),
        changing(end),
        inserting([queued(2, Some("k"))]),
    ]]);
    assert_eq!(told[0].iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false, true, true]);
}

#[test]
fn a_idempotency_key_that_comes_twice_in_a_commit_is_known_to_the_second() {
    let submit = |n: u64, body: u128| {
        let (scope, key) = ("s".to_owned(), "key".to_owned());
        let idempotency_key =
            StoredIdempotencyKey { scope, key, body, answer: Vec::new(), at: at(1), forget_before: at(0) };
        Unit { idempotency_key: Some(idempotency_key), ..inserting([queued(n, None)]) }
    };
    let told = agree(vec![vec![submit(1, 7), submit(2, 7), submit(3, 8)], vec![submit(4, 7)]]);
    assert!(told[0][0].is_ok());
    assert!(matches!(told[0][1].as_ref().unwrap_err()[..], [Conflict::Repeated(_)]));
    assert!(matches!(told[0][2].as_ref().unwrap_err()[..], [Conflict::IdempotencyKeyReused]));
    assert!(matches!(told[1][0].as_ref().unwrap_err()[..], [Conflict::Repeated(_)]));
}

#[test]
fn a_queued_holder_that_is_cancelled_makes_room_in_the_same_commit() {
    let job = queued(1, Some("k"));
    let failure = Failure::new("cancelled", "");
    let cancelled = change(&job, step(&job, &Event::Cancel(&failure), at(5)));
    let told = agree(vec![
        vec![inserting([job])],
        vec![Unit { changes: vec![cancelled], ..inserting([queued(2, Some("k"))]) }],
    ]);
    assert!(told[1][0].is_ok());
}
