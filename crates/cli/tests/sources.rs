//! Sources and large values through the program.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod up;

use std::fs;
use std::io::Write as _;
use std::process::{Output, Stdio};

use up::{Up, eventually, text};

/// Every command appends its name to the file `ran`.
const COMMANDS: &str = r#"
[commands.upper]
run = ["sh", "-c", "echo upper >> ran; exec tr a-z A-Z"]
media_type = "text/plain; charset=utf-8"

[commands.count]
run = ["sh", "-c", "echo count >> ran; exec wc -c"]

[commands.both]
run = ["sh", "-c", "echo both >> ran; cat - \"$1\"", "both", "{other}"]
args = [{ name = "other", type = "link" }]

[commands.large]
run = ["sh", "-c", "echo large >> ran; head -c \"$1\" /dev/zero | tr '\\0' x", "large", "{bytes}"]
args = [{ name = "bytes", type = "int" }]

[commands.endless]
run = ["sh", "-c", "truncate -s 1073741825 /dev/stdout && sleep 600"]
"#;

fn start() -> Up {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("worker.toml");
    fs::write(&config, COMMANDS).unwrap();
    let words = ["--config", config.to_str().unwrap(), "--slots", "1", "--listen", "127.0.0.1:0"];
    let up = Up::start(folder, "up", &words);
    eventually("the declarations", || {
        up.json(&["query", "commands", "--json"]).as_array().unwrap().len() == 5
    });
    up
}

/// The commands that ran, in their order.
fn ran(up: &Up) -> Vec<String> {
    let text = fs::read_to_string(up.folder.path().join("ran")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn file(up: &Up, name: &str, bytes: &[u8]) -> String {
    let path = up.folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Runs a command with this standard input.
fn with_input(up: &Up, words: &[&str], input: &[u8]) -> Output {
    let mut command = up.command(words);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

fn puts(up: &Up) -> usize {
    let audit = up.json(&["audit", "--json"]);
    audit.as_array().unwrap().iter().filter(|entry| entry["act"] == "source_put").count()
}

#[test]
fn a_source_is_put_read_listed_and_removed() {
    let up = start();
    let path = file(&up, "sales.csv", b"a,b\n");
    let put = up.json(&["source", "put", "2026/sales.csv", &path, "--json"]);
    assert_eq!((&put["size"], &put["media_type"]), (&4.into(), &"text/csv".into()));
    let said = with_input(&up, &["source", "put", "in", "-", "--media-type", "a/b"], b"from a pipe");
    assert!(said.status.success(), "{}", text(&said.stderr));
    assert_eq!(up.told(&["source", "get", "in"]), "from a pipe");
    let copy = up.folder.path().join("copy.csv");
    up.told(&["source", "get", "2026/sales.csv", "-o", copy.to_str().unwrap()]);
    assert_eq!(fs::read(&copy).unwrap(), b"a,b\n");
    let listed = up.told(&["source", "list"]);
    assert!(listed.contains("2026/sales.csv") && listed.contains("a/b"), "{listed}");
    assert!(!up.told(&["source", "list", "2026/"]).contains("from"), "only the prefix");
    up.told(&["source", "remove", "in", "2026/sales.csv"]);
    assert_eq!(up.json(&["source", "list", "--json"]), serde_json::json!([]));
    for (words, code, why) in [
        (vec!["source", "get", "in"], 5, "fix: list the sources with"),
        (vec!["source", "remove", "in"], 5, "there is no source"),
        (vec!["source", "put", "a//b", &path], 2, "has no empty names"),
        (vec!["source", "put", &path, "sales.csv"], 2, "has no empty names"),
        (vec!["source", "put", "x", "/nowhere"], 2, "failed to read /nowhere"),
        (vec!["source", "put", "x", "/dev/null"], 2, "it is not a plain file"),
        (vec!["source", "put", "blake3/x", &path], 2, "is the digest of its data"),
    ] {
        let output = up.run(&words);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains(why), "{words:?}: {said}");
    }
    let mut swapped = up.command(&["source", "put", "sales.csv", "2026/sales.csv"]);
    let swapped = swapped.current_dir(up.folder.path()).output().unwrap();
    let said = text(&swapped.stderr);
    assert!(said.contains("the key comes before the file"), "{said}");
}

#[test]
fn other_data_is_another_value_and_a_revert_runs_nothing() {
    let up = start();
    let path = file(&up, "numbers", b"one");
    let put = || up.told(&["source", "put", "k", &path]);
    let ask = || up.told(&["query", "source:k | upper | count"]).trim().to_owned();
    put();
    assert_eq!(up.told(&["query", "-R/k/-"]), "one", "without a command it is the data");
    assert_eq!(ask(), "3");
    assert_eq!(ran(&up), ["upper", "count"]);
    file(&up, "numbers", b"three");
    put();
    assert_eq!(ask(), "5");
    file(&up, "numbers", b"one");
    put();
    assert_eq!((ask().as_str(), ran(&up).len()), ("3", 4), "a revert runs nothing");
    assert_eq!(up.told(&["query", "-R/k/-/upper/both-~X~/-R/k/-~E"]), "ONEone", "as an argument too");
    let wrong = up.run(&["query", "source:kk | upper"]);
    let said = text(&wrong.stderr);
    assert_eq!(wrong.status.code(), Some(2), "{said}");
    assert!(said.contains("did you mean \"k\"?"), "{said}");
}

#[test]
fn a_local_file_is_sent_once_and_standard_input_is_data_too() {
    let up = start();
    let path = file(&up, "local.txt", b"local\n");
    let query = format!("@{path} | upper");
    for _ in 0..2 {
        let output = up.run(&["query", &query]);
        assert_eq!(text(&output.stdout), "LOCAL\n", "{}", text(&output.stderr));
        let name = blake3::hash(b"local\n").to_hex();
        assert!(text(&output.stderr).contains(&format!("-R/blake3/{name}/-/upper\n")));
    }
    assert_eq!((puts(&up), ran(&up).len()), (1, 1), "sent once, run once");
    let same = with_input(&up, &["query", "- | upper"], b"local\n");
    assert_eq!((text(&same.stdout).as_str(), puts(&up)), ("LOCAL\n", 1), "the same data");
    let other = with_input(&up, &["query", "- | upper"], b"");
    assert_eq!((text(&other.stdout).as_str(), puts(&up)), ("", 2), "no data is data");
    let url = up.told(&["query", &query, "--url"]);
    assert!(url.contains("/q/-R/blake3/"), "{url}");
    file(&up, "local.txt", b"changed\n");
    assert_eq!(up.told(&["query", &query]), "CHANGED\n");
    let missing = up.run(&["query", "@/nowhere | upper"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("failed to read /nowhere"));
}

#[test]
fn a_value_above_the_row_is_an_artifact_and_goes_on_as_input() {
    let up = start();
    assert_eq!(up.run(&["query", "large-65536"]).stdout, [b'x'; 65_536], "the last that fits");
    for bytes in [65_537_usize, 20_000_000] {
        let query = format!("large-{bytes}");
        for _ in 0..2 {
            let output = up.run(&["query", &query]);
            assert!(output.status.success(), "{}", text(&output.stderr));
            assert_eq!(output.stdout.len(), bytes);
        }
        assert_eq!(up.told(&["query", &format!("large-{bytes}/count")]).trim(), bytes.to_string());
    }
    assert_eq!(ran(&up), ["large", "large", "count", "large", "count"]);
    let path = up.folder.path().join("out");
    up.told(&["query", "large-20000000", "-o", path.to_str().unwrap()]);
    assert_eq!(fs::metadata(&path).unwrap().len(), 20_000_000);
}

#[test]
fn a_value_above_the_limit_stops_its_step() {
    let up = start();
    let output = up.run(&["query", "endless"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(100), "{said}");
    assert!(said.contains("value_too_large: the value has 1073741825 bytes so far"), "{said}");
    assert!(said.contains("write it elsewhere"), "{said}");
}
