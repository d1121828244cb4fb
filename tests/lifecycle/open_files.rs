//! A server uses all the open files that the system allows; its jobs keep the limit with which it was started.

use std::process::Command;

use jobhall_tests::{Rig, binary, eventually, text};

/// The soft and the hard limit of open files of a process.
fn limits(pid: u32) -> (String, String) {
    let all = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = all.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let mut words = line.split_whitespace().map(str::to_owned);
    (words.next().unwrap(), words.next().unwrap())
}

#[test]
fn audit_m3_a_server_raises_its_limit_of_open_files_and_its_jobs_keep_theirs() {
    let mut rig = Rig::new();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -Sn 256; exec \"$0\" \"$@\""]).arg(binary());
    command.args(["up", "--slots", "1", "--listen", &rig.address().to_string(), "--data"]).arg(rig.data());
    rig.start_command(command);
    let (soft, hard) = limits(rig.hall().pid());
    assert!(soft == hard && soft != "256", "{soft} of {hard}");
    let mut limit = String::new();
    eventually("the limit of a job", || {
        let output = rig.run(&["run", "--", "sh", "-c", "ulimit -Sn"]);
        limit = text(&output.stdout);
        output.status.success()
    });
    assert_eq!(limit.trim(), "256");
}
