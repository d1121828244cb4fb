//! One node leads; a node that was replaced commits nothing.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

mod fixture;

use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use fixture::{
    Database, Leadership, Options, Postgres, inserting, node, present, queued, take_as, wait, wait_until,
};
use jobhall_store::{CommitError, SettingKind, SettingWrite, Store, Unit};
use jobhall_store_postgres::{Fault, NewKey, Point};
use jobhall_throwaway::{Cluster, Shared};

/// A term long enough for any machine.
fn patient(url: String) -> Options {
    Options { term: Duration::from_secs(600), ..Options::new(url) }
}

fn setup() -> (Shared, jobhall_throwaway::Database) {
    let shared = Cluster::shared();
    let database = shared.database();
    (shared, database)
}

/// Makes the leadership free while its holder still relies on its term, as if the holder had been paused.
fn expire(database: &jobhall_throwaway::Database) {
    database.sql("UPDATE jobhall.leadership SET until = '-infinity'");
}

fn insert(store: &Postgres, n: u64) -> Result<Option<u64>, CommitError> {
    wait(store.commit(vec![inserting([queued(n, None)])])).map(|committed| committed.feed)
}

/// A setting is checked before it is written, inside the transaction.
fn configure() -> Vec<Unit> {
    let write =
        SettingWrite { kind: SettingKind::Type, name: "t".into(), expected: 0, value: Some("{}".into()) };
    vec![Unit { settings: vec![write], ..Unit::default() }]
}

#[test]
fn one_node_holds_the_leadership_and_the_others_learn_who() {
    let (_shared, database) = setup();
    let one = Database::open(patient(database.url())).unwrap();
    let two = Database::open(patient(database.url())).unwrap();
    let store = take_as(&one, "one");
    assert_eq!(store.epoch(), 1);
    for _ in 0..2 {
        let Leadership::Theirs(holder) = wait(two.lead(node("two"))).unwrap() else { panic!("it is taken") };
        assert_eq!((holder.node, holder.epoch), (node("one"), 1));
        assert!(holder.left_ms <= 600_000);
    }
    assert!(store.may_lead());
    let seen = wait(two.nodes()).unwrap();
    let names: Vec<_> = seen.iter().map(|seen| (seen.node.name.as_str(), seen.leads)).collect();
    assert_eq!(names, [("one", true), ("two", false)]);
    assert!(
        seen.iter().all(|seen| seen.version == env!("CARGO_PKG_VERSION") && seen.started_ms <= seen.seen_ms)
    );
    wait(two.forget("two".to_owned())).unwrap();
    assert_eq!(wait(one.nodes()).unwrap().len(), 1);
}

#[test]
fn a_leadership_that_is_left_is_free_at_once_and_goes_on_where_it_was() {
    let (_shared, database) = setup();
    let one = Database::open(patient(database.url())).unwrap();
    let two = Database::open(patient(database.url())).unwrap();
    let store = take_as(&one, "one");
    let committed = store.commit(vec![inserting([queued(1, None)])]);
    wait(store.leave());
    assert_eq!(wait(committed).unwrap().feed, Some(1), "what was asked for before the leaving is done");
    assert!(!store.may_lead());
    assert_eq!(wait(store.lost()), "the leadership was given back");
    assert!(matches!(insert(&store, 2), Err(CommitError::Stopped { .. })));
    let next = take_as(&two, "two");
    assert_eq!(next.epoch(), 2);
    assert_eq!(insert(&next, 3), Ok(Some(2)), "numbers continue");
    assert_eq!(present(&next, 9), [1, 3]);
    assert!(wait(two.nodes()).unwrap().iter().all(|seen| seen.node.name != "one"));
    drop(next);
    assert_eq!(take_as(&one, "three").epoch(), 3, "a dropped store gives the leadership back too");
}

#[test]
fn a_node_that_was_taken_over_commits_nothing() {
    let (_shared, database) = setup();
    let one = take_as(&Database::open(patient(database.url())).unwrap(), "one");
    assert_eq!(insert(&one, 1), Ok(Some(1)));
    expire(&database);
    let two = take_as(&Database::open(patient(database.url())).unwrap(), "two");
    for calls in [vec![inserting([queued(2, None)])], configure()] {
        let refused = wait(one.commit(calls));
        let Err(CommitError::Stopped { message }) = refused else { panic!("{refused:?}") };
        assert_eq!(message, "another node leads now");
    }
    assert!(matches!(wait(one.take_block(5)), Err(CommitError::Stopped { .. })));
    assert!(!one.may_lead());
    assert_eq!(wait(one.lost()), "another node leads now");
    assert_eq!(insert(&two, 3), Ok(Some(2)));
    assert_eq!(present(&two, 9), [1, 3]);
    assert_eq!(database.sql("SELECT count(*) FROM jobhall.settings"), "0");
}

#[test]
fn the_fence_is_in_the_database_and_holds_for_every_transaction() {
    let (_shared, database) = setup();
    let store = take_as(&Database::open(patient(database.url())).unwrap(), "one");
    assert_eq!(insert(&store, 1), Ok(Some(1)));
    let fence = |epoch: u32, number: u32| {
        database.sql(&format!(
            "DO $$ BEGIN PERFORM jobhall.begin_commit({epoch}, {number}); RAISE NOTICE 'passed'; \
             EXCEPTION WHEN SQLSTATE 'JH001' THEN CREATE TABLE IF NOT EXISTS fenced (); \
             WHEN SQLSTATE 'JH002' THEN CREATE TABLE IF NOT EXISTS numbered (); END $$; \
             SELECT coalesce(to_regclass('fenced')::text, to_regclass('numbered')::text, 'passed'); \
             DROP TABLE IF EXISTS fenced; DROP TABLE IF EXISTS numbered"
        ))
    };
    assert_eq!(fence(0, 2), "fenced");
    assert_eq!(fence(2, 2), "fenced");
    assert_eq!(fence(1, 1), "numbered");
    assert_eq!(fence(1, 3), "numbered");
    assert_eq!(fence(1, 2), "passed");
}

/// A store whose writer stops before its first transaction is sent or committed, until the sender sends.
fn held(database: &jobhall_throwaway::Database) -> (Postgres, mpsc::Sender<()>, mpsc::Receiver<()>) {
    let (go, gate) = mpsc::channel::<()>();
    let (tell, arrived) = mpsc::channel::<()>();
    let (gate, tell) = (Mutex::new(gate), Mutex::new(tell));
    let hook = move |point| {
        if point == Point::Begin {
            let _ = tell.lock().unwrap().send(());
            // When the sender is dropped, the gate is open.
            let _ = gate.lock().unwrap().recv();
        }
        None
    };
    let options = Options { hook: Some(Arc::new(hook)), ..patient(database.url()) };
    (take_as(&Database::open(options).unwrap(), "one"), go, arrived)
}

#[test]
fn what_was_decided_before_the_take_over_and_sent_after_it_is_refused() {
    let (_shared, database) = setup();
    let (one, go, arrived) = held(&database);
    let late = one.commit(vec![inserting([queued(1, None)])]);
    arrived.recv().unwrap();
    expire(&database);
    let two = take_as(&Database::open(patient(database.url())).unwrap(), "two");
    assert_eq!(insert(&two, 2), Ok(Some(1)));
    drop(go);
    assert!(matches!(wait(late), Err(CommitError::Stopped { .. })));
    assert_eq!(present(&two, 9), [2]);
    assert_eq!(insert(&two, 3), Ok(Some(2)), "the feed has no hole and no stranger");
}

#[test]
fn a_commit_under_way_is_waited_for_and_never_skipped() {
    let (_shared, database) = setup();
    let (one, go, arrived) = held(&database);
    let under_way = one.commit(configure());
    arrived.recv().unwrap();
    // The fence is passed and the transaction is open.
    expire(&database);
    let two = Database::open(patient(database.url())).unwrap();
    let taking = two.lead(node("two"));
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%take_leadership%' AND wait_event_type = 'Lock' \
                 AND datname = current_database()";
    wait_until("the taker to wait for the commit", || database.sql(waits) == "1");
    drop(go);
    assert!(wait(under_way).unwrap().results[0].is_ok(), "it was acknowledged");
    let taken = wait(taking).unwrap();
    let two = match taken {
        Leadership::Mine(store) => store,
        Leadership::Theirs(_) => Arc::new(take_as(&two, "two")),
    };
    assert_eq!(wait(two.settings(None)).unwrap().len(), 1);
    assert!(matches!(insert(&one, 1), Err(CommitError::Stopped { .. })));
}

#[test]
fn a_leadership_that_is_not_renewed_is_lost_before_it_can_be_taken() {
    let (_shared, database) = setup();
    let hook = |point| (point == Point::Renew).then_some(Fault::Skip);
    let short = |url| Options {
        term: Duration::from_millis(1_500),
        renew_every: Duration::from_millis(100),
        ..Options::new(url)
    };
    let options = Options { hook: Some(Arc::new(hook)), ..short(database.url()) };
    let one = take_as(&Database::open(options).unwrap(), "one");
    let other = Database::open(short(database.url())).unwrap();
    let lost = one.lost();
    let two = take_as(&other, "two");
    assert!(!one.may_lead(), "the other has it, so this one must have stopped speaking");
    assert_eq!(wait(lost), "the leadership was not renewed in time");
    assert!(matches!(insert(&one, 1), Err(CommitError::Stopped { .. })));
    assert_eq!(two.epoch(), 2);
}

#[test]
fn a_leadership_is_renewed_by_itself() {
    let (_shared, database) = setup();
    let options = Options { renew_every: Duration::from_millis(50), ..patient(database.url()) };
    let store = take_as(&Database::open(options).unwrap(), "one");
    let until = || database.sql("SELECT until FROM jobhall.leadership");
    for _ in 0..3 {
        let before = until();
        wait_until("a renewal", || until() != before);
    }
    assert!(store.may_lead());
    let seen = "SELECT seen > started FROM jobhall.nodes";
    assert_eq!(database.sql(seen), "t", "a holder is seen by its renewing");
    expire(&database);
    database.sql("UPDATE jobhall.leadership SET epoch = epoch + 1");
    assert_eq!(wait(store.lost()), "another node leads now", "a renewal learns it without any commit");
}

fn new_key(id: &str, replaces: Option<(&str, i64)>) -> NewKey {
    let replaces = replaces.map(|(id, until)| (id.to_owned(), until));
    NewKey { id: id.to_owned(), host: "box".to_owned(), path: format!("/data/{id}"), replaces }
}

#[test]
fn the_first_key_of_a_hall_is_recorded_and_only_its_successor_replaces_it() {
    let (_shared, database) = setup();
    let opened = Database::open(Options::new(database.url())).unwrap();
    let key = || wait(opened.key()).unwrap();
    let put = |new: NewKey| wait(opened.record_key(new)).unwrap();
    assert_eq!(key(), None);
    put(new_key("one", None));
    put(new_key("other", None));
    put(new_key("third", Some(("two", 0))));
    let first = key().unwrap();
    assert_eq!((first.id.as_str(), first.path.as_str(), first.earlier), ("one", "/data/one", None));
    assert!(first.host == "box" && first.written_ms > 0);
    put(new_key("two", Some(("one", i64::from(i32::MAX) * 1_000))));
    let second = key().unwrap();
    assert_eq!((second.id.as_str(), second.earlier.as_deref()), ("two", Some("one")));
    put(new_key("three", Some(("two", 1_000))));
    assert_eq!(key().unwrap().earlier, None, "its time is over");
}

/// Maximum wait of the test; an earlier return is due to a notification.
const LONG: Duration = Duration::from_secs(120);

fn hears_of_the_leadership(listening: &Database, database: &jobhall_throwaway::Database) {
    let wait_listening =
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()";
    wait_until("somebody to listen", || database.sql(wait_listening) != "0");
    let (tell, told) = mpsc::channel();
    let changed = listening.changed(LONG);
    thread::spawn(move || {
        wait(changed);
        tell.send(()).unwrap();
    });
    let store = take_as(&Database::open(patient(database.url())).unwrap(), "one");
    told.recv_timeout(LONG / 2).expect("the taking was told");
    let changed = listening.changed(LONG);
    let begun = std::time::Instant::now();
    wait(store.leave());
    wait(changed);
    assert!(begun.elapsed() < LONG / 2, "the leaving was told");
}

#[test]
fn a_node_hears_at_once_that_the_leadership_has_changed_hands() {
    let (_shared, database) = setup();
    let listening = Database::open(patient(database.url())).unwrap();
    hears_of_the_leadership(&listening, &database);
}

#[test]
fn behind_a_pooler_a_node_hears_over_the_direct_url_or_looks() {
    let (shared, database) = setup();
    let pooler = shared.pgbouncer(3);
    let pooled = Options { pooled: true, ..patient(pooler.url(database.name())) };
    let deaf = Database::open(pooled.clone()).unwrap();
    wait(deaf.changed(Duration::from_millis(1)));
    let listening = Database::open(Options { direct_url: Some(database.url()), ..pooled }).unwrap();
    hears_of_the_leadership(&listening, &database);
}
