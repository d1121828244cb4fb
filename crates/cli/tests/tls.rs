//! The shipped binary with TLS: a server, its worker, and clients that trust it or do not.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod up;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use up::{Up, jobhall, text};

fn authority(path: &Path) -> Issuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    std::fs::write(path, params.self_signed(&key).unwrap().pem()).unwrap();
    Issuer::new(params, key)
}

/// A certificate for `localhost` only, with its key and its authority.
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

/// A command that connects to the server by this name and trusts this file.
fn ask(up: &Up, host: &str, ca: &str, words: &[&str]) -> Output {
    let port = up.url.strip_prefix("https://127.0.0.1:").expect("this machine's own address");
    let mut command = up.command(words);
    command.env("JOBHALL_SERVER", format!("https://{host}:{port}")).arg("--ca");
    // The local token is sent only to the address that the server wrote beside it, which has no name.
    command.env("JOBHALL_TOKEN_FILE", up.data().join("admin.token"));
    command.arg(up.folder.path().join(ca)).output().unwrap()
}

#[test]
fn a_hall_with_tls_works_with_its_worker_and_with_those_who_believe_it() {
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = certify(folder.path());
    let files = ["--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let up =
        Up::start(folder, "up", &[&["--listen", "0.0.0.0:0", "--exec", "--slots", "1"], &files[..]].concat());
    let submit = ["job", "submit", "exec", "--wait", "--params", r#"{"argv":["true"]}"#];
    let output = ask(&up, "localhost", "ca.pem", &submit);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let program = env!("CARGO_BIN_EXE_jobhall");
    let script = format!(r#"{{"script":"test -n \"$JOBHALL_PIN\"; {program} progress 1/2"}}"#);
    let inside = ask(&up, "localhost", "ca.pem", &["job", "submit", "exec", "--wait", "--params", &script]);
    assert_eq!(inside.status.code(), Some(0), "a job can reach its server: {}", text(&inside.stderr));
    let found = up.command(&["worker", "list"]).env_remove("JOBHALL_SERVER").output().unwrap();
    assert_eq!(found.status.code(), Some(0), "by its data directory: {}", text(&found.stderr));
    let named = ask(&up, "127.0.0.1", "ca.pem", &["worker", "list"]);
    assert_eq!(named.status.code(), Some(3));
    assert!(text(&named.stderr).contains("another name"), "{}", text(&named.stderr));
    authority(&up.folder.path().join("other.pem"));
    let unknown = ask(&up, "localhost", "other.pem", &["worker", "list"]);
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
    assert!(!folder.path().join("data").exists(), "nothing is created before the checks");
}

#[test]
fn a_relative_path_of_an_authority_is_good_in_jobs_too() {
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = certify(folder.path());
    let files = ["--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let up = Up::start(folder, "server", &[&["--listen", "0.0.0.0:0"], &files[..]].concat());
    let program = env!("CARGO_BIN_EXE_jobhall");
    // The job runs in a directory of its own.
    let script = format!("test ! -e ca.pem && {program} progress 1/2");
    let params = serde_json::json!({ "script": script }).to_string();
    let submit = ["job", "submit", "exec", "--max-attempts", "1", "--params", &params];
    assert_eq!(ask(&up, "localhost", "ca.pem", &submit).status.code(), Some(0));
    let mut worker =
        up.command(&["worker", "--name", "w", "--slots", "1", "--allow", "exec", "--once", "--ca", "ca.pem"]);
    worker.env("JOBHALL_SERVER", up.url.replace("127.0.0.1", "localhost"));
    worker.env("JOBHALL_TOKEN_FILE", up.data().join("admin.token")).current_dir(up.folder.path());
    let output = worker.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = ask(&up, "localhost", "ca.pem", &["job", "show", "1", "--json"]);
    let job: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(job["state"], "succeeded", "{job}");
    assert_eq!(job["attempts"][0]["progress"][0]["step"], 1, "the job reached its server: {job}");
}
