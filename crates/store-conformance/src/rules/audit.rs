//! Audit entries, added with their unit and never changed.

use jobhall_store::{AuditEntry, AuditRow, Check, Prune, Store, Unit};

use crate::client::Client;
use crate::fixture::wait;
use crate::samples::{at, id};

fn entry(ms: u64, act: &str) -> AuditEntry {
    let words = |text: &str| format!("{text} of {act}");
    AuditEntry {
        at: at(ms),
        who: words("who"),
        act: act.into(),
        subject: words("subject"),
        detail: words("detail"),
    }
}

fn acting(entries: impl Into<Vec<AuditEntry>>) -> Unit {
    Unit { audit: entries.into(), ..Unit::default() }
}

fn rows(store: &dyn Store, before: Option<u64>, limit: usize) -> Vec<AuditRow> {
    wait(store.audit(before, limit)).expect("the audit can be read")
}

fn acts(store: &dyn Store, before: Option<u64>, limit: usize) -> Vec<(u64, String)> {
    rows(store, before, limit).into_iter().map(|row| (row.n, row.entry.act)).collect()
}

/// Every field is kept; numbers increase in the order of the units; pages start with the newest.
pub fn acts_come_newest_first_in_pages(store: &dyn Store) {
    let client = Client::new(store);
    client.unit(acting([entry(1, "a"), entry(2, "b")])).expect("the unit is applied");
    client.commit([acting([entry(3, "c")]), acting([entry(3, "d")])]);
    assert_eq!(rows(store, None, 1), [AuditRow { n: 4, entry: entry(3, "d") }]);
    assert_eq!(acts(store, Some(4), 2), [(3, "c".to_owned()), (2, "b".to_owned())]);
    assert_eq!(acts(store, Some(2), 2), [(1, "a".to_owned())]);
    assert_eq!(acts(store, Some(1), 2), []);
}

/// A refused unit leaves no audit entry.
pub fn a_refused_unit_leaves_no_act(store: &dyn Store) {
    let client = Client::new(store);
    let unit = Unit { checks: vec![Check::Open(id(999))], ..acting([entry(1, "a")]) };
    client.refused(unit);
    assert_eq!(acts(store, None, 10), []);
}

/// The feed contains only jobs.
pub fn an_act_leaves_no_feed_row(store: &dyn Store) {
    let client = Client::new(store);
    assert_eq!(client.commit([acting([entry(1, "a")])]).feed, None);
}

/// Audit entries are removed by age only, and no number is used again.
pub fn a_prune_of_the_audit_takes_the_old_ones(store: &dyn Store) {
    let client = Client::new(store);
    client.unit(acting([entry(1, "a"), entry(2, "b"), entry(3, "c")])).expect("the unit is applied");
    let before = |ms| Prune { audit_before: Some(at(ms)), ..Prune::default() };
    assert_eq!(client.prune(before(3)).audit, 2);
    assert_eq!(acts(store, None, 10), [(3, "c".to_owned())]);
    assert_eq!((client.prune(before(9)).audit, client.prune(before(9)).audit), (1, 0));
    client.unit(acting([entry(4, "d")])).expect("the unit is applied");
    assert_eq!(acts(store, None, 10), [(4, "d".to_owned())]);
}
