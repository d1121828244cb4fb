//! The output of a command: exact, in order, bounded.

use std::time::Duration;

use jobhall_worker::{Command, Status, Stream};
use rustix::process::Signal;

use crate::rig::{
    Marker, children, eventually, hear, is_stopped, pair, run, said, send, slots, start, status_kib, text,
};

#[tokio::test]
async fn every_byte_arrives_as_it_was_written() {
    let all: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let (chunks, _) = run(Command::script("cat; printf '\\000\\377\\n' >&2").stdin(all.clone())).await;
    assert!(said(&chunks, Stream::Stdout) == all);
    assert_eq!(said(&chunks, Stream::Stderr), [0, 255, b'\n']);
    assert!(chunks.iter().all(|chunk| !chunk.bytes.is_empty() && chunk.bytes.len() <= 64 << 10));
}

#[tokio::test]
async fn streams_are_interleaved_in_the_order_of_arrival_with_times() {
    let directory = tempfile::tempdir().expect("a directory");
    let wait = |name: &str| format!("until [ -e {name} ]; do sleep 0.01; done");
    let script = format!("echo a; {}; echo b >&2; {}; echo c", wait("a"), wait("b"));
    let mut running = start(Command::script(&script).directory(directory.path())).await;
    let mut heard = Vec::new();
    while let Some(chunk) = running.next().await {
        let word = String::from_utf8(chunk.bytes).expect("text").trim().to_owned();
        std::fs::write(directory.path().join(&word), "").expect("write");
        heard.push((chunk.at_ms, chunk.stream, word));
    }
    let order: Vec<_> = heard.iter().map(|(_, stream, word)| (*stream, word.as_str())).collect();
    assert_eq!(order, [(Stream::Stdout, "a"), (Stream::Stderr, "b"), (Stream::Stdout, "c")]);
    assert!(heard.is_sorted_by_key(|(at_ms, _, _)| *at_ms));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    assert!(now.as_millis().abs_diff(u128::from(heard[0].0)) < 120_000, "the time of day");
}

#[tokio::test]
async fn a_line_written_piecewise_and_many_short_ones_arrive() {
    let count = 50_000;
    let script = format!("i=0; while [ $i -lt {count} ]; do echo line $i; i=$((i+1)); done");
    let (chunks, ended) = run(Command::script(&script)).await;
    let expected: String = (0..count).map(|number| format!("line {number}\n")).collect();
    assert!(text(&chunks) == expected);
    assert_eq!(ended.output_bytes, expected.len() as u64);
    let long = "x".repeat(10 << 20);
    let (chunks, _) = run(Command::new(["head", "-c", &long.len().to_string(), "/dev/zero"])).await;
    assert_eq!(said(&chunks, Stream::Stdout).len(), long.len(), "a line of 10 MiB");
}

#[tokio::test]
async fn past_the_limit_output_is_counted_and_the_command_runs_on() {
    let script = "head -c 100000 /dev/zero; head -c 100000 /dev/zero >&2; exit 7";
    let (chunks, ended) = run(Command::script(script).output_limit(150_000)).await;
    assert_eq!(ended.status, Status::Exit(7));
    assert_eq!((ended.output_bytes, ended.dropped_bytes), (150_000, 50_000));
    let kept = said(&chunks, Stream::Stdout).len() + said(&chunks, Stream::Stderr).len();
    assert_eq!(kept, 150_000);
    let notices = chunks.iter().filter(|chunk| chunk.stream == Stream::Notice).count();
    assert_eq!(notices, 1);
    let notice = String::from_utf8(said(&chunks, Stream::Notice)).expect("text");
    assert_eq!(notice, "\n[output limit of 150000 bytes reached; the rest is dropped]\n");
    let (chunks, ended) = run(Command::new(["echo", "abc"]).output_limit(0)).await;
    assert_eq!((chunks.len(), ended.output_bytes, ended.dropped_bytes), (1, 0, 4));
    let (chunks, ended) = run(Command::new(["echo", "abc"]).output_limit(4)).await;
    assert_eq!((chunks.len(), ended.dropped_bytes), (1, 0), "exactly the limit is allowed");
}

/// A gigabyte, with and without the limit; measures the peak memory of the supervisor and the growth of this process.
#[tokio::test]
async fn a_gigabyte_does_not_grow_memory() {
    let all = 1_000_000_003;
    for (limit, kept) in [(64 << 20, 64 << 20), (u64::MAX, all)] {
        let script = "echo up; head -c 1000000000 /dev/zero; sleep 600";
        let mut running = start(Command::script(script).output_limit(limit)).await;
        let mut heard = hear(&mut running, "up", 1).await as u64;
        let before = status_kib("self", "VmRSS");
        while heard < kept {
            heard += running.next().await.expect("all of it").bytes.len() as u64;
        }
        let growth = status_kib("self", "VmRSS").saturating_sub(before);
        let script = i32::try_from(running.pid().expect("started")).expect("a pid");
        let sleeps = || children(script).iter().any(|pid| command_of(*pid).starts_with("sleep"));
        eventually("the gigabyte was written", sleeps).await;
        let (supervisor, _) = pair(&running);
        let peak = status_kib(&supervisor.to_string(), "VmHWM");
        assert!(peak < 32 << 10, "the supervisor used {peak} KiB");
        assert!(growth < 64 << 10, "the worker grew by {growth} KiB");
        running.stop(Duration::ZERO).await;
        let ended = running.wait().await;
        assert_eq!((ended.output_bytes, ended.dropped_bytes), (kept, all - kept));
    }
}

fn command_of(pid: i32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

#[tokio::test]
async fn one_who_does_not_listen_holds_the_command_up_and_loses_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let total = 16 << 20;
    let script = format!("echo up; head -c {total} /dev/zero; touch written");
    let mut running = start(Command::script(&script).directory(directory.path())).await;
    let mut heard = hear(&mut running, "up", 1).await;
    let slots = slots(1);
    for _ in 0..100 {
        // Time in which a command that is not blocked would have ended.
        slots.acquire().await.run(Command::new(["true"])).await.expect("a slot").wait().await;
    }
    while let Some(chunk) = running.next().await {
        if heard < total - (4 << 20) {
            assert!(!directory.path().join("written").exists(), "written after {heard} bytes were read");
        }
        heard += chunk.bytes.len();
    }
    assert_eq!(heard, total + 3);
    assert!(directory.path().join("written").exists());
    assert_eq!(running.wait().await.output_bytes, total as u64 + 3);
}

#[tokio::test]
async fn a_command_that_nobody_listens_to_can_be_stopped() {
    let marker = Marker::new();
    let running = start(marker.mark(Command::script("trap '' TERM; cat /dev/zero"))).await;
    eventually("it runs", || !marker.is_gone()).await;
    running.stop(Duration::from_millis(50)).await;
    eventually("it has ended although nothing was read", || marker.is_gone()).await;
    assert_eq!(running.wait().await.status, Status::Signal(9));
}

#[tokio::test]
async fn silence_is_broken_by_output_also_past_the_limit() {
    let mut running =
        start(Command::script("echo up; kill -STOP $$; echo again; exit 0").output_limit(3)).await;
    let begin = running.last_output();
    hear(&mut running, "up", 1).await;
    let first = running.last_output();
    assert!(first > begin);
    let script = i32::try_from(running.pid().expect("started")).expect("a pid");
    eventually("it stopped itself", || is_stopped(script)).await;
    assert!(running.silence() <= first.elapsed());
    send(script, Signal::CONT);
    while running.next().await.is_some() {}
    assert!(running.last_output() > first, "dropped output counts");
}

#[tokio::test]
async fn output_that_is_dropped_breaks_silence_again_and_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let script = "until [ -e go ]; do echo dropped; sleep 0.1; done";
    let command = Command::script(script).output_limit(0).directory(directory.path());
    let mut running = start(command).await;
    assert_eq!(running.next().await.expect("the notice").stream, Stream::Notice);
    let first = running.last_output();
    for _ in 0..2 {
        let before = running.last_output();
        let look = Duration::from_millis(20);
        let heard = async {
            while running.last_output() == before {
                // No chunk arrives; the future is dropped with the data it had read.
                assert!(tokio::time::timeout(look, running.next()).await.is_err());
            }
        };
        tokio::time::timeout(Duration::from_secs(60), heard).await.expect("a notification in time");
    }
    assert!(running.last_output() > first);
    std::fs::write(directory.path().join("go"), "").expect("write");
    let ended = running.wait().await;
    assert_eq!((ended.status, ended.output_bytes), (Status::Exit(0), 0));
}
