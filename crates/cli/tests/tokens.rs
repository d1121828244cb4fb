//! Permissions with the shipped binary: tokens, join tokens, and job tokens.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod up;

use std::process::Stdio;

use up::{Up, end, eventually, text};

const HERE: [&str; 2] = ["--listen", "127.0.0.1:0"];

fn start(command: &str) -> Up {
    Up::start(tempfile::tempdir().unwrap(), command, &HERE)
}

fn json(told: &str) -> serde_json::Value {
    serde_json::from_str(told).unwrap()
}

#[test]
fn a_token_is_made_used_listed_and_revoked() {
    let up = start("server");
    let secret =
        up.told(&["token", "create", "ci", "--role", "client", "--queue", "ci-*", "--expires", "90d"]);
    let secret = secret.trim();
    let run = |words: &[&str]| up.command(words).env("JOBHALL_TOKEN", secret).output().unwrap();
    let near = run(&["job", "submit", "t", "--queue", "ci-x"]);
    assert_eq!(near.status.code(), Some(0), "{}", text(&near.stderr));
    assert_eq!(run(&["job", "submit", "t"]).status.code(), Some(4), "another queue");
    up.told(&["job", "submit", "t"]);
    assert_eq!(run(&["job", "show", "2"]).status.code(), Some(5), "as if it did not exist");
    assert_eq!(run(&["token", "list"]).status.code(), Some(4));
    let list = up.told(&["token", "list"]);
    assert!(list.contains("ci-*") && !list.contains(secret), "{list}");
    let taken = up.run(&["token", "create", "ci", "--role", "viewer"]);
    assert_eq!(taken.status.code(), Some(6), "{}", text(&taken.stderr));
    assert_eq!(up.run(&["token", "revoke", "cj"]).status.code(), Some(5));
    up.told(&["token", "revoke", "ci"]);
    assert_eq!(run(&["job", "list"]).status.code(), Some(4));
    let audit = json(&up.told(&["audit", "--json"]));
    let acts: Vec<_> = audit.as_array().unwrap().iter().map(|act| act["act"].as_str().unwrap()).collect();
    let revoked = acts.iter().position(|act| *act == "token_revoked").unwrap();
    assert_eq!(acts[revoked + 1..], ["token_created"]);
    assert!(!audit.to_string().contains(&secret[20..]));
}

#[test]
fn a_worker_joins_once_and_comes_back_with_its_own_credential() {
    let up = start("server");
    let state = up.folder.path().join("state");
    let join = up.told(&["token", "create", "--join"]).trim().to_owned();
    let worker = |name: &str| {
        let mut command = up.command(&["worker", "--name", name, "--slots", "1", "--allow-exec", "--state"]);
        command.arg(&state).args(["--join", &join]).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    for _ in 0..2 {
        let mut child = worker("gpu-1").spawn().unwrap();
        let submit = ["job", "submit", "exec", "--wait", "--params", r#"{"argv":["true"]}"#];
        up.told(&submit);
        assert!(up.told(&["worker", "list"]).contains("gpu-1"));
        end(&mut child);
    }
    let files: Vec<_> = std::fs::read_dir(&state).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let again = worker("gpu-2").stderr(Stdio::piped()).output().unwrap();
    assert_eq!(again.status.code(), Some(4), "a join token works once: {}", text(&again.stderr));
    up.told(&["token", "revoke", "gpu-1"]);
    let out = worker("gpu-1").output().unwrap();
    assert_eq!(out.status.code(), Some(4), "its credential and the join token are invalid");
}

#[test]
fn a_worker_with_another_name_than_its_token_is_told_which_counts() {
    let up = start("server");
    let secret = up.told(&["token", "create", "w", "--role", "worker"]);
    for (name, lines) in [("w2", 1), ("w", 0)] {
        let said = up.folder.path().join(name);
        let mut command = up.command(&["worker", "--name", name, "--slots", "1", "--allow-exec"]);
        command.env("JOBHALL_TOKEN", secret.trim()).stderr(std::fs::File::create(&said).unwrap());
        let mut child = command.spawn().unwrap();
        up.told(&["job", "submit", "exec", "--wait", "--params", r#"{"argv":["true"]}"#]);
        let workers = up.told(&["worker", "list"]);
        assert!(workers.contains('w') && !workers.contains("w2"), "{workers}");
        end(&mut child);
        let said = std::fs::read_to_string(said).unwrap();
        assert_eq!(said.matches("this worker registers as \"w\", not \"w2\"").count(), lines, "{said}");
    }
}

#[test]
fn a_job_tells_how_far_it_is_and_its_token_dies_with_it() {
    let up = start("up");
    let program = env!("CARGO_BIN_EXE_jobhall");
    let folder = up.folder.path().display();
    let script = format!(
        "{program} progress --name up 3/10 half; echo $JOBHALL_TOKEN > {folder}/token; \
         while ! test -e {folder}/go; do sleep 0.02; done"
    );
    let params = serde_json::json!({ "script": script }).to_string();
    let id = json(&up.told(&["job", "submit", "exec", "--json", "--params", &params]))["id"].to_string();
    let token = || std::fs::read_to_string(up.folder.path().join("token")).unwrap_or_default();
    eventually("the job's token", || token().ends_with('\n'));
    let job = json(&up.told(&["job", "show", &id, "--json"]));
    let progress = &job["progress"][0];
    assert_eq!((progress["name"].as_str(), progress["step"].as_u64()), (Some("up"), Some(3)), "{job}");
    assert_eq!((progress["total"].as_u64(), progress["message"].as_str()), (Some(10), Some("half")));
    let show = || up.command(&["job", "show", &id]).env("JOBHALL_TOKEN", token().trim()).output().unwrap();
    assert_eq!(show().status.code(), Some(0));
    std::fs::write(up.folder.path().join("go"), "").unwrap();
    up.told(&["job", "wait", &id]);
    assert_eq!(show().status.code(), Some(4), "it expired with the lease");
    let outside = up.run(&["progress", "1/2"]);
    assert_eq!(outside.status.code(), Some(2), "{}", text(&outside.stderr));
}

#[test]
fn no_credential_but_its_own_is_in_reach_of_a_job() {
    let up = start("up");
    // The environments and command lines of the job's process and of all its ancestors, up to the server.
    let script = r#"
        pid=$$
        while test "$pid" -gt 1; do
            tr '\0' '\n' < /proc/$pid/environ || true
            tr '\0' '\n' < /proc/$pid/cmdline || true
            grep -q '^Name:.*jobhall' /proc/$pid/status && echo "passed jobhall"
            pid=$(sed -n 's/^PPid:[[:space:]]*//p' /proc/$pid/status)
        done 2>/dev/null
        echo the end"#;
    let params = serde_json::json!({ "script": script }).to_string();
    let id = json(&up.told(&["job", "submit", "exec", "--json", "--params", &params]))["id"].to_string();
    up.told(&["job", "wait", &id]);
    let log = up.told(&["job", "log", &id]);
    assert!(log.contains("the end") && log.contains("passed jobhall"), "{log}");
    let found: Vec<_> = log.lines().filter(|line| line.contains("jh_")).collect();
    assert!(!found.is_empty(), "its own token is there");
    for line in found {
        assert!(line.starts_with("JOBHALL_TOKEN=jh_job_"), "{line}");
    }
}
