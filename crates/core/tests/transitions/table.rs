//! Every event on every state, by hand; and that the random rides reach everything.

use std::collections::BTreeSet;

use jobhall_core::{EventName, Reason, Refusal, StateName};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use crate::ride::turns;
use crate::support::{at, cancelling_lives, effect, events, lives};

const LOST: &str = "lease lost";
const NONE: &str = "–";

/// An event and what it does: to the three states before a claim, the four held ones, retrying, the four ends.
type Row = (&'static str, [&'static str; 3], [&'static str; 4], &'static str, [&'static str; 4]);

const TABLE: [Row; 22] = [
    ("claim", ["not due", "assigned", NONE], [NONE; 4], "assigned", [NONE; 4]),
    ("accept", [LOST; 3], ["accepted", "same", "same", "same"], LOST, [LOST; 4]),
    ("progress", [LOST; 3], ["running", "running", "same", "same"], LOST, [LOST; 4]),
    ("report passed", [LOST; 3], ["succeeded"; 4], LOST, ["same", LOST, LOST, "same"]),
    ("report skipped", [LOST; 3], ["succeeded"; 4], LOST, [LOST, LOST, LOST, "same"]),
    ("report failed", [LOST; 3], ["retrying"; 4], LOST, [LOST, "same", LOST, "same"]),
    ("report failed, never again", [LOST; 3], ["failed"; 4], LOST, [LOST, "same", LOST, "same"]),
    ("report failed, snooze", [LOST; 3], ["retrying"; 4], LOST, [LOST, "same", LOST, "same"]),
    ("report crashed", [LOST; 3], ["retrying"; 4], LOST, [LOST, LOST, "same", "same"]),
    ("report crashed, never again", [LOST; 3], ["crashed"; 4], LOST, [LOST, LOST, "same", "same"]),
    ("report timed out", [LOST; 3], ["retrying"; 4], LOST, [LOST, LOST, LOST, "same"]),
    ("report cancelled", [LOST; 3], ["not requested"; 4], LOST, [LOST, LOST, LOST, "same"]),
    ("wait", [LOST; 3], ["waiting", "waiting", "waiting", "same"], LOST, [LOST; 4]),
    ("resume", [NONE; 3], [NONE, NONE, NONE, "running"], NONE, [NONE; 4]),
    ("accept, foreign lease", [LOST; 3], [LOST; 4], LOST, [LOST; 4]),
    ("progress, foreign lease", [LOST; 3], [LOST; 4], LOST, [LOST; 4]),
    ("report passed, foreign lease", [LOST; 3], [LOST; 4], LOST, [LOST; 4]),
    ("take back", [NONE; 3], ["queued", NONE, NONE, NONE], NONE, [NONE; 4]),
    ("lease end", [NONE; 3], ["queued", "retrying", "retrying", "retrying"], NONE, [NONE; 4]),
    (
        "cancel",
        ["cancelled"; 3],
        [
            "assigned, cancel requested",
            "accepted, cancel requested",
            "running, cancel requested",
            "waiting, cancel requested",
        ],
        "cancelled",
        [NONE, NONE, NONE, "same"],
    ),
    ("release", [NONE, NONE, "queued"], [NONE; 4], NONE, [NONE; 4]),
    (
        "again",
        ["scheduled, again noted", "queued, again noted", "blocked, again noted"],
        ["assigned, again noted", "accepted, again noted", "running, again noted", "waiting, again noted"],
        "retrying, again noted",
        [NONE; 4],
    ),
];

#[test]
fn h03_every_event_on_every_state_does_what_the_table_says() {
    let states: Vec<_> = lives().iter().map(|(name, _)| *name).collect();
    let expected = TABLE.map(|(name, before, held, retrying, ends)| {
        let cells = before.into_iter().chain(held).chain([retrying]).chain(ends);
        (name, states.iter().copied().zip(cells.map(str::to_owned)).collect::<Vec<_>>())
    });
    let found = events().into_iter().map(|(name, op, card)| {
        (name, lives().iter().map(|(state, life)| (*state, effect(life, &op, card))).collect::<Vec<_>>())
    });
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

#[test]
fn a_job_whose_cancel_is_requested_takes_no_other_way() {
    for (name, op, card) in events() {
        let found: Vec<_> = cancelling_lives().iter().map(|(_, life)| effect(life, &op, card)).collect();
        let expected = match name {
            "accept" => ["accepted", "same", "same", "same"],
            "progress" => ["running", "running", "same", "same"],
            "take back" => ["cancelled", NONE, NONE, NONE],
            "cancel" => ["same"; 4],
            "wait" => ["stopping", "stopping", "stopping", "same"],
            "resume" => [NONE, NONE, NONE, "running"],
            "claim" | "release" | "again" => [NONE; 4],
            _ if name.ends_with("foreign lease") => [LOST; 4],
            _ => ["cancelled"; 4],
        };
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn the_samples_stand_in_the_states_they_are_named_after() {
    let names: Vec<_> = lives().iter().map(|(name, life)| (*name, life.name(at(1_000)).as_str())).collect();
    assert!(names.iter().all(|(name, state)| name == state), "{names:?}");
    assert_eq!(names.len(), StateName::ALL.len());
}

const REASONS: [Reason; 18] = [
    Reason::Claimed,
    Reason::Accepted,
    Reason::Started,
    Reason::Succeeded,
    Reason::Retried,
    Reason::Snoozed,
    Reason::Lost,
    Reason::TakenBack,
    Reason::Exhausted,
    Reason::NotRetried,
    Reason::Poison,
    Reason::Unaccepted,
    Reason::Cancelled,
    Reason::CancelRequested,
    Reason::Released,
    Reason::AgainAsked,
    Reason::Suspended,
    Reason::Resumed,
];

#[test]
fn random_rides_reach_every_reason_and_every_refusal() {
    let mut runner = TestRunner::deterministic();
    let (mut reasons, mut refused) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..2_000 {
        let turns = turns().new_tree(&mut runner).expect("a ride").current();
        reasons.extend(turns.iter().filter_map(|turn| turn.reason()));
        refused.extend(turns.iter().filter_map(|turn| turn.answer.as_ref().err()).map(
            |refusal| match refusal {
                Refusal::Illegal { .. } => "illegal",
                Refusal::LeaseLost { .. } => "lease lost",
                Refusal::NotDue(_) => "not due",
                Refusal::NotRequested => "not requested",
                Refusal::NotCompleted { .. } => "not completed",
                Refusal::OnHold => "on hold",
                Refusal::Stopping => "stopping",
                Refusal::ToldOtherwise => "told otherwise",
                Refusal::OtherAttempt { .. } => "other attempt",
            },
        ));
    }
    assert_eq!(reasons, BTreeSet::from(REASONS));
    assert_eq!(refused, BTreeSet::from(["illegal", "lease lost", "not due", "not requested", "stopping"]));
}

#[test]
fn refusals_read_well() {
    let (state, event) = (StateName::Failed, EventName::LeaseEnd);
    for (refusal, words) in [
        (Refusal::Illegal { state, event }, "lease end does not apply to a job that is failed"),
        (
            Refusal::LeaseLost { state, event: EventName::Report },
            "report refused: the lease is not the current one of this job, which is failed",
        ),
        (Refusal::NotDue(at(1_500)), "the job is not due before 1500 ms"),
        (Refusal::NotCompleted { state: StateName::Running }, "the job is running, not completed"),
        (Refusal::OnHold, "the job is on hold"),
        (Refusal::Stopping, "the attempt is being stopped"),
        (Refusal::ToldOtherwise, "another outcome of this attempt was told before"),
        (Refusal::OtherAttempt { current: 3 }, "the job is at attempt 3"),
        (Refusal::NotRequested, "outcome cancelled refused: no cancel was requested"),
    ] {
        assert_eq!(refusal.to_string(), words);
    }
}
