//! How commands end, and how commands fail to start.

use std::time::Duration;

use jobhall_worker::{Command, Environment, Refused, RunError, Status};

use crate::rig::{run, script_file, slots, start, status, text};

#[tokio::test]
async fn a_command_runs_and_ends() {
    let (chunks, ended) = run(Command::new(["echo", "a b", "$HOME;`id`"])).await;
    assert_eq!(text(&chunks), "a b $HOME;`id`\n", "no shell interprets it");
    assert_eq!(ended.status, Status::Exit(0));
    assert_eq!((ended.output_bytes, ended.dropped_bytes), (15, 0));
    assert_eq!((ended.survivors_killed, ended.survivors_left), (0, 0));
    assert!(ended.duration > Duration::ZERO);
}

#[tokio::test]
async fn exit_codes_and_signals_are_told() {
    for code in [0, 1, 75, 255] {
        assert_eq!(status(Command::script(&format!("exit {code}"))).await, Status::Exit(code));
    }
    for signal in [9, 11, 13, 15] {
        assert_eq!(status(Command::script(&format!("kill -{signal} $$"))).await, Status::Signal(signal));
    }
}

#[tokio::test]
async fn a_script_ends_at_its_first_failure() {
    let (chunks, ended) = run(Command::script("echo one; false; echo two")).await;
    assert_eq!((text(&chunks).as_str(), ended.status), ("one\n", Status::Exit(1)));
    assert_ne!(status(Command::script("echo $not_set")).await, Status::Exit(0));
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named_with_where_it_was_sought() {
    let missing = Command::new(["no-such-program"]).env("PATH", "/bin:/nowhere");
    let expected =
        Status::NotFound { program: "no-such-program".to_owned(), searched: "/bin:/nowhere".to_owned() };
    assert_eq!(expected.to_string(), "no program \"no-such-program\" in /bin:/nowhere");
    assert_eq!(status(missing).await, expected);
    let relative = Command::new(["./gone"]).directory("/tmp");
    assert_eq!(
        status(relative).await,
        Status::NotFound { program: "./gone".to_owned(), searched: "/tmp".to_owned() }
    );
}

#[tokio::test]
async fn programs_are_found_in_the_path_of_the_command() {
    let directory = tempfile::tempdir().expect("a directory");
    script_file(directory.path(), "tool", "#!/bin/sh\necho found $0\n", 0o755);
    let (chunks, _) = run(Command::new(["tool"]).env("PATH", directory.path())).await;
    assert!(text(&chunks).starts_with("found "));
    let (chunks, _) = run(Command::new(["./tool"]).directory(directory.path())).await;
    assert!(text(&chunks).starts_with("found "));
}

#[tokio::test]
async fn a_file_that_cannot_be_run_is_named_with_the_reason() {
    let directory = tempfile::tempdir().expect("a directory");
    let files = [
        ("plain", "#!/bin/sh\n", 0o644, "permission denied"),
        ("bare", "echo no first line\n", 0o755, "neither a program of this machine nor a script with #!"),
        ("orphan", "#!/no/such/interpreter\n", 0o755, "its interpreter does not exist"),
    ];
    for (name, content, mode, reason) in files {
        let path = script_file(directory.path(), name, content, mode);
        let program = path.to_string_lossy().into_owned();
        let expected = Status::NotExecutable { program, reason: reason.to_owned() };
        assert_eq!(status(Command::new([path])).await, expected);
    }
    let found = status(Command::new([directory.path()])).await;
    assert!(matches!(found, Status::NotExecutable { reason, .. } if reason == "not a file"));
}

#[tokio::test]
async fn a_directory_that_is_not_there_is_named() {
    let found = status(Command::new(["true"]).directory("/no/such/place")).await;
    let Status::NoDirectory { directory, reason } = found else { panic!("{found}") };
    assert_eq!(directory, "/no/such/place");
    assert!(reason.contains("No such file"), "{reason}");
    let found = status(Command::new(["true"]).directory("/bin/sh")).await;
    assert!(matches!(found, Status::NoDirectory { reason, .. } if reason == "not a directory"));
}

#[tokio::test]
async fn what_the_system_does_not_take_is_told_with_its_size() {
    let large = Command::new(["true"]).environment(Environment::empty()).env("LARGE", "x".repeat(4 << 20));
    assert_eq!(status(large).await, Status::TooBig { bytes: 5 + (4 << 20) + 5 + 2 });
}

#[tokio::test]
async fn what_no_process_can_be_started_with_is_refused_at_once() {
    let slot = slots(1).acquire().await;
    let refused = slot.run(Command::new(["a\0b"])).await;
    assert!(matches!(refused, Err(RunError::Refused(Refused::NulByte { .. }))));
}

#[tokio::test]
async fn a_slot_is_good_after_every_kind_of_end() {
    let slots = slots(1);
    let mut supervisors = std::collections::BTreeSet::new();
    for argv in
        [["true", ""], ["no-such-program", ""], ["sh", "-cexit 3"], ["sh", "-ckill -9 $$"], ["true", ""]]
    {
        slots.acquire().await.run(Command::new(argv)).await.expect("a slot").wait().await;
        let running = slots.acquire().await.run(Command::script("echo $PPID")).await.expect("a slot");
        let mut running = running;
        supervisors.insert(running.next().await.expect("a line").bytes);
        assert_eq!(running.wait().await.status, Status::Exit(0));
    }
    assert_eq!(supervisors.len(), 1, "the same supervisor each time");
}

#[tokio::test]
async fn slots_are_as_many_as_were_asked_for() {
    let slots = slots(2);
    let first = slots.try_acquire().expect("one");
    let second = slots.try_acquire().expect("two");
    assert!(slots.try_acquire().is_none());
    drop(second);
    assert!(slots.try_acquire().is_some());
    let ended = first.run(Command::new(["true"])).await.expect("a slot").wait().await;
    assert_eq!(ended.status, Status::Exit(0));
    assert!(slots.try_acquire().is_some(), "free again after the end");
}

#[tokio::test]
async fn processor_time_is_counted() {
    let (_, ended) = run(Command::script("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")).await;
    assert!(ended.processor > Duration::ZERO, "{ended:?}");
    assert!(start(Command::new(["true"])).await.wait().await.processor < Duration::from_secs(1));
}
