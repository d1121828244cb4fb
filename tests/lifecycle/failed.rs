//! A server that can store nothing any more ends with an error, so that its supervisor notices.

use std::process::Command;

use jobhall_tests::{Rig, binary, eventually, text};

/// The largest file that the server may write, in blocks of 512 bytes. The signal of the limit is ignored, so the write
/// fails with EFBIG, for every user.
const BLOCKS: u32 = 4_000;

/// A command that starts a program which cannot write large files.
fn without_large_files() -> Command {
    let script = format!("trap '' XFSZ; ulimit -f {BLOCKS}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.arg("-c").arg(script);
    command
}

/// A command that starts a program of which each thread fails to sync a file after some times. It ends as the program
/// does.
fn without_sync() -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync"]);
    command.args(["-e", "inject=fsync,fdatasync:error=EIO:when=60+"]);
    command
}

/// Starts a server by this command, and submits until it has failed.
fn fails(mut command: Command, kind: &str) {
    let mut rig = Rig::new();
    command.arg(binary()).args([kind, "--listen", &rig.address().to_string(), "--data"]);
    command.arg(rig.data()).env("NO_COLOR", "1");
    rig.start_command(command);
    let params = format!("{{\"text\":\"{}\"}}", "x".repeat(100_000));
    let mut acknowledged = 0;
    eventually("a refused submit", || {
        let submit = ["job", "submit", "none", "--params", params.as_str(), "--json"];
        let submitted = rig.run(&submit).status.success();
        acknowledged += usize::from(submitted);
        !submitted
    });
    let (status, said) = (rig.hall().wait(), rig.said("hall"));
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("the server has stopped because of an error"), "{said}");
    assert!(said.contains("why: ") && said.contains("jobs.db"), "it names the file: {said}");
    rig.start(&["server"]);
    let stats = rig.run(&["job", "list", "--limit", "500", "--json"]);
    let listed: serde_json::Value = serde_json::from_slice(&stats.stdout).unwrap();
    let kept = listed["items"].as_array().or(listed.as_array()).map_or(0, Vec::len);
    assert!(kept >= acknowledged, "{kept} of {acknowledged} acknowledged jobs: {}", text(&stats.stderr));
}

#[test]
fn audit_m8_a_server_whose_disk_fails_ends_with_an_error() {
    fails(without_large_files(), "server");
}

#[test]
fn audit_m8_up_ends_with_an_error_when_its_disk_fails() {
    fails(without_large_files(), "up");
}

#[test]
fn audit_m8_a_server_whose_sync_fails_ends_with_an_error() {
    fails(without_sync(), "server");
}
