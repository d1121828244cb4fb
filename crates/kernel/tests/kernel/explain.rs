//! What an explanation says about jobs that ended, wait for others, were lost, are limited or have no worker.

use crate::rig::{Hall, failed, job, keyed, passed, tries, worker};
use jobhall_core::limits::{Limit, Rate};
use jobhall_core::needs::{Needs, Uses};
use jobhall_core::{
    After, Failure, JobId, NewJob, OnDuplicate, QueueConfig, QueueName, Report, RetryPolicy, StateName,
};
use jobhall_kernel::{Ahead, Answer, Assignment, Config, ExpectedStart, LimitWhy, Request, Silence, Why};

const LEASE_MS: u64 = 30_000;

/// The reasons in words.
fn words(hall: &mut Hall, id: JobId) -> Vec<String> {
    hall.explain(id).why.iter().map(ToString::to_string).collect()
}

fn after(id: JobId) -> NewJob {
    NewJob { after: vec![After::Job(id)], retry: tries(1), ..job("next") }
}

fn limit(hall: &mut Hall, limit: Limit) {
    let config = Some(QueueConfig { paused: false, limits: vec![limit], ..QueueConfig::default() });
    hall.ask(Request::SetQueue { queue: QueueName::new("default").unwrap(), config, expected: None })
        .unwrap();
}

fn rate(count: u32, per_ms: u64) -> Limit {
    Limit { by: None, concurrency: None, rate: Some(Rate { count, per_ms, burst: Some(1) }) }
}

fn limited(hall: &mut Hall, id: JobId) -> LimitWhy {
    match hall.explain(id).why.remove(0) {
        Why::Limited(why) => *why,
        other => panic!("{other}"),
    }
}

fn submit(hall: &mut Hall, n: usize) -> Vec<JobId> {
    hall.submit_all(vec![job("t"); n]).unwrap().iter().map(|submitted| submitted.id).collect()
}

/// The worker takes one job and accepts it.
fn run_one(hall: &mut Hall, name: &str) -> Assignment {
    let held = hall.take_one(name);
    hall.accept(name, &held).unwrap();
    held
}

/// Nothing is heard from the last worker until its lease has ended.
fn lose(hall: &mut Hall) {
    let session = *hall.sessions.last().unwrap();
    hall.ask(Request::Disconnect { session }).unwrap();
    hall.pass(LEASE_MS);
}

fn silence(hall: &mut Hall, name: &str) -> Option<Silence> {
    match hall.ask(Request::Workers {}).unwrap() {
        Answer::Workers(workers) => workers.into_iter().find(|known| known.worker == worker(name))?.silence,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_failed_job_is_explained_by_its_error_and_the_attempts_that_counted() {
    let mut hall = Hall::new();
    let id = hall.submit(NewJob { retry: tries(2), ..job("t") }).unwrap().id;
    for _ in 0..2 {
        let held = run_one(&mut hall, "w");
        let report = Report::Failed(Failure::new("exit_code", "the command ended with 7\nmore"), None);
        hall.report("w", &held, report).unwrap();
        hall.pass(60_000);
    }
    assert_eq!(words(&mut hall, id), ["attempt 2 of 2 failed: exit_code: the command ended with 7"]);
    let never = NewJob { retry: tries(3), ..job("t") };
    let id = hall.submit(never).unwrap().id;
    let held = run_one(&mut hall, "w");
    let verdict = jobhall_core::Verdict { when: jobhall_core::When::Never, params: None };
    hall.report("w", &held, Report::Crashed(Failure::new("no_program", ""), Some(verdict))).unwrap();
    assert_eq!(words(&mut hall, id), ["attempt 1 of 3 crashed, and it is not retried: no_program"]);
}

#[test]
fn a_cancelled_job_and_a_job_that_succeeded_say_so() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    hall.cancel(id).unwrap();
    assert_eq!(words(&mut hall, id), ["it was cancelled: by hand"]);
    let id = hall.submit(job("t")).unwrap().id;
    let held = run_one(&mut hall, "w");
    hall.report("w", &held, passed()).unwrap();
    assert_eq!(hall.explain(id).why, [Why::Succeeded]);
}

#[test]
fn a_job_that_ended_with_its_dependency_names_it() {
    let mut hall = Hall::new();
    let first = hall.submit(NewJob { retry: tries(1), ..job("t") }).unwrap().id;
    let second = hall.submit(after(first)).unwrap().id;
    let held = run_one(&mut hall, "w");
    hall.report("w", &held, failed("boom")).unwrap();
    let why = hall.explain(second).why;
    assert!(matches!(&why[..], [Why::Ended(end)] if end.dependency == Some(first)), "{why:?}");
    assert_eq!(why[0].to_string(), format!("it depends on job {first}, which has failed"));
    // An error that only looks like it names no dependency.
    let id = hall.submit(job("t")).unwrap().id;
    let error = jobhall_core::Dependency::Failed.failure(first);
    hall.ask(Request::Cancel { id, failure: error }).unwrap();
    let why = hall.explain(id).why;
    assert!(matches!(&why[..], [Why::Ended(end)] if end.dependency.is_none()), "{why:?}");
}

#[test]
fn a_blocked_job_says_what_its_dependency_waits_for() {
    let mut hall = Hall::new();
    let first = hall.submit(job("t")).unwrap().id;
    let second = hall.submit(after(first)).unwrap().id;
    let third = hall.submit(after(second)).unwrap().id;
    let needs = "it needs one that runs type t in queue default";
    let expected = format!(
        "it depends on job {first} (queued), which must end first\n  job {first}: no worker is connected; {needs}"
    );
    assert_eq!(words(&mut hall, second), [expected]);
    let expected = format!(
        "it depends on job {second} (blocked), which must end first\n  \
         job {second}: it depends on job {first} (queued), which must end first"
    );
    assert_eq!(words(&mut hall, third), [expected]);
    run_one(&mut hall, "w");
    let expected = format!(
        "it depends on job {first} (accepted), which must end first\n  job {first}: worker w runs it"
    );
    assert_eq!(words(&mut hall, second), [expected]);
}

#[test]
fn a_job_whose_key_is_held_says_what_the_holder_waits_for() {
    let mut hall = Hall::new();
    let holder = hall.submit(keyed("k", "k")).unwrap().id;
    run_one(&mut hall, "w");
    let next = NewJob { on_duplicate: OnDuplicate::Supersede, ..keyed("k", "k") };
    let next = hall.submit(next).unwrap().id;
    let expected = format!(
        "its key is held by job {holder} (accepted), which must end first\n  \
         job {holder}: a cancel was requested; worker w has not confirmed yet"
    );
    assert_eq!(words(&mut hall, next), [expected]);
}

#[test]
fn only_the_first_few_dependencies_are_listed() {
    let mut hall = Hall::new();
    let all = submit(&mut hall, 9);
    let last = NewJob { after: all.iter().map(|&id| After::Job(id)).collect(), ..job("last") };
    let last = hall.submit(last).unwrap().id;
    let why = hall.explain(last).why;
    assert!(matches!(&why[..], [Why::Dependencies { first, more: 4 }] if first.len() == 5), "{why:?}");
}

#[test]
fn a_lost_job_says_how_often_on_which_worker_and_when_it_is_retried() {
    let mut hall = Hall::new();
    let id = hall.submit(NewJob { retry: tries(1), ..job("t") }).unwrap().id;
    run_one(&mut hall, "w1");
    lose(&mut hall);
    assert_eq!(hall.state(id), StateName::Retrying);
    let at = hall.now.wall;
    let lost = Why::Lost { attempts: 1, most: 3, worker: Some(worker("w1")), run_at: Some(at) };
    assert_eq!(hall.explain(id).why[1], lost);
    let expected = format!(
        "1 attempt was lost, the last one on worker w1; it is retried from {} ms on; \
         with 3 lost attempts it ends as crashed",
        at.as_ms()
    );
    assert_eq!(words(&mut hall, id)[1], expected);
    let held = run_one(&mut hall, "w2");
    let expected = ["worker w2 runs it", "1 attempt was lost; with 3 lost attempts it ends as crashed"];
    assert_eq!(words(&mut hall, id), expected);
    hall.report("w2", &held, failed("boom")).unwrap();
    assert_eq!(words(&mut hall, id), ["attempt 1 of 1 failed (1 more attempt was lost): boom"]);
}

#[test]
fn a_job_that_lost_too_many_workers_says_so_without_an_attempt_number() {
    let mut hall = Hall::new();
    let id = hall.submit(NewJob { retry: tries(1), ..job("t") }).unwrap().id;
    for name in ["w1", "w2", "w3"] {
        run_one(&mut hall, name);
        lose(&mut hall);
    }
    assert_eq!(hall.state(id), StateName::Crashed);
    let expected = "3 attempts were lost: too_many_lost_leases: 3 workers were lost while they had this job, the \
                    last one w3";
    assert_eq!(words(&mut hall, id), [expected]);
}

#[test]
fn a_silent_worker_is_named_while_its_lease_runs_as_in_the_list_of_workers() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    let held = run_one(&mut hall, "w2");
    assert_eq!(hall.explain(id).why, [Why::Running(worker("w2"))]);
    assert_eq!(silence(&mut hall, "w2"), None);
    let (session, until) = (*hall.sessions.last().unwrap(), hall.now.wall.plus_ms(LEASE_MS));
    hall.pass(12_000);
    assert_eq!(silence(&mut hall, "w2"), None, "its connection is open, and a renewal is not late yet");
    hall.ask(Request::Disconnect { session }).unwrap();
    let why = hall.explain(id).why;
    let silent = Why::Silent { worker: worker("w2"), silent_ms: 12_000, until, ends: false, returned: false };
    assert_eq!(why, [silent]);
    let expected =
        format!("no heartbeat from w2 for 12 s; taken back at {} ms unless it returns", until.as_ms());
    assert_eq!(why[0].to_string(), expected);
    let listed = Silence { silent_ms: 12_000, until, attempts: vec![held.attempt] };
    assert_eq!(silence(&mut hall, "w2"), Some(listed));
    hall.cancel(id).unwrap();
    assert!(matches!(&hall.explain(id).why[..], [Why::Silent { .. }, Why::Cancelling(_)]));
    // A worker without a connection that renews by requests is not silent.
    hall.ask(Request::Renew { session }).unwrap();
    assert_eq!(hall.explain(id).why, [Why::Cancelling(worker("w2"))]);
    assert_eq!(silence(&mut hall, "w2"), None);
}

#[test]
fn a_worker_that_is_connected_and_hangs_is_silent_after_half_of_its_lease() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    run_one(&mut hall, "w");
    hall.pass(LEASE_MS / 2);
    assert_eq!((hall.explain(id).why.len(), silence(&mut hall, "w")), (1, None));
    hall.pass(1);
    assert!(matches!(&hall.explain(id).why[..], [Why::Silent { silent_ms: 15_001, .. }]));
    assert!(silence(&mut hall, "w").is_some());
}

#[test]
fn a_worker_that_came_back_without_the_job_is_not_called_silent() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    run_one(&mut hall, "w");
    let session = *hall.sessions.last().unwrap();
    hall.ask(Request::Disconnect { session }).unwrap();
    hall.pass(3_000);
    hall.worker("w", "");
    let text = words(&mut hall, id).remove(0);
    assert!(text.starts_with("no heartbeat from the earlier session of w for 3 s; taken back at"), "{text}");
    assert_eq!(silence(&mut hall, "w"), None);
}

#[test]
fn a_job_that_ends_with_its_lease_says_so() {
    let mut hall = Hall::new();
    let retry = Some(RetryPolicy { at_most_once: true, max_attempts: 1, ..RetryPolicy::named() });
    let id = hall.submit(NewJob { retry, ..job("t") }).unwrap().id;
    run_one(&mut hall, "w");
    hall.pass(20_000);
    let text = words(&mut hall, id).remove(0);
    assert!(text.starts_with("no heartbeat from w for 20 s; the job ends as crashed at"), "{text}");
    hall.pass(LEASE_MS);
    let text = words(&mut hall, id).remove(0);
    assert!(
        text.starts_with("1 attempt was lost: at_most_once: the session of worker w has ended"),
        "{text}"
    );
}

#[test]
fn after_a_restart_a_worker_is_silent_until_it_returns() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    run_one(&mut hall, "w");
    hall.pass(2_000);
    let mut hall = hall.restart(Config::default());
    hall.pass(1_000);
    assert!(matches!(&hall.explain(id).why[..], [Why::Silent { silent_ms: 1_000, .. }]));
}

#[test]
fn each_job_behind_a_rate_has_its_own_expected_start() {
    let mut hall = Hall::new();
    limit(&mut hall, rate(1, 10_000));
    let session = hall.worker("w", "");
    hall.vacancy(session, 100);
    let all = submit(&mut hall, 4);
    let starts = hall.now.wall;
    for (n, &id) in all.iter().enumerate().skip(1) {
        let why = limited(&mut hall, id);
        assert_eq!(why.ahead, Ahead { jobs: n - 1, more: false });
        let at = starts.plus_ms(u64::try_from(n).unwrap() * 10_000);
        assert_eq!(why.start, Some(ExpectedStart::At(at)), "job {n}");
    }
    let at = starts.plus_ms(30_000).as_ms();
    let expected = format!(
        "a limit of queue default allows 1 start per 10000 ms; 2 jobs are ahead of it, expected start {at} ms"
    );
    assert_eq!(words(&mut hall, all[3]), [expected]);
    // Each starts when it was expected to.
    let first = hall.assignments().remove(0).1;
    hall.accept("w", &first).unwrap();
    for &id in &all[1..] {
        hall.pass(9_999);
        assert!(hall.assignments().is_empty());
        hall.pass(1);
        let next = hall.assignments().remove(0).1;
        assert_eq!(next.attempt.job, id);
        hall.accept("w", &next).unwrap();
        hall.ask(Request::Renew { session }).unwrap();
        hall.vacancy(session, 100);
    }
}

#[test]
fn jobs_ahead_count_with_their_weights_and_in_the_order_of_jobs() {
    let mut hall = Hall::new();
    limit(&mut hall, rate(1, 1_000));
    let session = hall.worker("w", "");
    hall.vacancy(session, 100);
    submit(&mut hall, 1);
    let first = hall.submit(job("t")).unwrap().id;
    let heavy = hall.submit(NewJob { throttle_factor: 3, ..job("t") }).unwrap().id;
    let urgent = hall.submit(NewJob { priority: -1, ..job("other") }).unwrap().id;
    let at = |hall: &Hall, ms| Some(ExpectedStart::At(hall.now.wall.plus_ms(ms)));
    let wanted = [(urgent, 0, 1_000), (first, 1, 2_000), (heavy, 2, 5_000)];
    for (id, jobs, ms) in wanted {
        let why = limited(&mut hall, id);
        assert_eq!((why.ahead.jobs, why.start), (jobs, at(&hall, ms)), "job {id}");
    }
}

#[test]
fn a_job_behind_a_concurrency_limit_has_a_position_and_no_made_up_time() {
    let mut hall = Hall::new();
    limit(&mut hall, Limit { by: None, concurrency: Some(1), rate: None });
    let session = hall.worker("w", "");
    hall.vacancy(session, 100);
    let all = submit(&mut hall, 3);
    let name = format!("a limit of queue default allows 1 at once: 1 taken by job {}", all[0]);
    assert_eq!(words(&mut hall, all[1]), [format!("{name}; it is next")]);
    assert_eq!(words(&mut hall, all[2]), [format!("{name}; 1 job is ahead of it")]);
    assert_eq!(limited(&mut hall, all[2]).start, None);
    let both = Limit { concurrency: Some(1), ..rate(1, 10_000) };
    limit(&mut hall, both);
    hall.pass(0);
    let why = limited(&mut hall, all[2]);
    assert!(matches!(why.start, Some(ExpectedStart::NotBefore(_))), "{why:?}");
}

#[test]
fn each_job_behind_a_concurrency_limit_has_its_own_expected_start() {
    let mut hall = Hall::new();
    limit(&mut hall, Limit { by: None, concurrency: Some(2), rate: None });
    hall.set_type("t", |config| config.expected_ms = Some(60_000));
    submit(&mut hall, 1);
    run_one(&mut hall, "w");
    hall.pass(20_000);
    let all = submit(&mut hall, 5);
    run_one(&mut hall, "v");
    let session = hall.worker("x", "");
    hall.vacancy(session, 100);
    // The places are free after 40 and 60 seconds; then each job takes a minute.
    for (n, ms) in [(1, 40_000), (2, 60_000), (3, 100_000), (4, 120_000)] {
        let start = limited(&mut hall, all[n]).start;
        assert_eq!(start, Some(ExpectedStart::About(hall.now.wall.plus_ms(ms))), "job {n}");
    }
    let text = words(&mut hall, all[2]).remove(0);
    assert!(text.contains("1 job is ahead of it, expected start at about "), "{text}");
}

#[test]
fn the_jobs_ahead_are_counted_up_to_a_bound() {
    let mut hall = Hall::new();
    limit(&mut hall, Limit { by: None, concurrency: Some(1), rate: None });
    let session = hall.worker("w", "");
    hall.vacancy(session, 100);
    let all = submit(&mut hall, 1_003);
    assert_eq!(limited(&mut hall, all[1_001]).ahead, Ahead { jobs: 1_000, more: false });
    let last = limited(&mut hall, all[1_002]);
    assert_eq!(last.ahead, Ahead { jobs: 1_000, more: true });
    let text = words(&mut hall, all[1_002]).remove(0);
    assert!(text.ends_with("; more than 1000 jobs are ahead of it"), "{text}");
}

#[test]
fn a_queue_that_no_worker_takes_is_named_with_those_that_are() {
    let mut hall = Hall::new();
    let queue = QueueName::new("mail").unwrap();
    let id = hall.submit(NewJob { queue, ..job("t") }).unwrap().id;
    hall.worker_with("a", "", "queue in (sms,fax)");
    hall.worker_with("b", "", "queue=fax");
    let expected = "no worker takes jobs of queue mail (a takes: fax, sms; b takes: fax)";
    assert_eq!(words(&mut hall, id), [expected]);
    hall.worker_with("c", "", "type=other");
    let text = words(&mut hall, id).remove(0);
    assert!(text.starts_with("no connected worker matches\n  worker a: queue in (fax,sms)"), "{text}");
}

#[test]
fn without_workers_a_job_says_what_it_needs() {
    let mut hall = Hall::new();
    let wanted = NewJob {
        needs: Needs::parse("os=linux").unwrap(),
        uses: Uses::parse("gpu=2").unwrap(),
        ..job("render")
    };
    let id = hall.submit(wanted).unwrap().id;
    let expected = "no worker is connected; it needs one that runs type render in queue default, with os=linux, \
                    with gpu=2 free";
    assert_eq!(words(&mut hall, id), [expected]);
}
