//! Reuse: a success of the same (type, key) that is young enough makes an insert needless.

use jobhall_core::{Job, Report, Time, Verdict, When};
use jobhall_store::{Conflict, Insert, Store, Unit};

use crate::desk::Desk;
use crate::samples::{failure, inserting};

fn reusing(job: &Job, since: Time) -> Unit {
    let insert = Insert { job: job.clone(), reuse_since: Some(since) };
    Unit { inserts: vec![insert], ..Unit::default() }
}

fn ended_at(job: &Job) -> Time {
    job.life.state.ended_at().expect("a completed job")
}

fn reusable(id: &Job, job: &Job) -> [Conflict; 1] {
    [Conflict::Reusable { id: id.id, job: job.clone() }]
}

/// Of several successes the newest answers, as it is stored.
pub fn the_newest_success_answers(store: &dyn Store) {
    let desk = Desk::new(store);
    let old = desk.succeeded(Some("k"));
    desk.succeeded(Some("k"));
    let newest = desk.succeeded(Some("k"));
    let asked = desk.fresh(Some("k"));
    assert_eq!(desk.refused(reusing(&asked, ended_at(&old))), reusable(&asked, &newest));
    assert_eq!(desk.get(asked.id), None);
}

/// The moment itself counts, one millisecond later does not.
pub fn a_success_counts_from_the_very_moment(store: &dyn Store) {
    let desk = Desk::new(store);
    let success = desk.succeeded(Some("k"));
    let asked = desk.fresh(Some("k"));
    assert_eq!(desk.refused(reusing(&asked, ended_at(&success))), reusable(&asked, &success));
    desk.unit(reusing(&asked, ended_at(&success).plus_ms(1))).expect("it is too old");
    assert_eq!(desk.get(asked.id), Some(asked));
}

/// Failures, crashes and cancels are not reused, nor do they hide an older success.
pub fn only_a_success_is_reused(store: &dyn Store) {
    let desk = Desk::new(store);
    let never = || Some(Verdict { when: When::Never, params: None });
    let endings = [Report::Failed(failure("no"), never()), Report::Crashed(failure("boom"), never())];
    let end_all = || {
        for report in &endings {
            let held = desk.held(Some("k"));
            desk.apply(desk.report(&held, report));
        }
        let queued = desk.put(desk.fresh(Some("k")));
        desk.apply(desk.cancel(&queued));
    };
    end_all();
    let asked = desk.fresh(Some("k"));
    desk.unit(reusing(&asked, Time::EPOCH)).expect("there was no success");
    desk.apply(desk.cancel(&asked));
    let success = desk.succeeded(Some("k"));
    end_all();
    let asked = desk.fresh(Some("k"));
    assert_eq!(desk.refused(reusing(&asked, Time::EPOCH)), reusable(&asked, &success));
}

/// Another type, another key, or none at all is something else.
pub fn only_a_success_of_the_same_type_and_key_is_reused(store: &dyn Store) {
    let desk = Desk::new(store);
    desk.succeeded(Some("k"));
    desk.succeeded(None);
    for asked in [desk.fresh_of("u", Some("k")), desk.fresh(Some("l")), desk.fresh(None)] {
        desk.unit(reusing(&asked, Time::EPOCH)).expect("there is no such success");
    }
}

/// A success answers even while a new job of the key is open; too old, the holder answers.
pub fn a_success_answers_before_the_holder_of_the_key(store: &dyn Store) {
    let desk = Desk::new(store);
    let success = desk.succeeded(Some("k"));
    let holder = desk.held(Some("k"));
    let asked = desk.fresh(Some("k"));
    assert_eq!(desk.refused(reusing(&asked, ended_at(&success))), reusable(&asked, &success));
    let too_old = reusing(&asked, ended_at(&success).plus_ms(1));
    assert_eq!(desk.refused(too_old), [Conflict::KeyHeld { id: asked.id, job: holder }]);
}

/// Nobody is served an old result who did not ask for one.
pub fn without_a_wish_for_reuse_the_job_is_made(store: &dyn Store) {
    let desk = Desk::new(store);
    desk.succeeded(Some("k"));
    desk.unit(inserting(desk.fresh(Some("k")))).expect("it did not ask for reuse");
}
