//! Every job is read as it was written, after any sequence of events, also after the store was reopened.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

mod fixture;

use std::collections::BTreeSet;
use std::sync::Arc;

use fixture::{at, change, id, inserting, open, wait};
use jobhall_core::needs::{Needs, Uses};
use jobhall_core::{
    Backoff, Decision, Dice, Event, Failure, GroupId, Job, JobSpec, JobStatus, Json, Key, LeaseId, Outcome,
    OutcomeSet, Owner, QueueName, Report, RetryPolicy, ScheduleName, Tag, Time, Timeouts, TypeName, Verdict,
    When, Windows, WorkerName, transition,
};
use jobhall_store::{Memory, Store, Unit};
use jobhall_store_sqlite::Sqlite;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Happening {
    Claim(u128, String),
    Accept,
    Progress,
    Report(Report, u64),
    TakeBack,
    LeaseEnd,
    Cancel(Failure),
    Again(Json),
    Hold(bool),
    Wait,
    Resume,
    StartedExternal(i64),
    Complete(Report),
    TimeOut(Failure, bool),
    Edit(i64),
    DependenciesMet,
}

fn json() -> impl Strategy<Value = Json> {
    prop_oneof![
        Just(Json::null()),
        Just(Json::empty_object()),
        "[a-z\"\\\\é\u{0}\n ]{0,20}".prop_map(|text| Json::trusted(&serde_json::to_string(&text).unwrap())),
        Just(Json::trusted(&format!("\"{}\"", "x".repeat(20_000)))),
    ]
}

fn failure() -> impl Strategy<Value = Failure> {
    ("[a-z]{1,9}", "[ -~é\n]{0,30}", prop::option::of(json()))
        .prop_map(|(reason, explanation, data)| Failure { reason, explanation, data })
}

fn verdict() -> impl Strategy<Value = Option<Verdict>> {
    let when = prop_oneof![
        3 => Just(When::Never),
        1 => Just(When::Now),
        1 => (0u64..9_000).prop_map(When::In),
        1 => (0u64..9_000).prop_map(When::Snooze)
    ];
    prop::option::of((when, prop::option::of(json())).prop_map(|(when, params)| Verdict { when, params }))
}

fn report() -> impl Strategy<Value = Report> {
    prop_oneof![
        json().prop_map(Report::Succeeded),
        json().prop_map(Report::Skipped),
        (failure(), verdict()).prop_map(|(failure, verdict)| Report::Failed(failure, verdict)),
        (failure(), verdict()).prop_map(|(failure, verdict)| Report::Crashed(failure, verdict)),
        (failure(), verdict()).prop_map(|(failure, verdict)| Report::TimedOut(failure, verdict)),
        Just(Report::Cancelled),
    ]
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        5 => (any::<u128>(), "[a-z0-9]{1,12}").prop_map(|(lease, worker)| Happening::Claim(lease, worker)),
        3 => Just(Happening::Accept),
        2 => Just(Happening::Progress),
        5 => (report(), any::<u64>()).prop_map(|(report, dice)| Happening::Report(report, dice)),
        1 => Just(Happening::TakeBack),
        1 => Just(Happening::LeaseEnd),
        1 => failure().prop_map(Happening::Cancel),
        1 => json().prop_map(Happening::Again),
        1 => any::<bool>().prop_map(Happening::Hold),
        2 => Just(Happening::Wait),
        1 => Just(Happening::Resume),
        2 => (0i64..99_999).prop_map(Happening::StartedExternal),
        2 => report().prop_map(Happening::Complete),
        1 => (failure(), any::<bool>()).prop_map(|(failure, forced)| Happening::TimeOut(failure, forced)),
        1 => (0i64..99_999).prop_map(Happening::Edit),
        3 => Just(Happening::DependenciesMet),
    ]
}

fn retry() -> impl Strategy<Value = RetryPolicy> {
    let delay = || 0..=jobhall_core::bounds::DELAY_MS;
    let backoff = prop_oneof![
        delay().prop_map(|ms| Backoff::Constant { ms }),
        (delay(), delay()).prop_map(|(ms, cap_ms)| Backoff::Linear { ms, cap_ms }),
        (delay(), delay()).prop_map(|(ms, cap_ms)| Backoff::Exponential { ms, cap_ms }),
    ];
    let on = prop::sample::subsequence(Outcome::ALL.to_vec(), 0..=7);
    (1u16..4, backoff, on, any::<bool>()).prop_map(|(max_attempts, backoff, on, at_most_once)| RetryPolicy {
        max_attempts,
        backoff,
        on: OutcomeSet::of(&on),
        at_most_once,
    })
}

fn spec() -> impl Strategy<Value = JobSpec> {
    let key = prop::option::of("[ -~é]{1,20}".prop_map(|key| Key::new(&key).unwrap()));
    let needs = prop::sample::select(vec!["", "os=linux", "gpu>=1, region in (eu,us), !spot"]);
    let retry_of = prop::option::of((1u64..1 << 53).prop_map(id));
    ("[a-z][a-z.-]{0,8}", key, "[a-z]{1,8}", json(), needs, any::<i32>(), retry(), 0i64..9_999, retry_of)
        .prop_map(|(job_type, key, queue, params, needs, priority, retry, created_at, retry_of)| {
            let (job_type, queue) = (TypeName::new(&job_type).unwrap(), QueueName::new(&queue).unwrap());
            let needs = Needs::parse(needs).unwrap();
            JobSpec {
                key,
                params,
                needs,
                priority,
                retry,
                retry_of,
                ..JobSpec::plain(job_type, queue, at(created_at))
            }
        })
        .prop_flat_map(particular)
}

/// Sometimes sets rare fields.
fn particular(plain: JobSpec) -> impl Strategy<Value = JobSpec> {
    let ids = || prop::option::of((1u64..1 << 53).prop_map(id));
    let uses = prop::sample::select(vec!["", "gpu=1", "gpu=1.5, mem_gb=8"]);
    let windows = prop::sample::select(vec!["", "22:00-06:00 Europe/Berlin", "09:00-17:00"]);
    let times = (prop::option::of(1u64..9_999), prop::option::of(1u64..9_999));
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let after = prop::collection::btree_set((1u64..1 << 53).prop_map(id), 0..3);
    let tags = prop::collection::btree_set("[a-zé:]{1,9}", 0..3);
    let words = (prop::option::of("[ -~é]{1,20}"), prop::option::of("[a-z]{1,9}"));
    let more = (uses, windows, 0u32..3, times, flags, after, (ids(), ids(), ids()), tags, words);
    let whole = more.prop_map({
        let plain = plain.clone();
        move |(uses, windows, throttle_factor, times, flags, after, ids, tags, words)| JobSpec {
            uses: Uses::parse(uses).unwrap(),
            avoid: flags.0,
            windows: Windows::parse(windows).unwrap(),
            throttle_factor,
            timeouts: Timeouts { total_ms: times.0, silence_ms: times.1 },
            after: after.into_iter().collect(),
            after_any: flags.1,
            parent: ids.0,
            group: ids.1.map(GroupId::of),
            attached: flags.2,
            copy_of: ids.2,
            owner: words.0.map(|owner| Owner::new(&owner).unwrap()),
            tags: tags.iter().map(|tag| Tag::new(tag).unwrap()).collect(),
            schedule: words.1.map(|name| ScheduleName::new(&name).unwrap()),
            ..plain.clone()
        }
    });
    prop_oneof![Just(plain), whole]
}

/// The job that `core` decides for the event, at a time when the job is due.
fn next(job: &Job, happening: &Happening) -> Option<Unit> {
    let lease = job.status.state.lease().map_or(LeaseId(0), |lease| lease.id);
    let claim = job.status.claim;
    let retry = job.spec.retry;
    let event = match happening {
        Happening::Claim(lease, worker) => {
            Event::Claim { lease: LeaseId(*lease), worker: WorkerName::new(worker).unwrap() }
        }
        Happening::Accept => Event::Accept { claim, lease },
        Happening::Progress => Event::Progress { claim, lease },
        Happening::Report(report, dice) => {
            Event::Report { claim, lease, report, retry: &retry, dice: Dice(*dice) }
        }
        Happening::TakeBack => Event::TakeBack,
        Happening::LeaseEnd => Event::LeaseEnd { retry: &retry },
        Happening::Cancel(failure) => Event::Cancel(failure),
        Happening::Again(params) => Event::Again(params),
        Happening::Hold(true) => Event::Hold,
        Happening::Hold(false) => Event::Release,
        Happening::Wait => Event::Wait { claim, lease },
        Happening::Resume => Event::Resume,
        Happening::StartedExternal(until) => {
            Event::StartedExternal { claim, lease, until: at(*until), retry: &retry, dice: Dice(0) }
        }
        Happening::Complete(report) => {
            Event::Complete { attempt: None, report, retry: &retry, dice: Dice(0) }
        }
        Happening::TimeOut(failure, forced) => {
            Event::TimeOut { failure, retry: &retry, dice: Dice(0), forced: *forced }
        }
        Happening::Edit(run_at) => Event::Edit { run_at: Some(at(*run_at)) },
        Happening::DependenciesMet => Event::DependenciesMet,
    };
    let now = job.status.updated_at.max(job.status.run_at);
    match transition(&job.status, &event, now.plus_ms(1)) {
        Ok(Decision::Step(step)) => {
            let edited = matches!(happening, Happening::Edit(_)).then(|| {
                let tags = [Tag::new("edited").unwrap()].into();
                Arc::new(JobSpec {
                    priority: 7,
                    uses: Uses::parse("gpu=2").unwrap(),
                    tags,
                    ..(*job.spec).clone()
                })
            });
            let change = change(job, *step);
            let spec = edited.or(change.spec.clone());
            let change = jobhall_store::Change { want_spec: true, spec, ..change };
            Some(Unit { changes: vec![change], ..Unit::default() })
        }
        _ => None,
    }
}

fn compare(store: &Sqlite, memory: &Memory, job: &Job) {
    assert_eq!(wait(store.jobs(vec![job.id])).unwrap(), memory.jobs_now(&[job.id]));
    assert_eq!(wait(store.attempts(job.id, 0, usize::MAX)).unwrap(), memory.attempts_now(job.id));
}

fn live(spec: JobSpec, happenings: &[Happening], seen: &mut BTreeSet<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hall.db");
    let (store, memory) = (open(&path), Memory::new());
    let block = wait(store.take_block(10)).unwrap();
    assert_eq!(block, memory.take_block_now(10));
    let created = spec.created_at;
    let status = JobStatus::queued(created, created.plus_ms(5));
    let status = if spec.after.is_empty() { status } else { status.after_others() };
    let job = Job { id: block.first, spec: Arc::new(spec), status };
    let commit = |unit: Unit| {
        let answer = wait(store.commit(vec![unit.clone()])).unwrap();
        assert_eq!(answer, memory.commit_now(vec![unit]));
    };
    commit(inserting([job.clone()]));
    for happening in happenings {
        let stored = memory.jobs_now(&[job.id])[0].clone().unwrap();
        seen.insert(stored.status.state.name().to_string());
        if let Some(unit) = next(&stored, happening) {
            commit(unit);
            compare(&store, &memory, &job);
        }
    }
    seen.insert(memory.jobs_now(&[job.id])[0].as_ref().unwrap().status.state.name().to_string());
    drop(store);
    let store = open(&path);
    compare(&store, &memory, &job);
    assert_eq!(wait(store.open_jobs(None, 9)).unwrap(), memory.open_jobs_now(None, 9));
    assert_eq!(wait(store.completed(None, 9)).unwrap(), memory.completed_now(None, 9));
    assert_eq!(wait(store.feed(0, 99)).unwrap(), memory.feed_now(0, 99));
}

#[test]
fn any_course_of_a_job_is_stored_without_loss() {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 256,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let seen = std::cell::RefCell::new(BTreeSet::new());
    let courses = (spec(), prop::collection::vec(happening(), 0..14));
    let done = runner.run(&courses, |(spec, happenings)| {
        live(spec, &happenings, &mut seen.borrow_mut());
        Ok(())
    });
    done.unwrap();
    let seen = seen.into_inner();
    for state in [
        "queued",
        "blocked",
        "assigned",
        "accepted",
        "running",
        "waiting",
        "succeeded",
        "failed",
        "crashed",
        "cancelled",
    ] {
        assert!(seen.contains(state), "no case reached {state}: {seen:?}");
    }
}

#[test]
fn blocked_jobs_and_the_edges_of_time_and_ids_are_stored_without_loss() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hall.db");
    let last = id(jobhall_core::bounds::JOB_ID);
    let end = Time::from_ms(jobhall_core::bounds::TIME_MS).unwrap();
    let holder = Job { status: JobStatus::queued(Time::EPOCH, end), ..fixture::queued(1, Some("k")) };
    let behind =
        Job { id: last, status: JobStatus::behind(end, end, holder.id), ..fixture::queued(1, Some("k")) };
    let store = open(&path);
    let units = vec![inserting([holder.clone(), behind.clone()])];
    assert!(wait(store.commit(units)).unwrap().results[0].is_ok());
    drop(store);
    let found = wait(open(&path).jobs(vec![last, id(5), holder.id])).unwrap();
    assert_eq!(found, vec![Some(behind), None, Some(holder)]);
}
