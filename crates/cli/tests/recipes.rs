//! Recipes, checks and expiry through the program.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod up;

use std::fs;

use up::{Up, eventually, text};

/// Every command appends its name to the file `ran`.
const FILE: &str = r#"
[commands.upper]
run = ["sh", "-c", "echo upper >> ran; exec tr a-z A-Z"]

[commands.count]
run = ["sh", "-c", "echo count >> ran; exec wc -c"]

[commands.breaks]
run = ["sh", "-c", "echo breaks >> ran; echo no such column >&2; exit 3"]

[commands.table]
run = ["sh", "-c", "echo table >> ran; exec cat table.csv"]
check = ["sh", "-c", "echo checked >> checks; exec cat rows"]
check_every = "100ms"

[commands.moment]
run = ["sh", "-c", "echo moment >> ran; cat ran | wc -l"]
expires = "1s"

[recipes]
"report.csv" = "source:sales.csv | upper"
"deep/sum" = { query = "-R/report.csv/-/count", title = "The sum" }
"#;

fn start() -> Up {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(".jobhall.toml"), FILE).unwrap();
    fs::write(folder.path().join("sales"), "abc\n").unwrap();
    let config = folder.path().join(".jobhall.toml");
    let words = ["--config", config.to_str().unwrap(), "--slots", "2", "--listen", "127.0.0.1:0"];
    let up = Up::start(folder, "up", &words);
    eventually("the declarations", || {
        up.json(&["query", "commands", "--json"]).as_array().unwrap().len() == 5
    });
    let sales = path(&up, "sales");
    up.told(&["source", "put", "sales.csv", &sales]);
    up
}

fn path(up: &Up, name: &str) -> String {
    up.folder.path().join(name).to_str().unwrap().to_owned()
}

fn lines(up: &Up, name: &str) -> Vec<String> {
    let text = fs::read_to_string(up.folder.path().join(name)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Runs `jobhall recipe` with the file of the repository.
fn recipe(up: &Up, words: &[&str]) -> std::process::Output {
    let file = path(up, ".jobhall.toml");
    up.run(&[&["recipe"], words, &["--file", &file]].concat())
}

/// The state of each recipe, with why.
fn states(up: &Up) -> Vec<(String, String, String)> {
    let said = recipe(up, &["status", "--json"]);
    assert!(said.status.success(), "{}", text(&said.stderr));
    let all: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    let word = |one: &serde_json::Value, field: &str| one[field].as_str().unwrap_or_default().to_owned();
    let all = all.as_array().unwrap();
    all.iter().map(|one| (word(one, "key"), word(one, "state"), word(one, "why"))).collect()
}

fn state(up: &Up, key: &str) -> (String, String) {
    let found = states(up).into_iter().find(|(known, _, _)| known == key).unwrap();
    (found.1, found.2)
}

#[test]
fn q23_the_recipes_of_a_repository_are_made_and_their_status_says_why_they_are_stale() {
    let up = start();
    let (now, why) = state(&up, "deep/sum");
    assert_eq!((now.as_str(), why.contains("only in .jobhall.toml")), ("recipe", true), "{why}");
    let said = recipe(&up, &["status", "-q"]);
    assert_eq!((said.status.code(), text(&said.stdout).as_str()), (Some(104), ""));
    let dry = recipe(&up, &["make", "--dry-run"]);
    assert!(text(&dry.stdout).matches("it is sent first").count() == 2, "{}", text(&dry.stderr));
    assert_eq!(up.told(&["recipe", "list", "--file", "/dev/null"]), "", "they are not sent by a dry run");
    let made = recipe(&up, &["make"]);
    assert!(made.status.success(), "{}{}", text(&made.stdout), text(&made.stderr));
    let table = text(&made.stdout);
    assert!(table.contains("deep/sum") && table.matches("ready").count() == 2, "{table}");
    assert_eq!(lines(&up, "ran"), ["upper", "count"], "the step that both need ran once");
    assert_eq!(up.told(&["query", "source:report.csv"]), "ABC\n");
    assert_eq!(up.told(&["query", "source:deep/sum"]).trim(), "4");
    let said = recipe(&up, &["status", "-q"]);
    assert_eq!((said.status.code(), text(&said.stdout).as_str()), (Some(0), ""));
    let again = recipe(&up, &["make"]);
    assert!(again.status.success());
    assert_eq!(lines(&up, "ran").len(), 2, "nothing runs again");
    // Other data.
    fs::write(up.folder.path().join("sales"), "abcd\n").unwrap();
    up.told(&["source", "put", "sales.csv", &path(&up, "sales")]);
    assert_eq!(
        state(&up, "report.csv"),
        ("stale".to_owned(), "the data of sales.csv has changed".to_owned())
    );
    let dry = recipe(&up, &["make", "report.csv", "--dry-run", "--json"]);
    let dry: serde_json::Value = serde_json::from_slice(&dry.stdout).unwrap();
    assert_eq!((&dry[0]["state"], &dry[0]["runs"]), (&"stale".into(), &1.into()), "{dry}");
    assert!(recipe(&up, &["make", "deep/sum"]).status.success());
    assert_eq!(up.told(&["query", "source:deep/sum", "--cached"]).trim(), "5");
    // Another query in the file.
    let other = FILE.replace("| upper\"", "| upper | upper\"");
    fs::write(up.folder.path().join(".jobhall.toml"), other).unwrap();
    let (now, why) = state(&up, "report.csv");
    assert!(now == "stale" && why.starts_with("it has another query in .jobhall.toml"), "{now} {why}");
    // Data of the user comes first, until it is removed.
    up.told(&["source", "put", "report.csv", &path(&up, "sales")]);
    assert_eq!(up.told(&["query", "source:report.csv"]), "abcd\n");
    up.told(&["source", "remove", "report.csv"]);
    assert_eq!(up.told(&["query", "source:report.csv"]), "ABCD\n");
}

#[test]
fn a_recipe_that_fails_is_told_and_the_others_are_made_if_that_is_asked_for() {
    let up = start();
    up.told(&["recipe", "put", "bad", "source:sales.csv | breaks"]);
    up.told(&["recipe", "put", "good", "source:sales.csv | upper"]);
    let said = recipe(&up, &["make", "bad", "good", "--keep-going"]);
    let told = text(&said.stdout);
    assert_eq!(said.status.code(), Some(100), "{told}");
    assert!(told.contains("failed") && told.contains("exit_3") && told.contains("ready"), "{told}");
    let (now, why) = state(&up, "bad");
    assert_eq!((now.as_str(), why.as_str()), ("failed", "exit_3: exit code 3"));
    let unknown = recipe(&up, &["make", "nothing"]);
    assert_eq!(unknown.status.code(), Some(5), "{}", text(&unknown.stderr));
    let local = up.run(&["recipe", "put", "r", "@sales.csv | upper"]);
    assert_eq!(local.status.code(), Some(2));
    assert!(text(&local.stderr).contains("cannot begin with local data"), "{}", text(&local.stderr));
    up.told(&["recipe", "put", "x", "-R/y/-/upper"]);
    up.told(&["recipe", "put", "y", "-R/x/-/upper"]);
    let cycle = up.run(&["query", "source:x | count"]);
    assert_eq!(cycle.status.code(), Some(2));
    assert!(text(&cycle.stderr).contains("x -> y -> x"), "{}", text(&cycle.stderr));
    up.told(&["recipe", "remove", "x", "y"]);
    let list = up.told(&["recipe", "list"]);
    assert!(list.contains("good") && !list.contains("-R/y"), "{list}");
    assert!(up.told(&["recipe", "show", "good"]).contains("-R/sales.csv/-/upper"));
}

#[test]
fn a_change_of_data_that_is_elsewhere_is_found_by_its_check() {
    let up = start();
    let set = |rows: &str, table: &str| {
        fs::write(up.folder.path().join("table.csv"), table).unwrap();
        fs::write(up.folder.path().join("rows"), rows).unwrap();
    };
    set("1", "one");
    assert_eq!(up.told(&["query", "table | upper"]), "ONE");
    let explained = up.told(&["query", "table | upper", "--explain"]);
    assert!(explained.contains("its check answered \"1\""), "{explained}");
    set("2", "two");
    eventually("the other answer", || up.told(&["query", "table | upper"]) == "TWO");
    let steps = lines(&up, "ran").len();
    assert_eq!(steps, 4);
    set("1", "one");
    eventually("the first answer", || up.told(&["query", "table | upper"]) == "ONE");
    assert_eq!(lines(&up, "ran").len(), steps, "the first value was kept");
    fs::remove_file(up.folder.path().join("rows")).unwrap();
    eventually("the failure", || !up.run(&["query", "table | upper"]).status.success());
    let failed = up.run(&["query", "table | upper"]);
    assert_eq!(failed.status.code(), Some(100));
    let said = text(&failed.stderr);
    assert!(said.contains("the check of table (job ") && said.contains("exit_1"), "{said}");
    assert_eq!(lines(&up, "ran").len(), steps, "no step ran");
}

#[test]
fn a_value_of_data_that_changed_while_it_was_read_is_not_kept() {
    let up = start();
    let at = |name: &str| up.folder.path().join(name);
    // The first run of the step changes what its check looks at.
    let once = "exec cat table.csv";
    let table = FILE.replace(once, "test -e changed || echo 2 > rows; echo > changed; exec cat table.csv");
    fs::write(at(".jobhall.toml"), table).unwrap();
    fs::write(at("table.csv"), "one").unwrap();
    fs::write(at("rows"), "1").unwrap();
    let said = up.run(&["query", "table", "--json"]);
    let document: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!((&document["value"], &document["cache"]), (&"one".into(), &"computed".into()));
    assert_eq!(lines(&up, "ran"), ["table", "table"], "the first run has no value");
    let jobs = up.json(&["job", "list", "--all", "--queue", "queries", "--json"]).to_string();
    assert!(jobs.contains("check_changed"), "{jobs}");
}

#[test]
fn q27_a_value_that_has_expired_is_made_again_when_it_is_asked_for() {
    let up = start();
    let first = up.told(&["query", "moment | upper"]);
    eventually("another value", || up.told(&["query", "moment | upper"]) != first);
    let promise = up.json(&["query", "moment", "--no-wait", "--json"])["id"].as_u64().unwrap();
    assert!(promise > 1);
    eventually("the end of the term", || {
        up.told(&["query", "moment", "--explain"]).contains("its value expired")
    });
    assert_eq!(up.run(&["query", "moment", "--cached"]).status.code(), Some(104));
}
