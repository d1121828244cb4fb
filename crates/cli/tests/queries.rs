//! Queries through the program: a worker whose commands are shell filters, and people who ask.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod up;

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use jobhall_client::{Client, ClientError, Evaluated};
use jobhall_protocol::Code;
use up::{Up, eventually, jobhall, text};

/// Every command appends its name to the file `ran`.
const COMMANDS: &str = r#"
[commands.numbers]
run = ["sh", "numbers.sh", "{count}"]
args = [{ name = "count", type = "int", default = 3, help = "how many" }]
media_type = "text/plain; charset=utf-8"
help = "counts"
env = { LANG = "C" }

[commands.head]
run = ["sh", "-c", "echo head >> ran; exec head -n \"$1\"", "head", "{lines}"]
args = [{ name = "lines", type = "int" }]
media_type = "text/plain; charset=utf-8"

[commands.label]
run = ["sh", "label.sh", "{text}"]
args = [{ name = "text" }]
media_type = "text/plain; charset=utf-8"

[commands.breaks]
run = ["sh", "-c", "echo breaks >> ran; echo no such column >&2; exit 3"]

[commands.random]
run = ["sh", "-c", "echo random >> ran; head -c 8 /dev/urandom"]
volatile = true

[commands.large]
run = ["head", "-c", "65537", "/dev/zero"]
"#;

fn start() -> Up {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("numbers.sh"), "echo numbers >> ran\nseq \"$1\"\n").unwrap();
    fs::write(at("label.sh"), "echo label >> ran\ncat\nprintf '%s|' \"$@\"\n").unwrap();
    fs::write(at("worker.toml"), COMMANDS).unwrap();
    let config = at("worker.toml");
    let words = ["--config", config.to_str().unwrap(), "--slots", "2", "--listen", "127.0.0.1:0"];
    let up = Up::start(folder, "up", &words);
    eventually("the declarations", || {
        up.json(&["query", "commands", "--json"]).as_array().unwrap().len() == 6
    });
    up
}

/// The commands that ran, sorted.
fn ran(up: &Up) -> Vec<String> {
    let text = fs::read_to_string(up.folder.path().join("ran")).unwrap_or_default();
    let mut ran: Vec<String> = text.lines().map(str::to_owned).collect();
    ran.sort();
    ran
}

fn client(up: &Up) -> Client {
    let token = fs::read_to_string(up.data().join("admin.token")).unwrap();
    Client::new(&up.url, Some(token.trim())).unwrap()
}

#[test]
fn q19_a_chain_that_is_asked_again_runs_nothing_and_its_longest_cached_prefix_is_reused() {
    let up = start();
    assert_eq!(up.told(&["query", "numbers 5 | head 2"]), "1\n2\n");
    assert_eq!(ran(&up), ["head", "numbers"]);
    // The same as a URL, and with the argument written otherwise.
    for same in ["numbers-5/head-2", "/numbers-005/head-+2", "numbers-5/head-2/first.txt"] {
        assert_eq!(up.told(&["query", same]), "1\n2\n", "{same}");
    }
    assert_eq!(ran(&up), ["head", "numbers"], "nothing ran again");
    assert_eq!(up.told(&["query", "numbers 5 | head 3"]), "1\n2\n3\n");
    assert_eq!(ran(&up), ["head", "head", "numbers"], "the prefix is reused");
    let file = up.folder.path().join("out.txt");
    let said = up.run(&["query", "numbers | label 'a b/-c~'", "-o", file.to_str().unwrap()]);
    assert!(said.status.success(), "{}", text(&said.stderr));
    assert_eq!(fs::read_to_string(&file).unwrap(), "1\n2\n3\na b/-c~|");
    let said = text(&said.stderr);
    assert!(
        said.contains("numbers/label-a~.b~I~_c~~\n")
            && said.contains("2 steps: 2 computed; 14 bytes of text/plain"),
        "{said}"
    );
    let url = up.told(&["query", "numbers | head 1", "--url"]);
    assert_eq!(url.trim(), format!("{}/q/numbers/head-1", up.url));
}

#[test]
fn q02_a_thousand_askers_of_a_cold_query_run_it_once() {
    let up = start();
    let client = client(&up);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let values: BTreeSet<Vec<u8>> = runtime.block_on(async {
        let ask = |client: Client| async move {
            let mut seen = Vec::new();
            for _ in 0..10 {
                match client.evaluate("numbers-4/head-2/label-x", 60).await.unwrap() {
                    Evaluated::Value(value) => seen.push(value.bytes.to_vec()),
                    other => panic!("{other:?}"),
                }
            }
            seen
        };
        let askers: Vec<_> = (0..100).map(|_| tokio::spawn(ask(client.clone()))).collect();
        let mut all = BTreeSet::new();
        for asker in askers {
            all.extend(asker.await.unwrap());
        }
        all
    });
    assert_eq!(values, BTreeSet::from([b"1\n2\nx|".to_vec()]));
    assert_eq!(ran(&up), ["head", "label", "numbers"]);
}

#[test]
fn q20_a_failure_is_told_at_once_and_repeated_by_its_promise_only() {
    let up = start();
    let asked = || up.run(&["query", "numbers/breaks/head-1"]);
    let first = asked();
    let said = text(&first.stderr);
    assert_eq!(first.status.code(), Some(100), "{said}");
    assert!(said.contains("numbers/breaks (job 2): exit_3: exit code 3"), "{said}");
    assert!(said.contains("    numbers/breaks/head-1\n            ^^^^^^\n"), "{said}");
    assert!(said.contains("see `jobhall job log 2`"), "{said}");
    assert_eq!(up.told(&["job", "log", "2", "--stream", "stderr"]), "no such column\n");
    assert_eq!(ran(&up), ["breaks", "numbers"], "one attempt, at once");
    assert_eq!(asked().status.code(), Some(100));
    assert_eq!(ran(&up), ["breaks", "breaks", "numbers"], "a new request evaluates again");
    let (client, runtime) = (client(&up), tokio::runtime::Runtime::new().unwrap());
    let Err(ClientError::Problem(problem)) = runtime.block_on(client.promised(3, 10)) else {
        panic!("a value")
    };
    assert_eq!(problem.code, Code::StepFailed, "its promise repeats it");
    assert_eq!(ran(&up).len(), 3);
}

#[test]
fn a_wrong_query_is_refused_with_its_place() {
    let up = start();
    for (query, code, place) in [
        ("numbers/heed-2", 2, "        ^^^^^^"),
        ("numbers/head-2-3", 2, "        ^^^^^^^^"),
        ("numbers/head-two", 2, "             ^^^"),
        ("numbers | head '-3x'", 2, "^"),
        ("label-~_rf", 2, "      ^^^^"),
        ("-R/no/-/head-1", 2, "^^^^^^^"),
        ("numbers//head-1", 2, "        ^"),
    ] {
        let output = up.run(&["query", query]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{query}: {said}");
        assert!(said.contains(place), "{query}: {said}");
    }
    assert!(text(&up.run(&["query", "numbers/heed-2"]).stderr).contains("did you mean head?"));
    assert!(ran(&up).is_empty(), "nothing was queued");
}

#[test]
fn a_volatile_command_runs_for_each_request() {
    let up = start();
    let values: BTreeSet<String> = (0..3).map(|_| up.told(&["query", "random"])).collect();
    assert_eq!((values.len(), ran(&up).len()), (3, 3));
}

#[test]
fn a_changed_script_fills_another_key_and_a_revert_finds_the_old_value() {
    let up = start();
    let script = up.folder.path().join("numbers.sh");
    let old = fs::read_to_string(&script).unwrap();
    assert_eq!(up.told(&["query", "numbers-2"]), "1\n2\n");
    fs::write(&script, "echo new >> ran\nseq 10 $((10 + $1))\n").unwrap();
    assert_eq!(up.told(&["query", "numbers-2"]), "10\n11\n12\n");
    fs::write(&script, old).unwrap();
    assert_eq!(up.told(&["query", "numbers-2"]), "1\n2\n");
    assert_eq!(ran(&up), ["new", "numbers"], "the old value is still stored");
}

#[test]
fn commands_are_listed_and_the_value_is_served_over_http() {
    let up = start();
    let listed = up.told(&["query", "commands"]);
    assert!(listed.contains("numbers [count:int=3]") && listed.contains("volatile"), "{listed}");
    let known = up.json(&["query", "commands", "--json"]);
    let numbers = known.as_array().unwrap().iter().find(|known| known["name"] == "numbers").unwrap();
    assert_eq!(numbers["workers"], serde_json::json!(["local"]));
    let token = fs::read_to_string(up.data().join("admin.token")).unwrap();
    let (client, runtime) = (Arc::new(client(&up)), tokio::runtime::Runtime::new().unwrap());
    let promise = runtime.block_on(client.submit_query("numbers-2")).unwrap();
    eventually("the value", || runtime.block_on(client.promise(promise.id)).unwrap().state == "succeeded");
    let Evaluated::Value(value) = runtime.block_on(client.evaluate("numbers-2", 0)).unwrap() else {
        panic!()
    };
    assert_eq!((value.cache.as_str(), &value.bytes[..]), ("hit", &b"1\n2\n"[..]));
    assert_eq!(value.media_type, "text/plain; charset=utf-8");
    let refused =
        up.command(&["query", "numbers-7"]).env("JOBHALL_TOKEN", viewer(&up, token.trim())).output().unwrap();
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(6), "a viewer gets what is cached only: {said}");
}

fn viewer(up: &Up, admin: &str) -> String {
    let made = up
        .command(&["token", "create", "eye", "--role", "viewer", "--json"])
        .env("JOBHALL_TOKEN", admin)
        .output();
    let made: serde_json::Value = serde_json::from_slice(&made.unwrap().stdout).unwrap();
    made["token"].as_str().or(made["secret"].as_str()).unwrap().to_owned()
}

/// A user without a server, in a directory with a file of commands; the first one waits until the file `go` is there.
struct Alone(tempfile::TempDir);

impl Alone {
    fn new() -> Alone {
        let folder = tempfile::tempdir().unwrap();
        let file = "[commands.numbers]\nrun = [\"sh\", \"numbers.sh\"]\n\n[commands.sum]\nrun = [\"sh\", \"sum.sh\"]\n";
        let numbers = "echo numbers >> ran\nuntil [ -e go ]; do sleep 0.05; done\nseq 3\n";
        for (name, text) in [
            (".jobhall.toml", file),
            ("numbers.sh", numbers),
            ("sum.sh", "echo sum >> ran\nawk '{s += $1} END {print s}'\n"),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        Alone(folder)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = jobhall();
        command.arg("--data").arg(self.0.path().join("data")).args(words).current_dir(self.0.path());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn go(&self) {
        fs::write(self.0.path().join("go"), "").unwrap();
    }

    fn ran(&self) -> Vec<String> {
        let text = fs::read_to_string(self.0.path().join("ran")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

#[test]
fn without_a_server_a_query_uses_the_data_of_the_user_which_a_later_one_finds() {
    let alone = Alone::new();
    alone.go();
    let first = alone.command(&["query", "numbers | sum"]).output().unwrap();
    let said = text(&first.stderr);
    assert_eq!((first.status.code(), text(&first.stdout).as_str()), (Some(0), "6\n"), "{said}");
    assert!(said.contains("no server of yours is running") && said.contains(".jobhall.toml"), "{said}");
    let again = alone.command(&["query", "numbers | sum", "--json"]).output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(document["value"], "6\n");
    let caches: Vec<_> = document["steps"].as_array().unwrap().iter().map(|step| &step["cache"]).collect();
    assert_eq!(caches, ["hit", "hit"]);
    let listed = alone.command(&["query", "commands", "--json"]).output().unwrap();
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 2);
    let unknown = alone.command(&["query", "numbres | sum"]).output().unwrap();
    let said = text(&unknown.stderr);
    assert_eq!(unknown.status.code(), Some(2), "{said}");
    assert!(said.contains("numbers"), "{said}");
    assert_eq!(alone.ran(), ["numbers", "sum"]);
    let left = alone.0.path().join("data/server.json");
    assert!(!left.exists(), "nothing says that a server runs");
}

#[test]
fn two_queries_without_a_server_share_the_one_of_the_first() {
    let alone = Alone::new();
    let first = alone.command(&["query", "numbers | sum"]).spawn().unwrap();
    eventually("the first step", || alone.ran() == ["numbers"]);
    let second = alone.command(&["query", "numbers | sum", "--no-wait", "--json"]).output().unwrap();
    let promise: serde_json::Value = serde_json::from_slice(&second.stdout).unwrap();
    let caches: Vec<_> = promise["steps"].as_array().unwrap().iter().map(|step| &step["cache"]).collect();
    assert_eq!(caches, ["joined", "joined"], "{}", text(&second.stderr));
    alone.go();
    let output = first.wait_with_output().unwrap();
    assert_eq!(text(&output.stdout), "6\n", "{}", text(&output.stderr));
    assert_eq!(alone.ran(), ["numbers", "sum"]);
}

#[test]
fn a_query_goes_on_when_the_server_that_it_shares_ends() {
    let alone = Alone::new();
    let mut first = alone.command(&["query", "numbers | sum"]).spawn().unwrap();
    eventually("the first step", || alone.ran() == ["numbers"]);
    let second = alone.command(&["query", "numbers | sum", "-v"]).spawn().unwrap();
    let record = || fs::read_to_string(alone.0.path().join("data/server.json")).unwrap_or_default();
    let of = |child: &Child| format!("\"pid\":{}", child.id());
    assert!(record().contains(&of(&first)));
    first.kill().unwrap();
    first.wait().unwrap();
    // Whether the second has asked the first or not, it starts a server of its own now.
    eventually("the server of the second", || record().contains(&of(&second)));
    alone.go();
    let output = second.wait_with_output().unwrap();
    assert_eq!(text(&output.stdout), "6\n", "{}", text(&output.stderr));
}
