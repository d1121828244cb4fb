//! Import from the embedded store: everything arrives unchanged, or nothing does.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

mod fixture;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use fixture::{Database, Options, at, id, inserting, queued, take_as, wait};
use jobhall_core::{
    Disposition, Failure, Group, GroupCounts, GroupEnd, GroupId, GroupVerdict, Key, RecordKind, Submitted,
};
use jobhall_store::{
    AuditEntry, Conflict, GroupFilter, GroupWrite, Holdings, Link, RecordFilter, RecordGroup, RecordWrite,
    SettingKind, SettingWrite, Store, StoreError, StoredIdempotencyKey, Unit,
};
use jobhall_store_conformance::{Fixture, model};
use jobhall_store_sqlite::{Export, Sqlite};
use jobhall_throwaway::Cluster;

/// More rows than a test creates.
const ALL: usize = 1_000_000;

fn sqlite(path: &Path) -> Sqlite {
    Sqlite::open(path, jobhall_store_sqlite::Options::default()).unwrap()
}

fn export(path: &Path) -> Result<Export, StoreError> {
    Export::open(path, &jobhall_store_sqlite::Options::default())
}

/// Moves all of a file except the first chunks that `leave_out` names.
fn move_up(path: &Path, database: &Database, leave_out: usize) -> Result<Holdings, StoreError> {
    let (mut export, database) = (export(path)?, database.clone());
    wait(Box::pin(async move {
        let import = database.import().await?;
        let mut n = 0;
        while let Some(portion) = export.next_portion()? {
            if n >= leave_out {
                import.put(&portion).await?;
            }
            n += 1;
        }
        let held = export.holdings()?;
        import.finish(export.marks()?, held).await?;
        Ok(held)
    }))
}

/// A file left by random operations, with rows added that those do not create.
fn lived(directory: &Path, seed: u64) -> PathBuf {
    let made = Arc::new(Mutex::new(0));
    let (folder, count) = (directory.to_owned(), made.clone());
    let newest = move |n: u32| folder.join(format!("{seed}-{n}.db"));
    let path = newest.clone();
    let open = move || {
        let mut n = count.lock().unwrap();
        *n += 1;
        let path = newest(*n);
        Fixture::durable(move || sqlite(&path))
    };
    model::compare(open, 1, seed).unwrap();
    let path = path(*made.lock().unwrap());
    let store = sqlite(&path);
    add_company(&store);
    drop(store);
    path
}

fn group(n: u64, end: bool) -> GroupWrite {
    let failure = Failure::new("stopped", "by a test");
    let counts = GroupCounts { succeeded: 3, ..GroupCounts::default() };
    let end = end.then_some(GroupEnd { at: at(9), verdict: GroupVerdict::Cancelled, counts });
    let cancel = end.map(|_| failure);
    let group = Group {
        id: GroupId::of(id(n)),
        rev: 1,
        name: Some(Key::new("night run").unwrap()),
        owner: Some(jobhall_core::Owner::new("anna").unwrap()),
        tags: vec![jobhall_core::Tag::new("slow").unwrap()].into(),
        retry_of: None,
        created_at: at(1),
        closed: end.is_some(),
        fails: cancel.is_some(),
        cancel,
        end,
    };
    GroupWrite { expected: 0, group }
}

fn idempotency_key(n: u64) -> StoredIdempotencyKey {
    let answer = vec![Submitted { id: id(n), disposition: Disposition::Created }];
    let (scope, key) = ("ci".to_owned(), format!("key {n}"));
    StoredIdempotencyKey {
        scope,
        key,
        body: u128::MAX - u128::from(n),
        answer,
        at: at(5),
        forget_before: at(0),
    }
}

fn act(n: u64) -> AuditEntry {
    let text = |what: &str| format!("{what} {n}");
    AuditEntry { at: at(7), who: text("who"), act: text("act"), subject: text("on"), detail: text("é") }
}

fn kind(name: &str) -> RecordKind {
    RecordKind::new(name).unwrap()
}

fn record(key: &str, expected: u32, group: Option<GroupId>, value: &str) -> RecordWrite {
    let (key, value) = (Key::new(key).unwrap(), Some(value.to_owned()));
    RecordWrite { kind: kind("build.build"), key, expected, at: at(6), group: RecordGroup::Set(group), value }
}

/// Records with and without a group, of which one was changed.
fn add_records(store: &Sqlite, group: GroupId) {
    let large = format!("\"{}\"", "é".repeat(1 << 20));
    let records = vec![record("a/é", 0, Some(group), "{\"x\":1}"), record("b", 0, None, &large)];
    let changed = vec![record("a/é", 1, Some(group), "{\"x\": 2}")];
    let units = [records, changed].map(|records| Unit { records, ..Unit::default() });
    let done = wait(store.commit(units.into())).unwrap();
    assert!(done.results.iter().all(Result::is_ok), "{:?}", done.results);
}

/// Groups, members, links, idempotency keys, audit entries and settings; and an open id block.
fn add_company(store: &Sqlite) {
    let first = wait(store.take_block(100)).unwrap().first.get();
    let mut member = queued(first + 2, Some("a separate key"));
    Arc::make_mut(&mut member.spec).group = Some(GroupId::of(id(first)));
    let links = (0..3).map(|n| Link { parent: id(first + 2), call: format!("call {n}"), job: id(first + 3) });
    let unit = Unit {
        groups: vec![group(first, false), group(first + 1, true)],
        links: links.collect(),
        audit: (1..=3).map(act).collect(),
        idempotency_key: Some(idempotency_key(first + 2)),
        settings: vec![SettingWrite {
            kind: SettingKind::Token,
            name: format!("token {first}"),
            expected: 0,
            value: Some("{}".to_owned()),
        }],
        ..inserting([member, queued(first + 3, None)])
    };
    let done = wait(store.commit(vec![unit])).unwrap();
    assert!(done.results[0].is_ok(), "{:?}", done.results);
    add_records(store, GroupId::of(id(first)));
}

fn assert_alike(one: &dyn Store, other: &dyn Store, last: u64) {
    let ids: Vec<_> = (1..=last).map(id).collect();
    macro_rules! alike {
        ($($verb:ident($($argument:expr),*)),* $(,)?) => {
            $(assert_eq!(
                wait(one.$verb($($argument),*)).unwrap(),
                wait(other.$verb($($argument),*)).unwrap(),
                stringify!($verb)
            );)*
        };
    }
    alike!(jobs(ids.clone()), blocks(), settings(None), open_jobs(None, ALL), completed(None, ALL));
    alike!(
        group_page(GroupFilter::all(false), None, ALL),
        group_page(GroupFilter::all(true), None, ALL),
        links(None, ALL),
        audit(None, ALL)
    );
    for name in ["q.pin", "q.source", "build.build"] {
        alike!(record_page(RecordFilter::of(kind(name)), None, ALL));
    }
    for &n in &ids {
        alike!(attempts(n, 0, ALL), members(GroupId::of(n), None, ALL));
    }
}

/// The counters continue after those of the file.
fn assert_goes_on(before: &Sqlite, after: &dyn Store, last: u64) {
    let fed = wait(before.feed(0, ALL)).unwrap();
    let last_feed = fed.rows.last().map_or(fed.pruned_to, |row| row.n);
    let page = wait(after.feed(0, ALL)).unwrap();
    assert_eq!((page.rows.len(), page.pruned_to), (0, last_feed), "a reader of the feed has to start again");
    let act_before = wait(before.audit(None, 1)).unwrap()[0].n;
    let lent = wait(after.take_block(1)).unwrap().first;
    assert_eq!(lent.get(), last + 1, "no id is given twice");
    let unit = Unit { audit: vec![act(4)], ..inserting([queued(lent.get(), None)]) };
    assert_eq!(wait(after.commit(vec![unit])).unwrap().feed, Some(last_feed + 1));
    assert_eq!(wait(after.audit(None, 1)).unwrap()[0].n, act_before + 1);
}

fn last_id(store: &Sqlite) -> u64 {
    wait(store.blocks()).unwrap().iter().map(|block| block.last.get()).max().unwrap()
}

#[test]
fn whatever_a_hall_holds_arrives_as_it_was() {
    let (directory, shared) = (tempfile::tempdir().unwrap(), Cluster::shared());
    for seed in 0..6 {
        let path = lived(directory.path(), seed);
        let target = shared.database();
        let database = Database::open(Options::new(target.url())).unwrap();
        let held = move_up(&path, &database, 0).unwrap();
        let (before, after) = (sqlite(&path), take_as(&database, "one"));
        let last = last_id(&before);
        assert!(held.jobs > 5 && held.links >= 3 && held.groups >= 2 && held.acts >= 3, "{held}");
        assert!(held.records >= 2, "{held}");
        assert_alike(&before, &after, last);
        let known = Unit { idempotency_key: Some(idempotency_key(last - 97)), ..Unit::default() };
        let answer = wait(after.commit(vec![known])).unwrap().results.remove(0).unwrap_err();
        assert_eq!(answer, [Conflict::Repeated(idempotency_key(last - 97).answer)]);
        assert_goes_on(&before, &after, last);
    }
}

#[test]
fn a_file_is_left_as_it_was_and_is_nobody_elses_meanwhile() {
    let (directory, shared) = (tempfile::tempdir().unwrap(), Cluster::shared());
    let path = lived(directory.path(), 1);
    let bytes = std::fs::read(&path).unwrap();
    let target = shared.database();
    let database = Database::open(Options::new(target.url())).unwrap();
    let open = export(&path).unwrap();
    let refused = Sqlite::open(&path, jobhall_store_sqlite::Options::default()).unwrap_err();
    assert!(refused.message.contains("locked"), "{refused}");
    drop(open);
    move_up(&path, &database, 0).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    let hall = sqlite(&path);
    let refused = export(&path).unwrap_err();
    assert!(refused.message.contains("another server"), "{refused}");
    drop(hall);
    let missing = export(&directory.path().join("none.db")).unwrap_err();
    assert!(missing.message.contains("there is no file"), "{missing}");
    assert!(!directory.path().join("none.db").exists());
}

#[test]
fn a_move_that_does_not_end_leaves_nothing_and_can_be_repeated() {
    let (directory, shared) = (tempfile::tempdir().unwrap(), Cluster::shared());
    let path = lived(directory.path(), 2);
    let target = shared.database();
    let database = Database::open(Options::new(target.url())).unwrap();
    let refused = move_up(&path, &database, 1).unwrap_err();
    assert!(refused.message.contains("instead of"), "what is missing is noticed: {refused}");
    assert_eq!(target.sql("SELECT count(*) FROM jobhall.jobs"), "0");
    move_up(&path, &database, 0).unwrap();
}

#[test]
fn a_target_that_is_in_use_is_refused_and_says_why() {
    let (directory, shared) = (tempfile::tempdir().unwrap(), Cluster::shared());
    let path = lived(directory.path(), 3);
    let target = shared.database();
    let database = Database::open(Options::new(target.url())).unwrap();
    let store = take_as(&database, "busy");
    let refused = move_up(&path, &database, 0).unwrap_err();
    assert!(refused.message.contains("node busy at http://busy leads"), "{refused}");
    let first = wait(store.take_block(10)).unwrap().first.get();
    wait(store.commit(vec![inserting([queued(first, None)])])).unwrap();
    wait(store.leave());
    let refused = move_up(&path, &database, 0).unwrap_err();
    assert!(refused.message.contains("1 jobs, 1 blocks of ids and has given 10 ids"), "{refused}");
}

#[test]
fn nobody_takes_the_leadership_while_a_move_is_under_way() {
    let shared = Cluster::shared();
    let target = shared.database();
    let database = Database::open(Options::new(target.url())).unwrap();
    let import = wait(database.import()).unwrap();
    let refused = wait(database.lead(fixture::node("early"))).unwrap_err();
    assert!(refused.message.contains("lock timeout"), "{refused}");
    drop(import);
    take_as(&database, "late");
}
