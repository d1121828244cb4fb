//! The password of a database is never shown, and the administrator's token is created once.

use jobhall_tests::{Rig, jobhall, text};

use crate::crowd::Crowd;

const URL: &str = "postgres://hall:hunter2@127.0.0.1:1/hall?password=hunter2";

#[test]
fn the_password_of_a_database_is_shown_nowhere() {
    let rig = Rig::new();
    let output = |words: &[&str]| {
        let mut command = jobhall();
        command.args(words).arg("--data").arg(rig.data()).env("JOBHALL_DATABASE", URL);
        let output = command.output().unwrap();
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let (code, shown) = output(&["config", "show", "--origin"]);
    assert_eq!(code, Some(0));
    assert!(shown.contains("postgres://hall:…@127.0.0.1:1/hall?password=…"), "{shown}");
    assert!(shown.contains("JOBHALL_DATABASE"), "{shown}");
    let (failed, said) = output(&["server", "--listen", "127.0.0.1:0", "--log", "trace"]);
    assert_eq!(failed, Some(1), "{said}");
    let (wrong, why) = output(&["server", "--database", "mysql://hall:hunter2@db/hall"]);
    assert_eq!(wrong, Some(2), "{why}");
    for said in [shown, said, why] {
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn the_first_node_writes_the_administrators_token_and_the_next_says_where_it_is() {
    let crowd = Crowd::of(1, &[]);
    let mut other = Rig::new();
    let url = crowd.database.url();
    let advertised = other.url().replace("127.0.0.1", "localhost");
    other.share_key(&crowd.nodes[0]);
    other.start(&["server", "--database", &url, "--advertise", &advertised]);
    assert!(!crowd.nodes[0].said("hall").contains("admin.token"), "it was the first");
    assert!(!other.data().join("admin.token").exists());
    assert!(other.said("hall").contains("admin.token"), "{}", other.said("hall"));
    let mut command = jobhall();
    command.args(["nodes", "--json"]).env("JOBHALL_SERVER", other.url()).env("JOBHALL_TOKEN", &crowd.token);
    let output = command.output().unwrap();
    assert!(output.status.success(), "one token for all nodes");
    assert!(text(&output.stdout).contains(&format!("\"{advertised}\"")), "{}", text(&output.stdout));
}

#[test]
fn a_hall_of_one_node_has_its_jobs_where_it_was_told() {
    let mut rig = Rig::new();
    let path = rig.folder().join("elsewhere.db");
    rig.start(&["server", "--database", &format!("sqlite:{}", path.display())]);
    rig.run(&["job", "submit", "t"]);
    assert!(path.exists() && !rig.data().join("jobs.db").exists());
    let nodes = rig.json(&["nodes", "--json"]);
    assert_eq!(
        (nodes[0]["role"].as_str(), nodes[0]["url"].as_str()),
        (Some("leader"), Some(rig.url().as_str()))
    );
    assert_eq!(rig.run(&["server", "--database", "sqlite:"]).status.code(), Some(2));
}

#[test]
fn a_file_may_say_where_the_database_is() {
    let crowd = Crowd::of(1, &[]);
    let mut rig = Rig::new();
    let (url, direct) = (rig.folder().join("url"), rig.folder().join("direct"));
    for path in [&url, &direct] {
        std::fs::write(path, crowd.database.url() + "\n").unwrap();
    }
    let [url, direct] = [url, direct].map(|path| format!("@{}", path.display()));
    rig.share_key(&crowd.nodes[0]);
    rig.start(&["server", "--database", &url, "--database-direct", &direct, "--database-pooled"]);
    assert!(rig.said("hall").contains("admin.token"), "it is the second: {}", rig.said("hall"));
    let wrong = rig.folder().join("wrong");
    std::fs::write(&wrong, "hunter2").unwrap();
    for (given, complaint) in [(wrong.as_path(), "is neither"), (&rig.folder().join("none"), "No such file")]
    {
        let mut command = jobhall();
        command.args(["up", "--listen", "127.0.0.1:0", "--data"]).arg(rig.folder().join("other"));
        let output = command.env("JOBHALL_DATABASE", format!("@{}", given.display())).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(complaint) && !said.contains("hunter2"), "{said}");
    }
}

#[test]
fn audit_l13_a_database_elsewhere_without_encryption_is_a_warning_with_a_fix() {
    let rig = Rig::new();
    let said = |url: &str| {
        let mut command = jobhall();
        command.args(["server", "--listen", "127.0.0.1:0", "--database", url, "--data"]).arg(rig.data());
        text(&command.output().unwrap().stderr)
    };
    // A name that does not exist: the warning comes before the connection.
    let warned = said("postgres://hall@db.invalid/hall");
    assert!(warned.contains("db.invalid") && warned.contains("sslmode=verify-full"), "{warned}");
    let quiet = said("postgres://hall@db.invalid/hall?sslmode=require");
    assert!(!quiet.contains("unencrypted"), "{quiet}");
}
