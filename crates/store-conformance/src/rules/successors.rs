//! The next place of a key: one superseding job waits for the live one and takes over in the commit that ends it.

use jobhall_core::Event;
use jobhall_store::{Conflict, Store, Unit};

use crate::client::Client;
use crate::samples::{changing, inserting};

/// A waiting job does not conflict with the live one, but with another waiting one.
pub fn one_successor_waits_behind_the_live_job(store: &dyn Store) {
    let client = Client::new(store);
    let holder = client.held(Some("k"));
    let waiting = client.put(client.fresh_behind(&holder));
    let second = client.fresh_behind(&holder);
    let conflicts = client.refused(inserting(second.clone()));
    assert_eq!(conflicts, [Conflict::KeyHeld { id: second.id, job: waiting.clone() }]);
    let twin = client.fresh(Some("k"));
    assert_eq!(client.refused(inserting(twin.clone())), [Conflict::KeyHeld { id: twin.id, job: holder }]);
    assert_eq!(client.get(waiting.id), Some(waiting));
}

/// One unit ends the holder and releases the successor, which then holds the key; the order of the changes does not
/// matter.
pub fn a_successor_takes_over_when_its_holder_ends(store: &dyn Store) {
    let client = Client::new(store);
    for holder_first in [true, false] {
        let key = if holder_first { "k" } else { "l" };
        let holder = client.put(client.fresh(Some(key)));
        let waiting = client.put(client.fresh_behind(&holder));
        let mut changes = vec![client.cancel(&holder), client.decide(&waiting, &Event::KeyFreed)];
        if !holder_first {
            changes.reverse();
        }
        client.unit(changing(changes)).expect("the key is free by then");
        let released = client.get(waiting.id).expect("it is there");
        let twin = client.fresh(Some(key));
        let conflicts = client.refused(inserting(twin.clone()));
        assert_eq!(conflicts, [Conflict::KeyHeld { id: twin.id, job: released.clone() }]);
        client.put(client.fresh_behind(&released));
    }
}

/// The unit that ends the holder must also change the successor, which would otherwise wait forever.
pub fn a_holder_does_not_leave_its_successor_behind(store: &dyn Store) {
    let client = Client::new(store);
    let holder = client.put(client.fresh(Some("k")));
    let end = client.cancel(&holder);
    let waiting = client.put(client.fresh_behind(&holder));
    let conflicts = client.refused(changing([end]));
    assert_eq!(conflicts, [Conflict::Successor { id: holder.id, job: waiting }]);
    assert_eq!(client.get(holder.id), Some(holder));
}

/// The live place is held as long as the holder is open.
pub fn a_successor_is_not_released_before_its_holder_ends(store: &dyn Store) {
    let client = Client::new(store);
    let holder = client.held(Some("k"));
    let waiting = client.put(client.fresh_behind(&holder));
    let conflicts = client.refused(changing([client.decide(&waiting, &Event::KeyFreed)]));
    assert_eq!(conflicts, [Conflict::KeyHeld { id: waiting.id, job: holder }]);
    assert_eq!(client.get(waiting.id), Some(waiting));
}

/// A newer superseding job cancels the waiting one and takes its place, in one unit.
pub fn a_newer_successor_replaces_the_waiting_one(store: &dyn Store) {
    let client = Client::new(store);
    let holder = client.held(Some("k"));
    let old = client.put(client.fresh_behind(&holder));
    let new = client.fresh_behind(&holder);
    let unit = Unit { changes: vec![client.cancel(&old)], ..inserting(new.clone()) };
    client.unit(unit).expect("the place is free by then");
    let third = client.fresh_behind(&holder);
    assert_eq!(client.refused(inserting(third.clone())), [Conflict::KeyHeld { id: third.id, job: new }]);
}

/// After the waiting job was cancelled, the holder ends alone and the place is free again.
pub fn a_cancelled_successor_makes_the_place_free(store: &dyn Store) {
    let client = Client::new(store);
    let holder = client.put(client.fresh(Some("k")));
    let waiting = client.put(client.fresh_behind(&holder));
    client.apply(client.cancel(&waiting));
    let waiting = client.put(client.fresh_behind(&holder));
    client.apply(client.cancel(&waiting));
    client.apply(client.cancel(&holder));
    client.put(client.fresh(Some("k")));
}
