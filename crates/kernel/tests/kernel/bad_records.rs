//! Records that cannot be written, by each request that can carry some: a typed error, and nothing is written.

use jobhall_core::bounds::{RECORD_BYTES, RECORDS};
use jobhall_core::{Key, RecordKind, StateName};
use jobhall_kernel::{Answer, AttemptRef, NewGroup, NewRecord, NewRecordGroup, Rejected, Request, Submit};
use jobhall_store::Record;

use crate::rig::{Hall, job, passed, worker};

fn record(key: &str, expected: u32, value: &str) -> NewRecord {
    NewRecord {
        kind: RecordKind::new("app.doc").unwrap(),
        key: Key::new(key).unwrap(),
        expected,
        group: NewRecordGroup::Keep,
        value: Some(value.to_owned()),
    }
}

/// Whether a refusal is the expected one.
type IsExpected = fn(&Rejected) -> bool;

/// Lists of records of which one is wrong, each beside one that is right, and how they are refused.
fn wrong() -> Vec<(Vec<NewRecord>, IsExpected)> {
    let with = |bad: NewRecord| vec![record("good", 0, "1"), bad];
    let is_bad =
        |refused: &Rejected| matches!(refused, Rejected::BadRecord { key, .. } if key.as_str() != "good");
    let is_bound = |refused: &Rejected| matches!(refused, Rejected::Bound { .. });
    let is_stale = |refused: &Rejected| match refused {
        Rejected::RecordChanged(conflict) => conflict.stored.as_ref().is_some_and(|stored| stored.rev == 1),
        _ => false,
    };
    let is_gone = |refused: &Rejected| match refused {
        Rejected::RecordChanged(conflict) => conflict.stored.is_none(),
        _ => false,
    };
    let large = format!("\"{}\"", "x".repeat(RECORD_BYTES - 1));
    let case = |records: Vec<NewRecord>, is_expected: IsExpected| (records, is_expected);
    vec![
        case(with(record("a", 0, &large)), is_bound),
        case((0..=RECORDS).map(|n| record(&n.to_string(), 0, "1")).collect(), is_bound),
        case(with(record("a", 0, "{\"no\": JSON}")), is_bad),
        case(with(record("a", 0, "")), is_bad),
        case(vec![record("good", 0, "1"), record("a", 0, "1"), record("a", 0, "2")], is_bad),
        case(with(record("there", 0, "2")), is_stale),
        case(with(record("there", 2, "2")), is_stale),
        case(with(NewRecord { value: None, ..record("there", 2, "") }), is_stale),
        case(with(record("a", 1, "2")), is_gone),
        case(with(NewRecord { value: None, ..record("a", 1, "") }), is_gone),
    ]
}

/// A hall with the record `there`, and everything in its store but audit entries.
fn hall() -> (Hall, Vec<Record>) {
    let mut hall = Hall::new();
    let submit = Submit { records: vec![record("there", 0, "1")], ..Submit::default() };
    hall.ask(Request::Submit { submit }).unwrap();
    let records = hall.store.records_now();
    (hall, records)
}

#[test]
fn ground_1_bad_records_are_refused_by_every_request_and_nothing_is_written() {
    let (mut hall, stored) = hall();
    let id = hall.submit(job("held")).unwrap().id;
    let held = hall.take_one("w");
    hall.accept("w", &held).unwrap();
    let (jobs, state) = (hall.store.all_jobs().len(), hall.state(id));
    for (at, (records, is_expected)) in wrong().into_iter().enumerate() {
        let of = AttemptRef { worker: worker("w"), attempt: held.attempt, lease: held.lease };
        let with_jobs = Submit { jobs: vec![job("t")], records: records.clone(), ..Submit::default() };
        let alone = Submit { records: records.clone(), ..Submit::default() };
        for request in [
            Request::Submit { submit: with_jobs.clone() },
            Request::Submit { submit: alone.clone() },
            Request::CreateGroup { group: NewGroup::default(), submit: with_jobs },
            Request::CreateGroup { group: NewGroup::default(), submit: alone },
            Request::Report { of: of.clone(), report: passed(), records: records.clone() },
        ] {
            let refused = hall.ask(request.clone()).unwrap_err();
            assert!(is_expected(&refused), "{at}: {refused:?} of {request:?}");
        }
    }
    assert_eq!(hall.store.records_now(), stored);
    assert_eq!((hall.store.all_jobs().len(), hall.state(id)), (jobs, state), "the attempt goes on");
    assert!(hall.store.groups_now(false).is_empty(), "no empty group is left");
    hall.report("w", &held, passed()).unwrap();
    assert_eq!(hall.state(id), StateName::Succeeded);
}

#[test]
fn ground_1_only_a_request_that_creates_a_group_has_records_of_it() {
    let (mut hall, stored) = hall();
    hall.submit(job("held")).unwrap();
    let held = hall.take_one("w");
    let made = || vec![NewRecord { group: NewRecordGroup::Made, ..record("a", 0, "1") }];
    let of = AttemptRef { worker: worker("w"), attempt: held.attempt, lease: held.lease };
    for request in [
        Request::Submit { submit: Submit { jobs: vec![job("t")], records: made(), ..Submit::default() } },
        Request::Submit { submit: Submit { records: made(), ..Submit::default() } },
        Request::Report { of, report: passed(), records: made() },
    ] {
        let refused = hall.ask(request).unwrap_err();
        assert!(refused.to_string().ends_with("the request creates none"), "{refused}");
    }
    assert_eq!(hall.store.records_now(), stored);
}

#[test]
fn ground_1_records_name_the_group_that_is_made_also_beside_its_jobs_and_when_it_is_repeated() {
    let (mut hall, _) = hall();
    let name = jobhall_kernel::IdempotencyKey { scope: "s".to_owned(), key: "k".to_owned(), body: 7 };
    let records = vec![
        NewRecord { group: NewRecordGroup::Made, ..record("a", 0, "1") },
        NewRecord { group: NewRecordGroup::Made, ..record("there", 1, "2") },
        record("b", 0, "1"),
    ];
    let submit = Submit { jobs: vec![job("t")], records, name: Some(name), ..Submit::default() };
    let mut made = Vec::new();
    for repeated in [false, true] {
        let request = Request::CreateGroup { group: NewGroup::default(), submit: submit.clone() };
        let Answer::GroupCreated(group) = hall.ask(request).unwrap() else { panic!("no group") };
        assert_eq!(group.repeated, repeated);
        made.push(group.id);
    }
    assert_eq!(made[0], made[1]);
    let groups: Vec<_> = hall
        .store
        .records_now()
        .iter()
        .map(|record| (record.key.to_string(), record.rev, record.group))
        .collect();
    let expected = [("a", 1, Some(made[0])), ("b", 1, None), ("there", 2, Some(made[0]))];
    assert_eq!(groups, expected.map(|(key, rev, group)| (key.to_owned(), rev, group)));
}
