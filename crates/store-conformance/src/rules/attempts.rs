//! The optional parts of a change: a past attempt, new params, a request for the spec.

use jobhall_core::{Dice, Event, Indicator, Job, JobSpec, Json, PastAttempt, Report, Verdict, When};
use jobhall_store::{Change, Store, Unit};

use crate::client::Client;
use crate::fixture::wait;
use crate::samples::{change_of, changing, decide, failure, passed};

fn params(text: &str) -> Json {
    Json::params(text).expect("valid params")
}

fn retrying(text: &str) -> Report {
    Report::Failed(failure("no"), Some(Verdict { when: When::Now, params: Some(params(text)) }))
}

/// Every ended attempt of a job that continues is kept, oldest first; the last attempt of a completed job is in its
/// row.
pub fn l12_past_attempts_are_kept_in_order(store: &dyn Store) {
    let client = Client::new(store);
    let (mut job, other) = (client.put(client.fresh(None)), client.held(None));
    let mut expected: Vec<PastAttempt> = Vec::new();
    for report in [Some(Report::Failed(failure("first"), None)), None, Some(retrying("1"))] {
        job = client.apply(client.claim(&job, "w"));
        job = client.apply(client.accept(&job));
        let change = match report {
            Some(report) => client.report(&job, &report),
            None => client.lease_end(&job),
        };
        expected.push(*change.past.clone().expect("an attempt ended"));
        job = client.apply(change);
        assert_eq!(wait(store.attempts(job.id, 0, usize::MAX)), Ok(expected.clone()));
    }
    job = client.apply(client.claim(&job, "w"));
    client.apply(client.report(&job, &passed("1")));
    assert_eq!(wait(store.attempts(job.id, 0, usize::MAX)), Ok(expected.clone()));
    assert_eq!(wait(store.attempts(other.id, 0, usize::MAX)), Ok(Vec::new()));
    for (skip, limit, window) in [(0, 2, 1..3), (0, 1, 2..3), (1, 1, 1..2), (1, 9, 0..2), (3, 1, 0..0)] {
        assert_eq!(
            wait(store.attempts(job.id, skip, limit)),
            Ok(expected[window].to_vec()),
            "{skip} {limit}"
        );
    }
}

/// The last progress is part of an attempt that ended, whether its job continues or not. Without any there is none.
pub fn the_last_progress_of_an_ended_attempt_is_kept(store: &dyn Store) {
    let client = Client::new(store);
    let measure = |name: &str, step, total| {
        let (name, message) = (name.to_owned(), "\0 \u{1F600} \"files\"".to_owned());
        Indicator { name, step, total, message }
    };
    let progress = [measure("", 3, Some(6)), measure("rows", u64::MAX, None)];
    let end = |job: &Job, report: &Report, progress: &[Indicator]| {
        let (claim, lease) = (job.status.claim, job.status.state.lease().expect("a lease").id);
        let (retry, dice) = (&job.spec.retry, Dice(0));
        let mut step = decide(job, &Event::Report { claim, lease, report, retry, dice }, client.now());
        step.keep_progress(progress);
        client.apply(change_of(job, step))
    };
    let again = end(&client.accepted(None), &retrying("1"), &progress);
    let past = wait(store.attempts(again.id, 0, 9)).expect("the attempts");
    assert_eq!(past.iter().map(|past| &past.progress[..]).collect::<Vec<_>>(), [&progress[..]]);
    let held = client.apply(client.claim(&again, "w"));
    assert!(held.status.state.lease().is_some_and(|lease| lease.progress.is_empty()), "another attempt");
    let failed = Report::Failed(failure("no"), Some(Verdict { when: When::Never, params: None }));
    for (job, report) in [(held, passed("1")), (client.accepted(Some("k")), failed)] {
        let ended = end(&job, &report, &progress);
        let stored = client.get(job.id).expect("the job");
        assert_eq!(stored, ended);
        assert_eq!(stored.status.state.lease().map(|lease| &lease.progress[..]), Some(&progress[..]));
    }
    let silent = end(&client.accepted(None), &passed("1"), &[]);
    assert!(silent.status.state.lease().is_some_and(|lease| lease.progress.is_empty()));
}

/// A job without history has no attempts, and neither has an unknown job; this is not an error.
pub fn a_job_without_history_has_no_attempts(store: &dyn Store) {
    let client = Client::new(store);
    for id in [client.put(client.fresh(None)).id, client.succeeded(None).id, client.id()] {
        assert_eq!(wait(store.attempts(id, 0, usize::MAX)), Ok(Vec::new()));
    }
}

/// The newest ended attempts of several jobs come in the requested order, each oldest first.
pub fn ground_13_attempts_of_many_jobs_come_in_the_order_asked(store: &dyn Store) {
    let client = Client::new(store);
    let tried = |times: usize| {
        let mut job = client.put(client.fresh(None));
        for n in 0..times {
            job = client.apply(client.claim(&job, "w"));
            job = client.apply(client.accept(&job));
            job = client.apply(client.report(&job, &retrying(&n.to_string())));
        }
        job.id
    };
    let (often, once, never) = (tried(2), tried(1), tried(0));
    let all = |id| wait(store.attempts(id, 0, usize::MAX)).expect("the attempts");
    assert_eq!((all(often).len(), all(once).len()), (2, 1));
    let ids = vec![once, never, often, client.id(), once, once];
    let read = |limit| wait(store.attempts_of_jobs(ids.clone(), limit)).expect("the attempts");
    let none = Vec::new;
    assert_eq!(read(9), [all(once), none(), all(often), none(), all(once), all(once)]);
    let newest = all(often)[1..].to_vec();
    assert_eq!(read(1), [all(once), none(), newest, none(), all(once), all(once)]);
    assert_eq!(read(0), vec![Vec::new(); 6]);
}

/// Params of a change replace the stored ones and nothing else in the spec; without any they are unchanged.
pub fn params_are_replaced_by_a_change(store: &dyn Store) {
    let client = Client::new(store);
    let held = client.held(Some("k"));
    let retried = client.apply(client.report(&held, &retrying("{\"n\":2}")));
    assert_eq!(retried.spec.params, params("{\"n\":2}"));
    let mut before = (*held.spec).clone();
    before.params = params("{\"n\":2}");
    assert_eq!(*retried.spec, before);
    let claimed = client.apply(client.claim(&retried, "w"));
    assert_eq!(claimed.spec, retried.spec);
}

/// The requested specs are returned in the order of the changes, and no others.
pub fn wanted_specs_come_back_in_order(store: &dyn Store) {
    let client = Client::new(store);
    let jobs: Vec<Job> = ["c", "a", "d", "b"].iter().map(|key| client.put(client.fresh(Some(key)))).collect();
    let order = [2, 0, 3, 1];
    let mut changes: Vec<_> = order.iter().map(|&n: &usize| client.claim(&jobs[n], "w")).collect();
    for (n, change) in changes.iter_mut().enumerate() {
        change.want_spec = n != 2;
    }
    let done = client.unit(changing(changes)).expect("the revs are right");
    let expected = [2, 0, 1].map(|n: usize| jobs[n].spec.clone());
    assert_eq!(done.specs, expected);
    let other = client.unit(Unit::default()).expect("an empty unit fits");
    assert_eq!(other.specs, []);
}

/// A requested spec is that of the row after the change.
pub fn a_wanted_spec_has_the_replaced_params(store: &dyn Store) {
    let client = Client::new(store);
    let held = client.held(None);
    let mut change = client.report(&held, &retrying("[3]"));
    change.want_spec = true;
    let done = client.unit(changing([change])).expect("the rev is right");
    assert_eq!(done.specs.len(), 1);
    assert_eq!(done.specs[0].params, params("[3]"));
    assert_eq!(client.get(held.id).map(|job| job.spec), Some(done.specs[0].clone()));
}

/// A change replaces the changeable parts of a job's spec, and nothing else.
pub fn what_is_asked_for_is_replaced_by_a_change(store: &dyn Store) {
    let client = Client::new(store);
    let job = client.put(client.fresh(Some("k")));
    let spec = JobSpec {
        params: params("{\"n\":9}"),
        priority: job.spec.priority + 7,
        throttle_factor: job.spec.throttle_factor + 3,
        ..(*job.spec).clone()
    };
    let step = decide(&job, &Event::Edit { run_at: None }, client.now());
    let change = Change { spec: Some(spec.clone().into()), ..change_of(&job, step) };
    let edited = client.apply(change);
    assert_eq!(*edited.spec, spec);
    assert_eq!(client.get(job.id).map(|job| job.spec), Some(edited.spec));
}
