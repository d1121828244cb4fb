//! Pipelined commits: the next commit is sent before the previous one is answered. Whatever happens to the previous
//! one, each is executed once and in order.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

mod fixture;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fixture::lead::Lead;
use fixture::{Options, Postgres, at, claim, inserting, present, queued, take, wait, wait_until};
use jobhall_store::{CommitError, Committed, Later, Memory, Store, Unit};
use jobhall_store_postgres::{Fault, Point};
use jobhall_throwaway::{Cluster, Database, Shared};

type Answer = Later<Result<Committed, CommitError>>;

/// A store whose database blocks every insert of one job at a gate.
struct Gated {
    database: Database,
    store: Postgres,
    begun: Arc<AtomicUsize>,
    _shared: Option<Shared>,
}

impl Gated {
    /// Closes the gate for this job. The connection breaks where the fault returns true.
    fn at(job: u64, fault: impl Fn(Point) -> bool + Send + Sync + 'static) -> Gated {
        let shared = Cluster::shared();
        let database = shared.database();
        let url = database.url();
        Gated { _shared: Some(shared), ..Gated::by(database, job, &url, fault) }
    }

    /// With this database and this path to it.
    fn by(
        database: Database,
        job: u64,
        url: &str,
        fault: impl Fn(Point) -> bool + Send + Sync + 'static,
    ) -> Gated {
        let begun = Arc::new(AtomicUsize::new(0));
        let counted = begun.clone();
        let hook = move |point: Point| {
            if point == Point::Begin {
                counted.fetch_add(1, Ordering::SeqCst);
            }
            fault(point).then_some(Fault::Break)
        };
        let term = Duration::from_secs(600);
        let store = take(Options { hook: Some(Arc::new(hook)), term, ..Options::new(url) });
        // The first use of a statement prepares it, which waits for commits in progress.
        for units in beginning() {
            assert!(wait(store.commit(units)).is_ok());
        }
        begun.store(0, Ordering::SeqCst);
        database.sql(&format!(
            "CREATE SCHEMA test; CREATE TABLE test.gate (shut boolean); INSERT INTO test.gate VALUES (true);
             CREATE FUNCTION test.pass() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 WHILE EXISTS (SELECT FROM test.gate) LOOP PERFORM pg_sleep(0.01); END LOOP;
                 RETURN NEW;
             END $$;
             CREATE TRIGGER pass BEFORE INSERT ON jobhall.jobs FOR EACH ROW WHEN (NEW.id = {job}) EXECUTE FUNCTION test.pass()"
        ));
        Gated { database, store, begun, _shared: None }
    }

    /// Makes two commits and waits until both are sent and the one with the job has reached the gate.
    fn two(&self, first: Vec<Unit>, second: Vec<Unit>) -> [Answer; 2] {
        let first = self.store.commit(first);
        wait_until("the first", || self.begun.load(Ordering::SeqCst) == 1);
        let second = self.store.commit(second);
        wait_until("the second", || self.begun.load(Ordering::SeqCst) == 2);
        wait_until("someone at the gate", || self.at_the_gate("count(*)") == "1");
        [first, second]
    }

    /// Executes an action on the server processes at the gate; returns the result.
    fn at_the_gate(&self, act: &str) -> String {
        self.database.sql(&format!(
            "WITH there AS MATERIALIZED (
                 SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'
             )
             SELECT {act} FROM there"
        ))
    }

    fn open(&self) {
        self.database.sql("DELETE FROM test.gate");
    }

    /// Both commits were executed once, in order, after the rows of the beginning.
    fn judge(&self, answers: [Answer; 2]) {
        let feeds = answers.map(|answer| {
            let committed = wait(answer).unwrap();
            assert!(committed.results.iter().all(Result::is_ok), "{committed:?}");
            committed.feed
        });
        assert_eq!(feeds, [Some(4), Some(5)]);
        assert_eq!(present(&self.store, 9), [1, 2]);
        let rows = wait(self.store.feed(0, 99)).unwrap().rows;
        assert_eq!(rows.iter().map(|row| row.n).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert_eq!(rows[3..].iter().map(|row| row.entries[0].id.get()).collect::<Vec<_>>(), [1, 2]);
        let next = wait(self.store.commit(vec![inserting([queued(3, None)])])).unwrap();
        assert_eq!(next.feed, Some(6), "the store continues");
    }
}

/// Uses every statement once.
fn beginning() -> [Vec<Unit>; 3] {
    let keyed = queued(100, Some("k"));
    [vec![inserting([keyed.clone()])], vec![inserting([queued(101, None)])], vec![changing(&keyed)]]
}

fn changing(job: &jobhall_core::Job) -> Unit {
    Unit { changes: vec![claim(job, at(5))], ..Unit::default() }
}

fn inserting_one(n: u64) -> Vec<Unit> {
    vec![inserting([queued(n, None)])]
}

#[test]
fn the_next_commit_is_sent_before_the_one_in_front_is_answered() {
    let (points, all_wait) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
    let (seen, ready) = (points.clone(), all_wait.clone());
    let gated = Gated::at(1, move |point| {
        let mut seen = seen.lock().unwrap();
        seen.extend((point != Point::Renew).then_some(point));
        // Three commits make the beginning. When the writer has sent the fifth, it finds the others waiting.
        if point == Point::Begin && seen.iter().filter(|one| **one == Point::Begin).count() == 5 {
            drop(seen);
            wait_until("the others to wait", || ready.load(Ordering::SeqCst));
        }
        false
    });
    let answers = gated.two(inserting_one(1), inserting_one(2));
    let [third, fourth] = [3, 4].map(|n| gated.store.commit(inserting_one(n)));
    all_wait.store(true, Ordering::SeqCst);
    gated.open();
    let feeds: Vec<_> =
        answers.into_iter().chain([third, fourth]).map(|one| wait(one).unwrap().feed).collect();
    assert_eq!(feeds, [4, 5, 6, 7].map(Some));
    assert_eq!(points.lock().unwrap()[6..9], [Point::Begin, Point::Begin, Point::Committed], "two at a time");
    assert_eq!(gated.begun.load(Ordering::SeqCst), 3, "those that waited shared a transaction");
}

#[test]
fn behind_a_commit_that_is_refused_in_part_the_next_is_decided_on_what_it_left() {
    let gated = Gated::at(1, |_| false);
    let one = queued(1, Some("one"));
    // The second unit needs a key that is held; the second commit claims a job that the first unit inserts.
    let first = vec![inserting([one.clone()]), inserting([queued(2, Some("k"))])];
    let second = vec![changing(&one)];
    let reference = Memory::new();
    for before in beginning() {
        reference.commit_now(before);
    }
    let wanted = [first.clone(), second.clone()].map(|units| reference.commit_now(units));
    let answers = gated.two(first, second);
    gated.open();
    assert_eq!(answers.map(|answer| wait(answer).unwrap()), wanted);
    assert_eq!(wait(gated.store.jobs(vec![one.id])).unwrap(), reference.jobs_now(&[one.id]));
}

#[test]
fn a_server_process_that_dies_with_two_commits_has_done_neither() {
    let gated = Gated::at(1, |_| false);
    let answers = gated.two(inserting_one(1), inserting_one(2));
    assert_eq!(gated.at_the_gate("pg_terminate_backend(pid)"), "t");
    gated.open();
    gated.judge(answers);
}

#[test]
fn a_statement_that_is_cancelled_takes_the_next_commit_with_it_and_both_are_done_again() {
    let gated = Gated::at(1, |_| false);
    let answers = gated.two(inserting_one(1), inserting_one(2));
    assert_eq!(gated.at_the_gate("pg_cancel_backend(pid)"), "t");
    gated.open();
    gated.judge(answers);
}

#[test]
fn a_commit_that_goes_on_after_its_connection_was_given_up_counts() {
    let breaks = Arc::new(AtomicUsize::new(0));
    let seen = breaks.clone();
    // The first three commits are the beginning; then the first of the two is committed and its reply is lost.
    let fault = move |point| point == Point::Committed && seen.fetch_add(1, Ordering::SeqCst) == 3;
    let gated = Gated::at(2, fault);
    let answers = gated.two(inserting_one(1), inserting_one(2));
    wait_until("the break", || breaks.load(Ordering::SeqCst) > 3);
    gated.open();
    gated.judge(answers);
}

/// Two commits are with a server process that nobody hears of any more; then this happens to the first of them.
fn abandoned(then: impl Fn(&Gated)) {
    let cluster = Cluster::start();
    let database = cluster.database();
    let lead = Lead::to(&database);
    let gated = Gated::by(database, 1, &lead.url, |_| false);
    let before = lead.commits_passed();
    let answers = gated.two(inserting_one(1), inserting_one(2));
    wait_until("both to be with the server", || lead.commits_passed() == before + 2);
    lead.cut();
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%begin_commit%'";
    wait_until("the next connection", || gated.database.sql(waits) == "1");
    then(&gated);
    gated.judge(answers);
}

#[test]
fn of_two_commits_that_nobody_hears_of_the_second_never_comes_to_be_without_the_first() {
    abandoned(|gated| {
        // The first is rolled back; the second comes after it on the wire and must not be executed.
        assert_eq!(gated.at_the_gate("pg_cancel_backend(pid)"), "t");
        gated.open();
    });
}

#[test]
fn of_two_commits_that_nobody_hears_of_both_count_if_they_come_to_be() {
    abandoned(Gated::open);
}

#[test]
fn commits_that_arrive_after_they_were_given_up_come_to_nothing() {
    let cluster = Cluster::start();
    let database = cluster.database();
    let lead = Lead::to(&database);
    let (begun, again) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (counted, allowed) = (begun.clone(), again.clone());
    let hook = move |point: Point| {
        // The first three commits are the beginning, two are held; then they are given up and repeated.
        if point == Point::Begin && counted.fetch_add(1, Ordering::SeqCst) == 5 {
            wait_until("the late ones", || allowed.load(Ordering::SeqCst));
        }
        None
    };
    let term = Duration::from_secs(600);
    let store = take(Options { hook: Some(Arc::new(hook)), term, ..Options::new(lead.url.clone()) });
    for units in beginning() {
        assert!(wait(store.commit(units)).is_ok());
    }
    let sent = lead.commits_read();
    lead.hold_up();
    let answers = [1, 2].map(|n| {
        let answer = store.commit(inserting_one(n));
        wait_until("it to be sent", || begun.load(Ordering::SeqCst) as u64 == 3 + n);
        answer
    });
    wait_until("both to be on their way", || lead.commits_read() == sent + 2);
    lead.cut();
    wait_until("them to be given up", || begun.load(Ordering::SeqCst) == 6);
    let arrived = lead.commits_passed();
    lead.let_go();
    let late = || lead.commits_passed() == arrived + 2 && lead.is_answered();
    wait_until("the late ones to be answered", late);
    assert!(present(&store, 9).is_empty(), "and come to nothing");
    again.store(true, Ordering::SeqCst);
    assert_eq!(answers.map(|answer| wait(answer).unwrap().feed), [Some(4), Some(5)]);
    assert_eq!(present(&store, 9), [1, 2]);
}

#[test]
fn callers_of_a_database_that_hangs_hear_with_the_end_of_the_term() {
    let cluster = Cluster::start();
    let database = cluster.database();
    let (term, renew_every) = (Duration::from_secs(2), Duration::from_millis(200));
    // If no statement was used yet, the first use has to prepare it.
    for before in [&[][..], &beginning()] {
        let store = take(Options { term, renew_every, ..Options::new(database.url()) });
        for units in before {
            assert!(wait(store.commit(units.clone())).is_ok());
        }
        cluster.pause();
        let answers = [1, 2, 3].map(|n| store.commit(inserting_one(n)));
        for answer in answers {
            let refused = wait(answer);
            let told = matches!(refused, Err(CommitError::Stopped { .. } | CommitError::Unknown { .. }));
            assert!(told, "{refused:?}");
        }
        cluster.resume();
    }
}
