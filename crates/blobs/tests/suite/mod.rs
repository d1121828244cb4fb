//! Tests for every kind of store. Each test program with this module defines [`Hall`](crate::Hall) and runs all of
//! them.

pub mod artifacts;
pub mod collect;
pub mod garbage;
pub mod logs;
pub mod many;
pub mod notes;
pub mod objects;
pub mod tail;

/// The number of cases of a property.
pub fn cases(most: usize) -> u32 {
    u32::try_from(most.div_ceil(crate::EVERY)).unwrap()
}

/// Passes the names of all tests to a macro, by topic.
macro_rules! suite {
    ($then:ident) => {
        $then! {
            artifacts: [
                an_attempt_has_its_own_artifacts_by_name_also_after_a_restart,
                the_same_name_again_replaces,
                what_is_not_stored_is_not_kept,
                a_torn_record_was_never_acknowledged_and_the_next_one_takes_its_place,
                damage_is_an_error_and_takes_no_object,
            ]
            collect: [
                only_what_is_unreferenced_and_old_goes,
                putting_again_and_touching_make_an_object_young,
                leftovers_go_and_an_upload_that_is_slow_stays,
                a_young_leftover_stays,
                logs_go_with_their_attempts,
                a_lone_index_goes_too,
                slices_add_up_to_the_whole,
                a_put_during_the_question_saves_the_object,
                a_put_that_returned_has_its_object_whatever_the_collector_does,
                ground_11_a_pinned_object_stays_and_goes_when_the_pin_does,
                ground_11_a_pin_between_the_scan_and_the_removal_saves_the_object,
                ground_11_a_pin_is_looked_at_while_the_object_cannot_be_touched,
            ]
            garbage: [
                a_reference_that_comes_in_the_middle_of_a_walk_saves_its_object,
                no_referenced_object_is_lost_and_in_the_end_nothing_else_is_left,
            ]
            logs: [
                any_chunks_give_the_same_bytes_times_and_lines,
                any_range_is_what_a_slice_is,
                a_repetition_is_fine_and_other_bytes_are_not,
                a_log_is_cut_at_its_limit_with_one_mark,
                a_complete_log_takes_nothing_new,
                a_log_never_written_reads_as_empty,
                attempts_have_logs_of_their_own,
                a_flood_comes_out_in_bounded_pieces,
                what_was_synced_survives_every_torn_end,
                one_file_without_the_other_is_an_empty_log_that_can_be_written,
                a_flipped_bit_never_gives_wrong_bytes,
                a_complete_log_that_lost_its_end_is_refused_by_name,
                damage_in_the_middle_does_not_hide_what_comes_after,
            ]
            many: [
                ground_11_many_objects_are_stored_at_once_and_read_back,
                ground_11_an_empty_list_stores_nothing,
                ground_11_content_that_occurs_twice_is_stored_once,
                ground_11_existing_objects_are_reused_and_touched,
                ground_11_a_cut_object_is_replaced,
                ground_11_too_many_objects_or_bytes_store_nothing,
                ground_11_calls_that_overlap_and_the_collector_do_not_disturb_each_other,
            ]
            notes: [
                ground_10_notes_are_a_log_of_their_own,
                ground_10_a_note_is_one_line_within_its_limit,
                ground_10_notes_beyond_their_limit_are_refused_and_never_cut,
                ground_10_a_repeated_note_is_stored_once_and_nothing_is_skipped,
                ground_10_a_read_returns_whole_notes,
                ground_10_notes_are_followed_apart_from_output,
                ground_10_notes_go_with_their_attempts,
            ]
            objects: [
                what_is_stored_is_read_back,
                every_length_around_the_chunk_is_read_back_in_any_steps,
                the_limit_is_exact_and_leaves_nothing,
                a_source_that_fails_leaves_nothing,
                the_same_content_is_stored_once,
                a_flipped_bit_anywhere_is_found,
                a_cut_or_longer_object_is_found,
                a_reader_repeats_its_verdict,
                a_damaged_object_is_moved_aside_and_stored_again,
                a_put_heals_an_object_that_was_cut,
                eight_threads_put_the_same_content,
                a_sound_object_is_read_in_parts_and_a_damaged_one_not_at_all,
            ]
            tail: [
                tails_that_begin_at_any_time_see_the_same_log,
                a_tail_waits_then_gives_news_then_ends,
                every_change_wakes_and_nothing_else_does,
                tails_on_one_log_are_bounded,
                a_log_that_someone_follows_is_not_collected,
            ]
        }
    };
}
pub(crate) use suite;
