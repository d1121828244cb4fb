//! Planted faults: a short run of a correct hall, whose recorded data is then changed in one place. The intended rule
//! must detect each change.

use jobhall_core::{
    AttemptId, Disposition, Failure, Job, JobId, JobSpec, JobStatus, Json, Key, LeaseId, State, StateName,
    Time,
};
use jobhall_engine::{Answer, AttemptRef, Rejected, Request};
use jobhall_sim::Invariant;
use jobhall_store::{Block, FeedEntry, FeedRow};

use super::ground::One;
use super::nodes::{Gust, Three};
use super::record::Entry;
use super::storm::{Aftermath, storm};
use super::{judge, runtime, seed, work};

/// A planted fault: its name, the invariant that must catch it, and the change; false if there was nothing to change.
type Plant = (&'static str, Invariant, fn(&mut Aftermath) -> bool);

const PLANTS: [Plant; 16] = [
    ("an acknowledged job is missing", Invariant::Stored, gone),
    ("a job and its feed entries are missing", Invariant::Stored, gone_for_good),
    ("a job has another spec than was asked for", Invariant::Stored, other_spec),
    ("a worker was given other params", Invariant::Stored, other_params),
    ("a job ends a second time", Invariant::Final, second_end),
    ("a completed job is queued again", Invariant::Final, queued_again),
    ("a lease is another than the worker was given", Invariant::Lease, other_lease),
    ("an assignment is given twice", Invariant::Lease, given_twice),
    ("a success that its worker never reported", Invariant::Lease, unreported),
    ("an acknowledged outcome is not the stored one", Invariant::Lease, other_outcome),
    ("two attempts overlap", Invariant::Lease, overlap),
    ("two live jobs have one key", Invariant::Key, two_holders),
    ("an idempotency key has two answers", Invariant::Key, two_answers),
    ("a cancel is acknowledged and the job succeeds", Invariant::Cancel, cancel_forgotten),
    ("a commit is missing in the feed", Invariant::Sound, feed_hole),
    ("a job is still open", Invariant::Drained, still_open),
];

#[test]
fn every_planted_lie_is_caught_by_the_rule_meant_for_it() {
    let seed = seed();
    let aftermath = runtime().block_on(storm(One::new(), seed, 12));
    assert_eq!(judge::violation(&aftermath), None, "seed {seed}: the hall itself is correct");
    for (name, invariant, lie) in PLANTS {
        let mut planted = aftermath.clone();
        assert!(lie(&mut planted), "seed {seed}: {name}: nothing to change");
        match judge::violation(&planted) {
            Some(violation) => {
                assert_eq!(violation.invariant, invariant, "seed {seed}: {name}: {}", violation.text);
                println!("{name}: {}: {}", violation.invariant, violation.text);
            }
            None => panic!("seed {seed}: {name}: not caught"),
        }
    }
    let mut planted = aftermath;
    let lie = begun_early(&mut planted);
    assert!(lie.is_some(), "seed {seed}: no job had to wait for its time");
    assert_eq!(judge::early(&planted).0, lie, "seed {seed}");
}

/// An additional check must also detect its fault: a claim before its time.
fn begun_early(aftermath: &mut Aftermath) -> Option<JobId> {
    let waited = |job: &Job| work::not_before(job).is_some() && job.status.state.lease().is_some();
    let id = find(aftermath, waited)?;
    let later = work::not_before(&aftermath.stored.jobs[&id])?.plus_ms(3_600_000);
    let params = serde_json::json!({ "tag": "planted", "not_before": later.as_ms() }).to_string();
    change(aftermath, id, |spec, _| spec.params = Json::params(&params).unwrap()).then_some(id)
}

/// Nothing is changed afterwards here: a row is deleted by SQL while three nodes run.
#[test]
fn a_job_that_is_taken_from_the_database_under_three_nodes_is_missed() {
    let seed = seed();
    let aftermath = runtime().block_on(storm(Three::new(&[Gust::Theft]), seed, 1));
    assert_eq!(aftermath.book.tally.get("rows stolen"), Some(&1));
    let violation = judge::violation(&aftermath).expect("a job is missing");
    assert_eq!(violation.invariant, Invariant::Stored, "seed {seed}: {}", violation.text);
    println!("{}: {}", violation.invariant, violation.text);
}

/// A job that satisfies the condition.
fn find(aftermath: &Aftermath, holds: impl Fn(&Job) -> bool) -> Option<JobId> {
    aftermath.stored.jobs.values().find(|job| holds(job)).map(|job| job.id)
}

fn succeeded(job: &Job) -> bool {
    matches!(job.status.state, State::Succeeded(_))
}

fn own_success(job: &Job) -> bool {
    succeeded(job) && work::is_own(job)
}

/// Adds one commit with this change.
fn commit(aftermath: &mut Aftermath, id: JobId, rev: u32, state: StateName) {
    let rows = &mut aftermath.stored.feed.rows;
    let n = rows.last().map_or(1, |row| row.n + 1);
    rows.push(FeedRow { n, at: Time::EPOCH, entries: vec![FeedEntry { id, rev, state }] });
}

fn gone(aftermath: &mut Aftermath) -> bool {
    find(aftermath, succeeded).is_some_and(|id| aftermath.stored.jobs.remove(&id).is_some())
}

fn gone_for_good(aftermath: &mut Aftermath) -> bool {
    let acknowledged = aftermath.book.jobs.iter().filter_map(|id| JobId::new(*id).ok());
    let mut plain = acknowledged.filter(|id| aftermath.stored.jobs[id].spec.key.is_none());
    let Some(id) = plain.next() else { return false };
    aftermath.stored.feed.rows.iter_mut().for_each(|row| row.entries.retain(|entry| entry.id != id));
    aftermath
        .book
        .entries
        .retain(|entry| !matches!(entry, Entry::Assigned(attempt, ..) if attempt.job == id));
    aftermath.stored.jobs.remove(&id).is_some()
}

/// Changes a row.
fn change(aftermath: &mut Aftermath, id: JobId, change: impl FnOnce(&mut JobSpec, &mut JobStatus)) -> bool {
    let Some(job) = aftermath.stored.jobs.get_mut(&id) else { return false };
    let mut spec = (*job.spec).clone();
    change(&mut spec, &mut job.status);
    job.spec = spec.into();
    true
}

fn other_spec(aftermath: &mut Aftermath) -> bool {
    // Only a submit without an idempotency key returns the disposition of each job.
    let unnamed = aftermath.book.entries.iter().find_map(|entry| match entry {
        Entry::Heard(Request::Submit { submit }, Ok(Answer::Submitted(answers)), _)
            if submit.name.is_none() =>
        {
            (answers[0].disposition == Disposition::Created).then_some(answers[0].id)
        }
        _ => None,
    });
    unnamed.is_some_and(|id| change(aftermath, id, |spec, _| spec.priority += 1))
}

fn other_params(aftermath: &mut Aftermath) -> bool {
    let assigned = aftermath.book.entries.iter_mut().find_map(|entry| match entry {
        Entry::Assigned(_, _, params, _) => Some(params),
        _ => None,
    });
    assigned.map(|params| *params = Json::null()).is_some()
}

fn second_end(aftermath: &mut Aftermath) -> bool {
    let Some(id) = find(aftermath, succeeded) else { return false };
    let rev = aftermath.stored.jobs[&id].status.rev + 1;
    commit(aftermath, id, rev, StateName::Succeeded);
    change(aftermath, id, |_, status| status.rev += 1)
}

fn queued_again(aftermath: &mut Aftermath) -> bool {
    let Some(id) = find(aftermath, |job| succeeded(job) && job.spec.key.is_none()) else { return false };
    let rev = aftermath.stored.jobs[&id].status.rev + 1;
    commit(aftermath, id, rev, StateName::Queued);
    change(aftermath, id, |_, status| {
        status.rev += 1;
        status.state = State::Queued(None);
    })
}

/// The attempt that a worker of the test completed with success.
fn own_attempt(aftermath: &Aftermath) -> Option<AttemptId> {
    let job = &aftermath.stored.jobs[&find(aftermath, own_success)?];
    Some(AttemptId { job: job.id, claim: job.status.claim })
}

fn other_lease(aftermath: &mut Aftermath) -> bool {
    let Some(attempt) = own_attempt(aftermath) else { return false };
    aftermath.book.entries.iter_mut().any(|entry| match entry {
        Entry::Assigned(given, lease, ..) if *given == attempt => {
            *lease = LeaseId(lease.0 ^ 1);
            true
        }
        _ => false,
    })
}

fn given_twice(aftermath: &mut Aftermath) -> bool {
    let assigned = |entry: &&Entry| matches!(entry, Entry::Assigned(..));
    let again = aftermath.book.entries.iter().find(assigned).cloned();
    aftermath.book.entries.extend(again.clone());
    again.is_some()
}

fn unreported(aftermath: &mut Aftermath) -> bool {
    let Some(attempt) = own_attempt(aftermath) else { return false };
    let about = |request: &Request| matches!(request, Request::Report { of: AttemptRef { attempt: told, .. }, .. } if *told == attempt);
    aftermath.book.entries.retain(|entry| match entry {
        Entry::Sent(request) | Entry::Heard(request, ..) => !about(request),
        Entry::Assigned(..) => true,
    });
    true
}

/// The row has another result than the acknowledged one.
fn other_outcome(aftermath: &mut Aftermath) -> bool {
    let Some(attempt) = own_attempt(aftermath) else { return false };
    change(aftermath, attempt.job, |_, status| {
        if let State::Succeeded(success) = &mut status.state {
            success.value = Json::value("\"forged\"").unwrap();
        }
    })
}

fn overlap(aftermath: &mut Aftermath) -> bool {
    let jobs = &aftermath.stored.jobs;
    let tried_again = |id: &JobId| jobs.get(id).is_some_and(|job| job.status.state.lease().is_some());
    let past = aftermath.stored.attempts.iter_mut().filter(|(id, _)| tried_again(id));
    let last = past.filter_map(|(_, all)| all.last_mut()).next();
    last.map(|past| past.ended_at = past.ended_at.plus_ms(3_600_000)).is_some()
}

fn two_holders(aftermath: &mut Aftermath) -> bool {
    // Two jobs of one type that were in the feed at the same time get the same key.
    let mut live: Vec<JobId> = Vec::new();
    for entry in aftermath.stored.feed.rows.iter().flat_map(|row| &row.entries) {
        live.retain(|id| *id != entry.id);
        if !entry.state.is_terminal() && aftermath.stored.jobs[&entry.id].spec.key.is_none() {
            live.push(entry.id);
        }
        let of = |id: &JobId| aftermath.stored.jobs[id].spec.job_type.clone();
        let pair = live.iter().find_map(|a| live.iter().find(|b| *b > a && of(a) == of(b)).map(|b| [*a, *b]));
        if let Some(pair) = pair {
            let key = Some(Key::new("planted").unwrap());
            return pair.into_iter().all(|id| change(aftermath, id, |spec, _| spec.key = key.clone()));
        }
    }
    false
}

fn two_answers(aftermath: &mut Aftermath) -> bool {
    aftermath.book.entries.iter_mut().any(|entry| match entry {
        Entry::Heard(Request::Submit { submit }, Ok(Answer::Submitted(answers)), _)
            if submit.name.is_some() && answers.len() > 1 =>
        {
            answers.swap(0, 1);
            true
        }
        _ => false,
    })
}

fn cancel_forgotten(aftermath: &mut Aftermath) -> bool {
    let Some(id) = find(aftermath, succeeded) else { return false };
    let request = Request::Cancel { id, failure: Failure::new("cancelled", "") };
    let answer: Result<Answer, Rejected> = Ok(Answer::State(StateName::Cancelled));
    aftermath.book.entries.push(Entry::Heard(request, answer, u64::MAX));
    true
}

fn feed_hole(aftermath: &mut Aftermath) -> bool {
    let middle = aftermath.stored.feed.rows.len() / 2;
    aftermath.stored.feed.rows.remove(middle);
    true
}

fn still_open(aftermath: &mut Aftermath) -> bool {
    let Some(last) = aftermath.stored.jobs.values().next_back().cloned() else { return false };
    let id = JobId::new(last.id.get() + 1).unwrap();
    let spec = JobSpec { key: None, ..(*last.spec).clone() };
    let status = JobStatus::queued(Time::EPOCH, Time::EPOCH);
    commit(aftermath, id, 1, StateName::Queued);
    aftermath.stored.jobs.insert(id, Job { id, spec: spec.into(), status });
    aftermath.stored.open.push(id);
    aftermath.stored.blocks.push(Block { first: id, last: id, live: None });
    true
}
