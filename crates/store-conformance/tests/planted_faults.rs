//! The suite can fail: every planted fault is caught by the rule that it violates, and by the model.

mod faulty;

use std::panic::catch_unwind;

use faulty::{Fault, Faulty};
use jobhall_store_conformance::rules::RULES;
use jobhall_store_conformance::{Fixture, model};

/// Number of operations within which the model has to find a fault.
const BUDGET: u64 = 30_000;

fn caught_by_rule(fault: Fault, name: &str) -> bool {
    let (_, rule) = RULES.iter().find(|(known, _)| *known == name).expect("there is such a rule");
    catch_unwind(|| rule(&Faulty::new(fault))).is_err()
}

fn caught_by_model(fault: Fault) -> bool {
    let open = move || Fixture::volatile(Faulty::new(fault));
    catch_unwind(|| model::compare(open, BUDGET, 0)).map_or(true, |compared| compared.is_err())
}

#[test]
fn without_a_fault_nothing_is_caught() {
    for (name, _) in RULES {
        assert!(!caught_by_rule(Fault::Nothing, name), "{name}");
    }
    assert!(!caught_by_model(Fault::Nothing));
}

macro_rules! faults {
    ($($test:ident: $fault:ident, by rule $rule:literal $(and $model:ident)?;)*) => {
        $(mod $test {
            use super::{Fault, caught_by_rule};

            #[test]
            fn is_caught_by_its_rule() {
                assert!(caught_by_rule(Fault::$fault, $rule), "{} did not notice", $rule);
            }

            $(#[test]
            fn is_caught_by_the_model() {
                assert!(super::caught_by_model(Fault::$fault), "the {} did not notice", stringify!($model));
            })?
        })*
    };
}

faults! {
    ignored_revs: IgnoresRevs, by rule "commit::a_change_decided_on_an_old_rev_gets_the_row_back" and model;
    double_claims: IgnoresRevs, by rule "concurrency::l14_no_double_claim_and_no_starved_claimer";
    half_a_unit: WritesHalfAUnit, by rule "commit::a_refused_unit_leaves_no_trace" and model;
    lost_last_unit: LosesTheLastUnit, by rule "commit::a_refused_unit_leaves_the_others_standing" and model;
    kept_keys: KeepsKeys, by rule "keys::every_ending_gives_the_key_back" and model;
    swapped_results: SwapsResults, by rule "commit::results_come_in_the_order_of_the_units" and model;
    reused_ids: ReusesIds, by rule "blocks::ids_are_never_lent_twice" and model;
    dropped_attempts: DropsPastAttempts, by rule "attempts::l12_past_attempts_are_kept_in_order" and model;
    feed_hole: FeedHole, by rule "feed::numbers_are_dense_from_one" and model;
    acknowledged_refusals: AcknowledgesRefusedInserts, by rule "keys::h06_g4_one_live_job_per_type_and_key" and model;
    two_jobs_on_a_key: AcknowledgesRefusedInserts, by rule "concurrency::h06_g4_sixty_four_clients_on_one_key_get_one_job";
    forgotten_idempotency_keys: ForgetsIdempotencyKeys, by rule "idempotency_keys::a_repeated_request_gets_the_first_answer" and model;
    units_alone: CommitsEachUnitAlone, by rule "feed::one_row_per_commit_with_its_changes_in_order" and model;
    pruned_open_jobs: PrunesOpenJobs, by rule "upkeep::a_prune_leaves_open_jobs_alone" and model;
    ignored_reuse: IgnoresReuse, by rule "reuse::the_newest_success_answers" and model;
    ground_4_ignored_above: IgnoresAbove, by rule "reuse::ground_4_only_a_success_above_the_id_answers" and model;
    ignored_checks: IgnoresChecks, by rule "stages::a_check_wants_a_job_that_is_there_and_open" and model;
    old_params: KeepsOldParams, by rule "attempts::params_are_replaced_by_a_change" and model;
    stopping_at_a_refusal: StopsAtARefusal, by rule "commit::a_refused_unit_leaves_the_others_standing" and model;
    ignored_setting_revs: IgnoresSettingRevs, by rule "settings::a_setting_decided_on_another_rev_is_refused" and model;
    ignored_record_revs: IgnoresRecordRevs, by rule "records::a_record_decided_on_another_rev_is_refused" and model;
    lost_record_writes: IgnoresRecordRevs, by rule "concurrency::sixty_four_writers_on_sixteen_records_lose_no_write";
    forgotten_record_groups: ForgetsRecordGroups, by rule "records::a_record_belongs_to_a_group" and model;
    pruned_young_records: PrunesYoungRecords, by rule "records::a_prune_takes_old_records_of_its_kind" and model;
    kept_records: KeepsRemovedRecords, by rule "records::a_removed_record_is_gone" and model;
    records_of_refused_units: WritesRefusedRecords, by rule "records::a_record_decided_on_another_rev_is_refused" and model;
    ignored_record_prefix: IgnoresRecordPrefix, by rule "records::records_are_listed_by_prefix_in_pages" and model;
    ground_4_mixed_successes: MixesSuccesses, by rule "reuse::ground_4_successes_come_in_the_order_asked_with_holes" and model;
    ignored_group_revs: IgnoresGroupRevs, by rule "groups::l21_a_group_comes_back_with_every_field_and_is_guarded_by_its_rev" and model;
    ignored_joinable: IgnoresJoinable, by rule "groups::a_closed_group_refuses_members" and model;
    ground_3_ignored_group_open: IgnoresGroupOpen, by rule "groups::ground_3_a_cancelled_or_ended_group_refuses_helpers" and model;
    ground_3_forgotten_fails: ForgetsFails, by rule "groups::l21_a_group_comes_back_with_every_field_and_is_guarded_by_its_rev" and model;
    ground_13_ignored_group_filter: IgnoresGroupFilter, by rule "groups::ground_13_groups_are_found_by_tag_and_owner" and model;
    ground_13_mixed_attempts: MixesAttempts, by rule "attempts::ground_13_attempts_of_many_jobs_come_in_the_order_asked" and model;
    ground_13_forgotten_feed_end: FeedEndForgets, by rule "feed::ground_13_the_end_of_the_feed_is_known_after_a_prune";
    forgotten_groups: ForgetsGroups, by rule "groups::l21_the_jobs_of_a_group_are_found" and model;
    pruned_open_groups: PrunesOpenGroups, by rule "groups::an_open_group_is_not_removed" and model;
    kept_links: KeepsLinks, by rule "groups::links_are_kept_until_their_parent_has_ended" and model;
    old_priority: KeepsOldPriority, by rule "attempts::what_is_asked_for_is_replaced_by_a_change" and model;
    forgotten_acts: ForgetsActs, by rule "audit::acts_come_newest_first_in_pages";
    lazy_commits: CommitsWhenAwaited, by rule "commit::calls_take_effect_in_the_order_they_were_made";
    forgotten_specs: ForgetsSpecs, by rule "attempts::wanted_specs_come_back_in_order" and model;
    one_conflict: TellsOneConflict, by rule "stages::checks_settings_and_revs_are_listed_together" and model;
    closed_blocks: KeepsClosedBlocks, by rule "blocks::a_closed_block_is_gone" and model;
    wrong_order: CompletedNewestFirst, by rule "reads::completed_jobs_come_oldest_first_in_pages" and model;
    every_success_newest: EverySuccessIsNewest, by rule "reads::the_newest_success_of_a_key_is_marked" and model;
    counted_too_many: CountsExceptedJobs, by rule "reads::completed_jobs_are_counted_in_ranges" and model;
}
