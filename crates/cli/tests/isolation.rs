//! What jobs of the shipped binary can reach: not the data of the server, and not the credential of the worker.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod up;

use std::fs::File;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use up::{Up, eventually, jobhall, text};

const NOBODY: u32 = 65_534;

/// A worker in a process of its own, stopped on drop.
struct Worker {
    child: Child,
    said: PathBuf,
}

impl Worker {
    /// Starts `jobhall worker` as this user, with a credential that it gets by a join token.
    fn start(hall: &Up, user: Option<u32>, words: &[&str]) -> Worker {
        Worker::start_in(hall, user, words, &std::env::temp_dir())
    }

    /// As [`Worker::start`], with this directory for temporary files.
    fn start_in(hall: &Up, user: Option<u32>, words: &[&str], temporary: &Path) -> Worker {
        let state = hall.folder.path().join("state");
        std::fs::create_dir(&state).unwrap();
        if user.is_some() {
            // The record too: the local token is used only beside a record of the same owner.
            let files = ["admin.token", "server.json"].map(|name| hall.data().join(name));
            for path in [state, hall.data()].into_iter().chain(files) {
                chown(path, user, user).unwrap();
            }
            std::fs::set_permissions(hall.folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        }
        Worker::start_by(hall, as_user(user, jobhall()), words, temporary)
    }

    /// Starts a worker by this command.
    fn start_by(hall: &Up, mut command: Command, words: &[&str], temporary: &Path) -> Worker {
        let state = hall.folder.path().join("state");
        std::fs::create_dir_all(&state).unwrap();
        let join = hall.json(&["token", "create", "--join", "--json"]);
        let said = hall.folder.path().join("worker.said");
        command.args(["worker", "--allow", "exec", "--name", "w", "--slots", "1"]).args(words);
        command.args(["--server", &hall.url, "--state"]).arg(&state);
        command
            .env("HOME", &state)
            .env("TMPDIR", temporary)
            .env("JOBHALL_DATA", hall.data())
            .env("JOBHALL_JOIN", join["secret"].as_str().unwrap());
        let child = command.stderr(File::create(&said).unwrap()).spawn().unwrap();
        let worker = Worker { child, said };
        eventually("the start line", || {
            assert!(!worker.said().contains("error: "), "{}", worker.said());
            worker.said().contains("connected to")
        });
        worker
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.said).unwrap()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        up::end(&mut self.child);
    }
}

fn as_user(user: Option<u32>, command: Command) -> Command {
    let Some(user) = user.map(|user| user.to_string()) else { return command };
    wrapped_by(&["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups"], &command)
}

/// The program of this command, started by another one in the same environment.
fn wrapped_by(words: &[&str], command: &Command) -> Command {
    let mut changed = Command::new(words[0]);
    changed.args(&words[1..]).arg(command.get_program());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => changed.env(name, value),
            None => changed.env_remove(name),
        };
    }
    changed.stdin(Stdio::null());
    changed
}

/// What a job prints that reads the files of these directories, and those of the processes of server and worker.
fn look(hall: &Up, folders: &[&Path]) -> String {
    let folders: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
    let script = r#"
        find "$@" -type f -exec cat {} +
        for folder; do for process in /proc/[0-9]*; do find "$process/root$folder" -type f -exec cat {} + ; done; done
        echo "looked: $(id -u)"
    "#;
    let words = ["run", "--quiet", "--", "sh", "-c", script, "sh"];
    let words: Vec<&str> = words.into_iter().chain(folders.iter().map(String::as_str)).collect();
    let output = hall.run(&words);
    assert!(text(&output.stdout).contains("looked: "), "{output:?}");
    text(&output.stdout)
}

#[track_caller]
fn check_worker(user: Option<u32>) {
    let hall = Up::start(tempfile::tempdir().unwrap(), "server", &["--listen", "127.0.0.1:0"]);
    let worker = Worker::start(&hall, user, &[]);
    assert!(!worker.said().contains("jobs can read"), "not proven: {}", worker.said());
    let state = hall.folder.path().join("state");
    let credential = std::fs::read_dir(&state).unwrap().next().unwrap().unwrap().path();
    let credential: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(credential).unwrap()).unwrap();
    let credential = credential["token"].as_str().unwrap();
    let admin = std::fs::read_to_string(hall.data().join("admin.token")).unwrap();
    let seen = look(&hall, &[&hall.data(), &state]);
    let uid = user.unwrap_or_else(|| rustix::process::getuid().as_raw());
    assert!(seen.ends_with(&format!("looked: {uid}\n")), "the user stays the caller: {seen}");
    for secret in [credential, admin.trim()] {
        assert!(secret.len() > 20 && !seen.contains(secret), "{seen}");
    }
}

#[test]
fn audit_h2_a_job_reads_neither_data_nor_credential() {
    check_worker(None);
}

#[test]
fn audit_h2_a_job_of_an_unprivileged_worker_reads_neither_data_nor_credential() {
    assert!(rustix::process::getuid().is_root(), "not proven: only root can start a worker of another user");
    check_worker(Some(NOBODY));
}

#[test]
fn audit_h2_a_job_of_up_reads_no_data_and_no_key_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    std::fs::create_dir(&keys).unwrap();
    let key = keys.join("hall.key");
    let words = ["--listen", "127.0.0.1:0", "--slots", "1", "--key-file", key.to_str().unwrap()];
    let hall = Up::start(folder, "up", &words);
    let seen = look(&hall, &[&hall.data(), &keys]);
    assert_eq!(seen.lines().count(), 1, "all files are hidden: {seen}");
    assert!(std::fs::metadata(&key).unwrap().len() > 0 && hall.data().join("admin.token").exists());
    assert!(!hall.said().contains("jobs can read"), "{}", hall.said());
}

#[test]
fn audit_h2_a_job_reads_no_data_of_another_running_server() {
    let records = tempfile::tempdir().unwrap();
    let words = ["--listen", "127.0.0.1:0"];
    let other = Up::start_recorded(tempfile::tempdir().unwrap(), "server", &words, records.path());
    let hall = Up::start_recorded(tempfile::tempdir().unwrap(), "up", &words, records.path());
    assert!(other.data().join("admin.token").exists());
    let seen = look(&hall, &[&other.data()]);
    assert_eq!(seen.lines().count(), 1, "all files are hidden: {seen}");
    let apart = Up::start(tempfile::tempdir().unwrap(), "up", &words);
    let seen = look(&apart, &[&other.data()]);
    assert!(seen.lines().count() > 1, "without a record nothing would be hidden: {seen}");
}

#[test]
fn audit_h2_up_without_exec_has_no_worker_of_its_own() {
    let hall = Up::start(tempfile::tempdir().unwrap(), "up", &["--listen", "127.0.0.1:0", "--no-exec"]);
    eventually("the start line", || hall.said().contains("no worker on this machine"));
    hall.told(&["job", "submit", "exec", "--params", r#"{"argv":["true"]}"#]);
    let _worker = Worker::start(&hall, None, &[]);
    hall.told(&["job", "wait", "1"]);
    assert_eq!(hall.json(&["job", "show", "1", "--json"])["attempts"][0]["worker"], "w");
}

/// The types that the worker of a server runs.
fn accepted(hall: &Up) -> serde_json::Value {
    eventually("the worker", || hall.json(&["worker", "list", "--json"])[0]["connected"] == true);
    hall.told(&["job", "submit", "unknown"]);
    hall.json(&["job", "explain", "1", "--json"])["reasons"][0]["text"].clone()
}

#[test]
fn up_gives_its_worker_a_worker_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("worker.toml");
    let text = "slots = 3\n[types.hello]\nrun = [\"sh\", \"-c\", \"echo hello\"]\n[abilities]\ngpu = 2\n";
    std::fs::write(&file, text).unwrap();
    let words = ["--listen", "127.0.0.1:0", "--no-exec", "--config", file.to_str().unwrap()];
    let hall = Up::start(folder, "up", &words);
    let line = "runs jobs of these types: hello; commands of clients";
    eventually("the start line", || hall.said().contains(line));
    let types = accepted(&hall);
    assert!(types.as_str().unwrap().contains("local runs: hello)"), "no exec: {types}");
    hall.told(&["job", "submit", "hello", "--needs", "gpu>=2", "--wait"]);
    assert_eq!(hall.told(&["job", "log", "2"]), "hello\n");
    let worker = hall.json(&["worker", "show", "local", "--json"]);
    assert_eq!(worker["slots"], 3, "{worker}");
}

#[test]
fn ground_8_main_gives_the_local_worker_an_ability_that_its_file_cannot_give() {
    let words = ["--listen", "127.0.0.1:0", "--slots", "1", "--main"];
    let hall = Up::start(tempfile::tempdir().unwrap(), "up", &words);
    let argv = r#"{"argv":["true"]}"#;
    hall.told(&["job", "submit", "exec", "--params", argv, "--needs", "main=1, worker=local", "--wait"]);
    let worker = hall.json(&["worker", "show", "local", "--json"]);
    assert!(worker["abilities"].as_str().unwrap().contains("main=1"), "{worker}");
}

#[test]
fn up_runs_exec_besides_the_types_of_its_worker_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("worker.toml");
    std::fs::write(&file, "[types.hello]\nrun = [\"true\"]\n").unwrap();
    let words = ["--listen", "127.0.0.1:0", "--slots", "1", "--config", file.to_str().unwrap()];
    let hall = Up::start(folder, "up", &words);
    for line in ["runs jobs of these types: hello, exec", "each client with a token can run commands"] {
        eventually("the start line", || hall.said().contains(line));
    }
    let types = accepted(&hall);
    assert!(types.as_str().unwrap().contains("local runs: exec, hello)"), "{types}");
}

#[test]
fn ground_15_a_worker_serves_two_thousand_types() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("worker.toml");
    let types = |count| {
        let types = (0..count).map(|n| format!("[types.type-{n:04}]\nrun = [\"echo\", \"I am {n}\"]\n"));
        types.collect::<String>()
    };
    std::fs::write(&file, types(2_000)).unwrap();
    let words = ["--listen", "127.0.0.1:0", "--slots", "1", "--config", file.to_str().unwrap()];
    let hall = Up::start(folder, "up", &words);
    eventually("the start line", || hall.said().contains("type-0019 and 1981 more"));
    let said = accepted(&hall);
    assert!(said.as_str().unwrap().contains("type-0030, … 1969 more)"), "{said}");
    for n in [0, 1_024, 1_999] {
        hall.told(&["job", "submit", &format!("type-{n:04}"), "--wait"]);
    }
    assert_eq!(hall.told(&["job", "log", "4"]), "I am 1999\n");
    std::fs::write(&file, types(2_048)).unwrap();
    let mut command = jobhall();
    command.args(["up", "--listen", "127.0.0.1:0", "--data"]).arg(hall.folder.path().join("other"));
    let output = command.arg("--config").arg(&file).output().unwrap();
    let said = "types: 2049 given, with those that `allow` adds; the limit is 2048";
    assert!(text(&output.stderr).contains(said), "{}", text(&output.stderr));
}

#[test]
fn a_worker_file_with_which_up_cannot_work_is_refused_before_it_starts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("worker.toml");
    let types = "[types.t]\nrun = [\"true\"]\n";
    for (given, words, said) in [
        (format!("name = \"gpu-1\"\n{types}"), &[][..], "name: the worker of `jobhall up` has the name"),
        ("allow = [\"exec\"]\n".to_owned(), &["--no-exec"], "allow: it has exec, and --no-exec was given"),
        ("slots = 2\n".to_owned(), &["--no-exec"], "this worker has nothing to run"),
        (format!("slots = 0\n{types}"), &[], "slots is 0; from 1 to 4096"),
        (format!("slot = 1\n{types}"), &[], "unknown field `slot`"),
        ("[types.t]\nrun = []\n".to_owned(), &[], "types.t.run is empty"),
        ("[types.\"a b\"]\nrun = [\"true\"]\n".to_owned(), &[], "types.\"a b\""),
        (format!("[abilities]\nGPU = 1\n{types}"), &[], "abilities:"),
        (
            format!("[abilities]\nmain = 1\n{types}"),
            &[],
            "abilities.main is reserved; it is given by the flag",
        ),
    ] {
        std::fs::write(&file, given).unwrap();
        let data = folder.path().join("data");
        let mut command = jobhall();
        command.args(["up", "--listen", "127.0.0.1:0", "--data"]).arg(&data).args(words);
        let output = command.arg("--config").arg(&file).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let stderr = text(&output.stderr);
        assert!(stderr.contains(said) && stderr.contains("worker.toml"), "{stderr}");
        assert!(!data.exists(), "nothing was created");
    }
}

#[track_caller]
fn check_killed_supervisors(user: Option<u32>) {
    let hall = Up::start(tempfile::tempdir().unwrap(), "server", &["--listen", "127.0.0.1:0"]);
    let _worker = Worker::start(&hall, user, &[]);
    let mark = format!("JOBHALL_TEST_MARK=m9-{}", std::process::id());
    let script = "sleep 600 & setsid sleep 600 &
        monitor=$(cut -d' ' -f4 /proc/$PPID/stat)
        kill -STOP $PPID; kill -KILL $monitor $PPID; sleep 600";
    let (name, value) = mark.split_once('=').unwrap();
    let params = serde_json::json!({ "script": script, "env": { name: value } }).to_string();
    hall.told(&["job", "submit", "exec", "--params", &params]);
    assert_eq!(hall.run(&["job", "wait", "1"]).status.code(), Some(103), "it crashed");
    assert_eq!(up::marked(&mark), 0, "it does not outlive itself");
    assert!(hall.run(&["run", "--", "true"]).status.success(), "the slot is replaced");
}

#[test]
fn audit_m9_a_job_that_kills_its_supervisors_does_not_outlive_itself() {
    check_killed_supervisors(None);
}

#[test]
fn audit_m9_a_job_of_an_unprivileged_worker_does_not_outlive_itself() {
    assert!(rustix::process::getuid().is_root(), "not proven: only root can start a worker of another user");
    check_killed_supervisors(Some(NOBODY));
}

#[test]
fn audit_m9_a_job_runs_in_a_control_group_where_one_can_be_made() {
    let hall = Up::start(tempfile::tempdir().unwrap(), "up", &["--listen", "127.0.0.1:0"]);
    let groups = hall.told(&["run", "--quiet", "--", "cat", "/proc/self/cgroup"]);
    let group = groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default();
    let possible = jobhall_worker::supervisor::own_group().is_some();
    let allowed = std::env::var("JOBHALL_ALLOW_UNPROVEN").unwrap_or_default();
    let listed = allowed.split(',').any(|name| name == "control_group");
    assert!(possible || listed, "not proven: no control group may be made here");
    assert_eq!(group.contains("/hall-slot-"), possible, "{groups}");
}

/// Runs a command in a user namespace that allows no further one, as a user without capabilities.
const CONFINED: [&str; 6] = [
    "unshare",
    "--user",
    "--map-root-user",
    "sh",
    "-c",
    "echo 0 > /proc/sys/user/max_user_namespaces && \
     exec setpriv --bounding-set=-all --inh-caps=-all \"$0\" \"$@\"",
];

#[test]
fn audit_h2_up_says_itself_that_jobs_are_not_isolated() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = wrapped_by(&CONFINED, &jobhall());
    command.args(["up", "--log", "off", "--listen", "127.0.0.1:0", "--slots", "1", "--data"]);
    let said = folder.path().join("said");
    command.arg(folder.path().join("data")).stdout(Stdio::null()).stderr(File::create(&said).unwrap());
    let hall = Worker { child: command.spawn().unwrap(), said };
    eventually("the first text", || hall.said().contains("jobs can read the server's data on this machine"));
}

#[test]
fn audit_h2_the_start_line_says_that_jobs_are_not_isolated() {
    let hall = Up::start(tempfile::tempdir().unwrap(), "server", &["--listen", "127.0.0.1:0"]);
    let worker = Worker::start_by(&hall, wrapped_by(&CONFINED, &jobhall()), &[], &std::env::temp_dir());
    let said = worker.said();
    let line = said.lines().find(|line| line.contains("jobs can read")).unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains("the worker's credential (no mount namespace: "), "{line}");
    assert!(hall.run(&["run", "--", "true"]).status.success(), "jobs run nevertheless");
}

#[test]
fn audit_m9_jobs_cannot_gain_privileges_and_write_no_core() {
    let hall = Up::start(tempfile::tempdir().unwrap(), "up", &["--listen", "127.0.0.1:0"]);
    let script = "grep NoNewPrivs /proc/self/status; ulimit -c";
    assert_eq!(hall.told(&["run", "--quiet", "--", "sh", "-c", script]), "NoNewPrivs:\t1\n0\n");
}

/// Submits a script to the worker; returns its output.
fn submitted(hall: &Up, id: &str, params: &serde_json::Value) -> String {
    hall.told(&["job", "submit", "exec", "--params", &params.to_string()]);
    hall.run(&["job", "wait", id]);
    hall.told(&["job", "log", id])
}

#[test]
fn audit_m10_each_attempt_has_a_fresh_workspace_that_is_removed() {
    let hall = Up::start(tempfile::tempdir().unwrap(), "up", &["--listen", "127.0.0.1:0", "--slots", "1"]);
    let script =
        "pwd; echo $TMPDIR; ls -A . $TMPDIR | wc -w; mktemp > own; touch $TMPDIR/a; stat -c %a . $TMPDIR";
    let mut places = Vec::new();
    for id in ["1", "2"] {
        let said = submitted(&hall, id, &serde_json::json!({ "script": script }));
        let lines: Vec<&str> = said.lines().collect();
        let [work, temporary, "2", "700", "700"] = lines[..] else { panic!("{said}") };
        let attempt = Path::new(work).parent().unwrap().to_owned();
        assert!(attempt.ends_with(format!("{id}-1")), "named after the attempt: {said}");
        assert_eq!(Path::new(temporary).parent(), Some(attempt.as_path()));
        eventually("it is removed", || !attempt.exists());
        places.push(attempt);
    }
    assert_ne!(places[0], places[1]);
    let cwd = hall.folder.path().display().to_string();
    let given =
        serde_json::json!({ "script": "pwd; echo $TMPDIR", "cwd": cwd, "env": { "TMPDIR": "/given" } });
    assert_eq!(submitted(&hall, "3", &given), format!("{cwd}\n/given\n"), "what the params say is used");
    let ran =
        hall.command(&["run", "--quiet", "--", "pwd"]).current_dir(hall.folder.path()).output().unwrap();
    assert_eq!(text(&ran.stdout), format!("{cwd}\n"), "`run` sends its directory");
}

#[test]
fn audit_m10_workspaces_of_failed_attempts_are_kept_if_asked_for() {
    let hall = Up::start(tempfile::tempdir().unwrap(), "server", &["--listen", "127.0.0.1:0"]);
    let temporary = hall.folder.path().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let file = hall.folder.path().join("worker.toml");
    std::fs::write(&file, "keep = \"failed\"\n[limits]\nopen_files = 99\n").unwrap();
    let words = ["--config", file.to_str().unwrap()];
    let worker = Worker::start_in(&hall, None, &words, &temporary);
    let good = submitted(&hall, "1", &serde_json::json!({ "script": "echo a > left; ulimit -n" }));
    assert_eq!(good, "99\n");
    let bad = submitted(&hall, "2", &serde_json::json!({ "script": "echo b > left; exit 3" }));
    let kept = bad.trim().strip_prefix("jobhall: the workspace is kept in ").expect("a note").to_owned();
    assert_eq!(std::fs::read_to_string(Path::new(&kept).join("work/left")).unwrap(), "b\n");
    drop(worker);
    assert!(Path::new(&kept).exists() && kept.ends_with("kept-2-1"), "{kept}");
    assert_eq!(
        std::fs::read_dir(Path::new(&kept).parent().unwrap()).unwrap().count(),
        1,
        "the other is removed"
    );
}

#[test]
fn audit_m10_jobs_run_as_the_user_that_is_asked_for() {
    let words = ["--listen", "127.0.0.1:0", "--slots", "1", "--job-user", "nobody"];
    let hall = Up::start(tempfile::tempdir().unwrap(), "up", &words);
    let script = r#"exec 2>&1; id -u; id -G; echo $USER; echo x > file; echo 7 > $JOBHALL_RESULT; mktemp > $JOBHALL_OUTPUT/a
        cat "$0"; grep CapEff /proc/self/status"#;
    let key = hall.data().join("hall.key");
    let params = serde_json::json!({ "argv": ["sh", "-c", script, key] });
    for id in ["1", "2"] {
        let said = submitted(&hall, id, &params);
        let lines: Vec<&str> = said.lines().collect();
        let [uid, groups, "nobody", read, "CapEff:\t0000000000000000"] = lines[..] else { panic!("{said}") };
        assert_eq!(groups, NOBODY.to_string(), "{said}");
        assert!(read.starts_with("cat: ") && read.ends_with("No such file or directory"), "{said}");
        assert_eq!(uid, NOBODY.to_string(), "{said}");
        assert_eq!(hall.json(&["job", "show", id, "--json"])["result"], 7);
    }
    let mut unknown = jobhall();
    unknown.args(["up", "--job-user", "no-such-user", "--data"]).arg(hall.folder.path().join("x"));
    let unknown = unknown.output().unwrap();
    assert_eq!(unknown.status.code(), Some(2), "{unknown:?}");
    assert!(text(&unknown.stderr).contains("there is no user"), "{unknown:?}");
    let mut plain = as_user(Some(NOBODY), jobhall());
    plain.args(["worker", "--allow", "exec", "--token", "t", "--job-user", "root"]).env("HOME", "/");
    let plain = plain.output().unwrap();
    assert_eq!(plain.status.code(), Some(2), "{plain:?}");
    assert!(text(&plain.stderr).contains("--job-user root needs root"), "{plain:?}");
}

#[test]
fn limits_with_which_no_job_could_run_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("worker.toml");
    std::fs::write(&file, "[limits]\nopen_files = 3\n").unwrap();
    let output = jobhall()
        .args(["worker", "--allow", "exec", "--token", "t", "--config"])
        .arg(&file)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("limits.open_files is 3; at least 64"), "{output:?}");
}

#[test]
fn a_worker_whose_jobs_could_not_use_the_temporary_directory_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let output = jobhall()
        .args(["worker", "--allow", "exec", "--server", "http://127.0.0.1:1", "--token", "t", "--hide"])
        .arg(folder.path())
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("which is hidden from them"), "{output:?}");
}
