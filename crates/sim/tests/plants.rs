//! Every planted bug is caught by the checker meant for it.

use jobhall_sim::{Plant, run};

/// Number of seeds within which a bug must be caught.
const WITHIN: u64 = 80;

/// The first seed with a violation must be caught by the intended checker.
fn caught(plant: Plant) {
    for seed in 0..WITHIN {
        if let Some(violation) = run(seed, Some(plant), false).violation {
            assert_eq!(violation.invariant, plant.caught_by(), "seed {seed}: {}", violation.text);
            println!("{plant:?}: caught by seed {seed}: {}", violation.text);
            return;
        }
    }
    panic!("{plant:?} was not caught within {WITHIN} seeds");
}

macro_rules! planted {
    ($($name:ident => $plant:ident,)*) => {
        $(#[test]
        fn $name() {
            caught(Plant::$plant);
        })*

        #[test]
        fn every_plant_has_a_test() {
            assert_eq!([$(Plant::$plant),*].len(), Plant::ALL.len());
        }
    };
}

planted! {
    a_unit_that_is_acknowledged_and_dropped => DroppedUnit,
    a_failed_commit_that_is_acknowledged => FalseAcknowledgement,
    a_crash_that_takes_an_acknowledged_job => LostAtCrash,
    a_completed_job_that_is_rewritten => TerminalRewritten,
    a_stale_write_on_a_leased_job => StaleWrite,
    a_key_that_is_released_early => KeyReleasedEarly,
    an_idempotency_name_that_is_forgotten => NameForgotten,
    a_feed_with_a_hole => FeedHole,
    a_block_that_is_closed_early => BlockClosedEarly,
    a_cancel_that_is_acknowledged_and_swallowed => CancelSwallowed,
    an_assignment_to_two_workers => AssignedTwice,
    a_lease_that_belongs_to_another_assignment => LeasesSwapped,
    a_stale_report_in_the_name_of_the_holder => ForgedReport,
    an_assignment_to_a_worker_that_does_not_suit => WrongWorker,
    an_answer_given_twice => AnsweredTwice,
    an_answer_never_given => NeverAnswered,
    leases_measured_by_the_wall_clock => LeaseOnWallClock,
    a_wall_clock_that_is_ahead => ClockAhead,
    priorities_that_are_ignored => PriorityIgnored,
    a_wall_clock_that_stops => ClockStuck,
    counts_that_are_old => CountsOld,
    workers_that_are_used_beyond_what_they_have => WorkersLarger,
    credit_that_a_session_was_not_given => CreditRaised,
    a_start_that_forgets_ticks => TicksForgotten,
    limits_that_a_restart_forgets => LimitsForgotten,
    limits_of_types_that_a_restart_forgets => TypeLimitsForgotten,
    a_lent_place_with_several_users => LentTwice,
    dependencies_that_a_restart_forgets => AfterForgotten,
    ground_5_inputs_that_a_restart_forgets => InputsForgotten,
    ground_5_an_input_that_is_lost => InputLost,
    releases_that_never_come => NeverReleased,
    members_that_a_restart_forgets => MemberForgotten,
    groups_that_are_removed_before_their_jobs => GroupsPruned,
    outcomes_that_nobody_told => OutcomeForged,
    time_outs_without_grace => NoGrace,
    waits_that_nobody_ends => NeverResumed,
    work_that_starts_before_its_accept_is_answered => StartedEarly,
    a_start_that_forgets_what_runs_at_most_once => OnceForgotten,
    ground_9_a_job_that_avoids_workers_for_ever => NeverPatient,
    ground_8_a_lease_of_a_session_that_is_ignored => LeaseIgnored,
    ground_8_a_fresh_session_that_is_taken_for_an_old_one => FreshIgnored,
    ground_7_a_wait_that_is_taken_for_one_for_all_jobs => WaitWidened,
    ground_7_a_wait_of_which_only_the_first_job_counts => WaitNarrowed,
}
