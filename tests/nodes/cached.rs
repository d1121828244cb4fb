//! Values of queries on PostgreSQL, and over a change of leader.

use jobhall_tests::{eventually, text};
use serde_json::Value;

use crate::crowd::Crowd;

const COMMANDS: &str = r#"
[commands.numbers]
run = ["sh", "-c", "echo numbers >> ran; seq \"$1\"", "numbers", "{count}"]
args = [{ name = "count", type = "int" }]

[commands.last]
run = ["sh", "-c", "echo last >> ran; tail -n 1"]
"#;

fn ran(crowd: &Crowd) -> usize {
    std::fs::read_to_string(crowd.file("ran")).unwrap_or_default().lines().count()
}

fn value(crowd: &Crowd, at: usize, query: &str) -> String {
    text(&crowd.run(at, &["query", query]).stdout)
}

fn stats(crowd: &Crowd, at: usize) -> Value {
    crowd.json(at, &["cache", "stats"])
}

#[test]
fn q18_values_are_cached_on_postgresql_and_a_new_leader_finds_them_again() {
    let mut crowd = Crowd::of(2, &[]);
    let config = crowd.file("worker.toml");
    std::fs::write(&config, COMMANDS).unwrap();
    let _worker = crowd.worker("w", &crowd.urls(), &["--config", config.to_str().unwrap()]);
    eventually("the declarations", || {
        crowd.json(0, &["query", "commands"]).as_array().is_some_and(|all| all.len() == 2)
    });
    for at in [0, 1, 0] {
        assert_eq!(value(&crowd, at, "numbers-3/last"), "3\n", "node {at}");
    }
    assert_eq!(value(&crowd, 1, "numbers-4"), "1\n2\n3\n4\n");
    assert_eq!(ran(&crowd), 3);
    eventually("all values", || stats(&crowd, 1)["values"] == 3);
    // Through the node that does not lead.
    let holder = crowd.holder(0).unwrap();
    let other = 1 - holder;
    crowd.run(other, &["cache", "pin", "numbers-3"]);
    let dropped = crowd.json(other, &["cache", "drop", "--command", "numbers", "--yes"]);
    assert_eq!((&dropped["values"], &dropped["kept"]), (&Value::from(2), &Value::from(1)));
    assert_eq!(value(&crowd, other, "numbers-3/last"), "3\n");
    assert_eq!(ran(&crowd), 4, "its input was kept");

    crowd.nodes[holder].hall().kill();
    eventually("another holder", || crowd.holder(other) == Some(other));
    eventually("the index", || stats(&crowd, other)["values"] == 2);
    let figures = stats(&crowd, other);
    assert_eq!((&figures["pins"], &figures["bytes"]), (&Value::from(1), &Value::from(8)));
    assert_eq!(value(&crowd, other, "numbers-3/last"), "3\n");
    assert_eq!(ran(&crowd), 4, "nothing is computed again");
}
