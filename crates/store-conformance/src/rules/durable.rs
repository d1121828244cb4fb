//! Acknowledged data survives a restart of the store.

use jobhall_core::JobId;
use jobhall_store::{AuditEntry, BlockChange, Conflict, Prune, SettingKind, SettingWrite, Store, Unit};

use crate::Fixture;
use crate::client::Client;
use crate::fixture::wait;
use crate::model::{Picture, picture};
use crate::rules::{idempotency_key, records};
use crate::samples::{at, changing, inserting};

fn reopen(fixture: &mut Fixture) {
    assert!(fixture.reopen(), "a durable store can be opened again");
}

fn everything(store: &dyn Store) -> Picture {
    picture(store, 60)
}

/// Jobs in all states, attempts, settings, records, feed and blocks are read as before.
pub fn everything_acknowledged_is_there_after_reopening(fixture: &mut Fixture) {
    let before = {
        let client = Client::new(fixture.store());
        let held = client.held(Some("k"));
        client.put(client.fresh_behind(&held));
        client.succeeded(Some("l"));
        let lost = client.accepted(None);
        client.apply(client.lease_end(&lost));
        let write =
            SettingWrite { kind: SettingKind::Type, name: "t".into(), expected: 0, value: Some("{}".into()) };
        let record = records::write("a", 0, "1");
        let unit = Unit { settings: vec![write], records: vec![record], ..Unit::default() };
        client.unit(unit).expect("they are new");
        let block = wait(fixture.store().take_block(7)).expect("a block");
        let shrink = BlockChange::Shrink(block.first, vec![block.last]);
        wait(fixture.store().settle_blocks(vec![shrink])).expect("blocks can be settled");
        everything(fixture.store())
    };
    for _ in 0..2 {
        reopen(fixture);
        assert_eq!(everything(fixture.store()), before);
    }
}

/// Live and next places are held by the same jobs as before.
pub fn keys_are_held_after_reopening(fixture: &mut Fixture) {
    let (holder, waiting, done) = {
        let client = Client::new(fixture.store());
        let holder = client.held(Some("k"));
        (holder.clone(), client.put(client.fresh_behind(&holder)), client.succeeded(Some("free")))
    };
    reopen(fixture);
    let client = Client::new(fixture.store());
    let (twin, second) = (client.fresh(Some("k")), client.fresh_behind(&holder));
    let conflicts = client.refused(inserting(twin.clone()));
    assert_eq!(conflicts, [Conflict::KeyHeld { id: twin.id, job: holder }]);
    let conflicts = client.refused(inserting(second.clone()));
    assert_eq!(conflicts, [Conflict::KeyHeld { id: second.id, job: waiting }]);
    let conflicts = client.refused(changing([client.claim(&client.fresh(None), "w")]));
    assert!(matches!(conflicts[..], [Conflict::Stale { job: None, .. }]));
    client.put(client.fresh(Some("free")));
    assert_eq!(client.get(done.id), Some(done));
}

/// A repeated request is recognized after a restart.
pub fn idempotency_keys_are_known_after_reopening(fixture: &mut Fixture) {
    let key = idempotency_key("s", "key", 1, at(0));
    let unit = Unit { idempotency_key: Some(key.clone()), ..Unit::default() };
    Client::new(fixture.store()).unit(unit.clone()).expect("a new key");
    reopen(fixture);
    let client = Client::new(fixture.store());
    assert_eq!(client.refused(unit), [Conflict::Repeated(key.answer)]);
}

/// Ids continue after the highest one ever handed out, even if nothing with it is left.
pub fn ids_are_not_lent_again_after_reopening(fixture: &mut Fixture) {
    let last: JobId = {
        let client = Client::new(fixture.store());
        let done = client.succeeded(None);
        client.prune_jobs([done.id]);
        let blocks = wait(client.store.blocks()).expect("blocks can be read");
        let close = blocks.iter().map(|block| BlockChange::Close(block.first)).collect();
        wait(client.store.settle_blocks(close)).expect("blocks can be settled");
        blocks[0].last
    };
    reopen(fixture);
    let block = wait(fixture.store().take_block(5)).expect("a block");
    assert_eq!(block.first.get(), last.get() + 1);
    assert_eq!(wait(fixture.store().blocks()), Ok(vec![block]));
}

/// The feed continues after the highest number ever used, even if all rows were pruned.
pub fn feed_numbers_go_on_after_reopening(fixture: &mut Fixture) {
    {
        let client = Client::new(fixture.store());
        client.succeeded(None);
        let pruned = client.prune(Prune { feed_before: Some(at(1 << 40)), ..Prune::default() });
        assert_eq!(pruned.feed, 3);
    }
    reopen(fixture);
    let page = wait(fixture.store().feed(0, 10)).expect("the feed can be read");
    assert_eq!((page.rows.len(), page.pruned_to), (0, 3));
    let client = Client::new(fixture.store());
    assert_eq!(client.commit([inserting(client.fresh(None))]).feed, Some(4));
}

/// Audit entries and their numbers survive a restart; the numbers of removed entries are not used again.
pub fn acts_are_told_after_reopening(fixture: &mut Fixture) {
    let acting = |fixture: &Fixture, ms: u64| {
        let entry = AuditEntry {
            at: at(ms),
            who: "w".into(),
            act: "a".into(),
            subject: "s".into(),
            detail: String::new(),
        };
        let unit = Unit { audit: vec![entry], ..Unit::default() };
        Client::new(fixture.store()).unit(unit).expect("the unit is applied");
    };
    acting(fixture, 1);
    acting(fixture, 2);
    let prune = Prune { audit_before: Some(at(9)), ..Prune::default() };
    wait(fixture.store().prune(prune)).expect("a prune that works");
    acting(fixture, 10);
    reopen(fixture);
    acting(fixture, 11);
    let acts = wait(fixture.store().audit(None, 10)).expect("the audit can be read");
    assert_eq!(acts.iter().map(|row| (row.n, row.entry.at)).collect::<Vec<_>>(), [(4, at(11)), (3, at(10))]);
}
