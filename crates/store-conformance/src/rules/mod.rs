//! The rules of the port, one function each. A rule gets an empty store and panics if the store violates it; its
//! documentation is the rule in words.
//!
//! The lists at the end name every rule once: backends generate tests from them ([`crate::conformance_suite`]), and
//! the planted faults look rules up by name ([`RULES`]).

pub mod attempts;
pub mod audit;
pub mod blocks;
pub mod commit;
pub mod concurrency;
pub mod durable;
pub mod feed;
pub mod groups;
pub mod idempotency_keys;
pub mod keys;
pub mod reads;
pub mod records;
pub mod reuse;
pub mod settings;
pub mod stages;
pub mod successors;
pub mod upkeep;

use jobhall_core::{Disposition, Submitted, Time};
use jobhall_store::{Store, StoredIdempotencyKey};

use crate::Fixture;
use crate::samples::id;

/// A rule and its name, `module::rule`.
pub type Rule = (&'static str, fn(&dyn Store));

/// A rule about reopening a store, and its name.
pub type DurableRule = (&'static str, fn(&mut Fixture));

/// An idempotency key that never expires, with an answer that contains its body.
pub(crate) fn idempotency_key(scope: &str, key: &str, body: u128, at: Time) -> StoredIdempotencyKey {
    let body_id = u64::try_from(body).expect("a small body");
    let answer = vec![Submitted { id: id(body_id), disposition: Disposition::Created }];
    StoredIdempotencyKey {
        scope: scope.into(),
        key: key.into(),
        body,
        answer,
        at,
        forget_before: Time::EPOCH,
    }
}

/// Passes the list of rules to another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! every_rule {
    ($then:ident $($context:tt)*) => {
        $crate::$then! { [$($context)*]
            commit {
                an_empty_commit_changes_nothing
                l12_a_job_comes_back_with_every_field
                a_job_that_runs_at_most_once_is_read_as_such
                every_state_comes_back_as_it_was_written
                a_change_decided_on_an_old_rev_gets_the_row_back
                a_change_decided_on_a_rev_ahead_is_refused
                a_change_of_no_job_is_refused_without_a_row
                an_insert_under_a_used_id_is_refused
                a_refused_unit_leaves_no_trace
                a_refused_unit_leaves_the_others_standing
                results_come_in_the_order_of_the_units
                units_see_what_the_units_before_them_did
                calls_take_effect_in_the_order_they_were_made
                l14_of_two_claims_of_one_job_one_wins
                g8_of_lease_end_and_late_report_the_first_one_stands
                h07_g1_completed_rows_never_change
            }
            stages {
                the_idempotency_key_is_looked_at_first
                checks_settings_and_revs_are_listed_together
                keys_are_looked_at_after_the_revs
                places_and_successors_are_listed_together
                inserts_are_looked_at_last
                every_conflict_of_the_inserts_is_listed
                a_check_wants_a_job_that_is_there_and_open
            }
            groups {
                l21_a_group_comes_back_with_every_field_and_is_guarded_by_its_rev
                a_closed_group_refuses_members
                ground_3_a_cancelled_or_ended_group_refuses_helpers
                ground_13_groups_are_found_by_tag_and_owner
                l21_the_jobs_of_a_group_are_found
                links_are_kept_until_their_parent_has_ended
                an_open_group_is_not_removed
            }
            keys {
                h06_g4_one_live_job_per_type_and_key
                the_same_key_of_another_type_is_free
                jobs_without_a_key_are_never_duplicates
                h06_any_number_of_completed_jobs_share_a_key
                a_key_is_held_through_every_open_state
                every_ending_gives_the_key_back
                an_ending_job_makes_room_for_its_follow_up
                an_insert_holds_its_key_against_the_next_of_its_unit
                keys_of_a_refused_unit_stay_free
                keys_given_up_by_a_refused_unit_stay_held
            }
            successors {
                one_successor_waits_behind_the_live_job
                a_successor_takes_over_when_its_holder_ends
                a_holder_does_not_leave_its_successor_behind
                a_successor_is_not_released_before_its_holder_ends
                a_newer_successor_replaces_the_waiting_one
                a_cancelled_successor_makes_the_place_free
            }
            reuse {
                the_newest_success_answers
                a_success_counts_from_the_very_moment
                only_a_success_is_reused
                only_a_success_of_the_same_type_and_key_is_reused
                a_success_answers_before_the_holder_of_the_key
                without_a_wish_for_reuse_the_job_is_made
                ground_4_only_a_success_above_the_id_answers
                ground_4_successes_come_in_the_order_asked_with_holes
            }
            idempotency_keys {
                a_repeated_request_gets_the_first_answer
                a_key_used_for_another_request_is_refused
                a_key_belongs_to_its_scope
                an_old_key_counts_as_forgotten
                a_key_is_known_to_the_next_unit
                a_forgotten_key_is_stored_anew
                a_pruned_key_is_free
            }
            settings {
                a_setting_starts_at_rev_one_and_rises
                a_setting_decided_on_another_rev_is_refused
                a_conflict_names_the_write_it_is_about
                a_removed_setting_is_gone
                settings_of_two_kinds_do_not_meet
                a_setting_leaves_no_feed_row
                a_tick_decided_twice_is_made_once
            }
            records {
                a_record_starts_at_rev_one_and_rises
                a_record_decided_on_another_rev_is_refused
                records_and_revs_are_listed_together
                a_removed_record_is_gone
                a_record_is_known_to_the_next_unit
                a_record_belongs_to_a_group
                records_come_in_the_order_asked_with_holes
                records_are_listed_by_prefix_in_pages
                a_page_of_large_records_ends_early
                a_record_leaves_no_feed_row
                a_prune_takes_old_records_of_its_kind
            }
            attempts {
                l12_past_attempts_are_kept_in_order
                the_last_progress_of_an_ended_attempt_is_kept
                a_job_without_history_has_no_attempts
                ground_13_attempts_of_many_jobs_come_in_the_order_asked
                params_are_replaced_by_a_change
                what_is_asked_for_is_replaced_by_a_change
                wanted_specs_come_back_in_order
                a_wanted_spec_has_the_replaced_params
            }
            feed {
                one_row_per_commit_with_its_changes_in_order
                the_moment_of_a_row_is_its_latest_change
                numbers_are_dense_from_one
                refused_units_leave_no_entry
                a_page_begins_after_a_number_and_has_a_limit
                a_pruned_feed_goes_on_where_it_was
                a_prune_of_the_feed_leaves_no_hole
                ground_13_the_end_of_the_feed_is_known_after_a_prune
            }
            blocks {
                blocks_follow_each_other
                ids_are_never_lent_twice
                a_closed_block_is_gone
                a_shrunk_block_lists_its_open_jobs
                settling_an_unknown_block_changes_nothing
                open_jobs_are_found_by_their_blocks
                open_jobs_come_in_pages
            }
            reads {
                jobs_come_in_the_order_asked_with_holes
                completed_jobs_come_oldest_first_in_pages
                the_newest_success_of_a_key_is_marked
                completed_jobs_are_counted_in_ranges
                lists_show_what_the_filter_says_in_pages
                a_completed_job_tells_what_retention_asks
            }
            audit {
                acts_come_newest_first_in_pages
                a_refused_unit_leaves_no_act
                an_act_leaves_no_feed_row
                a_prune_of_the_audit_takes_the_old_ones
            }
            upkeep {
                a_prune_leaves_open_jobs_alone
                a_prune_takes_the_attempts_along
                a_pruned_success_is_not_reused
                an_empty_prune_removes_nothing
            }
            concurrency {
                h06_g4_sixty_four_clients_on_one_key_get_one_job
                l14_no_double_claim_and_no_starved_claimer
                a_tick_that_many_see_to_has_one_job
                sixty_four_writers_on_sixteen_records_lose_no_write
            }
        }
    };
}

/// Passes the list of rules about reopening a store to another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! every_durable_rule {
    ($then:ident $($context:tt)*) => {
        $crate::$then! { [$($context)*]
            durable {
                everything_acknowledged_is_there_after_reopening
                keys_are_held_after_reopening
                idempotency_keys_are_known_after_reopening
                ids_are_not_lent_again_after_reopening
                feed_numbers_go_on_after_reopening
                acts_are_told_after_reopening
            }
        }
    };
}

/// Makes a table from a list of rules.
#[doc(hidden)]
#[macro_export]
macro_rules! as_table {
    ([] $($module:ident { $($rule:ident)* })*) => {
        &[$($((concat!(stringify!($module), "::", stringify!($rule)), $crate::rules::$module::$rule),)*)*]
    };
}

/// Every rule by name.
pub const RULES: &[Rule] = every_rule!(as_table);

/// Every rule about reopening a store, by name.
pub const DURABLE_RULES: &[DurableRule] = every_durable_rule!(as_table);
