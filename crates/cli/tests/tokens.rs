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
        let mut command =
            up.command(&["worker", "--name", name, "--slots", "1", "--allow", "exec", "--state"]);
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
    let said = text(&again.stderr);
    assert_eq!(again.status.code(), Some(4), "a join token works once: {said}");
    assert!(
        said.contains("this join token is not valid: it was used, has expired or never existed"),
        "{said}"
    );
    assert!(said.contains("`jobhall token create --join`"), "{said}");
    up.told(&["token", "revoke", "gpu-1"]);
    let out = worker("gpu-1").output().unwrap();
    assert_eq!(out.status.code(), Some(4), "its credential and the join token are invalid");
}

/// A worker that knows nothing of the server on this machine and ends when it is idle.
fn worker_at(state: &std::path::Path, server: &str, join: Option<&str>) -> std::process::Output {
    let mut command = up::jobhall();
    command.args(["worker", "--name", "w", "--allow", "exec", "--idle-exit", "1ms", "--server", server]);
    command.args(join.iter().flat_map(|join| ["--join", *join])).arg("--state").arg(state);
    command.env("XDG_DATA_HOME", "/proc/none").output().unwrap()
}

/// The credential files in a state directory.
fn credentials(state: &std::path::Path) -> Vec<serde_json::Value> {
    let files = std::fs::read_dir(state).unwrap().map(|file| file.unwrap().path());
    files.map(|path| json(&std::fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn a_worker_is_known_at_every_address_of_its_server() {
    let (up, other) = (start("server"), start("server"));
    let state = up.folder.path().join("state");
    let join = |up: &Up| up.told(&["token", "create", "--join"]).trim().to_owned();
    let alias = up.url.replace("127.0.0.1", "localhost");
    let code = |output: &std::process::Output| output.status.code();
    let first = worker_at(&state, &up.url, Some(&join(&up)));
    assert_eq!(code(&first), Some(0), "{}", text(&first.stderr));
    let unknown = worker_at(&state, &alias, None);
    let said = text(&unknown.stderr);
    assert_eq!(code(&unknown), Some(4), "{said}");
    assert!(said.contains(&format!("--server {},{alias}", up.url)), "{said}");
    for server in [format!("{},{alias}", up.url), alias.clone()] {
        let output = worker_at(&state, &server, None);
        assert_eq!(code(&output), Some(0), "{server}: {}", text(&output.stderr));
    }
    let known = credentials(&state);
    assert_eq!(known.len(), 1);
    assert_eq!(known[0]["servers"], serde_json::json!([up.url, alias]));
    // The name is free again; at another address of the same hall the same file is replaced.
    up.told(&["token", "revoke", "w"]);
    let again = worker_at(&state, &alias, Some(&join(&up)));
    assert_eq!(code(&again), Some(0), "{}", text(&again.stderr));
    let replaced = credentials(&state);
    assert_eq!((replaced.len(), &replaced[0]["hall"]), (1, &known[0]["hall"]));
    assert_ne!(replaced[0]["token"], known[0]["token"]);
    assert_eq!(replaced[0]["servers"], serde_json::json!([alias]), "any server can claim to be this hall");
    let elsewhere = worker_at(&state, &other.url, Some(&join(&other)));
    assert_eq!(code(&elsewhere), Some(0), "{}", text(&elsewhere.stderr));
    let halls = credentials(&state);
    assert_eq!(halls.len(), 2, "another hall has its own file");
    assert_ne!(halls[0]["hall"], halls[1]["hall"]);
    assert_eq!(code(&worker_at(&state, &alias, None)), Some(0));
}

#[test]
fn a_worker_that_runs_once_ends_after_a_job_that_failed() {
    let up = start("server");
    for script in ["exit 3", "true"] {
        let params = serde_json::json!({ "script": script }).to_string();
        up.told(&["job", "submit", "exec", "--max-attempts", "1", "--params", &params]);
    }
    let out = up.run(&["worker", "--once", "--slots", "1", "--allow", "exec"]);
    assert_eq!(out.status.code(), Some(0), "the worker did its work: {}", text(&out.stderr));
    let state = |id: &str| up.json(&["job", "show", id, "--json"])["state"].clone();
    assert_eq!((state("1"), state("2")), ("failed".into(), "queued".into()));
}

#[test]
fn a_worker_with_another_name_than_its_token_is_told_which_counts() {
    let up = start("server");
    let secret = up.told(&["token", "create", "w", "--role", "worker"]);
    for (name, lines) in [("w2", 1), ("w", 0)] {
        let said = up.folder.path().join(name);
        let mut command = up.command(&["worker", "--name", name, "--slots", "1", "--allow", "exec"]);
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

/// The output of a worker with a token, until it has ended.
fn refused(up: &Up, token: &str) -> std::process::Output {
    let mut command = up.command(&["worker", "--name", "w", "--slots", "1", "--allow", "exec"]);
    command.env("JOBHALL_TOKEN", token).output().unwrap()
}

#[test]
fn a_worker_whose_token_is_refused_ends_and_says_why() {
    let up = start("server");
    let unknown = format!("jh_{}_{}", "0".repeat(12), "0".repeat(64));
    let out = refused(&up, &unknown);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(4), "{said}");
    assert!(said.contains("refused this worker's token (unknown, expired or revoked)"), "{said}");
    assert!(said.contains("fix: make another with `jobhall token create NAME --role worker`"), "{said}");
    let client = up.told(&["token", "create", "c", "--role", "client"]);
    let out = refused(&up, client.trim());
    assert_eq!(out.status.code(), Some(4), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("token c has the role client"), "{}", text(&out.stderr));
}

#[test]
fn a_token_that_is_revoked_while_its_worker_runs_ends_the_worker_and_its_jobs() {
    let up = start("server");
    let secret = up.told(&["token", "create", "w", "--role", "worker"]);
    let said = up.folder.path().join("said");
    let mut command = up.command(&["worker", "--slots", "2", "--allow", "exec"]);
    command.env("JOBHALL_TOKEN", secret.trim()).stderr(std::fs::File::create(&said).unwrap());
    let mut child = command.spawn().unwrap();
    let started = up.folder.path().join("started");
    let script = format!("echo $$ > {}; exec sleep 600", started.display());
    let params = serde_json::json!({ "script": script }).to_string();
    up.told(&["job", "submit", "exec", "--params", &params]);
    let pid = || std::fs::read_to_string(&started).unwrap_or_default();
    eventually("the job's process", || pid().ends_with('\n'));
    up.told(&["token", "revoke", "w"]);
    assert_eq!(child.wait().unwrap().code(), Some(4));
    let is_gone = || !std::path::Path::new("/proc").join(pid().trim()).exists();
    eventually("the end of the job's process", is_gone);
    let said = std::fs::read_to_string(said).unwrap();
    let line = format!("worker w connected to {}: types exec; 2 slots\n", up.url);
    assert!(said.starts_with(&line), "{said}");
    assert!(said.contains("the server refused this worker's token"), "{said}");
}

#[test]
fn a_worker_that_has_nothing_to_run_does_not_start() {
    let up = start("server");
    let out = up.run(&["worker", "--name", "w"]);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("this worker has nothing to run") && said.contains("[types.NAME]"), "{said}");
}

#[test]
fn a_worker_that_runs_once_ends_after_one_job() {
    let up = start("server");
    let submit = ["job", "submit", "exec", "--params", r#"{"argv":["true"]}"#];
    up.told(&submit);
    up.told(&submit);
    let out = up.run(&["worker", "--once", "--slots", "2", "--allow", "exec"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let state = |id: &str| json(&up.told(&["job", "show", id, "--json"]))["state"].clone();
    assert_eq!((state("1"), state("2")), ("succeeded".into(), "queued".into()));
    let out = up.run(&["worker", "--idle-exit", "100ms", "--slots", "2", "--allow", "exec"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
}

#[test]
fn an_administrators_token_names_its_workers_and_two_never_share_a_name() {
    let up = start("server");
    let worker = |name: &str, said: &str| {
        let mut command = up.command(&["worker", "--name", name, "--slots", "1", "--allow", "exec"]);
        command.stderr(std::fs::File::create(up.folder.path().join(said)).unwrap()).spawn().unwrap()
    };
    let said = |name: &str| std::fs::read_to_string(up.folder.path().join(name)).unwrap();
    let names = || {
        let workers = up.json(&["worker", "list", "--json"]);
        let names =
            workers.as_array().unwrap().iter().map(|worker| worker["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    let (mut first, mut other) = (worker("w", "first"), worker("v", "other"));
    eventually("both workers", || names() == ["v", "w"]);
    let mut second = worker("w", "second");
    eventually("the refusal", || {
        said("second").contains("a worker named w is connected from another process")
    });
    assert_eq!(names(), ["v", "w"]);
    end(&mut first);
    eventually("the second worker", || said("second").contains("worker w connected to"));
    end(&mut other);
    let params = r#"{"script":"echo x > $JOBHALL_OUTPUT/file"}"#;
    let submit = ["job", "submit", "exec", "--wait", "--params", params];
    up.told(&submit);
    assert!(up.told(&["job", "artifacts", "1"]).contains("file"), "its uploads are of the same worker");
    end(&mut second);
}

#[test]
fn a_join_token_with_several_uses_lets_that_many_workers_in() {
    let up = start("server");
    let state = up.folder.path().join("state");
    let create = ["token", "create", "fleet", "--join", "--uses", "2", "--expires", "90d", "--queue", "ci-*"];
    let join = up.told(&create).trim().to_owned();
    assert!(up.told(&["token", "list"]).contains("join, 2 left"));
    let worker = |name: &str| {
        let mut command =
            up.command(&["worker", "--name", name, "--allow", "exec", "--idle-exit", "1ms", "--state"]);
        command.arg(&state).args(["--join", &join]).output().unwrap()
    };
    for (name, code) in [("a", 0), ("b", 0), ("c", 4), ("a", 0)] {
        let output = worker(name);
        assert_eq!(output.status.code(), Some(code), "{name}: {}", text(&output.stderr));
    }
    let list = up.told(&["token", "list"]);
    assert!(!list.contains("fleet") && list.matches("ci-*").count() == 2, "{list}");
    assert_eq!(up.run(&["token", "create", "t", "--role", "client", "--uses", "2"]).status.code(), Some(2));
}
