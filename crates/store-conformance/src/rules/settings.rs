//! Settings, guarded by a rev of their own.

use jobhall_store::{Conflict, Setting, SettingKind, SettingWrite, Store, Unit};

use crate::desk::Desk;
use crate::fixture::wait;

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

/// The first write expects none and makes rev 1; each write after it raises the rev.
pub fn a_setting_starts_at_rev_one_and_rises(store: &dyn Store) {
    let desk = Desk::new(store);
    desk.unit(writing([write("a", 0, "{\"x\":1}"), write("b", 0, "2")])).expect("they are new");
    desk.unit(writing([write("a", 1, "3")])).expect("the rev is right");
    desk.unit(writing([write("a", 2, "4")])).expect("the rev is right");
    assert_eq!(wait(store.settings()), Ok(vec![stored("a", 3, "4"), stored("b", 1, "2")]));
}

/// A write decided on another rev is refused and shows what is stored; one wrong write keeps all of them out.
pub fn a_setting_decided_on_another_rev_is_refused(store: &dyn Store) {
    let desk = Desk::new(store);
    desk.unit(writing([write("a", 0, "1")])).expect("it is new");
    let unchanged = Conflict::Setting { write: 0, stored: Some(stored("a", 1, "1")) };
    for expected in [0, 2] {
        let conflicts = desk.refused(writing([write("a", expected, "9"), write("b", 0, "9")]));
        assert_eq!(conflicts, std::slice::from_ref(&unchanged));
    }
    let missing = Conflict::Setting { write: 0, stored: None };
    assert_eq!(desk.refused(writing([write("c", 1, "9")])), [missing]);
    assert_eq!(wait(store.settings()), Ok(vec![stored("a", 1, "1")]));
}

/// A removal is guarded like any other write; afterwards the name is free and starts anew.
pub fn a_removed_setting_is_gone(store: &dyn Store) {
    let desk = Desk::new(store);
    desk.unit(writing([write("a", 0, "1"), write("b", 0, "2")])).expect("they are new");
    let unchanged = Conflict::Setting { write: 0, stored: Some(stored("a", 1, "1")) };
    assert_eq!(desk.refused(writing([removal("a", 2), removal("b", 1)])), [unchanged]);
    desk.unit(writing([removal("a", 1)])).expect("the rev is right");
    assert_eq!(wait(store.settings()), Ok(vec![stored("b", 1, "2")]));
    let missing = Conflict::Setting { write: 0, stored: None };
    assert_eq!(desk.refused(writing([removal("a", 1)])), [missing]);
    desk.unit(writing([write("a", 0, "3")])).expect("the name is free");
    assert_eq!(wait(store.settings()), Ok(vec![stored("a", 1, "3"), stored("b", 1, "2")]));
}

/// The kind is part of a setting's name; they are told by kind and name.
pub fn settings_of_two_kinds_do_not_meet(store: &dyn Store) {
    let desk = Desk::new(store);
    let kinds = SettingKind::ALL.map(|kind| SettingWrite { kind, ..write("a", 0, kind.as_str()) });
    desk.unit(writing(kinds)).expect("they are new");
    desk.unit(writing([SettingWrite { kind: SettingKind::Token, ..removal("a", 1) }])).expect("it is there");
    let left = wait(store.settings()).expect("settings can be read");
    let left: Vec<_> = left.into_iter().map(|setting| (setting.kind, setting.value)).collect();
    let kept = SettingKind::ALL.into_iter().filter(|&kind| kind != SettingKind::Token);
    let expected: Vec<_> = kept.map(|kind| (kind, kind.as_str().to_owned())).collect();
    assert_eq!(left, expected);
}

/// With several writes, the conflict tells which one it is about.
pub fn a_conflict_names_the_write_it_is_about(store: &dyn Store) {
    let desk = Desk::new(store);
    desk.unit(writing([write("b", 0, "1")])).expect("it is new");
    let conflicts = desk.refused(writing([write("a", 0, "9"), write("b", 0, "9"), write("c", 4, "9")]));
    let expected = [
        Conflict::Setting { write: 1, stored: Some(stored("b", 1, "1")) },
        Conflict::Setting { write: 2, stored: None },
    ];
    assert_eq!(conflicts, expected);
}

/// The feed tells of jobs only.
pub fn a_setting_leaves_no_feed_row(store: &dyn Store) {
    let desk = Desk::new(store);
    let committed = desk.commit([writing([write("a", 0, "1")])]);
    assert!(committed.results[0].is_ok());
    assert_eq!(committed.feed, None);
    let page = wait(store.feed(0, 10)).expect("the feed can be read");
    assert_eq!(page.rows, []);
}
