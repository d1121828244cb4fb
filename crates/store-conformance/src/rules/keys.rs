//! The live key: at most one open job per (type, key), released before it is taken.

use jobhall_core::{Event, Job, Report, Verdict, When};
use jobhall_store::{Change, Conflict, Store, Unit};

use crate::client::Client;
use crate::samples::{changing, failure, insert, inserting, passed};

fn held_by(id: &Job, job: &Job) -> [Conflict; 1] {
    [Conflict::KeyHeld { id: id.id, job: job.clone() }]
}

/// The second open job of a (type, key) is refused; the conflict contains the first one.
pub fn h06_g4_one_live_job_per_type_and_key(store: &dyn Store) {
    let client = Client::new(store);
    let first = client.put(client.fresh(Some("k")));
    let second = client.fresh(Some("k"));
    assert_eq!(client.refused(inserting(second.clone())), held_by(&second, &first));
    assert_eq!((client.get(first.id), client.get(second.id)), (Some(first), None));
}

/// A key belongs to its type; keys are compared byte by byte.
pub fn the_same_key_of_another_type_is_free(store: &dyn Store) {
    let client = Client::new(store);
    for (job_type, key) in
        [("t", "k"), ("u", "k"), ("T", "k"), ("t", "K"), ("t", "k "), ("t", "tk"), ("tt", "k")]
    {
        client.put(client.fresh_of(job_type, Some(key)));
    }
}

/// Without a key there is no deduplication.
pub fn jobs_without_a_key_are_never_duplicates(store: &dyn Store) {
    let client = Client::new(store);
    let inserts = (0..5).map(|_| insert(client.fresh(None))).collect();
    client.unit(Unit { inserts, ..Unit::default() }).expect("they have nothing in common");
    client.put(client.fresh(None));
}

/// A (type, key) can have any number of completed jobs; they do not hold the key.
pub fn h06_any_number_of_completed_jobs_share_a_key(store: &dyn Store) {
    let client = Client::new(store);
    let done: Vec<Job> = (0..5).map(|_| client.succeeded(Some("k"))).collect();
    for job in done {
        assert_eq!(client.get(job.id), Some(job));
    }
    client.put(client.fresh(Some("k")));
}

/// From queued to running and back, the job keeps its key, and the conflict contains the stored job.
pub fn a_key_is_held_through_every_open_state(store: &dyn Store) {
    let client = Client::new(store);
    let mut job = client.put(client.fresh(Some("k")));
    let moves: [&dyn Fn(&Job) -> Change; 5] = [
        &|job| client.claim(job, "w"),
        &|job| client.accept(job),
        &|job| {
            let lease = job.status.state.lease().expect("a held job").id;
            client.decide(job, &Event::Progress { claim: job.status.claim, lease })
        },
        &|job| client.cancel(job),
        &|job| client.report(job, &Report::Cancelled),
    ];
    for step in moves {
        let twin = client.fresh(Some("k"));
        assert_eq!(client.refused(inserting(twin.clone())), held_by(&twin, &job));
        job = client.apply(step(&job));
    }
    client.put(client.fresh(Some("k")));
}

/// Success, failure, crash and cancel all release the key.
pub fn every_ending_gives_the_key_back(store: &dyn Store) {
    let client = Client::new(store);
    let never = || Some(Verdict { when: When::Never, params: None });
    let reports = [
        passed("1"),
        Report::Skipped(jobhall_core::Json::null()),
        Report::Failed(failure("no"), never()),
        Report::Crashed(failure("boom"), never()),
    ];
    for report in reports {
        let held = client.held(Some("k"));
        let ended = client.apply(client.report(&held, &report));
        assert!(ended.status.state.is_terminal());
    }
    let queued = client.put(client.fresh(Some("k")));
    client.apply(client.cancel(&queued));
    client.put(client.fresh(Some("k")));
}

/// Keys are released before they are taken: the unit that ends a job can insert its follow-up.
pub fn an_ending_job_makes_room_for_its_follow_up(store: &dyn Store) {
    let client = Client::new(store);
    let held = client.held(Some("k"));
    let follow_up = client.fresh(Some("k"));
    let unit = Unit { changes: vec![client.report(&held, &passed("1"))], ..inserting(follow_up.clone()) };
    client.unit(unit).expect("the key is free by then");
    let twin = client.fresh(Some("k"));
    assert_eq!(client.refused(inserting(twin.clone())), held_by(&twin, &follow_up));
}

/// Two inserts of one unit cannot share a key either; the holder is the earlier one.
pub fn an_insert_holds_its_key_against_the_next_of_its_unit(store: &dyn Store) {
    let client = Client::new(store);
    let (first, second) = (client.fresh(Some("k")), client.fresh(Some("k")));
    let inserts = vec![insert(first.clone()), insert(second.clone())];
    assert_eq!(client.refused(Unit { inserts, ..Unit::default() }), held_by(&second, &first));
    assert_eq!((client.get(first.id), client.get(second.id)), (None, None));
    client.put(client.fresh(Some("k")));
}

/// A refused unit takes no key.
pub fn keys_of_a_refused_unit_stay_free(store: &dyn Store) {
    let client = Client::new(store);
    client.put(client.fresh(Some("held")));
    let inserts = vec![insert(client.fresh(Some("free"))), insert(client.fresh(Some("held")))];
    client.refused(Unit { inserts, ..Unit::default() });
    client.put(client.fresh(Some("free")));
}

/// A refused unit releases no key.
pub fn keys_given_up_by_a_refused_unit_stay_held(store: &dyn Store) {
    let client = Client::new(store);
    client.put(client.fresh(Some("other")));
    let holder = client.put(client.fresh(Some("k")));
    let unit = Unit { changes: vec![client.cancel(&holder)], ..inserting(client.fresh(Some("other"))) };
    client.refused(unit);
    let twin = client.fresh(Some("k"));
    assert_eq!(client.refused(inserting(twin.clone())), held_by(&twin, &holder));
    client.unit(changing([client.cancel(&holder)])).expect("it was not ended before");
}
