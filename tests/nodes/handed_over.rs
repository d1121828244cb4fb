//! The leadership changes from one node to another: by a stop, by a kill, and while the leader is suspended.

use jobhall_tests::{Signal, eventually, text};

use crate::crowd::Crowd;

/// A script that records its start, and ends on a signal of the test.
pub fn waiting(crowd: &Crowd, name: &str) -> (String, std::path::PathBuf, std::path::PathBuf) {
    let (begun, go) = (crowd.file(&format!("{name}.begun")), crowd.file(&format!("{name}.go")));
    let script = format!(
        "echo begun; echo $JOBHALL_ATTEMPT >> {}; while [ ! -e {} ]; do sleep 0.05; done; echo done",
        begun.display(),
        go.display()
    );
    (script, begun, go)
}

/// How often it started.
pub fn begun(file: &std::path::Path) -> usize {
    std::fs::read_to_string(file).unwrap_or_default().lines().count()
}

#[test]
fn a_holder_that_is_killed_is_replaced_and_attempts_that_ran_go_on() {
    let mut crowd = Crowd::of(3, &[]);
    let holder = crowd.holder(0).unwrap();
    let other = (holder + 1) % 3;
    // One worker was connected to the leader, one to a follower; both know all addresses.
    let mut places: Vec<_> = crowd.nodes.iter().map(jobhall_tests::Rig::url).collect();
    places.rotate_left(holder);
    let _at_holder = crowd.worker("a", &places.join(","), &["--slots", "1"]);
    places.rotate_left(1);
    let _at_follower = crowd.worker("b", &places.join(","), &["--slots", "1"]);
    let jobs: Vec<_> = ["one", "two"]
        .map(|name| {
            let (script, begun, go) = waiting(&crowd, name);
            (crowd.submit(other, &script, &["--max-attempts", "1"]), begun, go)
        })
        .into();
    eventually("both to begin", || jobs.iter().all(|(_, file, _)| begun(file) == 1));
    let epoch = crowd.epoch();
    crowd.nodes[holder].hall().kill();
    eventually("another holder", || crowd.holder(other).is_some_and(|at| at != holder));
    assert!(crowd.epoch() > epoch);
    let late = crowd.submit(other, "true", &[]);
    for (id, _, go) in &jobs {
        // Its worker has reconnected and named the attempt.
        let taken_up = |state: &serde_json::Value| state == "accepted" || state == "running";
        eventually("it to continue", || taken_up(&crowd.job(other, id)["state"]));
        std::fs::write(go, "").unwrap();
        crowd.until(other, id, "succeeded");
        let job = crowd.job(other, id);
        assert_eq!(job["attempt"], 1, "{job}");
        let log = text(&crowd.run(other, &["job", "log", id]).stdout);
        assert_eq!(log, "begun\ndone\n", "its earlier output is kept");
    }
    crowd.until(other, &late, "succeeded");
    assert!(jobs.iter().all(|(_, file, _)| begun(file) == 1), "nothing was run twice");
    crowd.start(holder);
    assert_eq!(crowd.job(holder, &late)["state"], "succeeded", "and the old leader is a follower now");
}

#[test]
fn a_holder_that_was_held_up_commits_nothing_more_and_becomes_a_follower() {
    let mut crowd = Crowd::of(2, &[]);
    let holder = crowd.holder(0).unwrap();
    let other = 1 - holder;
    let _worker = crowd.worker("w", &crowd.nodes[other].url(), &["--slots", "1"]);
    let (script, file, go) = waiting(&crowd, "one");
    let id = crowd.submit(holder, &script, &["--max-attempts", "1"]);
    eventually("it to begin", || begun(&file) == 1);
    let pid = crowd.nodes[holder].hall().pid();
    // Requests that reach it while it is suspended must not be executed when it resumes.
    jobhall_tests::suspend(pid);
    let mut late = crowd.nodes[holder].raw();
    let body = r#"{"type":"late","key":"late"}"#;
    late.say(format!(
        "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        crowd.token,
        body.len()
    ));
    let epoch = crowd.epoch();
    eventually("another holder", || crowd.holder(other) == Some(other));
    assert!(crowd.epoch() > epoch);
    std::fs::write(&go, "").unwrap();
    crowd.until(other, &id, "succeeded");
    assert_eq!(crowd.job(other, &id)["attempt"], 1);
    let stored = crowd.database.sql("SELECT count(*) FROM jobhall.jobs");
    jobhall_tests::signal(pid, Signal::CONT);
    let answer = late.answer();
    // It was refused, or the old leader had become a follower before it read it: then the new leader has the job.
    let forwarded = u32::from(answer.status == 201);
    assert!(forwarded == 1 || answer.status / 100 != 2, "{answer:?}");
    let queue = text(&crowd.nodes[other].run(&["queue", "show", "default", "--json"]).stdout);
    let queue: serde_json::Value = serde_json::from_str(&queue).unwrap();
    assert_eq!(queue["ready"], forwarded, "{queue}");
    eventually("the old leader to be a follower", || {
        text(&crowd.nodes[holder].run(&["job", "show", &id, "--json"]).stdout).contains("succeeded")
    });
    assert_eq!(crowd.holder(holder), Some(other), "both agree");
    let stored = stored.parse::<u32>().unwrap() + forwarded;
    let found = crowd.database.sql("SELECT count(*) FROM jobhall.jobs");
    assert_eq!(found, stored.to_string(), "the old leader stored nothing");
    let next = crowd.submit(holder, "true", &[]);
    crowd.until(other, &next, "succeeded");
}

#[test]
fn a_holder_that_is_told_to_stop_hands_the_leadership_over_at_once() {
    let mut crowd = Crowd::of(2, &[]);
    let holder = crowd.holder(0).unwrap();
    let other = 1 - holder;
    let _worker = crowd.worker("w", &crowd.urls(), &["--slots", "1"]);
    let (script, file, go) = waiting(&crowd, "one");
    let id = crowd.submit(holder, &script, &["--max-attempts", "1"]);
    eventually("it to begin", || begun(&file) == 1);
    let epoch = crowd.epoch();
    crowd.nodes[holder].hall().signal(Signal::TERM);
    // During the change a client waits instead of failing.
    let next = crowd.submit(other, "true", &[]);
    assert_eq!(crowd.nodes[holder].hall().wait().code(), Some(0), "{}", crowd.nodes[holder].said("hall"));
    assert_eq!(crowd.holder(other), Some(other));
    assert!(crowd.epoch() > epoch);
    std::fs::write(&go, "").unwrap();
    crowd.until(other, &id, "succeeded");
    assert_eq!((crowd.job(other, &id)["attempt"].as_u64(), begun(&file)), (Some(1), 1));
    crowd.until(other, &next, "succeeded");
}

#[test]
fn up_brings_a_worker_that_works_whichever_node_holds_the_leadership() {
    let mut crowd = Crowd::of(1, &[]);
    let url = crowd.database.url();
    let mut up = jobhall_tests::Rig::new();
    up.share_key(&crowd.nodes[0]);
    up.start(&["up", "--slots", "1", "--database", &url]);
    let first = crowd.submit(0, "echo hello", &[]);
    crowd.until(0, &first, "succeeded");
    crowd.nodes[0].hall().kill();
    std::fs::copy(crowd.nodes[0].data().join("admin.token"), up.data().join("admin.token")).unwrap();
    eventually("a node to lead", || up.run(&["nodes"]).status.success());
    let id =
        up.json(&["job", "submit", "exec", "--params", r#"{"script":"true"}"#, "--json"])["id"].to_string();
    eventually("its own worker", || up.json(&["job", "show", &id, "--json"])["state"] == "succeeded");
}

#[test]
fn an_up_that_holds_the_leadership_and_is_told_to_stop_serves_the_hall_until_its_jobs_have_ended() {
    let mut crowd = Crowd::of(1, &[]);
    let url = crowd.database.url();
    let mut up = jobhall_tests::Rig::new();
    up.share_key(&crowd.nodes[0]);
    up.start(&["up", "--slots", "1", "--database", &url]);
    crowd.nodes[0].hall().kill();
    eventually("the other node to lead", || crowd.holder_url() == up.url());
    crowd.start(0);
    let (script, file, go) = waiting(&crowd, "one");
    let id = crowd.submit(0, &script, &["--max-attempts", "1"]);
    eventually("it to begin", || begun(&file) == 1);
    up.hall().signal(Signal::TERM);
    eventually("its message", || up.said("hall").contains("stopping: running jobs"));
    let next = crowd.submit(0, "true", &[]);
    assert_eq!(
        crowd.job(0, &next)["state"],
        "queued",
        "the worker of the stopping node takes no further job"
    );
    std::fs::write(&go, "").unwrap();
    assert_eq!(up.hall().wait().code(), Some(0), "{}", up.said("hall"));
    crowd.until(0, &id, "succeeded");
    assert_eq!((crowd.job(0, &id)["attempt"].as_u64(), begun(&file)), (Some(1), 1));
    assert_eq!(crowd.holder(0), Some(0));
}

#[test]
fn a_log_is_followed_to_its_end_over_the_death_of_the_holder() {
    let mut crowd = Crowd::of(2, &[]);
    let holder = crowd.holder(0).unwrap();
    let other = 1 - holder;
    let _worker = crowd.worker("w", &crowd.urls(), &["--slots", "1"]);
    let (script, file, go) = waiting(&crowd, "one");
    let id = crowd.submit(other, &script, &["--max-attempts", "1"]);
    eventually("it to begin", || begun(&file) == 1);
    // As text and in frames, both through a follower.
    let mut followers: Vec<_> = [
        ("text", &["job", "log", "-f", id.as_str()][..]),
        ("frames", &["job", "log", "-f", "--json", id.as_str()]),
    ]
    .into_iter()
    .map(|(name, words)| {
        let mut command = jobhall_tests::jobhall();
        command
            .args(words)
            .env("JOBHALL_SERVER", crowd.nodes[other].url())
            .env("JOBHALL_TOKEN", &crowd.token);
        (name, crowd.nodes[other].spawn(command, name))
    })
    .collect();
    eventually("both to have received output", || {
        ["text", "frames"].iter().all(|name| crowd.nodes[other].said(name).contains("begun"))
    });
    crowd.nodes[holder].hall().kill();
    eventually("another holder", || crowd.holder(other) == Some(other));
    std::fs::write(&go, "").unwrap();
    for (name, follower) in &mut followers {
        let said = |crowd: &Crowd| crowd.nodes[other].said(name);
        assert_eq!(follower.wait().code(), Some(0), "{name}: {}", said(&crowd));
        assert!(said(&crowd).contains("done"), "{name}: {}", said(&crowd));
        assert_eq!(said(&crowd).matches("begun").count(), 1, "{name}: nothing twice");
    }
}

#[test]
fn a_paused_worker_stays_paused_under_the_next_leader() {
    let mut crowd = Crowd::of(2, &[]);
    let holder = crowd.holder(0).unwrap();
    let other = 1 - holder;
    let places: Vec<_> = crowd.nodes.iter().map(jobhall_tests::Rig::url).collect();
    let _worker = crowd.worker("a", &places.join(","), &["--slots", "1"]);
    eventually("its worker", || crowd.run(other, &["worker", "pause", "a"]).status.success());
    let id = crowd.submit(other, "true", &[]);
    crowd.nodes[holder].hall().kill();
    eventually("another holder", || crowd.holder(other) == Some(other));
    eventually("the worker", || {
        text(&crowd.run(other, &["job", "explain", &id]).stdout).contains("worker a is paused")
    });
    assert!(crowd.run(other, &["worker", "resume", "a"]).status.success());
    crowd.until(other, &id, "succeeded");
}
