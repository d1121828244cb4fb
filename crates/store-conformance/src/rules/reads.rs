//! Reads by id, and of completed jobs.

use jobhall_core::retention::Completed;
use jobhall_core::{Job, JobId, Key, QueueName, Report, StateName, TypeName, Verdict, When};
use jobhall_store::{JobFilter, Store};

use crate::client::Client;
use crate::fixture::wait;
use crate::samples::failure;

/// Jobs are returned in the requested order, as often as requested, with a gap for each unknown id.
pub fn jobs_come_in_the_order_asked_with_holes(store: &dyn Store) {
    let client = Client::new(store);
    let (a, b, missing) = (client.put(client.fresh(None)), client.succeeded(None), client.id());
    let jobs = wait(store.jobs(vec![b.id, missing, a.id, b.id])).expect("jobs can be read");
    assert_eq!(jobs, [Some(b.clone()), None, Some(a), Some(b)]);
    assert_eq!(wait(store.jobs(Vec::new())), Ok(Vec::new()));
}

/// Completed jobs are returned newest id first, below a given id, up to a limit; open ones are skipped.
pub fn completed_jobs_come_newest_first_in_pages(store: &dyn Store) {
    let client = Client::new(store);
    let jobs: Vec<Job> = (0..8).map(|_| client.put(client.fresh(None))).collect();
    for n in [4, 0, 6, 3] {
        client.apply(client.cancel(&jobs[n]));
    }
    let ids = |before: Option<JobId>, limit| -> Vec<JobId> {
        let page = wait(store.completed(before, limit)).expect("completed jobs can be read");
        page.iter().map(|completed| completed.id).collect()
    };
    let of = |numbers: &[usize]| -> Vec<JobId> { numbers.iter().map(|&n| jobs[n].id).collect() };
    assert_eq!(ids(None, 10), of(&[6, 4, 3, 0]));
    assert_eq!(ids(None, 2), of(&[6, 4]));
    assert_eq!(ids(Some(jobs[4].id), 2), of(&[3, 0]));
    assert_eq!(ids(Some(jobs[5].id), 1), of(&[4]));
    assert_eq!(ids(Some(jobs[0].id), 9), of(&[]));
    assert_eq!(ids(None, 0), of(&[]));
}

/// A list contains the jobs that match its filter, newest id first, in pages that omit nothing.
pub fn lists_show_what_the_filter_says_in_pages(store: &dyn Store) {
    let client = Client::new(store);
    let jobs: Vec<Job> = vec![
        client.put(client.fresh(None)),
        client.put(client.fresh_of("u", Some("k"))),
        client.succeeded(None),
        client.put(client.fresh_of("u", Some("l"))),
        client.held(None),
        client.put(client.fresh(None)),
    ];
    let listed = |filter: &JobFilter, limit: usize| -> Vec<Job> {
        let (mut all, mut before) = (Vec::new(), None);
        loop {
            let page = wait(store.list(filter.clone(), before, limit)).expect("jobs can be listed");
            assert!(page.jobs.len() <= limit);
            all.extend(page.jobs);
            match page.next {
                Some(next) => {
                    assert!(before.replace(next).is_none_or(|before| next < before), "it goes down");
                }
                None => return all,
            }
        }
    };
    let of = |numbers: &[usize]| -> Vec<Job> { numbers.iter().map(|&n| jobs[n].clone()).collect() };
    let all = JobFilter::default();
    for limit in [1, 2, 3, 100] {
        assert_eq!(listed(&all, limit), of(&[5, 4, 3, 2, 1, 0]), "{limit} a page");
    }
    let queued = JobFilter { states: vec![StateName::Queued], ..JobFilter::default() };
    assert_eq!(listed(&queued, 2), of(&[5, 3, 1, 0]));
    let two = JobFilter { states: vec![StateName::Succeeded, StateName::Assigned], ..JobFilter::default() };
    assert_eq!(listed(&two, 100), of(&[4, 2]));
    let of_type = JobFilter { job_type: TypeName::new("u").ok(), ..JobFilter::default() };
    assert_eq!(listed(&of_type, 1), of(&[3, 1]));
    let of_key = JobFilter { key: Key::new("k").ok(), ..of_type };
    assert_eq!(listed(&of_key, 100), of(&[1]));
    let elsewhere = JobFilter { queue: QueueName::new("elsewhere").ok(), ..JobFilter::default() };
    assert_eq!(listed(&elsewhere, 100), of(&[]));
    let at = |n: usize| Some(jobs[n].spec.created_at);
    assert!(at(1) < at(2) && at(3) < at(4), "the samples differ");
    let later = JobFilter { created_after: at(2), ..JobFilter::default() };
    assert_eq!(listed(&later, 2), of(&[5, 4, 3, 2]));
    let between = JobFilter { created_before: at(4), ..later };
    assert_eq!(listed(&between, 1), of(&[3, 2]));
}

/// Type, key, whether it succeeded and when it ended, for every kind of end.
pub fn a_completed_job_tells_what_retention_asks(store: &dyn Store) {
    let client = Client::new(store);
    let success = client.succeeded(Some("k"));
    let never = || Some(Verdict { when: When::Never, params: None });
    let mut jobs = vec![success];
    for report in [Report::Failed(failure("no"), never()), Report::Crashed(failure("boom"), never())] {
        let held = client.held(None);
        jobs.push(client.apply(client.report(&held, &report)));
    }
    let queued = client.put(client.fresh_of("u", Some("l")));
    jobs.push(client.apply(client.cancel(&queued)));
    let expected: Vec<Completed> = (jobs.iter().enumerate().rev())
        .map(|(n, job)| Completed {
            id: job.id,
            job_type: job.spec.job_type.clone(),
            key: job.spec.key.clone(),
            succeeded: n == 0,
            ended_at: job.status.state.ended_at().expect("it has ended"),
            parent: None,
            group: None,
        })
        .collect();
    assert_eq!(wait(store.completed(None, 10)), Ok(expected));
}
