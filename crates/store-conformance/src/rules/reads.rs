//! Reads by id, and of completed jobs.

use jobhall_core::retention::Completed;
use jobhall_core::{Job, JobId, Key, QueueName, Report, Scope, StateName, TypeName, Verdict, When};
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

/// Completed jobs are returned oldest id first, after a given id. The limit counts the jobs that are examined, and the
/// last of them is named.
pub fn completed_jobs_come_oldest_first_in_pages(store: &dyn Store) {
    let client = Client::new(store);
    let jobs: Vec<Job> = (0..8).map(|_| client.put(client.fresh(None))).collect();
    for n in [4, 0, 6, 3] {
        client.apply(client.cancel(&jobs[n]));
    }
    let page = |after: Option<JobId>, limit| {
        let page = wait(store.completed(after, limit)).expect("completed jobs can be read");
        (page.jobs.iter().map(|completed| completed.id).collect::<Vec<_>>(), page.last)
    };
    let of = |numbers: &[usize], last: Option<usize>| {
        let ids: Vec<JobId> = numbers.iter().map(|&n| jobs[n].id).collect();
        (ids, last.map(|n| (jobs[n].id, jobs[n].spec.created_at)))
    };
    assert_eq!(page(None, 10), of(&[0, 3, 4, 6], Some(7)));
    assert_eq!(page(None, 4), of(&[0, 3], Some(3)));
    assert_eq!(page(None, 3), of(&[0], Some(2)));
    assert_eq!(page(Some(jobs[0].id), 2), of(&[], Some(2)));
    assert_eq!(page(Some(jobs[3].id), 1), of(&[4], Some(4)));
    assert_eq!(page(Some(jobs[6].id), 9), of(&[], Some(7)));
    assert_eq!(page(Some(jobs[7].id), 9), of(&[], None));
    assert_eq!(page(None, 0), of(&[], None));
}

/// Of the successes of a key the one with the highest id is the newest; jobs without a key, and other ends, are not.
pub fn the_newest_success_of_a_key_is_marked(store: &dyn Store) {
    let client = Client::new(store);
    let jobs = [
        client.succeeded(Some("k")),
        client.succeeded(Some("k")),
        client.succeeded(Some("l")),
        client.succeeded(None),
        client.apply(client.cancel(&client.put(client.fresh(Some("k"))))),
        client.put(client.fresh(Some("l"))),
    ];
    let newest = || -> Vec<JobId> {
        let page = wait(store.completed(None, 10)).expect("completed jobs can be read");
        page.jobs.iter().filter(|job| job.newest_success).map(|job| job.id).collect()
    };
    assert_eq!(newest(), [jobs[1].id, jobs[2].id]);
    client.prune_jobs([jobs[1].id]);
    assert_eq!(newest(), [jobs[0].id, jobs[2].id], "the newest that is stored");
}

/// Completed jobs in a range of ids are counted by type and queue, and the next id above the range is named.
pub fn completed_jobs_are_counted_in_ranges(store: &dyn Store) {
    let client = Client::new(store);
    let cancelled = |name| client.apply(client.cancel(&client.put(client.fresh_of(name, None))));
    let jobs =
        [cancelled("t"), cancelled("u"), client.put(client.fresh(None)), cancelled("t"), cancelled("t")];
    let queue = jobs[0].spec.queue.as_str().to_owned();
    let counted = |after: Option<usize>, last: usize, except: &[usize]| {
        let except = except.iter().map(|&n| jobs[n].id).collect();
        let range = (after.map(|n| jobs[n].id), jobs[last].id);
        let found = wait(store.count_completed(range.0, range.1, except)).expect("jobs can be counted");
        let counts = found.counts.iter().map(|count| {
            assert_eq!(count.queue.as_str(), queue);
            format!("{} {}", count.job_type, count.jobs)
        });
        (counts.collect::<Vec<_>>(), found.next)
    };
    let of = |counts: &[&str], next: Option<usize>| {
        let counts: Vec<_> = counts.iter().map(ToString::to_string).collect();
        (counts, next.map(|n| jobs[n].id))
    };
    assert_eq!(counted(None, 4, &[]), of(&["t 3", "u 1"], None));
    assert_eq!(counted(Some(0), 3, &[]), of(&["t 1", "u 1"], Some(4)));
    assert_eq!(counted(Some(1), 2, &[]), of(&[], Some(3)), "an open job is not counted");
    assert_eq!(counted(None, 4, &[0, 1, 2, 4]), of(&["t 1"], None), "except these");
    client.prune_jobs([jobs[3].id]);
    assert_eq!(counted(None, 2, &[]), of(&["t 1", "u 1"], Some(4)), "the next that is stored");
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
    let within = |entries: &[&str]| {
        let scope = Scope::new(entries).expect("these are entries of a scope");
        listed(&JobFilter { scope, ..JobFilter::default() }, 2)
    };
    let queue = jobs[0].spec.queue.as_str();
    let prefix = format!("{}*", &queue[..queue.len() - 1]);
    for all in [&[queue][..], &["other", &prefix], &["*"]] {
        assert_eq!(within(all), of(&[5, 4, 3, 2, 1, 0]), "{all:?}");
    }
    for none in [&["other"][..], &[&queue[..queue.len() - 1]], &[&format!("{queue}x*"), "other*"]] {
        assert_eq!(within(none), of(&[]), "{none:?}");
    }
    let at = |n: usize| Some(jobs[n].spec.created_at);
    assert!(at(1) < at(2) && at(3) < at(4), "the samples differ");
    let later = JobFilter { created_after: at(2), ..JobFilter::default() };
    assert_eq!(listed(&later, 2), of(&[5, 4, 3, 2]));
    let between = JobFilter { created_before: at(4), ..later };
    assert_eq!(listed(&between, 1), of(&[3, 2]));
}

/// Type, queue, times, and whether it is its key's newest success, for every kind of end.
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
    let expected: Vec<Completed> = (jobs.iter().enumerate())
        .map(|(n, job)| Completed {
            id: job.id,
            job_type: job.spec.job_type.clone(),
            queue: job.spec.queue.clone(),
            created_at: job.spec.created_at,
            newest_success: n == 0,
            ended_at: job.status.state.ended_at().expect("it has ended"),
            parent: None,
            group: None,
        })
        .collect();
    assert_eq!(wait(store.completed(None, 10)).map(|page| page.jobs), Ok(expected));
}
