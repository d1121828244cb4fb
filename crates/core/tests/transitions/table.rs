//! Every event in every state, written by hand; and a check that the random sequences cover everything.

use std::collections::BTreeSet;

use jobhall_core::{EventName, IllegalTransition, Reason, StateName};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use crate::ride::turns;
use crate::support::{at, cancelling_lives, effect, events, lives, other_lives, timing_out_lives};

const LOST: &str = "lease lost";
const NONE: &str = "–";
const OTHER: &str = "other attempt";
const OTHER_ATTEMPT: &str = "complete of attempt 7";

/// An event and its effects: in the three states before a claim, the four leased ones, retrying, the four final ones.
type Row = (&'static str, [&'static str; 3], [&'static str; 4], &'static str, [&'static str; 4]);

const KEPT: [&str; 4] =
    ["assigned, outcome kept", "accepted, outcome kept", "running, outcome kept", "waiting, outcome kept"];

const TABLE: [Row; 35] = [
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
    ("key freed", [NONE, NONE, "queued"], [NONE; 4], NONE, [NONE; 4]),
    (
        "again",
        ["scheduled, again noted", "queued, again noted", "blocked, again noted"],
        ["assigned, again noted", "accepted, again noted", "running, again noted", "waiting, again noted"],
        "retrying, again noted",
        [NONE; 4],
    ),
    (
        "hold",
        ["scheduled, held back", "queued, held back", "blocked, held back"],
        ["assigned, held back", "accepted, held back", "running, held back", "waiting, held back"],
        "retrying, held back",
        [NONE; 4],
    ),
    ("release", ["same"; 3], ["same"; 4], "same", [NONE; 4]),
    ("edit", ["scheduled", "scheduled", "blocked"], [NONE; 4], "retrying", [NONE; 4]),
    ("dependencies met", [NONE; 3], [NONE; 4], NONE, [NONE; 4]),
    ("dependency failed", [NONE; 3], [NONE; 4], NONE, [NONE; 4]),
    ("dependency cancelled", [NONE; 3], [NONE; 4], NONE, [NONE; 4]),
    ("started external", [LOST; 3], ["waiting", "waiting", "waiting", NONE], LOST, ["same"; 4]),
    ("started external, foreign lease", [LOST; 3], [LOST; 4], LOST, [LOST; 4]),
    ("complete passed", [NONE; 3], KEPT, NONE, ["same", NONE, NONE, NONE]),
    ("complete failed", [NONE; 3], KEPT, NONE, [NONE, "same", NONE, NONE]),
    ("complete of attempt 7", [OTHER; 3], [OTHER; 4], OTHER, [OTHER; 4]),
    (
        "time out",
        [NONE; 3],
        ["same", "accepted, time-out requested", "running, time-out requested", "same"],
        NONE,
        [NONE; 4],
    ),
    (
        "time out, grace over",
        [NONE; 3],
        ["same", "accepted, time-out requested", "running, time-out requested", "same"],
        NONE,
        [NONE; 4],
    ),
];

/// The effect of an event on jobs that are blocked by dependencies, also blocked by their key, waiting for external
/// work, and waiting for too long.
const OTHERS: [(&str, [&str; 4]); 14] = [
    ("cancel", ["cancelled"; 4]),
    ("key freed", [NONE, "blocked", NONE, NONE]),
    (
        "again",
        ["blocked, again noted", "blocked, again noted", "waiting, again noted", "waiting, again noted"],
    ),
    ("hold", ["blocked, held back", "blocked, held back", "waiting, held back", "waiting, held back"]),
    ("release", ["same"; 4]),
    ("edit", ["blocked", "blocked", NONE, NONE]),
    ("dependencies met", ["queued", "blocked", NONE, NONE]),
    ("dependency failed", ["failed", "failed", NONE, NONE]),
    ("dependency cancelled", ["cancelled", "cancelled", NONE, NONE]),
    ("started external", [LOST, LOST, "same", "same"]),
    ("complete passed", [NONE, NONE, "succeeded", "succeeded"]),
    ("complete failed", [NONE, NONE, "retrying", "retrying"]),
    ("time out", [NONE, NONE, "same", "retrying"]),
    ("time out, grace over", [NONE, NONE, "same", "retrying"]),
];

#[test]
fn blocked_and_waiting_jobs_of_the_other_kinds_do_what_their_table_says() {
    for (name, op, card) in events() {
        let found: Vec<_> = other_lives().iter().map(|(_, status)| effect(status, &op, card)).collect();
        let expected = match OTHERS.iter().find(|(event, _)| *event == name) {
            Some((_, expected)) => *expected,
            None if name == OTHER_ATTEMPT => [OTHER; 4],
            None if ["claim", "resume", "take back", "lease end"].contains(&name) => [NONE; 4],
            None => [LOST; 4],
        };
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn an_attempt_whose_time_is_over_ends_as_timed_out_unless_it_succeeds_or_is_cancelled() {
    for (name, op, card) in events() {
        let found: Vec<_> = timing_out_lives().iter().map(|(_, status)| effect(status, &op, card)).collect();
        let both = |words: &str| vec![format!("accepted, {words}"), format!("running, {words}")];
        let expected = match name {
            "accept" | "release" | "time out" => vec!["same".to_owned(); 2],
            "progress" => vec!["running".to_owned(), "same".to_owned()],
            "report passed" | "report skipped" => vec!["succeeded".to_owned(); 2],
            "wait" => vec!["stopping".to_owned(); 2],
            "cancel" => both("cancel requested"),
            "again" => both("again noted"),
            "hold" => both("held back"),
            "complete passed" | "complete failed" => both("outcome kept"),
            OTHER_ATTEMPT => vec![OTHER.to_owned(); 2],
            _ if name.ends_with("foreign lease") => vec![LOST.to_owned(); 2],
            "lease end" | "started external" | "time out, grace over" => vec!["retrying".to_owned(); 2],
            _ if name.starts_with("report") => vec!["retrying".to_owned(); 2],
            _ => vec![NONE.to_owned(); 2],
        };
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn h03_every_event_on_every_state_does_what_the_table_says() {
    let states: Vec<_> = lives().iter().map(|(name, _)| *name).collect();
    let expected = TABLE.map(|(name, before, held, retrying, ends)| {
        let cells = before.into_iter().chain(held).chain([retrying]).chain(ends);
        (name, states.iter().copied().zip(cells.map(str::to_owned)).collect::<Vec<_>>())
    });
    let found = events().into_iter().map(|(name, op, card)| {
        (name, lives().iter().map(|(state, status)| (*state, effect(status, &op, card))).collect::<Vec<_>>())
    });
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

#[test]
fn a_job_whose_cancel_is_requested_takes_no_other_way() {
    for (name, op, card) in events() {
        let found: Vec<_> = cancelling_lives().iter().map(|(_, status)| effect(status, &op, card)).collect();
        let expected = match name {
            "accept" => ["accepted", "same", "same", "same"],
            "progress" => ["running", "running", "same", "same"],
            "take back" => ["cancelled", NONE, NONE, NONE],
            "cancel" => ["same"; 4],
            "wait" => ["stopping", "stopping", "stopping", "same"],
            "resume" => [NONE, NONE, NONE, "running"],
            "claim" | "key freed" | "again" | "edit" => [NONE; 4],
            "hold" => {
                ["assigned, held back", "accepted, held back", "running, held back", "waiting, held back"]
            }
            "release" | "time out" | "time out, grace over" => ["same"; 4],
            "started external" => ["cancelled", "cancelled", "cancelled", NONE],
            "complete passed" | "complete failed" => ["stopping"; 4],
            OTHER_ATTEMPT => [OTHER; 4],
            _ if name.starts_with("dependenc") => [NONE; 4],
            _ if name.ends_with("foreign lease") => [LOST; 4],
            _ => ["cancelled"; 4],
        };
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn the_samples_stand_in_the_states_they_are_named_after() {
    let names: Vec<_> =
        lives().iter().map(|(name, status)| (*name, status.name(at(1_000)).as_str())).collect();
    assert!(names.iter().all(|(name, state)| name == state), "{names:?}");
    assert_eq!(names.len(), StateName::ALL.len());
}

const REASONS: [Reason; 26] = [
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
    Reason::TooManyLostLeases,
    Reason::LostAtMostOnce,
    Reason::Unaccepted,
    Reason::Cancelled,
    Reason::CancelRequested,
    Reason::KeyFreed,
    Reason::AgainAsked,
    Reason::Suspended,
    Reason::Resumed,
    Reason::HeldBack,
    Reason::LetGo,
    Reason::Edited,
    Reason::DependenciesMet,
    Reason::DependencyFailed,
    Reason::OutcomeKept,
    Reason::TimeOutRequested,
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
                IllegalTransition::Illegal { .. } => "illegal",
                IllegalTransition::LeaseLost { .. } => "lease lost",
                IllegalTransition::NotDue(_) => "not due",
                IllegalTransition::NotRequested => "not requested",
                IllegalTransition::NotCompleted { .. } => "not completed",
                IllegalTransition::OnHold => "on hold",
                IllegalTransition::Stopping => "stopping",
                IllegalTransition::ToldOtherwise => "told otherwise",
                IllegalTransition::OtherAttempt { .. } => "other attempt",
            },
        ));
    }
    assert_eq!(reasons, BTreeSet::from(REASONS));
    let all = [
        "illegal",
        "lease lost",
        "not due",
        "not requested",
        "on hold",
        "other attempt",
        "stopping",
        "told otherwise",
    ];
    assert_eq!(refused, BTreeSet::from(all));
}

#[test]
fn refusals_read_well() {
    let (state, event) = (StateName::Failed, EventName::LeaseEnd);
    for (refusal, words) in [
        (IllegalTransition::Illegal { state, event }, "lease end does not apply to a job that is failed"),
        (
            IllegalTransition::LeaseLost { state, event: EventName::Report },
            "report refused: the lease is not the current one of this job, which is failed",
        ),
        (IllegalTransition::NotDue(at(1_500)), "the job is not due before 1500 ms"),
        (IllegalTransition::NotCompleted { state: StateName::Running }, "the job is running, not completed"),
        (IllegalTransition::OnHold, "the job is on hold"),
        (IllegalTransition::Stopping, "the attempt is being stopped"),
        (IllegalTransition::ToldOtherwise, "another outcome of this attempt was reported before"),
        (IllegalTransition::OtherAttempt { current: 3 }, "the job is at attempt 3"),
        (IllegalTransition::NotRequested, "outcome cancelled refused: no cancel was requested"),
    ] {
        assert_eq!(refusal.to_string(), words);
    }
}
