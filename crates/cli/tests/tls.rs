//! The shipped binary with TLS: a hall, its worker, and clients who believe it or do not.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

struct Up {
    child: Child,
    port: u16,
    folder: tempfile::TempDir,
}

fn jobhall() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jobhall"));
    for name in ["JOBHALL_SERVER", "JOBHALL_TOKEN", "JOBHALL_DATA", "JOBHALL_TOKEN_FILE", "JOBHALL_CA"] {
        command.env_remove(name);
    }
    command.env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

fn authority(path: &Path) -> Issuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    std::fs::write(path, params.self_signed(&key).unwrap().pem()).unwrap();
    Issuer::new(params, key)
}

/// A certificate for `localhost` alone, with its key and its authority.
fn certify(folder: &Path) -> (PathBuf, PathBuf) {
    let authority = authority(&folder.join("ca.pem"));
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let (cert_file, key_file) = (folder.join("hall.crt"), folder.join("hall.key"));
    std::fs::write(&cert_file, params.signed_by(&key, &authority).unwrap().pem()).unwrap();
    std::fs::write(&key_file, key.serialize_pem()).unwrap();
    std::fs::set_permissions(&key_file, std::fs::Permissions::from_mode(0o600)).unwrap();
    (cert_file, key_file)
}

impl Up {
    fn start() -> Up {
        let folder = tempfile::tempdir().unwrap();
        let (cert, key) = certify(folder.path());
        let mut child = jobhall()
            .args(["up", "--listen", "0.0.0.0:0", "--slots", "1", "--data"])
            .arg(folder.path().join("data"))
            .arg("--tls-cert")
            .arg(cert)
            .env("JOBHALL_TLS_KEY", key)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().strip_prefix("jobhall is up: https://127.0.0.1:").expect("the link");
        let port = port.split(['/', '?']).next().unwrap().parse().unwrap();
        Up { port, child, folder }
    }

    fn run(&self, host: &str, ca: &str, words: &[&str]) -> Output {
        let mut command = jobhall();
        command.args(words).env("JOBHALL_SERVER", format!("https://{host}:{}", self.port));
        command.env("JOBHALL_DATA", self.folder.path().join("data")).arg("--ca");
        command.arg(self.folder.path().join(ca)).output().unwrap()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_raw(self.child.id().cast_signed()).unwrap();
        for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
            let _ = rustix::process::kill_process(pid, signal);
        }
        let _ = self.child.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_hall_with_tls_works_with_its_worker_and_with_those_who_believe_it() {
    let up = Up::start();
    let submit = ["job", "submit", "exec", "--wait", "--params", r#"{"argv":["true"]}"#];
    let output = up.run("localhost", "ca.pem", &submit);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let named = up.run("127.0.0.1", "ca.pem", &["workers"]);
    assert_eq!(named.status.code(), Some(3));
    assert!(text(&named.stderr).contains("another name"), "{}", text(&named.stderr));
    authority(&up.folder.path().join("other.pem"));
    let unknown = up.run("localhost", "other.pem", &["workers"]);
    assert_eq!(unknown.status.code(), Some(3));
    let said = text(&unknown.stderr);
    assert!(said.contains("is not trusted") && said.contains("--ca FILE"), "{said}");
}

#[test]
fn other_machines_are_served_only_with_tls_or_on_the_users_word() {
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = certify(folder.path());
    let server = |words: &[&str]| {
        let mut command = jobhall();
        command.args(["server", "--data"]).arg(folder.path().join("data"));
        command.args(words).output().unwrap()
    };
    let refused = server(&["--listen", "0.0.0.0:0"]);
    assert_eq!(refused.status.code(), Some(2));
    let said = text(&refused.stderr);
    assert!(said.contains("--tls-cert FILE") && said.contains("--insecure"), "{said}");
    let half = server(&["--tls-cert", cert.to_str().unwrap()]);
    assert!(text(&half.stderr).contains("needs its key"), "{}", text(&half.stderr));
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let open = server(&["--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()]);
    assert_eq!(open.status.code(), Some(2));
    assert!(text(&open.stderr).contains("mode 600"), "{}", text(&open.stderr));
    assert!(!folder.path().join("data").exists(), "nothing is made before it is clear that it can be served");
}
