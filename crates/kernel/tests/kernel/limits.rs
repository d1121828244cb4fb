//! Limits of queues and types: what is let through, in which order, and how it comes back.

use crate::rig::{Hall, failed, job, keyed, passed, tries};
use jobhall_core::limits::{KeyExpression, Limit, Rate};
use jobhall_core::needs::Needs;
use jobhall_core::{JobId, Json, NewJob, QueueConfig, QueueName, TypeConfig, TypeName};
use jobhall_kernel::{
    Answer, Assignment, Config, ExpectedStart, LimitOf, Missing, Rejected, Request, SessionId, StoreReply,
    Submit, Why,
};
use jobhall_store::CommitError;

fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

fn at_once(concurrency: u32) -> Limit {
    Limit { by: None, concurrency: Some(concurrency), rate: None }
}

fn by(expression: &str, limit: &Limit) -> Limit {
    Limit { by: Some(KeyExpression::parse(expression).unwrap()), ..limit.clone() }
}

fn rate(count: u32, per_ms: u64, burst: u32) -> Limit {
    Limit { by: None, concurrency: None, rate: Some(Rate { count, per_ms, burst: Some(burst) }) }
}

fn weighing(throttle_factor: u32) -> NewJob {
    NewJob { throttle_factor, ..job("t") }
}

fn with_params(params: &str) -> NewJob {
    NewJob { params: Json::params(params).unwrap(), ..job("t") }
}

fn limit_queue(hall: &mut Hall, name: &str, limits: Vec<Limit>) {
    let config = Some(QueueConfig { limits, ..QueueConfig::default() });
    hall.ask(Request::SetQueue { queue: queue(name), config, expected: None }).unwrap();
}

fn limit_type(hall: &mut Hall, name: &str, limits: Vec<Limit>) {
    let job_type = TypeName::new(name).unwrap();
    let config = Some(TypeConfig { limits, ..TypeConfig::of(&job_type) });
    hall.ask(Request::SetType { job_type, config, expected: None }).unwrap();
}

/// A worker with room for much.
fn crowd(hall: &mut Hall) -> SessionId {
    let session = hall.worker("w", "");
    hall.vacancy(session, 1_000);
    session
}

/// What was given out since the last look.
fn given(hall: &mut Hall) -> Vec<Assignment> {
    hall.assignments().into_iter().map(|(_, assignment)| assignment).collect()
}

fn ids(assignments: &[Assignment]) -> Vec<JobId> {
    assignments.iter().map(|assignment| assignment.attempt.job).collect()
}

fn submit(hall: &mut Hall, wanted: Vec<NewJob>) -> Vec<JobId> {
    wanted.into_iter().map(|job| hall.submit(job).unwrap().id).collect()
}

#[test]
fn h14_running_jobs_are_weighed_and_critical_ones_are_exempt() {
    let mut hall = Hall::new();
    limit_queue(&mut hall, "default", vec![at_once(4)]);
    crowd(&mut hall);
    let jobs = submit(&mut hall, vec![weighing(3), weighing(2), weighing(1), weighing(0), weighing(0)]);
    let first = given(&mut hall);
    // The second does not fit, and the third, behind it, does not overtake it; the critical ones never wait.
    assert_eq!(ids(&first), [jobs[0], jobs[3], jobs[4]]);
    hall.report("w", &first[0], passed()).unwrap();
    assert_eq!(ids(&given(&mut hall)), [jobs[1], jobs[2]]);
}

#[test]
fn h14_quotas_within_a_queue_are_kept_for_each_value() {
    let mut hall = Hall::new();
    limit_queue(&mut hall, "default", vec![at_once(3), by("params.region", &at_once(1))]);
    crowd(&mut hall);
    let regions = ["eu", "eu", "us", "asia", "us", "africa"];
    let wanted = regions.iter().map(|region| with_params(&format!("{{\"region\":\"{region}\"}}")));
    let jobs = submit(&mut hall, wanted.collect());
    let first = given(&mut hall);
    assert_eq!(ids(&first), [jobs[0], jobs[2], jobs[3]], "one of each region, three in all");
    hall.report("w", &first[1], passed()).unwrap();
    // Of the two that waited for the queue the second of `us` comes first; the second of `eu` waits for its region.
    let second = given(&mut hall);
    assert_eq!(ids(&second), [jobs[4]]);
    hall.report("w", &first[0], passed()).unwrap();
    assert_eq!(ids(&given(&mut hall)), [jobs[1]]);
    hall.report("w", &first[2], passed()).unwrap();
    assert_eq!(ids(&given(&mut hall)), [jobs[5]]);
}

#[test]
fn jobs_without_a_value_share_one_bucket() {
    let mut hall = Hall::new();
    limit_queue(&mut hall, "default", vec![by("key", &at_once(1))]);
    crowd(&mut hall);
    let jobs = submit(&mut hall, vec![job("t"), job("t"), keyed("t", "a"), keyed("u", "a")]);
    let first = given(&mut hall);
    assert_eq!(ids(&first), [jobs[0], jobs[2]]);
    assert!(hall.explain(jobs[1]).to_string().contains("a limit of queue default for jobs without key"));
    hall.report("w", &first[0], passed()).unwrap();
    assert_eq!(ids(&given(&mut hall)), [jobs[1]]);
}

#[test]
fn limits_of_queue_and_type_hold_together_or_nothing_is_taken() {
    let mut hall = Hall::new();
    limit_queue(&mut hall, "default", vec![at_once(2)]);
    limit_type(&mut hall, "a", vec![at_once(1)]);
    crowd(&mut hall);
    let jobs = submit(&mut hall, vec![job("a"), job("a"), job("b"), job("b")]);
    let first = given(&mut hall);
    // The second of `a` waits for its type and takes nothing of the queue meanwhile.
    assert_eq!(ids(&first), [jobs[0], jobs[2]]);
    hall.report("w", &first[1], passed()).unwrap();
    assert_eq!(ids(&given(&mut hall)), [jobs[3]]);
    hall.report("w", &first[0], passed()).unwrap();
    assert_eq!(ids(&given(&mut hall)), [jobs[1]]);
}

#[test]
fn a_heavy_job_is_not_overtaken_for_ever() {
    let mut hall = Hall::new();
    limit_queue(&mut hall, "default", vec![at_once(3)]);
    crowd(&mut hall);
    submit(&mut hall, vec![weighing(1), weighing(1)]);
    let mut running = given(&mut hall);
    let heavy = hall.submit(weighing(3)).unwrap().id;
    for _ in 0..5 {
        hall.submit(weighing(1)).unwrap();
    }
    assert!(given(&mut hall).is_empty(), "there is room for a light one, but the heavy one is first");
    hall.report("w", &running.remove(0), passed()).unwrap();
    assert!(given(&mut hall).is_empty());
    hall.report("w", &running.remove(0), passed()).unwrap();
    assert_eq!(ids(&given(&mut hall)), [heavy]);
}

#[test]
fn a_job_heavier_than_its_limit_runs_alone() {
    let mut hall = Hall::new();
    limit_queue(&mut hall, "default", vec![at_once(2)]);
    crowd(&mut hall);
    let jobs = submit(&mut hall, vec![weighing(1), weighing(9), weighing(1)]);
    let first = given(&mut hall);
    assert_eq!(ids(&first), [jobs[0]]);
    let said = hall.explain(jobs[1]).to_string();
    assert!(said.contains("this job weighs 9, more than the limit, so it runs alone"), "{said}");
    hall.report("w", &first[0], passed()).unwrap();
    let second = given(&mut hall);
    assert_eq!(ids(&second), [jobs[1]]);
    hall.report("w", &second[0], passed()).unwrap();
    assert_eq!(ids(&given(&mut hall)), [jobs[2]]);
}

#[test]
fn those_that_wait_come_back_in_their_order() {
    let mut hall = Hall::new();
    limit_queue(&mut hall, "default", vec![at_once(1)]);
    crowd(&mut hall);
    let with = |priority| NewJob { priority, ..job("t") };
    let jobs = submit(&mut hall, vec![with(100), with(100), with(5), with(100), with(50)]);
    let mut order = Vec::new();
    for _ in 0..jobs.len() {
        let now = given(&mut hall);
        assert_eq!(now.len(), 1);
        order.extend(ids(&now));
        hall.report("w", &now[0], passed()).unwrap();
    }
    assert_eq!(order, [jobs[0], jobs[2], jobs[4], jobs[1], jobs[3]]);
}

#[test]
fn a_class_without_workers_does_not_hold_up_the_others_in_a_bucket() {
    let mut hall = Hall::new();
    limit_queue(&mut hall, "default", vec![at_once(1)]);
    let both = hall.worker("w", "gpu=1");
    hall.vacancy(both, 1);
    let needs = Needs::parse("gpu>=1").unwrap();
    let wanted = vec![job("t"), NewJob { needs, ..job("t") }, job("t")];
    let jobs = submit(&mut hall, wanted);
    let first = given(&mut hall);
    assert_eq!(ids(&first), [jobs[0]]);
    hall.vacancy(both, 1);
    hall.pass(1);
    // Everyone waits for the bucket now. Then only a worker without a gpu is left.
    hall.ask(Request::Disconnect { session: both }).unwrap();
    hall.ask(Request::CloseSession { session: both }).unwrap();
    let plain = hall.worker("p", "");
    hall.vacancy(plain, 5);
    let now = given(&mut hall);
    assert_eq!(ids(&now), [jobs[0]], "lost by the first, it goes first");
    hall.report("p", &now[0], passed()).unwrap();
    assert_eq!(ids(&given(&mut hall)), [jobs[2]], "the one that needs a gpu has nobody");
}

#[test]
fn places_are_given_back_by_failure_loss_cancel_and_take_back() {
    let mut hall = Hall::new();
    limit_queue(&mut hall, "default", vec![at_once(1)]);
    let session = crowd(&mut hall);
    let first = hall.submit(NewJob { retry: tries(2), ..job("t") }).unwrap().id;
    let second = hall.submit(job("t")).unwrap().id;
    let now = given(&mut hall);
    assert_eq!(ids(&now), [first]);
    hall.report("w", &now[0], failed("no")).unwrap();
    let now = given(&mut hall);
    assert_eq!(ids(&now), [second], "the first waits for its backoff without its place");
    hall.cancel(second).unwrap();
    assert!(given(&mut hall).is_empty(), "its worker has not confirmed");
    hall.report("w", &now[0], jobhall_core::Report::Cancelled).unwrap();
    hall.pass(5_000);
    let now = given(&mut hall);
    assert_eq!(ids(&now), [first]);
    // Nobody accepts: it is taken back and given out again, and still there is only one place.
    let third = hall.submit(job("t")).unwrap().id;
    hall.pass(5_000);
    let now = given(&mut hall);
    assert_eq!(ids(&now), [first]);
    hall.accept("w", &now[0]).unwrap();
    hall.ask(Request::CloseSession { session }).unwrap();
    crowd(&mut hall);
    let now = given(&mut hall);
    assert_eq!(ids(&now), [third], "the first is lost, and ready a moment later than the third");
    hall.report("w", &now[0], passed()).unwrap();
    assert_eq!(ids(&given(&mut hall)), [first]);
}

#[test]
fn a_claim_that_is_not_stored_gives_back_its_places_and_tokens() {
    let mut hall = Hall::new();
    limit_queue(&mut hall, "default", vec![at_once(1), rate(1, 3_600_000, 1)]);
    let id = hall.submit(job("t")).unwrap().id;
    hall.fail = Some(CommitError::NotCommitted { full: false, message: "no".to_owned() });
    crowd(&mut hall);
    assert!(given(&mut hall).is_empty());
    hall.pass(Config::default().storage_rest_ms);
    let now = given(&mut hall);
    assert_eq!(ids(&now), [id], "the one token of this hour is still there");
    hall.report("w", &now[0], passed()).unwrap();
    // The same where it is handed over with its submit.
    limit_queue(&mut hall, "other", vec![at_once(1), rate(1, 3_600_000, 1)]);
    hall.fail = Some(CommitError::NotCommitted { full: false, message: "no".to_owned() });
    let wanted = NewJob { queue: queue("other"), ..job("t") };
    assert!(matches!(hall.submit(wanted.clone()), Err(Rejected::Storage { .. })));
    hall.pass(Config::default().storage_rest_ms);
    let id = hall.submit(wanted).unwrap().id;
    assert_eq!(ids(&given(&mut hall)), [id]);
}

#[test]
fn a_rate_lets_its_burst_through_and_then_one_after_the_other() {
    let mut hall = Hall::new();
    limit_queue(&mut hall, "default", vec![rate(2, 1_000, 3)]);
    crowd(&mut hall);
    let jobs = submit(&mut hall, vec![job("t"); 6]);
    assert_eq!(ids(&given(&mut hall)), jobs[..3]);
    let why = hall.explain(jobs[3]);
    let Why::Limited(limited) = &why.why[0] else { panic!("{why}") };
    assert_eq!(limited.missing, Missing::Tokens);
    assert_eq!(limited.start, Some(ExpectedStart::At(hall.now.wall.plus_ms(500))));
    hall.pass(499);
    assert!(given(&mut hall).is_empty());
    hall.pass(1);
    assert_eq!(ids(&given(&mut hall)), jobs[3..4]);
    hall.pass(1_000);
    assert_eq!(ids(&given(&mut hall)), jobs[4..]);
}

#[test]
fn after_a_restart_places_are_counted_from_leases_and_a_rate_begins_empty() {
    let mut hall = Hall::new();
    limit_queue(&mut hall, "default", vec![at_once(2)]);
    limit_queue(&mut hall, "slow", vec![rate(1, 10_000, 5)]);
    crowd(&mut hall);
    let jobs = submit(&mut hall, vec![job("t"), job("t"), job("t")]);
    let now = given(&mut hall);
    assert_eq!(ids(&now), jobs[..2]);
    hall.accept("w", &now[0]).unwrap();
    hall.accept("w", &now[1]).unwrap();
    hall.pass(2_000);
    let mut hall = hall.restart(Config::default());
    let session = hall.worker("x", "");
    hall.vacancy(session, 10);
    assert!(given(&mut hall).is_empty(), "two leases are still out");
    let slow = hall.submit(NewJob { queue: queue("slow"), ..job("t") }).unwrap().id;
    assert!(given(&mut hall).is_empty(), "nobody knows what was taken before");
    hall.pass(9_999);
    assert!(given(&mut hall).is_empty());
    hall.pass(1);
    let now = given(&mut hall);
    assert_eq!(ids(&now), [slow]);
    hall.report("x", &now[0], passed()).unwrap();
    hall.pass(20_000);
    let session = hall.worker("y", "");
    hall.vacancy(session, 10);
    let now = given(&mut hall);
    assert_eq!(ids(&now), [jobs[2], jobs[0]], "both are lost, two are given out at once");
}

#[test]
fn a_change_of_limits_holds_at_once_and_keeps_the_count() {
    let mut hall = Hall::new();
    crowd(&mut hall);
    let jobs = submit(&mut hall, vec![job("t"), job("t"), job("t")]);
    let mut running = given(&mut hall);
    assert_eq!(ids(&running), jobs);
    limit_queue(&mut hall, "default", vec![at_once(2)]);
    let more = submit(&mut hall, vec![job("t"), job("t"), job("t")]);
    hall.report("w", &running.remove(0), passed()).unwrap();
    assert!(given(&mut hall).is_empty(), "those that ran before are counted");
    hall.report("w", &running.remove(0), passed()).unwrap();
    let now = given(&mut hall);
    assert_eq!(ids(&now), more[..1]);
    limit_queue(&mut hall, "default", vec![at_once(3)]);
    assert_eq!(ids(&given(&mut hall)), more[1..2], "raised");
    limit_queue(&mut hall, "default", vec![at_once(1)]);
    hall.report("w", &running.remove(0), passed()).unwrap();
    assert!(given(&mut hall).is_empty(), "lowered");
    limit_queue(&mut hall, "default", Vec::new());
    assert_eq!(ids(&given(&mut hall)), more[2..], "gone");
}

#[test]
fn a_change_of_limits_reaches_jobs_whose_specs_are_not_in_memory() {
    let mut hall = Hall::with(Config { spec_bytes: 0, ..Config::default() });
    let wanted = (0..200).map(|n| with_params(&format!("{{\"n\":{}}}", n % 2))).collect();
    let jobs = submit(&mut hall, wanted);
    limit_queue(&mut hall, "default", vec![by("params.n", &at_once(1))]);
    crowd(&mut hall);
    let mut all = Vec::new();
    let mut now = given(&mut hall);
    while !now.is_empty() {
        assert!(now.len() <= 2, "one of each value");
        all.extend(ids(&now));
        for assignment in now {
            hall.report("w", &assignment, passed()).unwrap();
        }
        now = given(&mut hall);
    }
    all.sort_unstable();
    assert_eq!(all, jobs);
}

#[test]
fn one_vacancy_looks_at_many_jobs_in_turns() {
    let mut hall = Hall::new();
    limit_queue(&mut hall, "limited", vec![at_once(1)]);
    let limited = NewJob { queue: queue("limited"), priority: 1, ..job("t") };
    hall.submit_all(vec![limited; 5_000]).unwrap();
    let free = hall.submit(job("t")).unwrap().id;
    let session = hall.worker("w", "");
    hall.vacancy(session, 2);
    assert_eq!(given(&mut hall).len(), 1, "it has not seen everything yet");
    hall.pass(0);
    hall.pass(0);
    hall.pass(0);
    hall.pass(0);
    hall.pass(0);
    assert_eq!(ids(&given(&mut hall)), [free]);
}

#[test]
fn changed_params_put_a_job_into_another_bucket() {
    let mut hall = Hall::new();
    limit_queue(&mut hall, "default", vec![by("params.n", &at_once(1))]);
    crowd(&mut hall);
    let held = hall.submit(with_params("{\"n\":1}")).unwrap().id;
    let moved = hall.submit(NewJob { retry: tries(3), ..with_params("{\"n\":2}") }).unwrap().id;
    let now = given(&mut hall);
    assert_eq!(ids(&now), [held, moved]);
    let verdict = jobhall_core::Verdict {
        when: jobhall_core::When::Now,
        params: Some(Json::params("{\"n\":1}").unwrap()),
    };
    let report = jobhall_core::Report::Failed(jobhall_core::Failure::new("x", ""), Some(verdict));
    hall.report("w", &now[1], report).unwrap();
    assert!(given(&mut hall).is_empty(), "it waits for the other one now");
    hall.report("w", &now[0], passed()).unwrap();
    assert_eq!(ids(&given(&mut hall)), [moved]);
}

#[test]
fn explanations_name_the_limit_and_who_has_it() {
    let mut hall = Hall::new();
    limit_queue(&mut hall, "default", vec![by("params.c", &at_once(2))]);
    crowd(&mut hall);
    let jobs = submit(&mut hall, vec![with_params("{\"c\":\"acme\"}"); 3]);
    let why = hall.explain(jobs[2]);
    let Why::Limited(limited) = &why.why[0] else { panic!("{why}") };
    assert_eq!(limited.of, LimitOf::Queue(queue("default")));
    assert_eq!((limited.taken, limited.weight, &limited.by), (2, 1, &jobs[..2].to_vec()));
    assert_eq!(
        why.to_string(),
        format!(
            "job {} is queued\na limit of queue default for params.c = \"acme\" allows 2 at once: 2 taken by jobs {}, {}; \
             it is next",
            jobs[2], jobs[0], jobs[1]
        )
    );
}

#[test]
fn a_configuration_that_is_wrong_changes_nothing() {
    let mut hall = Hall::new();
    let set =
        |config, expected| Request::SetQueue { queue: queue("default"), config: Some(config), expected };
    let wrong = QueueConfig { paused: true, limits: vec![at_once(0)], ..QueueConfig::default() };
    assert!(matches!(hall.ask(set(wrong, None)), Err(Rejected::Limit(_))));
    assert_eq!(hall.ask(Request::QueueConfigs {}), Ok(Answer::QueueConfigs(Vec::new())));
    let good = QueueConfig { limits: vec![at_once(1)], ..QueueConfig::default() };
    assert_eq!(hall.ask(set(good.clone(), Some(0))), Ok(Answer::Rev(1)));
    let refused = hall.ask(set(QueueConfig::default(), Some(0)));
    assert_eq!(refused, Err(Rejected::QueueChanged { queue: queue("default"), rev: 1 }));
    let all = Answer::QueueConfigs(vec![(queue("default"), 1, good)]);
    assert_eq!(hall.ask(Request::QueueConfigs {}), Ok(all));
}

#[test]
fn a_job_that_is_handed_over_on_its_way_counts_under_limits_that_come_meanwhile() {
    let mut hall = Hall::new();
    crowd(&mut hall);
    hall.hold = true;
    let config =
        Some(QueueConfig { limits: vec![at_once(1), rate(1, 3_600_000, 1)], ..QueueConfig::default() });
    hall.ask_later(Request::SetQueue { queue: queue("default"), config, expected: None });
    let submit = |n| Request::Submit { submit: Submit { jobs: vec![job("t"); n], ..Submit::default() } };
    hall.ask_later(submit(1));
    // The limits are stored, the job that was handed over before is not yet.
    let (number, units) = hall.held.remove(0);
    let stored = hall.store.commit_now(units);
    hall.kernel.store_replied(hall.now, StoreReply::Committed(number, Ok(stored)));
    hall.ask_later(submit(1));
    hall.let_through();
    let now = given(&mut hall);
    assert_eq!(now.len(), 1, "the second waits for the first");
    hall.report("w", &now[0], passed()).unwrap();
    assert_eq!(given(&mut hall).len(), 1);
    // The first had not taken the token of this hour: it began before there was a rate.
    let third = hall.submit(job("t")).unwrap().id;
    assert!(matches!(hall.explain(third).why[..], [Why::Limited(_)]));
}

#[test]
fn h09_none_starts_early_and_each_as_soon_after_as_limits_allow() {
    let mut hall = Hall::new();
    limit_queue(&mut hall, "default", vec![at_once(1)]);
    crowd(&mut hall);
    let at = |hall: &Hall, ms| Some(hall.now.wall.plus_ms(ms));
    let now = hall.submit(job("t")).unwrap().id;
    let first = given(&mut hall);
    assert_eq!(
        first.iter().map(|a| a.attempt.job).collect::<Vec<_>>(),
        [now],
        "without a time it starts now"
    );
    hall.report("w", &first[0], passed()).unwrap();
    let run_at = at(&hall, 10_000);
    let soon = hall.submit(NewJob { run_at, ..job("t") }).unwrap().id;
    let run_at = at(&hall, 10_001);
    let next = hall.submit(NewJob { run_at, ..job("t") }).unwrap().id;
    hall.pass(9_999);
    assert!(given(&mut hall).is_empty(), "not a moment early");
    hall.pass(1);
    let second = given(&mut hall);
    assert_eq!(second.iter().map(|a| a.attempt.job).collect::<Vec<_>>(), [soon]);
    hall.accept("w", &second[0]).unwrap();
    hall.pass(5_000);
    assert!(given(&mut hall).is_empty(), "its time has come, but the limit is reached");
    hall.report("w", &second[0], passed()).unwrap();
    let third = given(&mut hall);
    assert_eq!(third.iter().map(|a| a.attempt.job).collect::<Vec<_>>(), [next], "at once when there is room");
}

#[test]
fn a_lent_place_has_one_user_after_a_restart_too() {
    let mut hall = Hall::new();
    limit_type(&mut hall, "p", vec![at_once(1)]);
    hall.submit(job("p")).unwrap();
    let parent = hall.take_one("w");
    hall.accept("w", &parent).unwrap();
    let first = hall.call("w", &parent, "first", job("p")).unwrap().id;
    let second = hall.call("w", &parent, "second", job("p")).unwrap().id;
    hall.wait("w", &parent);
    let child = hall.take_one("w");
    assert_eq!(child.attempt.job, first, "it uses the place that the waiting job lends");
    hall.accept("w", &child).unwrap();
    hall.pass(2_000);
    let mut hall = hall.restart(Config::default());
    let session = hall.come_back("w", &[&parent, &child]);
    hall.vacancy(session, 1);
    assert!(hall.assignments().is_empty(), "the place is in use");
    hall.report("w", &child, passed()).unwrap();
    let next = hall.assignments();
    assert_eq!(next.iter().map(|(_, held)| held.attempt.job).collect::<Vec<_>>(), [second]);
}

/// A claim is under way when a limit of one is stored; then a worker for another job comes.
fn claim_in_flight(config: Config) {
    let mut hall = Hall::with(config);
    let jobs = submit(&mut hall, vec![job("t"), NewJob { needs: Needs::parse("gpu").unwrap(), ..job("t") }]);
    hall.hold = true;
    let config = Some(QueueConfig { limits: vec![at_once(1)], ..QueueConfig::default() });
    hall.ask_later(Request::SetQueue { queue: queue("default"), config, expected: None });
    let first = hall.worker("w", "");
    hall.vacancy(first, 1);
    assert_eq!(hall.held.len(), 2, "the limit and the claim are on their way");
    let (number, units) = hall.held.remove(0);
    let committed = hall.store.commit_now(units);
    hall.kernel.store_replied(hall.now, StoreReply::Committed(number, Ok(committed)));
    hall.pump();
    let second = hall.worker("g", "gpu=1");
    hall.vacancy(second, 1);
    hall.let_through();
    let assigned = given(&mut hall);
    assert_eq!(ids(&assigned), [jobs[0]], "the claim on its way has the only place");
    hall.report("w", &assigned[0], passed()).unwrap();
    assert_eq!(ids(&given(&mut hall)), [jobs[1]]);
}

#[test]
fn a_claim_in_flight_counts_under_a_limit_that_is_set_meanwhile() {
    claim_in_flight(Config::default());
}

#[test]
fn so_does_one_whose_spec_is_not_in_memory() {
    claim_in_flight(Config { spec_bytes: 0, ..Config::default() });
}
