//! A key file outside of the data directory that is replaced while a job runs.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod up;

use std::path::Path;

use up::{Up, eventually, text};

/// Starts a server with this key file and a job that prints all that it can read of these directories, before and after
/// the key is rotated. Returns the output.
fn read_over_a_rotation(folder: tempfile::TempDir, key: &Path, directories: &[&Path]) -> String {
    let words = ["--listen", "127.0.0.1:0", "--slots", "1", "--key-file", key.to_str().unwrap()];
    let hall = Up::start(folder, "up", &words);
    assert!(!hall.said().contains("jobs can read"), "not proven: {}", hall.said());
    let (ready, rotated) = (hall.folder.path().join("ready"), hall.folder.path().join("rotated"));
    let script = r#"
        ready=$1; rotated=$2; shift 2
        find "$@" -type f -exec cat {} +
        touch "$ready"; while ! test -e "$rotated"; do sleep 0.05; done
        find "$@" -type f -exec cat {} +
        echo looked"#;
    let directories = directories.iter().map(|directory| directory.display().to_string());
    let paths = [&ready, &rotated].map(|path| path.display().to_string());
    let argv: Vec<_> =
        ["sh", "-c", script, "sh"].map(str::to_owned).into_iter().chain(paths).chain(directories).collect();
    let params = serde_json::json!({ "argv": argv }).to_string();
    hall.told(&["job", "submit", "exec", "--params", &params]);
    eventually("the job to look once", || ready.exists());
    let before = std::fs::read_to_string(key).unwrap();
    let rotation = hall.run(&["key", "rotate", "--overlap", "1h", "--key-file", key.to_str().unwrap()]);
    assert!(rotation.status.success(), "{}", text(&rotation.stderr));
    assert_ne!(std::fs::read_to_string(key).unwrap(), before);
    std::fs::write(&rotated, "").unwrap();
    hall.told(&["job", "wait", "1"]);
    let said = hall.told(&["job", "log", "1"]);
    assert!(said.ends_with("looked\n"), "{said}");
    said
}

#[test]
fn audit_h2_a_key_in_a_directory_of_its_own_stays_hidden_when_it_is_rotated() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    std::fs::create_dir(&keys).unwrap();
    let seen = read_over_a_rotation(folder, &keys.join("hall.key"), &[&keys]);
    assert_eq!(seen, "looked\n", "nothing of the key is read, before and after");
}

#[test]
fn audit_h2_other_files_beside_a_key_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let shared = folder.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::write(shared.join("certificate"), "for all\n").unwrap();
    let words = ["--listen", "127.0.0.1:0", "--slots", "1", "--key-file"];
    let key = shared.join("hall.key");
    let hall = Up::start(folder, "up", &[&words[..], &[key.to_str().unwrap()]].concat());
    let find =
        ["run", "--quiet", "--", "find", shared.to_str().unwrap(), "-type", "f", "-exec", "cat", "{}", "+"];
    assert_eq!(hall.told(&find), "for all\n", "only the key is hidden");
}
