//! The four stages in which a unit is checked. The first stage with a conflict refuses the unit and lists all its
//! conflicts.

use jobhall_core::Event;
use jobhall_store::{Check, Conflict, ReuseRange, SettingKind, SettingWrite, Store, Unit};

use crate::client::Client;
use crate::rules::idempotency_key;
use crate::samples::{changing, insert, inserting};

fn write(name: &str, expected: u32) -> SettingWrite {
    SettingWrite { kind: SettingKind::Type, name: name.into(), expected, value: Some("{}".into()) }
}

/// Stage 1: a known idempotency key is the only conflict, whatever else is wrong.
pub fn the_idempotency_key_is_looked_at_first(store: &dyn Store) {
    let client = Client::new(store);
    let key = idempotency_key("s", "key", 1, client.now());
    let first = Unit { idempotency_key: Some(key.clone()), ..inserting(client.fresh(None)) };
    client.unit(first).expect("a new key");
    let missing = client.fresh(None);
    let unit = Unit {
        checks: vec![Check::Open(missing.id)],
        changes: vec![client.claim(&missing, "w")],
        settings: vec![write("t", 9)],
        idempotency_key: Some(key.clone()),
        ..Unit::default()
    };
    assert_eq!(client.refused(unit), [Conflict::Repeated(key.answer)]);
}

/// Stage 2: checks, then settings, then revs, all conflicts.
pub fn checks_settings_and_revs_are_listed_together(store: &dyn Store) {
    let client = Client::new(store);
    let done = client.succeeded(None);
    let stale = client.put(client.fresh(None));
    let late = client.claim(&stale, "late");
    let stale = client.apply(client.claim(&stale, "first"));
    let (fine, missing) = (client.put(client.fresh(None)), client.fresh(None));
    let unit = Unit {
        checks: vec![Check::Open(fine.id), Check::Open(done.id), Check::Open(missing.id)],
        changes: vec![client.claim(&fine, "w"), late, client.claim(&missing, "w")],
        settings: vec![write("fine", 0), write("wrong", 3)],
        ..Unit::default()
    };
    let expected = [
        Conflict::NotOpen(done.id),
        Conflict::NotOpen(missing.id),
        Conflict::Setting { write: 1, stored: None },
        Conflict::Stale { id: stale.id, job: Some(stale) },
        Conflict::Stale { id: missing.id, job: None },
    ];
    assert_eq!(client.refused(unit), expected);
    assert_eq!(client.get(fine.id), Some(fine));
}

/// Stage 3 comes after stage 2: with a stale change, keys and inserts are not checked.
pub fn keys_are_looked_at_after_the_revs(store: &dyn Store) {
    let client = Client::new(store);
    let holder = client.put(client.fresh(Some("k")));
    client.put(client.fresh_behind(&holder));
    let missing = client.fresh(None);
    let unit = Unit {
        changes: vec![client.cancel(&holder), client.claim(&missing, "w")],
        inserts: vec![insert(client.fresh(Some("k")))],
        ..Unit::default()
    };
    assert_eq!(client.refused(unit), [Conflict::Stale { id: missing.id, job: None }]);
}

/// Stage 3: held places and abandoned successors, all conflicts, in the order of the changes.
pub fn places_and_successors_are_listed_together(store: &dyn Store) {
    let client = Client::new(store);
    let (one, two) = (client.put(client.fresh(Some("one"))), client.put(client.fresh(Some("two"))));
    let next_of_one = client.put(client.fresh_behind(&one));
    let next_of_two = client.put(client.fresh_behind(&two));
    let unit = changing([client.decide(&next_of_two, &Event::KeyFreed), client.cancel(&one)]);
    let expected = [
        Conflict::KeyHeld { id: next_of_two.id, job: two },
        Conflict::Successor { id: one.id, job: next_of_one },
    ];
    assert_eq!(client.refused(unit), expected);
}

/// Stage 4 comes last: with a conflict over keys, inserts are not checked.
pub fn inserts_are_looked_at_last(store: &dyn Store) {
    let client = Client::new(store);
    let holder = client.put(client.fresh(Some("k")));
    let next = client.put(client.fresh_behind(&holder));
    client.put(client.fresh(Some("other")));
    let unit = Unit {
        changes: vec![client.cancel(&holder)],
        inserts: vec![insert(client.fresh(Some("other")))],
        ..Unit::default()
    };
    assert_eq!(client.refused(unit), [Conflict::Successor { id: holder.id, job: next }]);
}

/// Stage 4: every conflict of the inserts, in order.
pub fn every_conflict_of_the_inserts_is_listed(store: &dyn Store) {
    let client = Client::new(store);
    let held = client.put(client.fresh(Some("held")));
    let success = client.succeeded(Some("done"));
    let since = success.status.state.ended_at();
    let (fine, wants_held, wants_done) =
        (client.fresh(Some("free")), client.fresh(Some("held")), client.fresh(Some("done")));
    let mut reusing = insert(wants_done.clone());
    reusing.reuse = since.map(ReuseRange::since);
    let inserts = vec![insert(wants_held.clone()), insert(fine.clone()), reusing];
    let expected = [
        Conflict::KeyHeld { id: wants_held.id, job: held },
        Conflict::Reusable { id: wants_done.id, job: success },
    ];
    assert_eq!(client.refused(Unit { inserts, ..Unit::default() }), expected);
    assert_eq!(client.get(fine.id), None);
}

/// A check succeeds for an open job in any state, and fails for a completed or unknown job.
pub fn a_check_wants_a_job_that_is_there_and_open(store: &dyn Store) {
    let client = Client::new(store);
    let holder = client.held(Some("k"));
    let open = [client.put(client.fresh(None)).id, holder.id, client.put(client.fresh_behind(&holder)).id];
    let closed = [client.succeeded(None).id, client.id()];
    let unit = |id| Unit { checks: vec![Check::Open(id)], ..inserting(client.fresh(None)) };
    for id in open {
        client.unit(unit(id)).expect("the job is open");
    }
    for id in closed {
        assert_eq!(client.refused(unit(id)), [Conflict::NotOpen(id)]);
    }
}
