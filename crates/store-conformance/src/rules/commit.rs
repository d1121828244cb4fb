//! The effect of one commit: guarded by rev, all or nothing per unit, in order.

use std::sync::Arc;

use jobhall_core::needs::{Needs, Uses};
use jobhall_core::{
    Backoff, Event, GroupId, Job, JobSpec, JobStatus, Json, Owner, RetryPolicy, ScheduleName, State, Tag,
    Timeouts, Windows,
};
use jobhall_store::{Conflict, FeedPage, SettingKind, SettingWrite, Store, Unit};

use crate::client::Client;
use crate::fixture::wait;
use crate::rules::idempotency_key;
use crate::samples::{changing, failure, id, insert, inserting, passed};

/// An empty commit returns no results and leaves no feed row.
pub fn an_empty_commit_changes_nothing(store: &dyn Store) {
    let committed = wait(store.commit(Vec::new())).expect("an empty commit works");
    assert_eq!((committed.feed, committed.results), (None, Vec::new()));
    let empty = FeedPage { rows: Vec::new(), pruned_to: 0 };
    assert_eq!(wait(store.feed(0, 10)).expect("the feed can be read"), empty);
}

/// A job is read as it was written, with every field.
pub fn l12_a_job_comes_back_with_every_field(store: &dyn Store) {
    let client = Client::new(store);
    let earlier = client.succeeded(Some("ключ ☃ '\" %"));
    let mut job = client.fresh_of("thumb-nail.v2", Some("ключ ☃ '\" %"));
    job.spec = Arc::new(JobSpec {
        queue: jobhall_core::QueueName::new("fast").expect("a valid queue"),
        params: Json::params("{ \"a\": [1, 2.50, \"ü\\u0000\"],\n\"b\":null}").expect("valid params"),
        needs: Needs::parse("os=linux, gpu>=1").expect("valid needs"),
        priority: -5,
        retry: RetryPolicy { backoff: Backoff::Linear { ms: 3, cap_ms: 9 }, ..RetryPolicy::named() }
            .at_most_once(),
        retry_of: Some(earlier.id),
        uses: Uses::parse("gpu=1, mem_gb=2.5").expect("valid uses"),
        avoid: true,
        windows: Windows::parse("22:00-06:00 Europe/Berlin").expect("valid windows"),
        throttle_factor: 0,
        timeouts: Timeouts { total_ms: Some(7), silence_ms: Some(3) },
        after: [earlier.id].into(),
        after_any: true,
        parent: Some(earlier.id),
        group: Some(GroupId::of(earlier.id)),
        attached: true,
        copy_of: Some(earlier.id),
        owner: Some(Owner::new("Ada B").expect("a valid owner")),
        tags: ["eu", "nightly"].map(|tag| Tag::new(tag).expect("a valid tag")).into(),
        schedule: Some(ScheduleName::new("nightly").expect("a valid name")),
        ..(*job.spec).clone()
    });
    job.status = JobStatus { run_at: client.now(), hold: true, ..job.status };
    let stored = client.put(job.clone());
    assert_eq!(client.get(job.id), Some(stored));
    assert_eq!(client.get(earlier.id), Some(earlier));
}

/// A job that runs at most once is read as such wherever a job is read, also if it has no other rare field.
pub fn a_job_that_runs_at_most_once_is_read_as_such(store: &dyn Store) {
    let client = Client::new(store);
    let mut job = client.fresh(None);
    let retry = RetryPolicy::named().at_most_once();
    job.spec = Arc::new(JobSpec { retry, ..(*job.spec).clone() });
    let job = client.put(job);
    assert_eq!(client.get(job.id), Some(job.clone()));
    let open = wait(store.open_jobs(None, 10)).expect("open jobs can be read");
    assert_eq!(open.iter().find(|open| open.id == job.id), Some(&job));
    let held = client.apply(client.claim(&job, "w"));
    let accepted = client.apply(client.accept(&held));
    let crashed = client.apply(client.lease_end(&accepted));
    assert_eq!(crashed.status.state.error().map(|error| &*error.reason), Some("at_most_once"));
    assert_eq!(wait(store.attempts(job.id, 0, 1)), Ok(Vec::new()));
}

/// A job is read as it was written in every state.
pub fn every_state_comes_back_as_it_was_written(store: &dyn Store) {
    let client = Client::new(store);
    let mut job = client.put(client.fresh(Some("k")));
    let params = Json::params("[\"again\"]").expect("valid params");
    let cancelled = failure("enough");
    let mut walk = |event: &dyn for<'a> Fn(&'a Job) -> Event<'a>| {
        let change = client.decide(&job, &event(&job));
        let expected = change.status.clone();
        job = client.apply(change);
        assert_eq!(job.status, expected);
    };
    let lease = |job: &Job| (job.status.claim, job.status.state.lease().expect("a held job").id);
    walk(&|_| crate::samples::claim(u128::MAX, "w-1"));
    walk(&|_| Event::TakeBack);
    walk(&|_| crate::samples::claim(1, "w-2"));
    walk(&|job| Event::Accept { claim: lease(job).0, lease: lease(job).1 });
    walk(&|job| Event::Progress { claim: lease(job).0, lease: lease(job).1 });
    walk(&|job| Event::LeaseEnd { retry: &job.spec.retry });
    walk(&|_| crate::samples::claim(2, "w-3"));
    job = client.apply(client.decide(&job, &Event::Again(&params)));
    assert_eq!(job.status.again.as_ref().map(|again| &again.params), Some(&params));
    job = client.apply(client.decide(&job, &Event::Cancel(&cancelled)));
    let request = job.status.state.leased().and_then(|held| held.stop.clone());
    assert_eq!(request.map(|request| request.failure), Some(cancelled));
    let change = client.report(&job, &passed("null"));
    let expected = change.status.clone();
    assert_eq!(client.apply(change).status, expected);
    assert!(matches!(expected.state, State::Cancelled(_)));
}

/// A change decided on an older rev is refused with the stored row, and nothing is written.
pub fn a_change_decided_on_an_old_rev_gets_the_row_back(store: &dyn Store) {
    let client = Client::new(store);
    let job = client.put(client.fresh(None));
    let late = client.claim(&job, "late");
    let moved = client.apply(client.claim(&job, "first"));
    let conflicts = client.refused(changing([late]));
    assert_eq!(conflicts, [Conflict::Stale { id: job.id, job: Some(moved.clone()) }]);
    assert_eq!(client.get(job.id), Some(moved));
}

/// The revs must be equal: a rev above the stored one is refused too.
pub fn a_change_decided_on_a_rev_ahead_is_refused(store: &dyn Store) {
    let client = Client::new(store);
    let job = client.put(client.fresh(None));
    let mut ahead = client.claim(&job, "w");
    ahead.expected += 1;
    ahead.status.rev += 1;
    let conflicts = client.refused(changing([ahead]));
    assert_eq!(conflicts, [Conflict::Stale { id: job.id, job: Some(job.clone()) }]);
    assert_eq!(client.get(job.id), Some(job));
}

/// A change of an unknown job is refused without a row.
pub fn a_change_of_no_job_is_refused_without_a_row(store: &dyn Store) {
    let client = Client::new(store);
    let nobody = client.fresh(None);
    let conflicts = client.refused(changing([client.claim(&nobody, "w")]));
    assert_eq!(conflicts, [Conflict::Stale { id: nobody.id, job: None }]);
    assert_eq!(client.get(nobody.id), None);
}

/// An id identifies one job forever.
pub fn an_insert_under_a_used_id_is_refused(store: &dyn Store) {
    let client = Client::new(store);
    let job = client.held(None);
    let mut other = client.fresh_of("other", Some("k"));
    other.id = job.id;
    let conflicts = client.refused(inserting(other));
    assert_eq!(conflicts, [Conflict::Stale { id: job.id, job: Some(job.clone()) }]);
    assert_eq!(client.get(job.id), Some(job));
    client.put(client.fresh_of("other", Some("k")));
}

/// A unit is all or nothing: one conflict refuses all of its parts.
pub fn a_refused_unit_leaves_no_trace(store: &dyn Store) {
    let client = Client::new(store);
    let (moving, stale) = (client.accepted(None), client.put(client.fresh(None)));
    let late = client.claim(&stale, "late");
    let stale = client.apply(client.claim(&stale, "first"));
    let new = client.fresh(Some("k"));
    let lost = client.lease_end(&moving);
    assert!(lost.past.is_some(), "a lost attempt is history");
    let write =
        SettingWrite { kind: SettingKind::Type, name: "t".into(), expected: 0, value: Some("{}".into()) };
    let unit = Unit {
        changes: vec![lost, late],
        inserts: vec![insert(new.clone())],
        settings: vec![write],
        idempotency_key: Some(idempotency_key("s", "key", 1, client.now())),
        ..Unit::default()
    };
    let committed = client.commit([unit.clone()]);
    assert_eq!(committed.results, [Err(vec![Conflict::Stale { id: stale.id, job: Some(stale.clone()) }])]);
    assert_eq!(committed.feed, None);
    assert_eq!(
        (client.get(moving.id), client.get(stale.id), client.get(new.id)),
        (Some(moving.clone()), Some(stale), None)
    );
    assert_eq!(wait(store.attempts(moving.id, 0, usize::MAX)), Ok(Vec::new()));
    assert_eq!(wait(store.settings(None)), Ok(Vec::new()));
    client.put(client.fresh(Some("k")));
    client
        .unit(Unit { idempotency_key: unit.idempotency_key, ..Unit::default() })
        .expect("the idempotency key was not stored");
}

/// The units around a refused one are applied, and each result is in its position.
pub fn a_refused_unit_leaves_the_others_standing(store: &dyn Store) {
    let client = Client::new(store);
    let jobs: Vec<Job> = (0..5).map(|_| client.put(client.fresh(None))).collect();
    let moved = client.apply(client.claim(&jobs[2], "first"));
    let units: Vec<Unit> = jobs.iter().map(|job| changing([client.claim(job, "w")])).collect();
    let results = client.commit(units).results;
    let refused: Vec<bool> = results.iter().map(Result::is_err).collect();
    assert_eq!(refused, [false, false, true, false, false]);
    assert_eq!(results[2], Err(vec![Conflict::Stale { id: jobs[2].id, job: Some(moved.clone()) }]));
    for (n, job) in jobs.iter().enumerate() {
        let stored = client.get(job.id).expect("the job is there");
        assert_eq!(stored.status.rev, 2, "job {n}");
    }
    assert_eq!(client.get(jobs[2].id), Some(moved));
}

/// There is one result per unit, in the order of the units.
pub fn results_come_in_the_order_of_the_units(store: &dyn Store) {
    let client = Client::new(store);
    let missing: Vec<_> = (0..4).map(|_| client.fresh(None)).collect();
    let mut units: Vec<Unit> = missing.iter().map(|job| changing([client.claim(job, "w")])).collect();
    units.insert(2, inserting(client.fresh(None)));
    let results = client.commit(units).results;
    let stale = |n: usize| Err(vec![Conflict::Stale { id: missing[n].id, job: None }]);
    let expected = [stale(0), stale(1), Ok(jobhall_store::Done::default()), stale(2), stale(3)];
    assert_eq!(results, expected);
}

/// Units of one commit are applied in order: a later one sees the changes of an earlier one.
pub fn units_see_what_the_units_before_them_did(store: &dyn Store) {
    let client = Client::new(store);
    let job = client.fresh(Some("k"));
    let twin = client.fresh(Some("k"));
    let (first, second) = (client.claim(&job, "first"), client.claim(&job, "second"));
    let units =
        [inserting(job.clone()), inserting(twin.clone()), changing([first.clone()]), changing([second])];
    let results = client.commit(units).results;
    let held = Job { status: first.status, ..job.clone() };
    assert_eq!(results[0], Ok(jobhall_store::Done::default()));
    assert_eq!(results[1], Err(vec![Conflict::KeyHeld { id: twin.id, job: job.clone() }]));
    assert_eq!(results[2], Ok(jobhall_store::Done::default()));
    assert_eq!(results[3], Err(vec![Conflict::Stale { id: job.id, job: Some(held.clone()) }]));
    assert_eq!(client.get(job.id), Some(held));
}

/// Calls take effect in the order they were made, regardless of the order in which their results are awaited.
pub fn calls_take_effect_in_the_order_they_were_made(store: &dyn Store) {
    let client = Client::new(store);
    let job = client.fresh(None);
    let claimed = client.claim(&job, "w");
    let held = Job { status: claimed.status.clone(), ..job.clone() };
    let ended = client.report(&held, &passed("7"));
    let last = Job { status: ended.status.clone(), ..job.clone() };
    let first = store.commit(vec![inserting(job.clone())]);
    let second = store.commit(vec![changing([claimed])]);
    let third = store.commit(vec![changing([ended])]);
    let read = store.jobs(vec![job.id]);
    for (later, feed) in [(third, 3), (second, 2), (first, 1)] {
        let committed = wait(later).expect("a commit that works");
        assert_eq!((committed.feed, committed.results.len()), (Some(feed), 1));
        assert!(committed.results[0].is_ok(), "{:?}", committed.results);
    }
    drop(wait(read));
    assert_eq!(client.get(job.id), Some(last));
}

/// Of two claims decided on the same copy one succeeds; the other receives the stored job.
pub fn l14_of_two_claims_of_one_job_one_wins(store: &dyn Store) {
    let client = Client::new(store);
    let job = client.put(client.fresh(None));
    let (one, other) = (client.claim(&job, "one"), client.claim(&job, "other"));
    let results = client.commit([changing([one.clone()]), changing([other])]).results;
    let winner = Job { status: one.status, ..job };
    assert!(results[0].is_ok());
    assert_eq!(results[1], Err(vec![Conflict::Stale { id: winner.id, job: Some(winner.clone()) }]));
    assert_eq!(client.get(winner.id), Some(winner));
}

/// A lease end and a late report are decided on the same copy: the first one written succeeds.
pub fn g8_of_lease_end_and_late_report_the_first_one_stands(store: &dyn Store) {
    let client = Client::new(store);
    for report_first in [true, false] {
        let job = client.accepted(None);
        let (report, lost) = (client.report(&job, &passed("1")), client.lease_end(&job));
        let (first, second) = if report_first { (report, lost) } else { (lost, report) };
        let past = first.past.clone();
        let stands = client.apply(first);
        let conflicts = client.refused(changing([second]));
        assert_eq!(conflicts, [Conflict::Stale { id: job.id, job: Some(stands.clone()) }]);
        assert_eq!(client.get(job.id), Some(stands));
        assert_eq!(
            wait(store.attempts(job.id, 0, usize::MAX)),
            Ok(past.into_iter().map(|past| *past).collect())
        );
    }
}

/// A completed row never changes.
pub fn h07_g1_completed_rows_never_change(store: &dyn Store) {
    let client = Client::new(store);
    let held = client.held(Some("k"));
    let decided_before = [
        client.lease_end(&held),
        client.cancel(&held),
        client.report(&held, &passed("\"other\"")),
        client.decide(&held, &Event::Again(&Json::null())),
    ];
    let done = client.apply(client.report(&held, &passed("\"result\"")));
    for late in decided_before {
        let conflicts = client.refused(changing([late]));
        assert_eq!(conflicts, [Conflict::Stale { id: done.id, job: Some(done.clone()) }]);
    }
    let next = client.held(Some("k"));
    client.apply(client.report(&next, &passed("\"later\"")));
    client.prune_jobs([next.id, id(done.id.get() + 500)]);
    assert_eq!(client.get(done.id), Some(done));
}
