//! Settings, guarded by their own rev.

use jobhall_core::{Event, Job};
use jobhall_store::{Conflict, Prune, Setting, SettingKind, SettingWrite, Store, Unit};

use crate::client::Client;
use crate::fixture::wait;
use crate::rules::blocks::take;
use crate::samples::{at, change_of, changing, decide, failure, id, inserting, queued, spec};

fn write(name: &str, expected: u32, value: &str) -> SettingWrite {
    SettingWrite { kind: SettingKind::Type, name: name.into(), expected, value: Some(value.into()) }
}

fn stored(name: &str, rev: u32, value: &str) -> Setting {
    Setting { kind: SettingKind::Type, name: name.into(), rev, value: value.into() }
}

fn removal(name: &str, expected: u32) -> SettingWrite {
    SettingWrite { value: None, ..write(name, expected, "") }
}

fn writing(settings: impl Into<Vec<SettingWrite>>) -> Unit {
    Unit { settings: settings.into(), ..Unit::default() }
}

/// The first write expects no setting and makes rev 1; each later write increases the rev.
pub fn a_setting_starts_at_rev_one_and_rises(store: &dyn Store) {
    let client = Client::new(store);
    client.unit(writing([write("a", 0, "{\"x\":1}"), write("b", 0, "2")])).expect("they are new");
    client.unit(writing([write("a", 1, "3")])).expect("the rev is right");
    client.unit(writing([write("a", 2, "4")])).expect("the rev is right");
    assert_eq!(wait(store.settings(None)), Ok(vec![stored("a", 3, "4"), stored("b", 1, "2")]));
}

/// A write decided on another rev is refused with the stored setting; one wrong write refuses the whole unit.
pub fn a_setting_decided_on_another_rev_is_refused(store: &dyn Store) {
    let client = Client::new(store);
    client.unit(writing([write("a", 0, "1")])).expect("it is new");
    let unchanged = Conflict::Setting { write: 0, stored: Some(stored("a", 1, "1")) };
    for expected in [0, 2] {
        let conflicts = client.refused(writing([write("a", expected, "9"), write("b", 0, "9")]));
        assert_eq!(conflicts, std::slice::from_ref(&unchanged));
    }
    let missing = Conflict::Setting { write: 0, stored: None };
    assert_eq!(client.refused(writing([write("c", 1, "9")])), [missing]);
    assert_eq!(wait(store.settings(None)), Ok(vec![stored("a", 1, "1")]));
}

/// A removal is guarded like any other write; afterwards the name is free and starts at rev 1 again.
pub fn a_removed_setting_is_gone(store: &dyn Store) {
    let client = Client::new(store);
    client.unit(writing([write("a", 0, "1"), write("b", 0, "2")])).expect("they are new");
    let unchanged = Conflict::Setting { write: 0, stored: Some(stored("a", 1, "1")) };
    assert_eq!(client.refused(writing([removal("a", 2), removal("b", 1)])), [unchanged]);
    client.unit(writing([removal("a", 1)])).expect("the rev is right");
    assert_eq!(wait(store.settings(None)), Ok(vec![stored("b", 1, "2")]));
    let missing = Conflict::Setting { write: 0, stored: None };
    assert_eq!(client.refused(writing([removal("a", 1)])), [missing]);
    client.unit(writing([write("a", 0, "3")])).expect("the name is free");
    assert_eq!(wait(store.settings(None)), Ok(vec![stored("a", 1, "3"), stored("b", 1, "2")]));
}

/// The kind is part of a setting's name; they are listed by kind and name.
pub fn settings_of_two_kinds_do_not_meet(store: &dyn Store) {
    let client = Client::new(store);
    let kinds = SettingKind::ALL.map(|kind| SettingWrite { kind, ..write("a", 0, kind.as_str()) });
    client.unit(writing(kinds)).expect("they are new");
    client
        .unit(writing([SettingWrite { kind: SettingKind::Token, ..removal("a", 1) }]))
        .expect("it is there");
    let left = wait(store.settings(None)).expect("settings can be read");
    let left: Vec<_> = left.into_iter().map(|setting| (setting.kind, setting.value)).collect();
    let kept = SettingKind::ALL.into_iter().filter(|&kind| kind != SettingKind::Token);
    let expected: Vec<_> = kept.map(|kind| (kind, kind.as_str().to_owned())).collect();
    assert_eq!(left, expected);
    for kind in SettingKind::ALL {
        let read = wait(store.settings(Some(kind))).expect("settings can be read").into_iter();
        let read: Vec<_> = read.map(|setting| (setting.kind, setting.value)).collect();
        let of_kind = expected.iter().filter(|(other, _)| *other == kind).cloned();
        assert_eq!(read, of_kind.collect::<Vec<_>>(), "only the settings of the kind {}", kind.as_str());
    }
}

/// With several writes, the conflict names the one that failed.
pub fn a_conflict_names_the_write_it_is_about(store: &dyn Store) {
    let client = Client::new(store);
    client.unit(writing([write("b", 0, "1")])).expect("it is new");
    let conflicts = client.refused(writing([write("a", 0, "9"), write("b", 0, "9"), write("c", 4, "9")]));
    let expected = [
        Conflict::Setting { write: 1, stored: Some(stored("b", 1, "1")) },
        Conflict::Setting { write: 2, stored: None },
    ];
    assert_eq!(conflicts, expected);
}

/// The feed contains only jobs.
pub fn a_setting_leaves_no_feed_row(store: &dyn Store) {
    let client = Client::new(store);
    let committed = client.commit([writing([write("a", 0, "1")])]);
    assert!(committed.results[0].is_ok());
    assert_eq!(committed.feed, None);
    let page = wait(store.feed(0, 10)).expect("the feed can be read");
    assert_eq!(page.rows, []);
}

/// A schedule's setting and the job of its tick are written together: a unit decided on an older rev creates no job,
/// in the same commit or later, even if the job has been removed.
pub fn a_tick_decided_twice_is_made_once(store: &dyn Store) {
    let client = Client::new(store);
    let tick = |job: Job, expected: u32| {
        let schedule = SettingWrite { kind: SettingKind::Schedule, ..write("nightly", expected, "seen") };
        Unit { settings: vec![schedule], ..inserting(job) }
    };
    let job = |n: u64| queued(id(n), spec("t", None, at(0)));
    take(store, 10);
    client.unit(tick(job(1), 0)).expect("it is new");
    let committed = client.commit([tick(job(2), 1), tick(job(3), 1)]);
    assert!(committed.results[0].is_ok());
    let schedule = Setting { kind: SettingKind::Schedule, ..stored("nightly", 2, "seen") };
    assert_eq!(
        committed.results[1],
        Err(vec![Conflict::Setting { write: 0, stored: Some(schedule.clone()) }])
    );
    let made = job(2);
    let step = decide(&made, &Event::Cancel(&failure("over")), at(5));
    client.unit(changing([change_of(&made, step)])).expect("the rev is right");
    wait(store.prune(Prune { jobs: vec![id(2)], ..Prune::default() })).expect("it is completed");
    assert_eq!(client.refused(tick(job(4), 1)), [Conflict::Setting { write: 0, stored: Some(schedule) }]);
    let there = wait(store.jobs([1, 2, 3, 4].map(id).to_vec())).expect("jobs can be read");
    let there: Vec<_> = there.into_iter().flatten().map(|job| job.id).collect();
    assert_eq!(there, [id(1)]);
}
