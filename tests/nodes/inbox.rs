//! Jobs from transactions of other programs (docs/sql.md): each exactly once, whatever happens to the nodes.

use jobhall_tests::{Signal, eventually};

use crate::crowd::Crowd;

#[test]
fn a_job_asked_for_in_sql_exists_and_runs_exactly_when_its_transaction_commits() {
    let crowd = Crowd::of(1, &[]);
    let _worker = crowd.worker("w", &crowd.nodes[0].url(), &[]);
    let ask = |n: u32| {
        format!("SELECT jobhall.submit('exec', jsonb_build_object('script', 'echo {n}'), owner => 'me')")
    };
    crowd.database.sql(&format!("BEGIN; {}; ROLLBACK", ask(1)));
    let row = crowd.database.sql(&format!("BEGIN; {}; COMMIT", ask(2)));
    let job_of = || crowd.database.sql(&format!("SELECT jobhall.job_of({row})"));
    eventually("the row to be a job", || !job_of().is_empty());
    let id = job_of();
    crowd.until(0, &id, "succeeded");
    let job = crowd.job(0, &id);
    assert_eq!((&job["owner"], &job["params"]["script"]), (&"me".into(), &"echo 2".into()), "{job}");
    assert_eq!(crowd.database.sql("SELECT count(*) FROM jobhall.jobs"), "1");
}

#[test]
fn a_thousand_rows_of_one_transaction_become_a_thousand_jobs_over_kills_and_pauses() {
    let mut crowd = Crowd::of(2, &[]);
    let ask =
        "SELECT count(jobhall.submit('mail', jsonb_build_object('n', n))) FROM generate_series(1, 1000) AS n";
    let taken = "SELECT count(*) FROM jobhall.jobs";
    let first = crowd.holder(0).unwrap();
    crowd.database.sql(ask);
    crowd.nodes[first].hall().kill();
    let second = 1 - first;
    eventually("the other node to take the rows", || crowd.database.sql(taken) == "1000");
    crowd.start(first);
    // A node that is suspended while rows arrive takes none of them when it resumes.
    crowd.database.sql(ask);
    jobhall_tests::suspend(crowd.nodes[second].hall().pid());
    eventually("all rows to be jobs", || crowd.database.sql(taken) == "2000");
    crowd.nodes[second].hall().signal(Signal::CONT);
    eventually("another node to lead", || crowd.holder(first) == Some(first));
    eventually("the inbox to be empty", || crowd.database.sql("SELECT count(*) FROM jobhall.inbox") == "0");
    let each = "SELECT count(*), count(DISTINCT params), min(copies), max(copies)
        FROM (SELECT params, count(*) AS copies FROM jobhall.specs GROUP BY params) AS each";
    assert_eq!(crowd.database.sql(each), "1000|1000|2|2", "every row made one job");
}

#[test]
fn a_row_that_cannot_be_a_job_is_put_aside_and_holds_up_no_other() {
    let crowd = Crowd::of(1, &[]);
    crowd.database.sql(
        "SELECT jobhall.submit('mail', key => 'k'); SELECT jobhall.submit('mail', group_id => 999);
         SELECT jobhall.submit('mail', needs => 'gpu >>> 1'); SELECT jobhall.submit('mail', after => '{12345}');
         SELECT jobhall.submit('mail', key => 'k', on_duplicate => 'reject'); SELECT jobhall.submit('mail');
         SELECT jobhall.submit('build.step')",
    );
    eventually("the inbox to be empty", || crowd.database.sql("SELECT count(*) FROM jobhall.inbox") == "0");
    assert_eq!(crowd.database.sql("SELECT count(*) FROM jobhall.jobs"), "2");
    let whys = crowd.database.sql("SELECT why FROM jobhall.inbox_refused ORDER BY id");
    let whys: Vec<_> = whys.lines().collect();
    assert_eq!(whys.len(), 5, "{whys:?}");
    let parts = [
        "there is no group 999",
        "needs: ",
        "there is no job 12345",
        "held by job",
        "build.step is reserved",
    ];
    for (why, part) in whys.iter().zip(parts) {
        assert!(why.contains(part), "{why}");
    }
    let said = crowd.nodes[0].said("hall");
    assert!(said.contains("inbox row refused"), "{said}");
}

/// The only node loses the leadership while the job of a row is being committed. Then this is asked of the server process
/// of the commit, and the commit can go on if it is still there.
fn lost_during_a_commit(then: &str) {
    let mut crowd = Crowd::of(1, &[]);
    let epoch = crowd.epoch();
    let pid = crowd.nodes[0].hall().pid();
    let ask = |what: &str, of: &str| {
        let from = "FROM pg_stat_activity WHERE datname = current_database() AND";
        crowd.database.sql(&format!("SELECT {what} {from} {of}"))
    };
    crowd.database.sql("CREATE SCHEMA test; CREATE TABLE test.gate AS SELECT true AS shut");
    let commit = "wait_event = 'relation' AND query LIKE '%INSERT INTO jobhall.specs%'";
    // Reads go on; the insert waits, with COMMIT sent behind it.
    let hold = "DO $$ BEGIN
        LOCK TABLE jobhall.specs IN SHARE MODE;
        FOR _ IN 1..6000 LOOP
            EXIT WHEN NOT EXISTS (SELECT FROM test.gate);
            PERFORM pg_sleep(0.01);
        END LOOP;
    END $$";
    std::thread::scope(|scope| {
        scope.spawn(|| crowd.database.sql(hold));
        eventually("the lock", || ask("count(*)", "wait_event = 'PgSleep'") == "1");
        crowd.database.sql("SELECT jobhall.submit('mail')");
        eventually("its commit", || ask("count(*)", commit) == "1");
        jobhall_tests::suspend(pid);
        let over = "SELECT until < clock_timestamp() FROM jobhall.leadership";
        eventually("the end of the term", || crowd.database.sql(over) == "t");
        jobhall_tests::signal(pid, Signal::CONT);
        let lost = "this node lost the leadership";
        eventually("the loss to be noticed", || crowd.nodes[0].said("hall").contains(lost));
        // On a slow machine the commit may have waited too long for its lock, and was undone by that.
        ask(then, commit);
        crowd.database.sql("DELETE FROM test.gate");
    });
    eventually("the row to be a job", || crowd.database.sql("SELECT count(*) FROM jobhall.jobs") == "1");
    eventually("the leadership to be taken again", || crowd.epoch() > epoch);
    assert_eq!(crowd.database.sql("SELECT count(*) FROM jobhall.inbox_refused"), "0");
    eventually("the inbox to be empty", || crowd.database.sql("SELECT count(*) FROM jobhall.inbox") == "0");
    assert_eq!(crowd.database.sql("SELECT count(*) FROM jobhall.jobs"), "1");
}

#[test]
fn a_row_whose_job_was_committed_after_the_leadership_was_lost_becomes_one_job() {
    lost_during_a_commit("count(*)");
}

#[test]
fn a_row_whose_job_was_not_committed_when_the_leadership_was_lost_becomes_one_job() {
    lost_during_a_commit("pg_terminate_backend(pid)");
}
