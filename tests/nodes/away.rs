//! The database is unreachable for longer than a term of leadership: no response is wrong, and nothing is lost.

use std::thread;

use jobhall_tests::{Answer, Rig, eventually};
use jobhall_throwaway::Cluster;

use crate::crowd::Crowd;

fn get(node: &Rig, path: &str, token: &str) -> Answer {
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}"
    );
    node.raw().say(format!("{head}\r\n\r\n")).answer()
}

/// The value of a header, if there is one.
fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    let found = |line: &&str| line.split_once(':').is_some_and(|(given, _)| given.eq_ignore_ascii_case(name));
    answer.head.lines().find(found).and_then(|line| Some(line.split_once(':')?.1.trim()))
}

/// A complete response, or a refusal that says that the server cannot do it now and when to retry.
fn judge(path: &str, answer: &Answer) {
    if answer.status == 200 {
        let length = header(answer, "content-length").map(|length| length.parse::<usize>().unwrap());
        assert!(length.is_none_or(|length| length == answer.body.len()), "{path}: cut off: {answer:?}");
        return;
    }
    assert_eq!(answer.status, 503, "{path}: {answer:?}");
    assert!(header(answer, "retry-after").is_some(), "{path}: {answer:?}");
    assert!(["unavailable", "no_leader"].contains(&answer.code().as_str()), "{path}: {answer:?}");
    assert!(
        !answer.body.contains("whether the request was executed"),
        "a read changes nothing: {path}: {answer:?}"
    );
}

#[test]
fn while_the_database_is_away_every_node_says_so_and_when_to_ask_again() {
    let cluster = Cluster::start();
    let crowd = Crowd::on(cluster.database(), 2, &[]);
    let worker = crowd.worker("w", &crowd.urls(), &[]);
    let id = crowd.submit(0, "echo hello", &[]);
    crowd.until(0, &id, "succeeded");
    drop(worker);
    cluster.stop_immediate();
    let of_job = format!("/api/v1/jobs/{id}");
    let log = format!("/api/v1/jobs/{id}/log");
    let paths = ["/api/v1/nodes", "/api/v1/jobs?limit=5", &of_job, &log, "/api/v1/groups", "/readyz"];
    let ask_all = || {
        thread::scope(|scope| {
            for node in &crowd.nodes {
                for path in paths {
                    scope.spawn(|| judge(path, &get(node, path, &crowd.token)));
                }
            }
        });
    };
    // From before the leader loses the leadership until every node has noticed.
    eventually("the reason to be told", || {
        ask_all();
        crowd.nodes.iter().all(|node| {
            let answer = get(node, &of_job, &crowd.token);
            judge(&of_job, &answer);
            answer.body.contains("the database cannot be reached")
        })
    });
    ask_all();
    cluster.start_again();
    eventually("the hall to be available", || {
        crowd.nodes.iter().all(|node| get(node, "/readyz", "").status == 200)
    });
    for node in 0..2 {
        assert_eq!(crowd.job(node, &id)["state"], "succeeded");
    }
}
