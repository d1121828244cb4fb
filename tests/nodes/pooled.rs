//! Nodes behind a pooler in transaction mode (`--database-pooled`), with and without a direct connection.

use jobhall_tests::{Rig, eventually, jobhall, text};
use jobhall_throwaway::Cluster;

use crate::crowd::Crowd;
use crate::handed_over::{begun, waiting};

/// The channels that the nodes listen to, which is possible only without the pooler.
const HEARD: &str = "SELECT string_agg(DISTINCT query, ', ' ORDER BY query) FROM pg_stat_activity
    WHERE query LIKE 'LISTEN %' AND datname = current_database()";

fn works_and_goes_on_without_its_holder(mut crowd: Crowd, heard: &str) {
    let holder = crowd.holder(0).unwrap();
    let other = 1 - holder;
    eventually("the nodes to listen", || crowd.database.sql(HEARD) == heard);
    let _worker = crowd.worker("w", &crowd.nodes[other].url(), &["--slots", "2"]);
    let first = crowd.submit(holder, "echo hello", &[]);
    crowd.until(holder, &first, "succeeded");
    let (script, file, go) = waiting(&crowd, "one");
    let running = crowd.submit(holder, &script, &["--max-attempts", "1"]);
    eventually("it to begin", || begun(&file) == 1);
    crowd.nodes[holder].hall().kill();
    eventually("the other to take the leadership", || crowd.holder(other) == Some(other));
    crowd.database.sql("SELECT jobhall.submit('exec', '{\"script\": \"true\"}', tags => '{sql}')");
    let late = crowd.submit(other, "true", &[]);
    crowd.until(other, &late, "succeeded");
    std::fs::write(&go, "").unwrap();
    crowd.until(other, &running, "succeeded");
    assert_eq!((crowd.job(other, &running)["attempt"].as_u64(), begun(&file)), (Some(1), 1));
    assert_eq!(text(&crowd.run(other, &["job", "log", &running]).stdout), "begun\ndone\n");
    assert_eq!(text(&crowd.run(other, &["job", "log", &first]).stdout), "hello\n");
    eventually("the row to be a job that is done", || {
        let jobs = crowd.json(other, &["job", "list", "--tag", "sql"]);
        jobs.as_array().is_some_and(|jobs| jobs.len() == 1 && jobs[0]["state"] == "succeeded")
    });
    crowd.start(holder);
    assert_eq!(crowd.job(holder, &late)["state"], "succeeded", "and the old leader is a follower now");
    let said = [0, 1].map(|at| crowd.nodes[at].said("hall")).concat();
    assert!(!said.contains("prepared statement"), "{said}");
}

#[test]
fn nodes_behind_a_pooler_work_and_go_on_without_their_holder() {
    works_and_goes_on_without_its_holder(Crowd::pooled(2, false), "");
}

#[test]
fn nodes_with_a_way_past_the_pooler_hear_of_leadership_and_inbox() {
    let heard = "LISTEN jobhall_inbox, LISTEN jobhall_leadership";
    works_and_goes_on_without_its_holder(Crowd::pooled(2, true), heard);
}

#[test]
fn a_node_that_is_not_told_of_the_pooler_says_so_and_does_not_start() {
    let (server, rig) = (Cluster::shared(), Rig::new());
    let (database, pooler) = (server.database(), server.pgbouncer(3));
    let mut command = jobhall();
    command.args(["server", "--listen", "127.0.0.1:0", "--data"]).arg(rig.data());
    let output = command.args(["--database", &pooler.url(database.name())]).output().unwrap();
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("--database-pooled"), "{said}");
}
