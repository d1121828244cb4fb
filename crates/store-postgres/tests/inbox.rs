//! Rows that `jobhall.submit` stores in the transactions of other programs, and their deletion.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

mod fixture;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use fixture::{Database, Options, Postgres, at, id, inserting, present, queued, take_as, wait, wait_until};
use jobhall_core::{Disposition, Submitted};
use jobhall_store::{CommitError, INBOX_SCOPE, Inbox, Store, StoredIdempotencyKey, Unit};
use jobhall_store_postgres::{Fault, Hook, Point};
use jobhall_throwaway::Cluster;

/// Returns the result of a statement, or its error.
const SAID: &str = "CREATE FUNCTION public.said(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE answer text;
BEGIN
    EXECUTE statement INTO answer;
    RETURN answer;
EXCEPTION WHEN OTHERS THEN
    RETURN SQLERRM;
END $$";

/// A value nested this deep.
const NESTED: &str =
    "CREATE FUNCTION public.nested(opens text, closes text, depth integer) RETURNS jsonb LANGUAGE sql
RETURN (repeat(opens, depth) || '1' || repeat(closes, depth))::jsonb";

fn inbox(store: &Postgres) -> Arc<dyn Inbox> {
    store.inbox().unwrap()
}

fn ids(inbox: &dyn Inbox) -> Vec<u64> {
    wait(inbox.rows(1_000)).unwrap().iter().map(|row| row.id).collect()
}

/// The job with this id, for the inbox row of that number.
fn taking(job: u64, row: u64, key: Option<&str>) -> Unit {
    let answer = vec![Submitted { id: id(job), disposition: Disposition::Created }];
    let (scope, name) = (INBOX_SCOPE.to_owned(), row.to_string());
    let idempotency_key =
        StoredIdempotencyKey { scope, key: name, body: 7, answer, at: at(0), forget_before: at(-1) };
    Unit { idempotency_key: Some(idempotency_key), ..inserting([queued(job, key)]) }
}

#[test]
fn a_request_is_there_exactly_when_its_transaction_commits() {
    let shared = Cluster::shared();
    let target = shared.database();
    let database = Database::open(Options::new(target.url())).unwrap();
    let inbox = inbox(&take_as(&database, "one"));
    target.sql("BEGIN; SELECT jobhall.submit('mail'); ROLLBACK");
    assert_eq!(ids(&*inbox), Vec::<u64>::new());
    let told = target.sql(
        "BEGIN; SELECT jobhall.submit('mail', '{\"to\": [\"a\", null]}', queue => 'slow', key => 'k 1', priority => 5,
            run_at => '2031-02-03 04:05:06.789+00', needs => 'gpu>=1', uses => 'gpu=1', max_attempts => 3,
            on_duplicate => 'reject', after => '{7}', group_id => 9, owner => 'anna', tags => '{x,y}'); COMMIT",
    );
    let rows = wait(inbox.rows(10)).unwrap();
    assert_eq!(rows[0].id.to_string(), told);
    let body: serde_json::Value = serde_json::from_str(&rows[0].body).unwrap();
    let expected = serde_json::json!({
        "type": "mail", "params": {"to": ["a", null]}, "queue": "slow", "key": "k 1", "priority": 5,
        "run_at": "2031-02-03T04:05:06.789Z", "needs": "gpu>=1", "uses": "gpu=1", "retry": {"max_attempts": 3},
        "on_duplicate": "reject", "after": [7], "group": 9, "owner": "anna", "tags": ["x", "y"],
    });
    assert_eq!(body, expected);
    target.sql("SELECT jobhall.submit('plain', NULL)");
    assert_eq!(wait(inbox.rows(10)).unwrap()[1].body, r#"{"type": "plain", "params": {}}"#);
}

#[test]
fn what_is_wrong_with_a_request_is_told_at_once() {
    let shared = Cluster::shared();
    let target = shared.database();
    Database::open(Options::new(target.url())).unwrap();
    target.sql(SAID);
    target.sql(NESTED);
    for (arguments, complaint) in [
        ("NULL", "type is missing"),
        ("''", "type is empty"),
        ("'a b'", "type is 'a b', but only letters"),
        ("'-a'", "type is '-a', but only letters"),
        ("repeat('a', 129)", "type has 129 bytes, the limit is 128"),
        ("'a', queue => 'q/1'", "queue is 'q/1', but only letters"),
        ("'a', key => ''", "key is empty"),
        ("'a', key => repeat('é', 257)", "key has 514 bytes, the limit is 512"),
        ("'a', key => E'a\\nb'", "key has a control character"),
        ("'a', key => E'a\\u0085b'", "key has a control character"),
        ("'a', owner => repeat('o', 129)", "owner has 129 bytes, the limit is 128"),
        ("'a', max_attempts => 0", "max_attempts of 0 is outside 1 to 1000"),
        ("'a', group_id => -1", "group_id of -1 is outside 1 to 9007199254740991"),
        ("'a', to_jsonb(repeat('p', 262144))", "params has 262146 bytes, the limit is 262144"),
        ("'a', nested('[', ']', 65)", "params is nested deeper than the limit of 64"),
        ("'a', nested('{\"a\":', '}', 65)", "params is nested deeper than the limit of 64"),
        ("'a', nested('[\"]\",', ']', 65)", "params is nested deeper than the limit of 64"),
        ("'a', tags => '{a,b c}'", "tags has 'b c', but no space"),
        ("'a', tags => '{a,\"\"}'", "tags is empty"),
        ("'a', tags => '{a,NULL}'", "tags has a NULL at element 2"),
        ("'a', tags => '{{a,b},{c,d}}'", "tags has 2 dimensions, but must be a plain list"),
        ("'a', tags => array_fill('t'::text, '{33}')", "tags has 33 elements, the limit is 32"),
        ("'a', after => array_fill(1::bigint, '{10001}')", "after has 10001 elements, the limit is 10000"),
        ("'a', after => '{7,0}'", "after of 0 is outside 1 to 9007199254740991"),
        ("'a', after => '{-1}'", "after of -1 is outside 1 to 9007199254740991"),
        ("'a', after => '{9007199254740992}'", "after of 9007199254740992 is outside 1 to 9007199254740991"),
        ("'a', after => ARRAY[NULL]::bigint[]", "after has a NULL at element 1"),
        ("'a', after => '{{1,2},{3,4}}'", "after has 2 dimensions, but must be a plain list"),
        ("'a', run_at => 'infinity'", "run_at is outside 1970 to 9999"),
        ("'a', run_at => '1969-12-31 00:00Z'", "run_at is outside 1970 to 9999"),
        ("'a', delay => '9000 years'", "delay is outside 1970 to 9999"),
        ("'a', delay => '100000000 years'", "delay is outside 1970 to 9999"),
        ("'a', delay => '-100000000 years'", "delay is outside 1970 to 9999"),
        ("'a', run_at => now(), delay => '1 s'", "run_at and delay say the same thing"),
        ("'a', on_duplicate => 'drop'", "on_duplicate is 'drop', but must be join"),
    ] {
        let said = target.sql(&format!("SELECT public.said($$SELECT jobhall.submit({arguments})$$)"));
        assert!(said.starts_with(complaint), "{arguments}: {said}");
    }
    assert_eq!(target.sql("SELECT count(*) FROM jobhall.inbox"), "0");
    for good in [
        "repeat('a', 128), key => repeat('k', 512), delay => '-1 s', needs => ''",
        "'a', nested('[\"[[\",', ']', 64), tags => '{}', after => '{1,9007199254740991}'",
        "'a', nested('{\"a\":', '}', 64), tags => NULL, after => NULL",
        "'a', to_jsonb(repeat('[', 262142))",
    ] {
        let said = target.sql(&format!("SELECT public.said($$SELECT jobhall.submit({good})$$)"));
        assert!(said.parse::<u64>().is_ok(), "{good}: {said}");
    }
}

/// A call that is committed must be one that the server makes a job of: the limits are the same.
#[test]
fn audit_l5_needs_and_uses_have_the_limit_of_the_server() {
    let shared = Cluster::shared();
    let target = shared.database();
    Database::open(Options::new(target.url())).unwrap();
    target.sql(SAID);
    let limit = jobhall_core::needs::JOB_BOUNDS.bytes;
    for field in ["needs", "uses"] {
        let call = |bytes: usize| format!("jobhall.submit('a', {field} => repeat('a', {bytes}))");
        let said = target.sql(&format!("SELECT public.said($$SELECT {}$$)", call(limit + 1)));
        let expected = format!("{field} has {} bytes, the limit is {limit}", limit + 1);
        assert!(said.starts_with(&expected), "{said}");
        target.sql(&format!("SELECT {}", call(limit)));
    }
    assert_eq!(target.sql("SELECT count(*) FROM jobhall.inbox"), "2");
}

#[test]
fn a_moment_is_never_earlier_than_asked_for() {
    let shared = Cluster::shared();
    let target = shared.database();
    let database = Database::open(Options::new(target.url())).unwrap();
    let inbox = inbox(&take_as(&database, "one"));
    target.sql(
        "SET timezone = 'Asia/Tokyo'; SELECT jobhall.submit('a', run_at => '2031-02-03 04:05:06.789001+00')",
    );
    let body = &wait(inbox.rows(1)).unwrap()[0].body;
    assert!(body.contains(r#""run_at": "2031-02-03T04:05:06.790Z""#), "{body}");
}

#[test]
fn a_row_goes_with_its_job_and_only_with_it() {
    let shared = Cluster::shared();
    let target = shared.database();
    let database = Database::open(Options::new(target.url())).unwrap();
    let store = take_as(&database, "one");
    let inbox = inbox(&store);
    wait(store.take_block(10)).unwrap();
    wait(store.commit(vec![inserting([queued(1, Some("held"))])])).unwrap();
    target.sql("SELECT jobhall.submit('t') FROM generate_series(1, 3)");
    let rows = ids(&*inbox);
    let done = wait(store.commit(vec![taking(2, rows[0], Some("held")), taking(3, rows[1], None)])).unwrap();
    assert!(done.results[0].is_err() && done.results[1].is_ok(), "{done:?}");
    assert_eq!(ids(&*inbox), [rows[0], rows[2]], "the row of the refused one stays");
    assert_eq!(target.sql(&format!("SELECT jobhall.job_of({})", rows[1])), "3");
    assert_eq!(target.sql(&format!("SELECT jobhall.job_of({}) IS NULL", rows[0])), "t");
    // A repeated commit has the same result; a withdrawn request creates no job.
    let again = wait(store.commit(vec![taking(4, rows[1], None)])).unwrap();
    assert!(again.results[0].is_err(), "{again:?}");
    target.sql(&format!("DELETE FROM jobhall.inbox WHERE id = {}", rows[2]));
    let gone = wait(store.commit(vec![taking(5, rows[2], None)])).unwrap_err();
    assert!(matches!(gone, CommitError::NotCommitted { full: false, .. }), "{gone:?}");
    assert_eq!(present(&store, 10), [1, 3]);
}

#[test]
fn a_connection_that_breaks_at_a_commit_makes_neither_two_jobs_of_a_row_nor_none() {
    let shared = Cluster::shared();
    for broken in [Point::Begin, Point::Committed] {
        let target = shared.database();
        let left = AtomicU32::new(2);
        let hook: Hook = Arc::new(move |point| {
            let breaks =
                point == broken && left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
            breaks.then_some(Fault::Break)
        });
        let database = Database::open(Options { hook: Some(hook), ..Options::new(target.url()) }).unwrap();
        let store = take_as(&database, "one");
        let inbox = inbox(&store);
        target.sql("SELECT jobhall.submit('t') FROM generate_series(1, 3)");
        wait(store.take_block(10)).unwrap();
        for (job, row) in (1..).zip(ids(&*inbox)) {
            assert!(wait(store.commit(vec![taking(job, row, None)])).unwrap().results[0].is_ok());
        }
        assert_eq!(ids(&*inbox), Vec::<u64>::new());
        assert_eq!(present(&store, 10), [1, 2, 3], "{broken:?}");
    }
}

#[test]
fn a_refused_row_is_kept_with_its_reason_by_the_holder_of_the_leadership_alone() {
    let shared = Cluster::shared();
    let target = shared.database();
    let database = Database::open(Options::new(target.url())).unwrap();
    let before = take_as(&database, "before");
    let old = inbox(&before);
    wait(before.leave());
    let store = take_as(&database, "after");
    let inbox = inbox(&store);
    target.sql("SELECT jobhall.submit('t')");
    let row = ids(&*inbox)[0];
    let refused = wait(old.refuse(row, "late".to_owned())).unwrap_err();
    assert!(refused.message.contains("another node leads now"), "{refused}");
    wait(inbox.refuse(row, "no such group".to_owned())).unwrap();
    assert_eq!(ids(&*inbox), Vec::<u64>::new());
    let kept = "SELECT id, role = session_user, body, why FROM jobhall.inbox_refused";
    assert_eq!(target.sql(kept), format!("{row}|t|{{\"type\": \"t\", \"params\": {{}}}}|no such group"));
    target.sql(SAID);
    let said = target.sql(&format!("SELECT public.said('SELECT jobhall.job_of({row})')"));
    assert_eq!(said, format!("inbox row {row} was refused: no such group"));
}

#[test]
fn a_role_needs_nothing_but_the_two_grants() {
    let shared = Cluster::shared();
    let target = shared.database();
    Database::open(Options::new(target.url())).unwrap();
    let role = format!("app_{}", target.name());
    target.sql(&format!("CREATE ROLE {role}; {SAID}"));
    let said = |statement: &str| target.sql(&format!("SET ROLE {role}; SELECT public.said($${statement}$$)"));
    assert_eq!(said("SELECT jobhall.submit('a')"), "permission denied for schema jobhall");
    target.sql(&format!("GRANT USAGE ON SCHEMA jobhall TO {role}"));
    assert_eq!(said("SELECT jobhall.submit('a')"), "permission denied for function submit");
    assert_eq!(said("SELECT jobhall.job_of(1)"), "permission denied for function job_of");
    target.sql(&format!("GRANT EXECUTE ON FUNCTION jobhall.submit, jobhall.job_of TO {role}"));
    let row = said("SELECT jobhall.submit('a')");
    assert!(row.parse::<u64>().is_ok(), "{row}");
    assert_eq!(said(&format!("SELECT coalesce(jobhall.job_of({row}), -1)")), "-1");
    assert_eq!(said("SELECT count(*) FROM jobhall.inbox"), "permission denied for table inbox");
    assert_eq!(said("DELETE FROM jobhall.inbox"), "permission denied for table inbox");
    assert_eq!(said("SELECT jobhall.refuse(1, 1, 'x')"), "permission denied for table leadership");
    target.sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}

#[test]
fn the_inbox_is_heard_of_where_there_is_a_way_and_looked_at_where_there_is_none() {
    let shared = Cluster::shared();
    let target = shared.database();
    let listening = "SELECT count(*) FROM pg_stat_activity WHERE query = 'LISTEN jobhall_inbox' AND datname = \
                     current_database()";
    let database = Database::open(Options::new(target.url())).unwrap();
    let store = take_as(&database, "hears");
    let heard = inbox(&store);
    wait_until("a connection that listens", || target.sql(listening) == "1");
    wait(heard.news());
    let hears = || {
        let (begun, news) = (Instant::now(), heard.news());
        target.sql("SELECT jobhall.submit('a')");
        wait(news);
        begun.elapsed()
    };
    let soonest = (0..5).map(|_| hears()).min().unwrap();
    assert!(soonest < Duration::from_secs(1), "no sooner than by looking: {soonest:?}");
    assert_eq!(ids(&*heard).len(), 5);
    wait(store.leave());
    drop(heard);
    wait_until("the end of the listener", || target.sql(listening) == "0");
    let pooled = Database::open(Options { pooled: true, ..Options::new(target.url()) }).unwrap();
    let store = take_as(&pooled, "looks");
    let seen = inbox(&store);
    wait(seen.news());
    assert_eq!(target.sql(listening), "0");
    assert_eq!(ids(&*seen).len(), 5);
}

#[test]
fn where_the_caller_says_so_nobody_is_told_and_the_row_is_found_by_looking() {
    let cluster = Cluster::with(&["max_prepared_transactions=2"]);
    let target = cluster.database();
    let database = Database::open(Options::new(target.url())).unwrap();
    let store = take_as(&database, "one");
    let inbox = inbox(&store);
    // The first notification is that the listener started.
    wait(inbox.news());
    let begun = Instant::now();
    wait(inbox.news());
    assert!(begun.elapsed() < Duration::from_secs(20), "it looks without being told");
    target.sql("SET jobhall.notify = off; BEGIN; SELECT jobhall.submit('a'); PREPARE TRANSACTION 'two'");
    assert_eq!(ids(&*inbox), Vec::<u64>::new());
    target.sql("COMMIT PREPARED 'two'");
    wait(inbox.news());
    assert_eq!(ids(&*inbox).len(), 1);
    // A setting for one transaction ends with it.
    target.sql("BEGIN; SET LOCAL jobhall.notify = off; COMMIT; SELECT jobhall.submit('a')");
    target.sql(SAID);
    let said = target.sql("SET jobhall.notify = maybe; SELECT public.said($$SELECT jobhall.submit('a')$$)");
    assert_eq!(said, "jobhall.notify is 'maybe', but must be on or off");
}
