//! Host names that the shipped binary accepts.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod up;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use up::{Up, jobhall, text};

/// The status of a response to a request for this host.
fn status(up: &Up, host: &str) -> u16 {
    let (_, address) = up.url.split_once("//").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET /livez HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

fn start(words: &[&str]) -> Up {
    Up::start(tempfile::tempdir().unwrap(), "server", words)
}

#[track_caller]
fn answers(up: &Up, good: &[&str], bad: &[&str]) {
    good.iter().for_each(|host| assert_eq!(status(up, host), 200, "{host:?}"));
    bad.iter().for_each(|host| assert_eq!(status(up, host), 421, "{host:?}"));
}

const OWN: [&str; 3] = ["localhost", "127.0.0.1:7450", "[::1]"];

#[test]
fn a_hall_on_this_machine_answers_to_its_own_names_and_to_those_it_is_given() {
    let plain = start(&["--listen", "127.0.0.1:0"]);
    answers(&plain, &OWN, &["hall.example", "evil.example", ""]);
    assert!(!plain.said().contains("any host"), "{}", plain.said());
    let named = ["--listen", "127.0.0.1:0", "--host", "Hall.example", "--host", "a.example,b.example"];
    let named = start(&named);
    answers(&named, &OWN, &["evil.example", "x.hall.example", "hall.example.evil.example", ""]);
    answers(&named, &["hall.example:443", "HALL.example", "a.example", "b.example:1"], &[]);
}

#[test]
fn a_hall_for_other_machines_says_that_it_answers_to_any_name_until_it_has_one() {
    let others = ["--listen", "0.0.0.0:0", "--insecure"];
    let open = start(&others);
    answers(&open, &["anything.example", "localhost"], &[]);
    assert!(open.said().contains("answers to any host"), "{}", open.said());
    let named = start(&[&others[..], &["--host", "hall.example"]].concat());
    answers(&named, &["hall.example", "localhost"], &["anything.example", "0.0.0.0"]);
    assert!(!named.said().contains("any host"), "{}", named.said());
}

#[test]
fn names_come_from_a_flag_a_variable_or_a_file_of_ones_own() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("jobhall")).unwrap();
    std::fs::write(folder.path().join("jobhall/config.toml"), "hosts = 'filed.example, b.example'").unwrap();
    let show = |variable: &str| {
        let mut command = jobhall();
        command.args(["config", "show", "--origin"]).current_dir(folder.path());
        let output = command.env("XDG_CONFIG_HOME", folder.path()).env("JOBHALL_HOST", variable).output();
        text(&output.unwrap().stdout).lines().find(|line| line.starts_with("hosts")).unwrap().to_owned()
    };
    let filed = show("");
    assert!(filed.contains("filed.example, b.example") && filed.contains("config.toml"), "{filed}");
    let variable = show("variable.example");
    assert!(variable.contains("variable.example") && variable.contains("environment JOBHALL_HOST"));
    let serve = |words: &[&str], file: &str, variable: &str| {
        let project = tempfile::tempdir().unwrap();
        std::fs::write(project.path().join(".jobhall.toml"), format!("[client]\n{file}")).unwrap();
        let mut command = jobhall();
        command.args(["server", "--listen", "127.0.0.1:0", "--data", "data"]).args(words);
        let output = command.current_dir(project.path()).env("JOBHALL_HOST", variable).output().unwrap();
        assert!(!project.path().join("data").exists(), "nothing is created for a server that may not start");
        (output.status.code(), text(&output.stderr))
    };
    for (words, file, variable, told) in [
        (&["--host", "hall:7450"][..], "", "", "remove scheme and port"),
        (&["--host", ""], "", "", "empty"),
        (&[], "", "a.example,*", "JOBHALL_HOST: hosts: the host \"*\""),
        (&[], "hosts = 'a/b'", "", ".jobhall.toml:2: hosts"),
        (&[], "hosts = 7", "", "must be a quoted string"),
        (&[], "hosts = 'evil.example'", "", "are not trusted"),
    ] {
        let (code, said) = serve(words, file, variable);
        assert!(code == Some(2) && said.contains(told), "{told}: {code:?} {said}");
    }
}
