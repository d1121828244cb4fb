//! Reuse: a recent enough success of the same (type, key) makes an insert unnecessary.

use jobhall_core::{Job, Key, Report, Time, TypeName, Verdict, When};
use jobhall_store::{Conflict, Insert, ReuseRange, Store, Unit};

use crate::client::Client;
use crate::fixture::wait;
use crate::samples::{failure, inserting};

fn reusing(job: &Job, since: Time) -> Unit {
    reusing_in(job, ReuseRange::since(since))
}

fn reusing_in(job: &Job, range: ReuseRange) -> Unit {
    let insert = Insert { job: job.clone(), reuse: Some(range) };
    Unit { inserts: vec![insert], ..Unit::default() }
}

fn ended_at(job: &Job) -> Time {
    job.status.state.ended_at().expect("a completed job")
}

fn reusable(id: &Job, job: &Job) -> [Conflict; 1] {
    [Conflict::Reusable { id: id.id, job: job.clone() }]
}

/// Of several successes the newest is returned, as stored.
pub fn the_newest_success_answers(store: &dyn Store) {
    let client = Client::new(store);
    let old = client.succeeded(Some("k"));
    client.succeeded(Some("k"));
    let newest = client.succeeded(Some("k"));
    let asked = client.fresh(Some("k"));
    assert_eq!(client.refused(reusing(&asked, ended_at(&old))), reusable(&asked, &newest));
    assert_eq!(client.get(asked.id), None);
}

/// A success at exactly the given time counts, one millisecond earlier does not.
pub fn a_success_counts_from_the_very_moment(store: &dyn Store) {
    let client = Client::new(store);
    let success = client.succeeded(Some("k"));
    let asked = client.fresh(Some("k"));
    assert_eq!(client.refused(reusing(&asked, ended_at(&success))), reusable(&asked, &success));
    client.unit(reusing(&asked, ended_at(&success).plus_ms(1))).expect("it is too old");
    assert_eq!(client.get(asked.id), Some(asked));
}

/// Failures, crashes and cancels are not reused, nor do they hide an older success.
pub fn only_a_success_is_reused(store: &dyn Store) {
    let client = Client::new(store);
    let never = || Some(Verdict { when: When::Never, params: None });
    let endings = [Report::Failed(failure("no"), never()), Report::Crashed(failure("boom"), never())];
    let end_all = || {
        for report in &endings {
            let held = client.held(Some("k"));
            client.apply(client.report(&held, report));
        }
        let queued = client.put(client.fresh(Some("k")));
        client.apply(client.cancel(&queued));
    };
    end_all();
    let asked = client.fresh(Some("k"));
    client.unit(reusing(&asked, Time::EPOCH)).expect("there was no success");
    client.apply(client.cancel(&asked));
    let success = client.succeeded(Some("k"));
    end_all();
    let asked = client.fresh(Some("k"));
    assert_eq!(client.refused(reusing(&asked, Time::EPOCH)), reusable(&asked, &success));
}

/// Another type, another key, or no key does not match.
pub fn only_a_success_of_the_same_type_and_key_is_reused(store: &dyn Store) {
    let client = Client::new(store);
    client.succeeded(Some("k"));
    client.succeeded(None);
    for asked in [client.fresh_of("u", Some("k")), client.fresh(Some("l")), client.fresh(None)] {
        client.unit(reusing(&asked, Time::EPOCH)).expect("there is no such success");
    }
}

/// A success is returned even while a new job of the key is open; if it is too old, the holder is returned.
pub fn a_success_answers_before_the_holder_of_the_key(store: &dyn Store) {
    let client = Client::new(store);
    let success = client.succeeded(Some("k"));
    let holder = client.held(Some("k"));
    let asked = client.fresh(Some("k"));
    assert_eq!(client.refused(reusing(&asked, ended_at(&success))), reusable(&asked, &success));
    let too_old = reusing(&asked, ended_at(&success).plus_ms(1));
    assert_eq!(client.refused(too_old), [Conflict::KeyHeld { id: asked.id, job: holder }]);
}

/// An insert that does not permit reuse never gets an old result.
pub fn without_a_wish_for_reuse_the_job_is_made(store: &dyn Store) {
    let client = Client::new(store);
    client.succeeded(Some("k"));
    client.unit(inserting(client.fresh(Some("k")))).expect("it did not ask for reuse");
}

/// With a job as the bound, only a success with a higher id is reused, whatever its age.
pub fn ground_4_only_a_success_above_the_id_answers(store: &dyn Store) {
    let client = Client::new(store);
    let old = client.succeeded(Some("k"));
    let newest = client.succeeded(Some("k"));
    let asked = client.fresh(Some("k"));
    let above = |job: &Job| reusing_in(&asked, ReuseRange::above(job.id));
    assert_eq!(client.refused(above(&old)), reusable(&asked, &newest));
    client.unit(above(&newest)).expect("no success is newer");
    assert_eq!(client.get(asked.id), Some(asked));
}

/// The newest success of each key is returned in the requested order; none for a key without one.
pub fn ground_4_successes_come_in_the_order_asked_with_holes(store: &dyn Store) {
    let client = Client::new(store);
    client.succeeded(Some("k"));
    let newest = client.succeeded(Some("k"));
    let other = client.succeeded(Some("l"));
    client.held(Some("k"));
    client.held(Some("m"));
    let key = |key: &str| (newest.spec.job_type.clone(), Key::new(key).expect("a valid key"));
    let another_type = (TypeName::new("another").expect("a valid type"), key("k").1);
    let keys = vec![key("m"), key("k"), another_type, key("l"), key("k"), key("none")];
    let expected = vec![None, Some(newest.clone()), None, Some(other), Some(newest), None];
    assert_eq!(wait(store.successes(keys)), Ok(expected));
    assert_eq!(wait(store.successes(Vec::new())), Ok(Vec::new()));
}
