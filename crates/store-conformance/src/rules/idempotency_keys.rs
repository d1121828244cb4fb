//! Idempotency keys: stored with the answer in the transaction of the request.

use jobhall_store::{Conflict, Prune, Store, StoredIdempotencyKey, Unit};

use crate::client::Client;
use crate::rules::idempotency_key;
use crate::samples::{at, inserting};

fn under(client: &Client<'_>, key: &StoredIdempotencyKey) -> Unit {
    Unit { idempotency_key: Some(key.clone()), ..inserting(client.fresh(None)) }
}

/// A repeated request is not executed again: the first answer is returned, whatever the new one is.
pub fn a_repeated_request_gets_the_first_answer(store: &dyn Store) {
    let client = Client::new(store);
    let key = idempotency_key("s", "key", 1, client.now());
    client.unit(under(&client, &key)).expect("a new key");
    let again = StoredIdempotencyKey { answer: Vec::new(), at: client.now(), ..key.clone() };
    let unit = under(&client, &again);
    let id = unit.inserts[0].job.id;
    assert_eq!(client.refused(unit), [Conflict::Repeated(key.answer)]);
    assert_eq!(client.get(id), None);
}

/// The same key for another body is refused.
pub fn a_key_used_for_another_request_is_refused(store: &dyn Store) {
    let client = Client::new(store);
    let key = idempotency_key("s", "key", 1, client.now());
    client.unit(under(&client, &key)).expect("a new key");
    for body in [2, u128::MAX, 1 << 64 | 1] {
        let other = StoredIdempotencyKey { body, ..key.clone() };
        assert_eq!(client.refused(under(&client, &other)), [Conflict::IdempotencyKeyReused]);
    }
    assert_eq!(client.refused(under(&client, &key)), [Conflict::Repeated(key.answer)]);
}

/// Two owners may use the same key.
pub fn a_key_belongs_to_its_scope(store: &dyn Store) {
    let client = Client::new(store);
    let key = idempotency_key("s", "key", 1, client.now());
    client.unit(under(&client, &key)).expect("a new key");
    let other = idempotency_key("r", "key", 2, client.now());
    client.unit(under(&client, &other)).expect("another scope");
    client.unit(under(&client, &idempotency_key("s", "Key", 2, client.now()))).expect("another key");
    assert_eq!(client.refused(under(&client, &key)), [Conflict::Repeated(key.answer)]);
    assert_eq!(client.refused(under(&client, &other)), [Conflict::Repeated(other.answer)]);
}

/// A key stored before `forget_before` is free; one stored at that time is known.
pub fn an_old_key_counts_as_forgotten(store: &dyn Store) {
    let client = Client::new(store);
    let key = idempotency_key("s", "key", 1, at(500));
    client.unit(under(&client, &key)).expect("a new key");
    let known = StoredIdempotencyKey { forget_before: at(500), ..key.clone() };
    assert_eq!(client.refused(under(&client, &known)), [Conflict::Repeated(key.answer.clone())]);
    let forgotten = StoredIdempotencyKey { forget_before: at(501), body: 2, ..key };
    client.unit(under(&client, &forgotten)).expect("the first one is forgotten");
}

/// An expired key is stored again, with its new body and time.
pub fn a_forgotten_key_is_stored_anew(store: &dyn Store) {
    let client = Client::new(store);
    client.unit(under(&client, &idempotency_key("s", "key", 1, at(500)))).expect("a new key");
    let anew = StoredIdempotencyKey { forget_before: at(600), ..idempotency_key("s", "key", 2, at(700)) };
    client.unit(under(&client, &anew)).expect("the first one is forgotten");
    assert_eq!(client.refused(under(&client, &anew)), [Conflict::Repeated(anew.answer.clone())]);
    let first = idempotency_key("s", "key", 1, at(800));
    assert_eq!(client.refused(under(&client, &first)), [Conflict::IdempotencyKeyReused]);
}

/// Two units of one commit cannot both use a key.
pub fn a_key_is_known_to_the_next_unit(store: &dyn Store) {
    let client = Client::new(store);
    let key = idempotency_key("s", "key", 1, client.now());
    let other = StoredIdempotencyKey { body: 2, ..key.clone() };
    let results = client.commit([under(&client, &key), under(&client, &key), under(&client, &other)]).results;
    assert!(results[0].is_ok());
    assert_eq!(results[1], Err(vec![Conflict::Repeated(key.answer)]));
    assert_eq!(results[2], Err(vec![Conflict::IdempotencyKeyReused]));
}

/// Maintenance removes keys older than the given time, and no others.
pub fn a_pruned_key_is_free(store: &dyn Store) {
    let client = Client::new(store);
    let keys = ["a", "b", "c"].map(|name| idempotency_key("s", name, 1, at(500 + u64::from(name == "c"))));
    for key in &keys {
        client.unit(under(&client, key)).expect("a new key");
    }
    let before = |ms| Prune { idempotency_keys_before: Some(at(ms)), ..Prune::default() };
    assert_eq!(client.prune(before(500)).idempotency_keys, 0);
    assert_eq!(client.refused(under(&client, &keys[0])), [Conflict::Repeated(keys[0].answer.clone())]);
    assert_eq!(client.prune(before(501)).idempotency_keys, 2);
    client.unit(under(&client, &keys[0])).expect("it was removed");
    assert_eq!(client.refused(under(&client, &keys[2])), [Conflict::Repeated(keys[2].answer.clone())]);
}
