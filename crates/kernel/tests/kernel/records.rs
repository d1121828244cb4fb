//! Records that are written together with a submit, a new group or a report.

use crate::rig::{Hall, job, keyed, passed, worker};
use jobhall_core::{Key, RecordKind, StateName};
use jobhall_kernel::{
    Answer, AttemptRef, IdempotencyKey, NewGroup, NewRecord, NewRecordGroup, Rejected, Request, Submit,
};
use jobhall_store::Record;

fn record(key: &str, expected: u32, value: Option<&str>) -> NewRecord {
    NewRecord {
        kind: RecordKind::new("app.doc").unwrap(),
        key: Key::new(key).unwrap(),
        expected,
        group: NewRecordGroup::Keep,
        value: value.map(str::to_owned),
    }
}

fn stored(hall: &Hall) -> Vec<(String, u32, String)> {
    let told = |record: Record| (record.key.to_string(), record.rev, record.value);
    hall.store.records_now().into_iter().map(told).collect()
}

fn with(record: NewRecord) -> Submit {
    Submit { jobs: vec![job("t")], records: vec![record], ..Submit::default() }
}

#[test]
fn ground_1_a_submit_writes_its_records_with_its_jobs_or_neither() {
    let mut hall = Hall::new();
    hall.ask(Request::Submit { submit: with(record("a", 0, Some("1"))) }).unwrap();
    assert_eq!(stored(&hall), [("a".to_owned(), 1, "1".to_owned())]);
    let open = hall.kernel.open_count();
    match hall.ask(Request::Submit { submit: with(record("a", 0, Some("2"))) }) {
        Err(Rejected::RecordChanged(conflict)) => {
            assert_eq!(conflict.stored.map(|stored| (stored.rev, stored.value)), Some((1, "1".to_owned())));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((hall.kernel.open_count(), stored(&hall).len()), (open, 1), "no job was made");
    hall.ask(Request::Submit { submit: with(record("a", 1, None)) }).unwrap();
    assert_eq!(stored(&hall), []);
}

#[test]
fn ground_1_a_submit_that_only_joins_writes_its_records_too() {
    let mut hall = Hall::new();
    hall.submit(keyed("t", "k")).unwrap();
    let submit = Submit { jobs: vec![keyed("t", "k")], ..with(record("a", 0, Some("1"))) };
    hall.ask(Request::Submit { submit }).unwrap();
    assert_eq!((hall.kernel.open_count(), stored(&hall).len()), (1, 1));
}

#[test]
fn ground_1_a_repeated_submit_has_its_answer_whatever_became_of_its_records() {
    let mut hall = Hall::new();
    let name = IdempotencyKey { scope: "s".to_owned(), key: "k".to_owned(), body: 7 };
    let submit = Submit { name: Some(name), ..with(record("a", 0, Some("1"))) };
    let first = hall.ask(Request::Submit { submit: submit.clone() }).unwrap();
    assert_eq!(hall.ask(Request::Submit { submit }).unwrap(), first);
    assert_eq!(stored(&hall)[0].1, 1, "it was written once");
}

#[test]
fn ground_1_a_new_group_has_the_records_that_are_made_with_it() {
    let mut hall = Hall::new();
    let made = NewRecord { group: NewRecordGroup::Made, ..record("a", 0, Some("{}")) };
    let submit = Submit { records: vec![made], ..Submit::default() };
    let group = NewGroup::default();
    let Answer::GroupCreated(created) = hall.ask(Request::CreateGroup { group, submit }).unwrap() else {
        panic!("no group")
    };
    assert_eq!(hall.store.records_now()[0].group, Some(created.id));
}

#[test]
fn ground_1_a_report_writes_its_records_or_nothing() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    let held = hall.take_one("w");
    let report = |hall: &mut Hall, records| {
        let of = AttemptRef { worker: worker("w"), attempt: held.attempt, lease: held.lease };
        hall.ask(Request::Report { of, report: passed(), records })
    };
    let refused = report(&mut hall, vec![record("a", 3, Some("1"))]);
    assert!(matches!(refused, Err(Rejected::RecordChanged(_))), "{refused:?}");
    assert_ne!(hall.state(id), StateName::Succeeded, "the attempt goes on");
    let bad = report(&mut hall, vec![record("a", 0, Some("no JSON"))]);
    assert!(matches!(bad, Err(Rejected::BadRecord { .. })), "{bad:?}");
    report(&mut hall, vec![record("a", 0, Some("1"))]).unwrap();
    assert_eq!((hall.state(id), stored(&hall).len()), (StateName::Succeeded, 1));
    report(&mut hall, vec![record("a", 0, Some("1"))]).unwrap();
    assert_eq!(stored(&hall)[0].1, 1, "a repeated report writes nothing");
}
