//! Standard input and output as files, and flushes.

use std::path::Path;

use jobhall_worker::{Command, Running, Said, Status, Stream};

use crate::rig::{eventually, run, said, start};

fn in_folder(folder: &Path, script: &str) -> Command {
    Command::script(script).directory(folder)
}

#[tokio::test]
async fn ground_12_standard_input_and_output_may_be_files() {
    let folder = tempfile::tempdir().expect("a directory");
    let all: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    std::fs::write(folder.path().join("in"), &all).expect("write");
    std::fs::write(folder.path().join("out"), "old and longer than nothing").expect("write");
    let command = in_folder(folder.path(), "cat; echo told >&2").stdin_file("in").stdout_file("out");
    let (chunks, ended) = run(command.output_limit(5)).await;
    assert_eq!(ended.status, Status::Exit(0));
    assert!(std::fs::read(folder.path().join("out")).expect("read") == all, "byte for byte, and not limited");
    assert_eq!(
        (said(&chunks, Stream::Stdout), said(&chunks, Stream::Stderr)),
        (Vec::new(), b"told\n".to_vec())
    );
    assert_eq!((ended.output_bytes, ended.dropped_bytes), (5, 0));
    let absolute = in_folder(folder.path(), "wc -c").stdin_file(folder.path().join("in"));
    assert_eq!(said(&run(absolute).await.0, Stream::Stdout).trim_ascii(), b"300000");
}

#[tokio::test]
async fn ground_12_a_file_that_cannot_be_opened_is_named_and_nothing_is_started() {
    let folder = tempfile::tempdir().expect("a directory");
    let fifo = folder.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a pipe");
    let script = || in_folder(folder.path(), "touch started");
    for (command, file, reason) in [
        (script().stdin_file("none"), "none", "No such file"),
        (script().stdin_file("."), ".", "not a plain file"),
        (script().stdin_file("fifo"), "fifo", "not a plain file"),
        (script().stdout_file("fifo"), "fifo", "No such device"),
        (script().stdout_file("none/out"), "none/out", "No such file"),
        (script().stdout_file("."), ".", "Is a directory"),
    ] {
        let (chunks, ended) = run(command).await;
        let Status::NoFile { file: named, reason: told } = &ended.status else { panic!("{}", ended.status) };
        assert!(named.ends_with(file) && told.contains(reason), "{named}: {told}");
        assert!(chunks.is_empty());
    }
    assert!(!folder.path().join("started").exists());
}

/// The output of standard output up to the answer to a flush.
async fn flushed(running: &mut Running) -> Vec<u8> {
    running.flush().await;
    let mut bytes = Vec::new();
    loop {
        match running.listen().await.expect("it runs") {
            Said::Output(chunk) => bytes.extend(chunk.bytes),
            Said::Flushed => return bytes,
        }
    }
}

#[tokio::test]
async fn ground_12_a_flush_is_answered_after_all_that_was_written_before_it() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = |name: &str| folder.path().join(name);
    // Nothing is read meanwhile, so all of it is in the pipes when the flush is asked for.
    let script = "for n in 1 2 3; do
        head -c 40000 /dev/zero | tr '\\0' $n; echo $n >&2; touch written$n
        until [ -e go$n ]; do sleep 0.01; done
    done";
    let mut running = start(in_folder(folder.path(), script)).await;
    for n in ["1", "2", "3"] {
        eventually("it is written", || path(&format!("written{n}")).exists()).await;
        let bytes = flushed(&mut running).await;
        let of_this = bytes.iter().filter(|byte| **byte == n.as_bytes()[0]).count();
        assert_eq!((bytes.len(), of_this), (40_002, 40_001));
        assert!(flushed(&mut running).await.is_empty(), "nothing more was written");
        std::fs::write(path(&format!("go{n}")), "").expect("write");
    }
    assert_eq!(running.wait().await.status, Status::Exit(0));
}

#[tokio::test]
async fn ground_12_a_flush_is_answered_while_a_command_writes_without_end_and_needs_no_answer_after_it() {
    let mut running = start(Command::script("exec yes")).await;
    assert!(running.next().await.is_some());
    for _ in 0..3 {
        assert!(flushed(&mut running).await.len() < 16 << 20, "no more than pipes and buffers hold");
    }
    running.stop(std::time::Duration::ZERO).await;
    while running.next().await.is_some() {}
    running.flush().await;
    assert_eq!(running.listen().await, None);
    assert!(matches!(running.wait().await.status, Status::Signal(9 | 15)));
}
