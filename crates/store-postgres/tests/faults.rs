//! Connections break and servers stop under load: no acknowledged commit is lost, and none is executed twice.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

mod fixture;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use fixture::{Options, Postgres, at, claim, inserting, present, queued, take, wait, wait_until};
use jobhall_store::{AuditEntry, CommitError, SettingKind, SettingWrite, Store, Unit};
use jobhall_store_postgres::{Fault, Point};
use jobhall_throwaway::{Cluster, Stop};

/// A term that outlasts every fault.
fn patient(url: String) -> Options {
    let long = Duration::from_secs(600);
    Options { term: long, patience: Duration::from_secs(60), ..Options::new(url) }
}

/// Injects the fault every third time that the point is reached.
fn faulty(url: String, point: Point) -> Options {
    let reached = AtomicUsize::new(0);
    let hook = move |at: Point| {
        (at == point && reached.fetch_add(1, Ordering::SeqCst) % 3 == 2).then_some(Fault::Break)
    };
    Options { hook: Some(Arc::new(hook)), ..patient(url) }
}

/// Every id is in the feed once, and the feed has no gaps.
fn judge(store: &Postgres, last: u64) {
    assert_eq!(present(store, last + 9), (1..=last).collect::<Vec<_>>());
    let page = wait(store.feed(0, 1_000_000)).unwrap();
    let numbers: Vec<u64> = page.rows.iter().map(|row| row.n).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "no hole, nothing twice");
    let mut told: BTreeMap<(u64, u32), usize> = BTreeMap::new();
    for entry in page.rows.iter().flat_map(|row| &row.entries) {
        *told.entry((entry.id.get(), entry.rev)).or_default() += 1;
    }
    assert!(told.values().all(|&times| times == 1), "a change is in the feed twice");
}

/// A unit that is checked before it is written, and leaves an audit entry.
fn configuring(n: u32) -> Unit {
    let entry = AuditEntry {
        at: at(n.into()),
        who: "w".into(),
        act: "a".into(),
        subject: n.to_string(),
        detail: String::new(),
    };
    let value = Some(format!("{n}"));
    let write = SettingWrite { kind: SettingKind::Type, name: "t".into(), expected: n - 1, value };
    Unit { settings: vec![write], audit: vec![entry], ..Unit::default() }
}

#[test]
fn a_commit_whose_answer_was_not_heard_is_done_once() {
    let shared = Cluster::shared();
    for point in [Point::Begin, Point::Committed] {
        let database = shared.database();
        unheard(faulty(database.url(), point), point);
    }
}

#[test]
fn a_commit_whose_answer_was_not_heard_is_done_once_behind_a_pooler() {
    let shared = Cluster::shared();
    let pooler = shared.pgbouncer(3);
    for point in [Point::Begin, Point::Committed] {
        let database = shared.database();
        unheard(Options { pooled: true, ..faulty(pooler.url(database.name()), point) }, point);
    }
}

/// Commits of every kind; every third breaks at the point.
fn unheard(options: Options, point: Point) {
    let store = take(options);
    for n in 1..=20u32 {
        let job = queued(n.into(), None);
        let inserted = wait(store.commit(vec![inserting([job.clone()])])).unwrap();
        assert!(inserted.results[0].is_ok(), "{point:?}: {inserted:?}");
        assert_eq!(inserted.feed, Some(u64::from(n) * 2 - 1));
        // The second of two claims is refused, whatever happened to the connection.
        let claimed = Unit { changes: vec![claim(&job, at(5))], ..Unit::default() };
        let results = wait(store.commit(vec![claimed.clone(), claimed])).unwrap().results;
        assert!(results[0].is_ok() && results[1].is_err(), "{point:?}: {results:?}");
        assert!(wait(store.commit(vec![configuring(n)])).unwrap().results[0].is_ok());
        let block = wait(store.take_block(10)).unwrap();
        assert_eq!(block.first.get(), u64::from(n) * 10 - 9, "no id is lent and forgotten");
    }
    judge(&store, 20);
    let acts: Vec<u64> = wait(store.audit(None, 100)).unwrap().iter().map(|row| row.n).collect();
    assert_eq!(acts, (1..=20).rev().collect::<Vec<_>>(), "an audit entry is written once");
}

/// Commits one job after the other from two threads until stopped; returns the number of jobs.
fn load(store: &Arc<Postgres>, enough: &Arc<AtomicBool>) -> [thread::JoinHandle<Vec<u64>>; 2] {
    [0, 1].map(|lane| {
        let (store, enough) = (store.clone(), enough.clone());
        thread::spawn(move || {
            let mut done = Vec::new();
            for n in (1..).map(|turn| turn * 2 - lane) {
                if enough.load(Ordering::SeqCst) {
                    break;
                }
                let key = format!("k{n}");
                let key = (n % 3 == 0).then_some(key.as_str());
                let committed = wait(store.commit(vec![inserting([queued(n, key)])])).unwrap();
                assert!(committed.results[0].is_ok(), "job {n} was made twice: {committed:?}");
                done.push(n);
            }
            done
        })
    })
}

/// Runs the load, executes the action this many times meanwhile, and checks the result.
fn under_load(store: Postgres, times: usize, mut trouble: impl FnMut()) {
    let (store, enough) = (Arc::new(store), Arc::new(AtomicBool::new(false)));
    let lanes = load(&store, &enough);
    let last = || wait(store.feed(0, 1_000_000)).unwrap().rows.len();
    for _ in 0..times {
        let before = last();
        wait_until("commits", || last() > before + 5);
        trouble();
    }
    let before = last();
    wait_until("commits after the last trouble", || last() > before + 5);
    enough.store(true, Ordering::SeqCst);
    let mut done: Vec<u64> = lanes.into_iter().flat_map(|lane| lane.join().unwrap()).collect();
    done.sort_unstable();
    let there = present(&*store, done.last().unwrap() + 9);
    assert_eq!(there, done, "exactly what was acknowledged is there");
    let rows = wait(store.feed(0, 1_000_000)).unwrap().rows;
    assert_eq!(rows.len(), done.len(), "a feed row each");
    assert!(rows.iter().map(|row| row.n).eq(1..=rows.len() as u64), "without hole");
}

#[test]
fn server_processes_killed_under_load_lose_nothing_and_do_nothing_twice() {
    let shared = Cluster::shared();
    let database = shared.database();
    let store = take(patient(database.url()));
    let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                WHERE datname = current_database() AND pid <> pg_backend_pid()";
    under_load(store, 15, || {
        database.sql(kill);
    });
}

#[test]
fn a_server_that_crashes_and_comes_back_has_everything_once() {
    let cluster = Cluster::start();
    let database = cluster.database();
    let store = take(patient(database.url()));
    under_load(store, 3, || cluster.restart(Stop::Immediate));
}

#[test]
fn a_standby_that_is_promoted_has_everything_once() {
    let primary = Cluster::start();
    let database = primary.database();
    let standby = primary.standby();
    let both = format!("{},{}", authority(&database.url()), authority(&standby.url("x")));
    let store = take(patient(format!("postgres://jobhall@{both}/{}", database.name())));
    let mut times = 0;
    under_load(store, 1, || {
        times += 1;
        primary.stop_immediate();
        standby.promote();
    });
    assert_eq!(times, 1);
}

/// Host and port of a URL.
fn authority(url: &str) -> &str {
    url.split_once('@').unwrap().1.split_once('/').unwrap().0
}

#[test]
fn while_the_database_is_away_the_leadership_ends_with_its_term() {
    let cluster = Cluster::start();
    let database = cluster.database();
    let short = Options {
        term: Duration::from_secs(2),
        renew_every: Duration::from_millis(200),
        patience: Duration::from_millis(500),
        ..Options::new(database.url())
    };
    let store = take(short);
    assert!(wait(store.commit(vec![inserting([queued(1, None)])])).is_ok());
    cluster.stop_immediate();
    let refused = wait(store.commit(vec![inserting([queued(2, None)])]));
    assert!(matches!(refused, Err(CommitError::Stopped { .. } | CommitError::Unknown { .. })), "{refused:?}");
    assert!(!store.may_lead());
    assert_eq!(wait(store.lost()), "the leadership was not renewed in time");
    assert!(wait(store.jobs(vec![fixture::id(1)])).is_err(), "a read gives up in the end");
    cluster.start_again();
    let next = take(patient(database.url()));
    assert_eq!(present(&next, 9), [1]);
}

#[test]
fn what_the_server_refuses_of_one_call_is_not_held_against_the_others() {
    let shared = Cluster::shared();
    let database = shared.database();
    let store = take(patient(database.url()));
    let act = |who: &str| {
        let who = who.to_owned();
        let entry =
            AuditEntry { at: at(1), who, act: "a".into(), subject: "s".into(), detail: String::new() };
        Unit { audit: vec![entry], ..Unit::default() }
    };
    // A text in PostgreSQL cannot contain NUL.
    let calls: Vec<_> = ["a", "b\0", "c"].map(|who| store.commit(vec![act(who)])).into();
    let results: Vec<_> = calls.into_iter().map(wait).collect();
    assert!(results[0].is_ok() && results[2].is_ok(), "{results:?}");
    assert!(matches!(results[1], Err(CommitError::NotCommitted { full: false, .. })), "{results:?}");
    let told: Vec<_> = wait(store.audit(None, 9)).unwrap().into_iter().map(|row| row.entry.who).collect();
    assert_eq!(told, ["c", "a"]);
}

#[test]
fn calls_that_wait_share_a_transaction_and_one_too_many_is_refused() {
    let shared = Cluster::shared();
    let database = shared.database();
    let (go, gate) = std::sync::mpsc::channel::<()>();
    let (tell, arrived) = std::sync::mpsc::channel::<()>();
    let both = std::sync::Mutex::new((gate, tell));
    let hook = move |point: Point| {
        if point == Point::Begin {
            let both = both.lock().unwrap();
            let _ = both.1.send(());
            // When the sender is dropped, the gate is open.
            let _ = both.0.recv();
        }
        None
    };
    let options = Options { hook: Some(Arc::new(hook)), waiting: 3, ..patient(database.url()) };
    let store = take(options);
    let before: i64 = database.sql("SELECT value FROM jobhall.meta WHERE name = 'commits'").parse().unwrap();
    let first = store.commit(vec![inserting([queued(1, None)])]);
    arrived.recv().unwrap();
    let rest: Vec<_> = (2..=4).map(|n| store.commit(vec![inserting([queued(n, None)])])).collect();
    let refused = wait(store.commit(vec![inserting([queued(5, None)])]));
    let Err(CommitError::NotCommitted { full: false, message }) = refused else { panic!("{refused:?}") };
    assert_eq!(message, "3 calls are waiting for the database already");
    drop(go);
    let numbers: Vec<_> = std::iter::once(first).chain(rest).map(|later| wait(later).unwrap().feed).collect();
    assert_eq!(numbers, [1, 2, 3, 4].map(Some), "each commit has its own feed row, in order");
    let after: i64 = database.sql("SELECT value FROM jobhall.meta WHERE name = 'commits'").parse().unwrap();
    assert_eq!(after - before, 2, "those that waited shared one transaction");
    assert_eq!(present(&store, 9), [1, 2, 3, 4]);
}
