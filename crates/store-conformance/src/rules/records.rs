//! Documents of applications, guarded by their own rev.

use jobhall_core::{Group, GroupId, Key, RecordKind};
use jobhall_store::{
    Conflict, GroupWrite, Prune, RECORD_PAGE_BYTES, Record, RecordFilter, RecordGroup, RecordWrite, Store,
    Unit,
};

use crate::client::Client;
use crate::fixture::wait;
use crate::samples::{at, changing, id, inserting};

pub(crate) fn kind(name: &str) -> RecordKind {
    RecordKind::new(name).expect("a valid kind")
}

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).expect("a valid key")
}

pub(crate) fn write(name: &str, expected: u32, value: &str) -> RecordWrite {
    let value = Some(value.to_owned());
    RecordWrite { kind: kind("q.pin"), key: key(name), expected, at: at(5), group: RecordGroup::Keep, value }
}

fn stored(name: &str, rev: u32, value: &str) -> Record {
    Record { kind: kind("q.pin"), key: key(name), rev, at: at(5), group: None, value: value.into() }
}

fn removal(name: &str, expected: u32) -> RecordWrite {
    RecordWrite { value: None, ..write(name, expected, "") }
}

pub(crate) fn writing(records: impl Into<Vec<RecordWrite>>) -> Unit {
    Unit { records: records.into(), ..Unit::default() }
}

fn all(store: &dyn Store) -> Vec<Record> {
    let page = wait(store.record_page(RecordFilter::of(kind("q.pin")), None, 1_000));
    page.expect("records can be read").records
}

fn names(records: &[Record]) -> Vec<&str> {
    records.iter().map(|record| record.key.as_str()).collect()
}

/// The first write expects no record and makes rev 1; each later write increases the rev.
pub fn a_record_starts_at_rev_one_and_rises(store: &dyn Store) {
    let client = Client::new(store);
    client.unit(writing([write("a", 0, "{\"x\":1}"), write("b", 0, "2")])).expect("they are new");
    client.unit(writing([RecordWrite { at: at(9), ..write("a", 1, "3") }])).expect("the rev is right");
    assert_eq!(all(store), [Record { at: at(9), ..stored("a", 2, "3") }, stored("b", 1, "2")]);
}

/// A write decided on another rev is refused with the stored record; one wrong write refuses the whole unit, and the
/// conflict names it.
pub fn a_record_decided_on_another_rev_is_refused(store: &dyn Store) {
    let client = Client::new(store);
    client.unit(writing([write("a", 0, "1")])).expect("it is new");
    let job = client.fresh(None);
    for expected in [0, 2] {
        let unit = Unit {
            records: vec![write("b", 0, "9"), write("a", expected, "9"), write("c", 7, "9")],
            ..inserting(job.clone())
        };
        let unchanged = Conflict::Record { write: 1, stored: Some(Box::new(stored("a", 1, "1"))) };
        assert_eq!(client.refused(unit), [unchanged, Conflict::Record { write: 2, stored: None }]);
    }
    assert_eq!((all(store), client.get(job.id)), (vec![stored("a", 1, "1")], None));
}

/// A record is looked at together with the revs of changes.
pub fn records_and_revs_are_listed_together(store: &dyn Store) {
    let client = Client::new(store);
    let held = client.held(None);
    let mut change = client.cancel(&held);
    change.expected += 7;
    let unit = Unit { records: vec![write("a", 1, "9")], ..changing([change]) };
    let stale = Conflict::Stale { id: held.id, job: Some(held) };
    assert_eq!(client.refused(unit), [Conflict::Record { write: 0, stored: None }, stale]);
}

/// A removal is guarded like any other write; afterwards the key is free and starts at rev 1 again.
pub fn a_removed_record_is_gone(store: &dyn Store) {
    let client = Client::new(store);
    client.unit(writing([write("a", 0, "1"), write("b", 0, "2")])).expect("they are new");
    let unchanged = Conflict::Record { write: 0, stored: Some(Box::new(stored("a", 1, "1"))) };
    assert_eq!(client.refused(writing([removal("a", 2), removal("b", 1)])), [unchanged]);
    client.unit(writing([removal("a", 1)])).expect("the rev is right");
    assert_eq!(all(store), [stored("b", 1, "2")]);
    assert_eq!(client.refused(writing([removal("a", 1)])), [Conflict::Record { write: 0, stored: None }]);
    client.unit(writing([write("a", 0, "3")])).expect("the key is free");
    assert_eq!(all(store), [stored("a", 1, "3"), stored("b", 1, "2")]);
}

/// Units of one commit see the records of the units before them; the last write counts.
pub fn a_record_is_known_to_the_next_unit(store: &dyn Store) {
    let client = Client::new(store);
    let committed = client.commit([
        writing([write("a", 0, "1"), write("b", 0, "1")]),
        writing([write("a", 0, "9")]),
        writing([write("a", 1, "2")]),
        writing([removal("b", 1)]),
    ]);
    let refusal = Err(vec![Conflict::Record { write: 0, stored: Some(Box::new(stored("a", 1, "1"))) }]);
    let applied: Vec<bool> = committed.results.iter().map(Result::is_ok).collect();
    assert_eq!((applied, &committed.results[1]), (vec![true, false, true, true], &refusal));
    assert_eq!(all(store), [stored("a", 2, "2")]);
}

/// A record can belong to a group, also to one of the same unit, and keeps its group unless a write sets another.
pub fn a_record_belongs_to_a_group(store: &dyn Store) {
    let client = Client::new(store);
    let (group, other) = (GroupId::of(client.id()), GroupId::of(client.id()));
    let of =
        |group: Option<GroupId>, write: RecordWrite| RecordWrite { group: RecordGroup::Set(group), ..write };
    let made = Group {
        id: group,
        rev: 1,
        name: None,
        owner: None,
        tags: Box::default(),
        retry_of: None,
        created_at: at(1),
        closed: false,
        cancel: None,
        fails: false,
        end: None,
    };
    let records =
        vec![of(Some(group), write("a", 0, "1")), write("b", 0, "1"), of(Some(other), write("c", 0, "1"))];
    let groups = vec![GroupWrite { expected: 0, group: made }];
    client.unit(Unit { groups, records, ..Unit::default() }).expect("they are new");
    let of_group = |group: GroupId| {
        let filter = RecordFilter { group: Some(group), ..RecordFilter::of(kind("q.pin")) };
        wait(store.record_page(filter, None, 10)).expect("records can be read").records
    };
    client
        .unit(writing([write("a", 1, "2"), of(Some(group), write("b", 1, "2"))]))
        .expect("the revs are right");
    assert_eq!(
        of_group(group),
        [
            Record { group: Some(group), ..stored("a", 2, "2") },
            Record { group: Some(group), ..stored("b", 2, "2") }
        ]
    );
    client.unit(writing([of(None, write("a", 2, "3"))])).expect("the rev is right");
    assert_eq!((names(&of_group(group)), names(&of_group(other))), (vec!["b"], vec!["c"]));
}

/// Records are read by name in the requested order, with holes.
pub fn records_come_in_the_order_asked_with_holes(store: &dyn Store) {
    let client = Client::new(store);
    let other = RecordWrite { kind: kind("q.source"), ..write("a", 0, "3") };
    client.unit(writing([write("a", 0, "1"), write("b", 0, "2"), other])).expect("they are new");
    let wanted = [("q.pin", "b"), ("q.pin", "x"), ("q.source", "a"), ("q.source", "b"), ("q.pin", "b")];
    let wanted = wanted.map(|(of, name)| (kind(of), key(name)));
    let found = wait(store.records(wanted.to_vec())).expect("records can be read");
    let found: Vec<_> = found.into_iter().map(|record| record.map(|record| record.value)).collect();
    assert_eq!(found, [Some("2".into()), None, Some("3".into()), None, Some("2".into())]);
    assert_eq!(wait(store.records(Vec::new())), Ok(Vec::new()));
}

/// A page has the records of one kind whose key begins with the prefix, in the order of bytes; it ends at the limit.
pub fn records_are_listed_by_prefix_in_pages(store: &dyn Store) {
    let client = Client::new(store);
    let keys = ["a", "a/1", "a/2", "a/É", "a/z", "a0", "b", "é"];
    let mut records: Vec<_> = keys.iter().map(|name| write(name, 0, name)).collect();
    records.push(RecordWrite { kind: kind("q.pin.x"), ..write("a/3", 0, "other") });
    client.unit(writing(records)).expect("they are new");
    let page = |prefix: &str, after: Option<&str>, limit: usize| {
        let filter = RecordFilter { prefix: prefix.into(), ..RecordFilter::of(kind("q.pin")) };
        let page = wait(store.record_page(filter, after.map(key), limit)).expect("records can be read");
        let next = page.next.map(|next| next.to_string());
        (names(&page.records).join(" "), next.unwrap_or_default())
    };
    let told = |records: &str, next: &str| (records.to_owned(), next.to_owned());
    assert_eq!(page("", None, 100), told("a a/1 a/2 a/z a/É a0 b é", ""));
    assert_eq!(page("a/", None, 2), told("a/1 a/2", "a/2"));
    assert_eq!(page("a/", Some("a/2"), 2), told("a/z a/É", ""));
    assert_eq!(page("a/", Some("A"), 1), told("a/1", "a/1"));
    assert_eq!(page("a/", Some("b"), 9), told("", ""));
    assert_eq!(page("é", None, 9), told("é", ""));
    assert_eq!(page("x", None, 9), told("", ""));
}

/// A page of large records ends with the one that makes it large, and the next page goes on after it.
pub fn a_page_of_large_records_ends_early(store: &dyn Store) {
    let client = Client::new(store);
    let large = format!("\"{}\"", "x".repeat(RECORD_PAGE_BYTES / 2));
    let records: Vec<_> = ["a", "b", "c"].iter().map(|name| write(name, 0, &large)).collect();
    for record in records {
        client.unit(writing([record])).expect("it is new");
    }
    let page = |after: Option<&str>| {
        let found = store.record_page(RecordFilter::of(kind("q.pin")), after.map(key), 10);
        wait(found).expect("records can be read")
    };
    let first = page(None);
    assert_eq!((names(&first.records), first.next), (vec!["a", "b"], Some(key("b"))));
    let second = page(Some("b"));
    assert_eq!((names(&second.records), second.next), (vec!["c"], None));
    assert_eq!(second.records[0].value, large);
}

/// Records are not in the feed.
pub fn a_record_leaves_no_feed_row(store: &dyn Store) {
    let client = Client::new(store);
    let committed = client.commit([writing([write("a", 0, "1")])]);
    assert_eq!((committed.results[0].is_ok(), committed.feed), (true, None));
}

/// A prune takes records of its kinds that were written before its time, and nothing else.
pub fn a_prune_takes_old_records_of_its_kind(store: &dyn Store) {
    let client = Client::new(store);
    let aged = |name: &str, ms: u64| RecordWrite { at: at(ms), ..write(name, 0, "1") };
    let other = RecordWrite { kind: kind("q.source"), ..aged("a", 1) };
    client.unit(writing([aged("a", 1), aged("b", 2), aged("c", 3), other])).expect("they are new");
    let pruned =
        client.prune(Prune { records: vec![(kind("q.pin"), at(3)), (kind("q"), at(9))], ..Prune::default() });
    assert_eq!(pruned.records, 2);
    assert_eq!(names(&all(store)), ["c"]);
    let kept = wait(store.records(vec![(kind("q.source"), key("a"))])).expect("records can be read");
    assert!(kept[0].is_some());
    assert_eq!(client.get(id(1)), None);
}
