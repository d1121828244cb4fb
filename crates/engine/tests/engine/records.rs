//! Records without a job: written, read, removed.

use std::sync::Arc;

use jobhall_core::{Key, RecordKind, Time};
use jobhall_engine::{Config, Engine, NewRecord, NewRecordGroup, Rejected, Submit, SystemClock};
use jobhall_store::{Memory, RecordFilter};

fn record(key: &str, expected: u32, value: Option<&str>) -> NewRecord {
    NewRecord {
        kind: RecordKind::new("build.project").unwrap(),
        key: Key::new(key).unwrap(),
        expected,
        group: NewRecordGroup::Keep,
        value: value.map(str::to_owned),
    }
}

fn name(key: &str) -> (RecordKind, Key) {
    (RecordKind::new("build.project").unwrap(), Key::new(key).unwrap())
}

#[tokio::test]
async fn ground_1_records_alone_are_written_in_one_commit_read_and_removed_by_age() {
    let engine =
        Engine::start(Arc::new(Memory::new()), Config::default(), SystemClock::default()).await.unwrap();
    engine.write_records(vec![record("a", 0, Some("1")), record("b", 0, Some("2"))]).await.unwrap();
    let refused = engine.write_records(vec![record("c", 0, Some("3")), record("a", 0, Some("4"))]).await;
    let Err(Rejected::RecordChanged(conflict)) = refused else { panic!("{refused:?}") };
    assert_eq!(conflict.stored.as_ref().map(|stored| (stored.rev, stored.value.as_str())), Some((1, "1")));
    let read = engine.records(vec![name("a"), name("c"), name("b")]).await.unwrap();
    let values: Vec<_> = read.iter().map(|read| read.as_ref().map(|read| read.value.as_str())).collect();
    assert_eq!(values, [Some("1"), None, Some("2")], "nothing of the refused request was written");
    engine.write_records(vec![record("a", 1, Some("5")), record("b", 1, None)]).await.unwrap();
    let filter = RecordFilter::of(name("a").0);
    let page = engine.record_page(filter.clone(), None, 10).await.unwrap();
    assert_eq!(page.records.iter().map(|read| (read.key.as_str(), read.rev)).collect::<Vec<_>>(), [("a", 2)]);
    assert_eq!(engine.prune_records(vec![(name("a").0, Time::EPOCH)]).await.unwrap(), 0);
    let later = Time::EPOCH.plus_ms(u64::MAX / 2);
    assert_eq!(engine.prune_records(vec![(name("a").0, later)]).await.unwrap(), 1);
    assert!(engine.record_page(filter, None, 10).await.unwrap().records.is_empty());
    let nothing = engine.submit(Submit::default()).await.unwrap_err();
    assert!(nothing.to_string().contains("jobs of 0 is outside 1"), "{nothing}");
    engine.stop().await;
}
