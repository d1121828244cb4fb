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
    crowd.nodes[second].hall().signal(Signal::STOP);
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
         SELECT jobhall.submit('mail', key => 'k', on_duplicate => 'reject'); SELECT jobhall.submit('mail')",
    );
    eventually("the inbox to be empty", || crowd.database.sql("SELECT count(*) FROM jobhall.inbox") == "0");
    assert_eq!(crowd.database.sql("SELECT count(*) FROM jobhall.jobs"), "2");
    let whys = crowd.database.sql("SELECT why FROM jobhall.inbox_refused ORDER BY id");
    let whys: Vec<_> = whys.lines().collect();
    assert_eq!(whys.len(), 4, "{whys:?}");
    for (why, part) in
        whys.iter().zip(["there is no group 999", "needs: ", "there is no job 12345", "held by job"])
    {
        assert!(why.contains(part), "{why}");
    }
    let said = crowd.nodes[0].said("hall");
    assert!(said.contains("inbox row refused"), "{said}");
}

#[test]
fn a_row_whose_job_was_under_way_when_the_leadership_was_lost_becomes_one_job() {
    let mut crowd = Crowd::of(1, &[]);
    let epoch = crowd.epoch();
    let pid = crowd.nodes[0].hall().pid();
    let waits = |what: &str| {
        let query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND";
        crowd.database.sql(&format!("{query} {what}")) != "0"
    };
    std::thread::scope(|scope| {
        scope.spawn(|| crowd.database.sql("BEGIN; LOCK TABLE jobhall.specs; SELECT pg_sleep(11); COMMIT"));
        eventually("the lock", || waits("wait_event = 'PgSleep'"));
        crowd.database.sql("SELECT jobhall.submit('mail')");
        eventually("its commit", || waits("wait_event_type = 'Lock'"));
        // Longer than a term of leadership; no other node takes it.
        jobhall_tests::signal(pid, Signal::STOP);
        std::thread::sleep(std::time::Duration::from_secs(7));
        jobhall_tests::signal(pid, Signal::CONT);
    });
    eventually("the row to be a job", || crowd.database.sql("SELECT count(*) FROM jobhall.jobs") == "1");
    assert!(crowd.epoch() > epoch, "the leadership was lost meanwhile");
    assert_eq!(crowd.database.sql("SELECT count(*) FROM jobhall.inbox_refused"), "0");
    eventually("the inbox to be empty", || crowd.database.sql("SELECT count(*) FROM jobhall.inbox") == "0");
    assert_eq!(crowd.database.sql("SELECT count(*) FROM jobhall.jobs"), "1");
}
