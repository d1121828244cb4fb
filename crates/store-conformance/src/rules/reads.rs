//! Reads by id, and of completed jobs.

use jobhall_core::retention::Completed;
use jobhall_core::{Job, JobId, Report, Verdict, When};
use jobhall_store::Store;

use crate::desk::Desk;
use crate::fixture::wait;
use crate::samples::failure;

/// Jobs come in the order asked, as often as asked, with a hole for what does not exist.
pub fn jobs_come_in_the_order_asked_with_holes(store: &dyn Store) {
    let desk = Desk::new(store);
    let (a, b, missing) = (desk.put(desk.fresh(None)), desk.succeeded(None), desk.id());
    let jobs = wait(store.jobs(vec![b.id, missing, a.id, b.id])).expect("jobs can be read");
    assert_eq!(jobs, [Some(b.clone()), None, Some(a), Some(b)]);
    assert_eq!(wait(store.jobs(Vec::new())), Ok(Vec::new()));
}

/// Completed jobs come newest id first, below a given id, at most so many; open ones are passed over.
pub fn completed_jobs_come_newest_first_in_pages(store: &dyn Store) {
    let desk = Desk::new(store);
    let jobs: Vec<Job> = (0..8).map(|_| desk.put(desk.fresh(None))).collect();
    for n in [4, 0, 6, 3] {
        desk.apply(desk.cancel(&jobs[n]));
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

/// Type, key, whether it succeeded and when it ended, for every kind of end.
pub fn a_completed_job_tells_what_retention_asks(store: &dyn Store) {
    let desk = Desk::new(store);
    let success = desk.succeeded(Some("k"));
    let never = || Some(Verdict { when: When::Never, params: None });
    let mut jobs = vec![success];
    for report in [Report::Failed(failure("no"), never()), Report::Crashed(failure("boom"), never())] {
        let held = desk.held(None);
        jobs.push(desk.apply(desk.report(&held, &report)));
    }
    let queued = desk.put(desk.fresh_of("u", Some("l")));
    jobs.push(desk.apply(desk.cancel(&queued)));
    let expected: Vec<Completed> = (jobs.iter().enumerate().rev())
        .map(|(n, job)| Completed {
            id: job.id,
            job_type: job.spec.job_type.clone(),
            key: job.spec.key.clone(),
            succeeded: n == 0,
            ended_at: job.life.state.ended_at().expect("it has ended"),
        })
        .collect();
    assert_eq!(wait(store.completed(None, 10)), Ok(expected));
}
