//! Jobs that come after others: released when the last has ended, taken along by a failure, over restarts too.

use crate::rig::{Hall, failed, job, keyed, passed, tries};
use jobhall_core::{After, Failure, JobId, NewJob, OnDuplicate, Scope, StateName, Submitted, TypeName};
use jobhall_kernel::{AttemptRef, Config, Effect, Rejected, Request, Submit, Why};
use jobhall_store::CommitError;

fn behind(job_type: &str, after: &[JobId]) -> NewJob {
    NewJob { after: after.iter().map(|&id| After::Job(id)).collect(), ..job(job_type) }
}

fn at(job_type: &str, after: &[usize]) -> NewJob {
    NewJob { after: after.iter().map(|&at| After::Position(at)).collect(), ..job(job_type) }
}

fn once(wanted: NewJob) -> NewJob {
    NewJob { retry: tries(1), ..wanted }
}

fn ids(submitted: &[Submitted]) -> Vec<JobId> {
    submitted.iter().map(|submitted| submitted.id).collect()
}

fn state(hall: &mut Hall, id: JobId) -> StateName {
    hall.state(id)
}

#[test]
fn a_job_waits_until_all_that_it_comes_after_have_succeeded() {
    let mut hall = Hall::new();
    let [a, b] = [hall.submit(job("t")).unwrap().id, hall.submit(job("t")).unwrap().id];
    let last = hall.submit(behind("last", &[a, b, a])).unwrap().id;
    assert_eq!(hall.stored(last).spec.after[..], [a, b]);
    let held = hall.take_one("w");
    hall.report("w", &held, passed()).unwrap();
    assert_eq!(state(&mut hall, last), StateName::Blocked);
    let held = hall.take_one("w");
    hall.report("w", &held, passed()).unwrap();
    assert_eq!(state(&mut hall, last), StateName::Queued);
    assert!(hall.effects.contains(&Effect::Live(last, StateName::Queued)), "watchers hear of it");
    assert_eq!(hall.stored(last).status.state.name(), StateName::Blocked, "no write was spent on it");
    let held = hall.take_one("w");
    assert_eq!(held.attempt.job, last);
    hall.report("w", &held, passed()).unwrap();
    assert_eq!(state(&mut hall, last), StateName::Succeeded);
}

#[test]
fn a_release_that_nobody_claims_is_stored_after_a_second() {
    let mut hall = Hall::new();
    let a = hall.submit(job("t")).unwrap().id;
    let last = hall.submit(behind("last", &[a])).unwrap().id;
    let held = hall.take_one("w");
    hall.report("w", &held, passed()).unwrap();
    assert_eq!(hall.stored(last).status.state.name(), StateName::Blocked);
    hall.fail = Some(CommitError::NotCommitted { full: true, message: "full".to_owned() });
    hall.pass(1_000);
    assert_eq!(hall.stored(last).status.state.name(), StateName::Blocked, "the store could not write");
    hall.pass(2_500);
    assert_eq!(hall.stored(last).status.state.name(), StateName::Queued);
    let held = hall.take_one("w");
    assert_eq!(held.attempt.job, last);
}

#[test]
fn a_chain_goes_from_end_to_claim_in_two_commits() {
    let mut hall = Hall::new();
    let a = hall.submit(job("t")).unwrap().id;
    let b = hall.submit(behind("t", &[a])).unwrap().id;
    let session = hall.worker("w", "");
    hall.vacancy(session, 2);
    let held = hall.assignments().remove(0).1;
    let before = hall.store.feed_now(0, usize::MAX).rows.len();
    hall.report("w", &held, passed()).unwrap();
    assert_eq!(hall.assignments().remove(0).1.attempt.job, b);
    assert_eq!(hall.store.feed_now(0, usize::MAX).rows.len() - before, 2);
}

#[test]
fn a_failed_dependency_fails_what_comes_after_and_a_cancelled_one_cancels_it() {
    for (report, end, reason) in [
        (failed("no"), StateName::Failed, "dependency_failed"),
        (jobhall_core::Report::Crashed(Failure::new("x", ""), None), StateName::Failed, "dependency_failed"),
        (jobhall_core::Report::Cancelled, StateName::Cancelled, "dependency_cancelled"),
    ] {
        let mut hall = Hall::new();
        let a = hall.submit(once(job("t"))).unwrap().id;
        let b = hall.submit(behind("t", &[a])).unwrap().id;
        let c = hall.submit(behind("t", &[b])).unwrap().id;
        let anyway = hall.submit(NewJob { after_any: true, ..behind("t", &[b]) }).unwrap().id;
        let held = hall.take_one("w");
        if end == StateName::Cancelled {
            hall.cancel(a).unwrap();
        }
        hall.report("w", &held, report).unwrap();
        for (id, before) in [(b, a), (c, b)] {
            let shown = hall.show(id).job;
            assert_eq!(shown.status.state.name(), end);
            let error = shown.status.state.error().unwrap().clone();
            assert_eq!(error.reason, reason);
            assert!(error.explanation.contains(&format!("job {before}")), "{}", error.explanation);
            assert_eq!(error.data.unwrap().as_str(), format!("{{\"job\":{before}}}"));
        }
        assert_eq!(state(&mut hall, anyway), StateName::Queued);
    }
}

#[test]
fn a_chain_and_a_fan_of_a_hundred_thousand_are_taken_along_in_slices() {
    const MANY: usize = 100_000;
    for chain in [true, false] {
        let mut hall = Hall::new();
        let first = hall.submit(once(job("t"))).unwrap().id;
        let mut last = first;
        for _ in 0..MANY / 10_000 {
            let jobs = (0..10_000).map(|n| match (chain, n) {
                (true, 0) | (false, _) => behind("t", &[last]),
                (true, n) => at("t", &[n - 1]),
            });
            let submitted = hall.submit_all(jobs.collect()).unwrap();
            if chain {
                last = submitted.last().unwrap().id;
            }
        }
        let held = hall.take_one("w");
        let before = hall.store.feed_now(0, usize::MAX).rows.len();
        hall.hold = true;
        hall.ask_later(Request::Report {
            of: AttemptRef { worker: crate::rig::worker("w"), attempt: held.attempt, lease: held.lease },
            report: failed("no"),
            records: Vec::new(),
        });
        hall.hold = false;
        hall.let_through();
        hall.pass(1_000);
        let rows = hall.store.feed_now(before as u64, usize::MAX).rows;
        let largest = rows.iter().map(|row| row.entries.len()).max().unwrap();
        assert!(largest <= 500, "{largest} in one commit");
        assert!(rows.len() <= MANY / 500 + 2, "{} commits", rows.len());
        assert_eq!(hall.kernel.open_count(), 0);
        let fell = hall.store.all_jobs();
        assert!(fell.iter().all(|job| job.status.state.name() == StateName::Failed));
        assert!(hall.kernel.is_idle());
    }
}

#[test]
fn a_cascade_goes_on_after_a_crash_in_its_middle() {
    let mut hall = Hall::new();
    let first = hall.submit(once(job("t"))).unwrap().id;
    let all = hall.submit_all(
        (0..2_000).map(|n| if n == 0 { behind("t", &[first]) } else { at("t", &[n - 1]) }).collect(),
    );
    let all = ids(&all.unwrap());
    let held = hall.take_one("w");
    hall.hold = true;
    hall.ask_later(Request::Report {
        of: AttemptRef { worker: crate::rig::worker("w"), attempt: held.attempt, lease: held.lease },
        report: failed("no"),
        records: Vec::new(),
    });
    // The end of the first and one slice are stored, then the hall dies.
    for _ in 0..2 {
        let (number, units) = hall.held.remove(0);
        let committed = hall.store.commit_now(units);
        let now = hall.now;
        hall.kernel.store_replied(now, jobhall_kernel::StoreReply::Committed(number, Ok(committed)));
        hall.pump();
    }
    let over =
        |hall: &Hall| hall.store.all_jobs().iter().filter(|job| job.status.state.is_terminal()).count();
    assert_eq!(over(&hall), 501);
    hall.hold = false;
    let mut hall = hall.restart(Config::default());
    hall.pass(1_000);
    assert_eq!(over(&hall), 2_001);
    assert_eq!(state(&mut hall, all[1_999]), StateName::Failed);
}

#[test]
fn a_restart_knows_who_waits_for_whom() {
    let mut hall = Hall::new();
    let [a, b] = [hall.submit(job("t")).unwrap().id, hall.submit(job("t")).unwrap().id];
    let last = hall.submit(behind("last", &[a, b])).unwrap().id;
    let over = hall.submit(behind("over", &[a])).unwrap().id;
    let held = hall.take_one("w");
    hall.report("w", &held, passed()).unwrap();
    let mut hall = hall.restart(Config::default());
    assert_eq!(state(&mut hall, last), StateName::Blocked);
    assert_eq!(state(&mut hall, over), StateName::Queued, "released before, and not stored");
    let held = hall.take_one("v");
    assert_eq!(held.attempt.job, b);
    hall.report("v", &held, passed()).unwrap();
    assert_eq!(state(&mut hall, last), StateName::Queued);
}

#[test]
fn a_failed_job_is_not_removed_before_all_have_heard_of_it() {
    let mut hall = Hall::new();
    let first = hall.submit(once(job("t"))).unwrap().id;
    let b = hall.submit(behind("t", &[first])).unwrap().id;
    let held = hall.take_one("w");
    hall.report_slowly("w", &held, failed("no"));
    assert_eq!(hall.ask(Request::Remove { ids: vec![first] }), Ok(jobhall_kernel::Answer::Removed(0)));
    hall.let_through();
    assert_eq!(state(&mut hall, b), StateName::Failed);
    assert_eq!(hall.ask(Request::Remove { ids: vec![first] }), Ok(jobhall_kernel::Answer::Removed(1)));
}

#[test]
fn a_submit_names_only_jobs_that_can_still_be_waited_for() {
    let mut hall = Hall::with(Config { cached: 1, ..Config::default() });
    let good = hall.submit(job("t")).unwrap().id;
    let held = hall.take_one("w");
    hall.report("w", &held, passed()).unwrap();
    let bad = hall.submit(once(job("t"))).unwrap().id;
    let held = hall.take_one("w");
    hall.report("w", &held, failed("no")).unwrap();
    let before = hall.store.all_jobs().len();
    let unknown = JobId::new(999_999).unwrap();
    let refused = hall.submit(behind("t", &[good, unknown])).unwrap_err();
    assert_eq!(refused.to_string(), "after: there is no job 999999");
    for _ in 0..2 {
        let refused = hall.submit(behind("t", &[good, bad])).unwrap_err();
        let text = format!("after: job {bad} has ended without success (failed), and after_any is not set");
        assert_eq!(refused.to_string(), text, "from the cache and from the store alike");
        hall.show(good);
    }
    let mine = Scope::new(&["mine"]).unwrap();
    let queue = jobhall_core::QueueName::new("mine").unwrap();
    let foreign = hall.submit(NewJob { scope: mine, queue, ..behind("t", &[good]) }).unwrap_err();
    assert_eq!(foreign, Rejected::NoSuchDependency(good), "what a token does not reach is not there");
    let many = vec![After::Job(good); 10_001];
    let refused = hall.submit(NewJob { after: many, ..job("t") }).unwrap_err();
    assert_eq!(refused.to_string(), "after of 10001 is outside 0 to 10000");
    assert_eq!(hall.store.all_jobs().len(), before, "nothing was written");
    let fine = hall.submit(behind("t", &[good])).unwrap().id;
    assert_eq!(state(&mut hall, fine), StateName::Queued, "a success need not be waited for");
    let any = hall.submit(NewJob { after_any: true, ..behind("t", &[bad]) }).unwrap().id;
    assert_eq!(state(&mut hall, any), StateName::Queued);
}

#[test]
fn a_whole_graph_goes_in_by_one_submit_and_a_circle_is_named() {
    let mut hall = Hall::new();
    let all = hall.submit_all(vec![job("a"), at("b", &[0]), at("c", &[0]), at("d", &[1, 2])]).unwrap();
    let [a, b, c, d] = ids(&all)[..] else { panic!() };
    assert_eq!(hall.stored(d).spec.after[..], [b, c]);
    assert_eq!(hall.stored(b).spec.after[..], [a]);
    let before = hall.store.all_jobs().len();
    let circle = hall.submit_all(vec![job("a"), at("b", &[3]), at("c", &[1]), at("d", &[2, 0])]).unwrap_err();
    assert_eq!(circle.to_string(), "after: jobs #1 → #3 → #2 → #1 of this submit wait for each other");
    let itself = hall.submit(at("b", &[0])).unwrap_err();
    assert_eq!(itself.to_string(), "after: jobs #0 → #0 of this submit wait for each other");
    let late = hall.submit_all(vec![at("a", &[1]), job("b")]).unwrap_err();
    let text = "after: job #0 names #1, but a job can only depend on earlier ones of the same submit";
    assert_eq!(late.to_string(), text);
    let nowhere = hall.submit(at("a", &[7])).unwrap_err();
    assert_eq!(nowhere, Rejected::NotEarlier { job: 0, before: 7 });
    assert_eq!(hall.store.all_jobs().len(), before, "nothing was written");
}

#[test]
fn a_position_stands_for_whatever_came_of_that_job() {
    let mut hall = Hall::new();
    let live = hall.submit(keyed("t", "k")).unwrap().id;
    let jobs = vec![keyed("t", "k"), at("b", &[0]), keyed("t", "k"), at("c", &[2])];
    let all = ids(&hall.submit_all(jobs).unwrap());
    assert_eq!((all[0], all[2]), (live, live));
    for id in [all[1], all[3]] {
        assert_eq!(hall.stored(id).spec.after[..], [live]);
    }
    let held = hall.take_one("w");
    hall.report("w", &held, passed()).unwrap();
    assert_eq!(state(&mut hall, all[1]), StateName::Queued);
}

#[test]
fn a_superseding_job_that_also_comes_after_others_waits_for_both() {
    let mut hall = Hall::new();
    let other = hall.submit(job("other")).unwrap().id;
    let holder = hall.submit(keyed("t", "k")).unwrap().id;
    let session = hall.worker("w", "");
    hall.vacancy(session, 2);
    let held: Vec<_> = hall.assignments().into_iter().map(|(_, assignment)| assignment).collect();
    let wanted = NewJob { on_duplicate: OnDuplicate::Supersede, ..keyed("t", "k") };
    let next = hall.submit(NewJob { after: vec![After::Job(other)], ..wanted }).unwrap().id;
    let why = hall.explain(next).why;
    assert!(matches!(&why[0], Why::KeyHeld(blocker) if blocker.job == holder), "{why:?}");
    assert!(matches!(why[1], Why::Dependencies { .. }));
    hall.report("w", &held[0], passed()).unwrap();
    assert_eq!(state(&mut hall, next), StateName::Blocked);
    hall.report("w", &held[1], jobhall_core::Report::Cancelled).unwrap();
    assert_eq!(state(&mut hall, next), StateName::Queued);
    let stored = hall.stored(next);
    assert_eq!(stored.status.state.name(), StateName::Queued, "the release of its key was a write");
}

#[test]
fn a_busy_job_hears_of_an_end_when_it_is_free() {
    for end in [passed(), failed("no")] {
        let mut hall = Hall::new();
        let a = hall.submit(once(job("t"))).unwrap().id;
        let b = hall.submit(behind("t", &[a])).unwrap().id;
        let again = NewJob { on_duplicate: OnDuplicate::RunAgain, ..keyed("k", "k") };
        let c = hall.submit(NewJob { after: vec![After::Job(a)], ..again.clone() }).unwrap().id;
        let held = hall.take_one("w");
        hall.report_slowly("w", &held, end.clone());
        let marked =
            hall.ask_later(Request::Submit { submit: Submit { jobs: vec![again], ..Submit::default() } });
        let cancelled = hall.ask_later(Request::Cancel { id: b, failure: Failure::new("cancelled", "") });
        hall.let_through();
        assert!(hall.answers[&marked].is_ok());
        let success = end == passed();
        // The cancel was asked for after the end, and loses against a failure that came before.
        assert_eq!(hall.answers[&cancelled].is_ok(), success || state(&mut hall, b) == StateName::Cancelled);
        assert!(state(&mut hall, b).is_terminal());
        let kept = state(&mut hall, c);
        assert_eq!(kept, if success { StateName::Queued } else { StateName::Failed });
        let types = hall
            .store
            .all_jobs()
            .iter()
            .filter(|job| job.spec.job_type == TypeName::new("k").unwrap())
            .count();
        assert_eq!(types, if success { 1 } else { 2 }, "its follow-up is made when it fails");
    }
}

#[test]
fn explain_names_the_first_jobs_that_must_end() {
    let mut hall = Hall::new();
    let all = ids(&hall.submit_all(vec![job("t"); 7]).unwrap());
    let last = hall.submit(behind("t", &all)).unwrap().id;
    let told = hall.explain(last).to_string();
    let names: Vec<_> = all[..5].iter().map(|id| format!("job {id} (queued)")).collect();
    let text = format!("it depends on {} and 2 more, which must end first", names.join(", "));
    let mut lines = told.lines();
    assert_eq!(lines.next(), Some(&*format!("job {last} is blocked")));
    assert_eq!(lines.next(), Some(&*text));
    assert_eq!(lines.count(), 5, "one for each of these jobs");
}

#[test]
fn a_cascade_rests_while_the_store_cannot_write_and_then_goes_on() {
    let mut hall = Hall::new();
    let first = hall.submit(once(job("t"))).unwrap().id;
    let b = hall.submit(behind("t", &[first])).unwrap().id;
    let held = hall.take_one("w");
    hall.report_slowly("w", &held, failed("no"));
    hall.fail = Some(CommitError::NotCommitted { full: true, message: "full".to_owned() });
    hall.let_through();
    assert_eq!(state(&mut hall, b), StateName::Blocked);
    hall.pass(3_000);
    assert_eq!(state(&mut hall, b), StateName::Failed);
}

#[test]
fn a_job_that_comes_after_the_one_it_supersedes_is_cancelled_with_it() {
    let mut hall = Hall::new();
    for (after_any, ends) in [(false, StateName::Cancelled), (true, StateName::Queued)] {
        let old = hall.submit(keyed("t", "k")).unwrap().id;
        let after = vec![After::Job(old)];
        let on_duplicate = OnDuplicate::Supersede;
        let new = NewJob { after, after_any, on_duplicate, ..keyed("t", "k") };
        let new = hall.submit(new).unwrap().id;
        assert_eq!((state(&mut hall, old), state(&mut hall, new)), (StateName::Cancelled, ends));
        let hall = &mut hall;
        let error = hall.stored(new).status.state.error().map(|failure| failure.reason.clone());
        assert_eq!(error.as_deref(), (!after_any).then_some("dependency_cancelled"));
    }
}

#[test]
fn a_job_that_is_about_to_be_taken_along_is_explained() {
    let mut hall = Hall::new();
    let first = hall.submit(once(job("t"))).unwrap().id;
    let last = hall.submit(behind("last", &[first])).unwrap().id;
    let held = hall.take_one("w");
    hall.report_slowly("w", &held, failed("no"));
    hall.fail = Some(CommitError::NotCommitted { full: false, message: "no".to_owned() });
    hall.let_through();
    assert_eq!((state(&mut hall, first), state(&mut hall, last)), (StateName::Failed, StateName::Blocked));
    assert_eq!(hall.explain(last).why, [Why::DependenciesEnded]);
    hall.pass(5_000);
    assert_eq!(state(&mut hall, last), StateName::Failed);
}

#[test]
fn ground_6_dependencies_keep_the_order_of_the_request_and_are_named_once() {
    let mut hall = Hall::new();
    let [a, b, c] = [0, 1, 2].map(|_| hall.submit(job("t")).unwrap().id);
    let last = hall.submit(behind("last", &[c, a, c, b, a])).unwrap().id;
    assert_eq!(hall.stored(last).spec.after[..], [c, a, b]);
    let mixed = NewJob {
        after: vec![After::Position(1), After::Job(b), After::Position(0), After::Job(a)],
        ..job("mixed")
    };
    let made = ids(&hall.submit_all(vec![job("t"), job("t"), mixed]).unwrap());
    assert_eq!(hall.stored(made[2]).spec.after[..], [made[1], b, made[0], a]);
}

fn retried(hall: &mut Hall, id: JobId) -> JobId {
    match hall.ask(Request::Retry { id, name: None }) {
        Ok(jobhall_kernel::Answer::Submitted(made)) => made[0].id,
        other => panic!("{other:?}"),
    }
}

#[test]
fn ground_6_a_manual_retry_keeps_its_inputs_in_order() {
    // With one completed job in memory the inputs are read from the store.
    for cached in [1, 100] {
        let mut hall = Hall::with(Config { cached, ..Config::default() });
        let [a, b] = [hall.submit(job("t")).unwrap().id, hall.submit(job("t")).unwrap().id];
        let merge = hall.submit(once(behind("merge", &[b, a]))).unwrap().id;
        for report in [passed(), passed(), failed("no")] {
            let held = hall.take_one("w");
            hall.report("w", &held, report).unwrap();
        }
        assert_eq!(state(&mut hall, merge), StateName::Failed);
        let again = retried(&mut hall, merge);
        assert_eq!(hall.stored(again).spec.after[..], [b, a], "with {cached} in memory");
        assert_eq!(state(&mut hall, again), StateName::Queued, "they are met");
        assert_eq!(hall.take_one("w").attempt.job, again);
    }
}

#[test]
fn ground_6_a_manual_retry_waits_for_open_inputs_and_leaves_out_those_that_cannot_be_met() {
    let mut hall = Hall::with(Config { cached: 1, ..Config::default() });
    let [good, bad, gone] = [0, 1, 2].map(|_| hall.submit(once(job("t"))).unwrap().id);
    let open = hall.submit(once(job("t"))).unwrap().id;
    let after = [open, bad, gone, good];
    let merge = hall.submit(once(behind("merge", &after))).unwrap().id;
    let any = hall.submit(NewJob { after_any: true, ..once(behind("any", &after)) }).unwrap().id;
    hall.cancel(any).unwrap();
    for report in [passed(), failed("no"), passed()] {
        let held = hall.take_one("w");
        hall.report("w", &held, report).unwrap();
    }
    assert_eq!(state(&mut hall, merge), StateName::Failed, "with its second dependency");
    hall.ask(Request::Remove { ids: vec![gone] }).unwrap();
    let again = retried(&mut hall, merge);
    assert_eq!(hall.stored(again).spec.after[..], [open, good]);
    assert_eq!(state(&mut hall, again), StateName::Blocked);
    let any = retried(&mut hall, any);
    assert_eq!(hall.stored(any).spec.after[..], [open, bad, good], "it accepts any end");
    let held = hall.take_one("w");
    assert_eq!(held.attempt.job, open);
    hall.report("w", &held, passed()).unwrap();
    assert_eq!(state(&mut hall, again), StateName::Queued);
}
