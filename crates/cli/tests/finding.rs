//! How commands find the servers of their user, and which of them get the local token.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod up;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use up::{end, jobhall, text};

/// A user with a home directory, and the servers of that user.
struct User {
    home: tempfile::TempDir,
    servers: Vec<Child>,
}

impl User {
    fn new() -> User {
        let home = tempfile::tempdir().unwrap();
        for below in ["run", "work"] {
            std::fs::create_dir(home.path().join(below)).unwrap();
        }
        User { home, servers: Vec::new() }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.home.path().join(below)
    }

    /// A command that names no server, in a directory without a configuration file.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = jobhall();
        command.args(words).env("HOME", self.home.path()).env("XDG_RUNTIME_DIR", self.path("run"));
        for name in ["XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"] {
            command.env_remove(name);
        }
        command.env("TMPDIR", self.home.path()).current_dir(self.path("work"));
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Starts a server; returns its URL.
    fn start(&mut self, words: &[&str]) -> String {
        self.start_command(self.command(&[words, &["--listen", "127.0.0.1:0"]].concat()))
    }

    fn start_command(&mut self, mut command: Command) -> String {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        self.servers.push(child);
        line.trim().strip_prefix("jobhall is up: ").expect("the link").to_owned()
    }

    /// The records in the runtime directory.
    fn records(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path("run/jobhall")).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.servers.iter_mut().for_each(end);
    }
}

fn default_data(user: &User) -> PathBuf {
    user.path(".local/share/jobhall")
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_one_running_server_is_found_and_its_records_end_with_it() {
    let mut user = User::new();
    let data = user.path("elsewhere").to_str().unwrap().to_owned();
    let url = user.start(&["server", "--data", &data]);
    let output = user.run(&["job", "list"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&user.run(&["config", "show", "--origin"]).stdout);
    assert!(shown.contains(&url) && shown.contains(&format!("server running on {data}")), "{shown}");
    let records = user.records();
    assert_eq!((records.len(), mode(&records[0]), mode(&user.path("run/jobhall"))), (1, 0o600, 0o700));
    let beside = Path::new(&data).join("server.json");
    let record: serde_json::Value = serde_json::from_slice(&std::fs::read(&beside).unwrap()).unwrap();
    assert_eq!((record["url"].as_str(), record["data"].as_str()), (Some(url.as_str()), Some(data.as_str())));
    assert_eq!(record["pid"], user.servers[0].id());
    end(&mut user.servers[0]);
    assert!(user.records().is_empty() && !beside.exists());
}

#[test]
fn a_running_server_with_tls_is_found_and_trusted_by_its_record() {
    let mut user = User::new();
    let made = rcgen::generate_simple_self_signed(vec!["hall.example".to_owned()]).unwrap();
    let (cert, key) = (user.path("hall.crt"), user.path("hall.key"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let files = ["--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let url = user.start(&[&["server"], &files[..]].concat());
    assert!(url.starts_with("https://"), "{url}");
    let found = user.run(&["job", "list"]);
    assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
    let named = user.run(&["job", "list", "--server", &url]);
    assert_eq!(named.status.code(), Some(3), "an address that is named is trusted by its authority only");
}

#[test]
fn of_several_servers_one_must_be_named() {
    let mut user = User::new();
    let (a, b) = (user.path("a"), user.path("b"));
    let first = user.start(&["server", "--data", a.to_str().unwrap()]);
    // This one has no runtime directory, so that its record is in the state directory.
    let mut command = user.command(&["server", "--data", b.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
    command.env_remove("XDG_RUNTIME_DIR");
    let second = user.start_command(command);
    assert_eq!(user.records().len(), 1);
    for words in [&["job", "list"][..], &["run", "--", "true"], &["worker", "--allow", "exec"]] {
        let output = user.run(words);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        for named in [&first, &second, a.to_str().unwrap(), b.to_str().unwrap(), "--server URL"] {
            assert!(said.contains(named), "{named}: {said}");
        }
    }
    let submit = |by: &[&str]| {
        let words = ["job", "submit", "exec", "--params", r#"{"argv":["true"]}"#, "--needs", "gpu>=1"];
        assert_eq!(user.run(&[&words[..], by].concat()).status.code(), Some(0), "{by:?}");
        let count = |data: &Path| {
            let list = user.run(&["job", "list", "--json", "--data", data.to_str().unwrap()]);
            let list: serde_json::Value = serde_json::from_slice(&list.stdout).unwrap();
            list.as_array().unwrap().len()
        };
        (count(&a), count(&b))
    };
    assert_eq!(submit(&["--data", a.to_str().unwrap()]), (1, 0));
    assert_eq!(submit(&["--server", &second]), (1, 1), "with the token in its data directory");
    assert_eq!(
        submit(&["--server", &second, "--data", a.to_str().unwrap()]),
        (1, 2),
        "--server counts first"
    );
    let missing = user.run(&["job", "list", "--data", user.path("c").to_str().unwrap()]);
    assert_eq!(missing.status.code(), Some(3), "{}", text(&missing.stderr));
}

#[test]
fn the_record_of_a_killed_server_is_ignored_and_removed() {
    let mut user = User::new();
    user.start(&["server"]);
    user.servers[0].kill().unwrap();
    user.servers[0].wait().unwrap();
    let beside = default_data(&user).join("server.json");
    assert!(user.records().len() == 1 && beside.exists(), "it had no time to remove them");
    let text_of = std::fs::read_to_string(&beside).unwrap();
    let output = user.run(&["run", "--", "true"]);
    assert!(text(&output.stderr).contains("on an embedded one"), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(0));
    assert!(user.records().is_empty(), "removed");
    // The pid may belong to another process now, such as this test.
    let pid = format!("\"pid\":{}", user.servers[0].id());
    let reused = text_of.replace(&pid, &format!("\"pid\":{}", std::process::id()));
    assert_ne!(reused, text_of);
    let path = user.path("run/jobhall/server-1.json");
    for path in [&path, &beside] {
        std::fs::write(path, &reused).unwrap();
    }
    let data = default_data(&user);
    let output = user.run(&["job", "list", "--data", data.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(!path.exists() && !beside.exists(), "removed");
}

#[test]
fn run_uses_the_running_server_and_no_embedded_one() {
    let mut user = User::new();
    let data = user.path("elsewhere");
    user.start(&["up", "--slots", "1", "--data", data.to_str().unwrap()]);
    let output = user.run(&["run", "--", "echo", "hello"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(!text(&output.stderr).contains("embedded"), "{}", text(&output.stderr));
    let list = text(&user.run(&["job", "list"]).stdout);
    assert!(list.contains("succeeded"), "{list}");
    let other = user.path("other");
    let output = user.run(&["run", "--data", other.to_str().unwrap(), "--", "true"]);
    assert_eq!(output.status.code(), Some(3), "another one is running: {}", text(&output.stderr));
}

/// A project that was checked out names an address of this machine at which someone else listens.
#[test]
fn audit_l4_a_project_file_does_not_get_the_local_token() {
    let mut user = User::new();
    let url = user.start(&["server"]);
    let secret = std::fs::read_to_string(default_data(&user).join("admin.token")).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let heard = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = Vec::new();
        for line in BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok) {
            if line.is_empty() {
                break;
            }
            lines.push(line);
        }
        stream
            .write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .unwrap();
        lines.join("\n")
    });
    std::fs::write(user.path("work/.jobhall.toml"), format!("[client]\nserver = \"http://{address}\"\n"))
        .unwrap();
    let output = user.run(&["job", "list"]);
    assert_ne!(output.status.code(), Some(0));
    let heard = heard.join().unwrap();
    assert!(heard.starts_with("GET "), "{heard}");
    assert!(!heard.to_lowercase().contains("authorization") && !heard.contains(secret.trim()), "{heard}");
    std::fs::write(user.path("work/.jobhall.toml"), format!("[client]\nserver = \"{url}\"\n")).unwrap();
    let output = user.run(&["job", "list"]);
    assert_eq!(output.status.code(), Some(0), "the user's own server: {}", text(&output.stderr));
}
