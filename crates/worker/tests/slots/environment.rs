//! What a command gets besides its arguments: variables, input, descriptors and signals, and nothing else.

use jobhall_protocol::ProcessLimits;
use jobhall_worker::{Command, Environment, INHERITED, Options, Setup, Slots, Status};
use rustix::process::Signal;

use crate::rig::{PROGRAM, run, text};

fn names(listing: &str) -> Vec<&str> {
    listing.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect()
}

#[tokio::test]
async fn a_command_sees_the_list_and_what_it_was_given() {
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "the test has more than the list");
    let (chunks, _) = run(Command::new(["env"]).env("GIVEN", "yes").env("LD_PRELOAD", "")).await;
    for name in names(&text(&chunks)) {
        assert!(INHERITED.contains(&name) || ["GIVEN", "LD_PRELOAD"].contains(&name), "{name} leaked");
    }
    assert!(text(&chunks).contains("GIVEN=yes\n"));
    let (chunks, _) = run(Command::new(["env"]).environment(Environment::empty()).env("A", "1")).await;
    assert_eq!(text(&chunks), "A=1\n");
}

#[tokio::test]
async fn the_processes_of_a_slot_hold_no_variable_that_a_command_may_not_see() {
    let look = "cat /proc/$PPID/environ; cat /proc/$(awk '/PPid/ { print $2 }' /proc/$PPID/status)/environ";
    let (chunks, ended) = run(Command::script(look)).await;
    assert_eq!(ended.status, Status::Exit(0));
    let variables = text(&chunks).replace('\0', "\n");
    assert!(names(&variables).len() >= 2, "both environments were read");
    assert!(names(&variables).iter().all(|name| INHERITED.contains(name)), "{variables}");
}

#[tokio::test]
async fn input_is_delivered_and_ends() {
    let bytes: Vec<u8> = (0..1_000_003_u32).map(|number| number.to_le_bytes()[0] ^ 0x5a).collect();
    let (chunks, ended) = run(Command::new(["cat"]).stdin(bytes.clone())).await;
    assert_eq!(ended.status, Status::Exit(0));
    let heard: Vec<u8> = chunks.into_iter().flat_map(|chunk| chunk.bytes).collect();
    assert!(heard == bytes, "{} bytes of {}", heard.len(), bytes.len());
    let (chunks, ended) = run(Command::new(["cat"])).await;
    assert_eq!((chunks.len(), ended.status), (0, Status::Exit(0)), "no input is an empty input");
    let (_, ended) = run(Command::new(["true"]).stdin(vec![b'x'; 1 << 20])).await;
    assert_eq!(ended.status, Status::Exit(0), "unread input does not block the command");
}

#[tokio::test]
async fn a_command_runs_in_its_directory() {
    let (chunks, _) = run(Command::new(["pwd"]).directory("/usr")).await;
    assert_eq!(text(&chunks), "/usr\n");
}

/// A set of signals as `/proc` shows it for the reading process.
async fn signals(set: &str) -> u64 {
    let (chunks, _) = run(Command::new(["grep", set, "/proc/self/status"])).await;
    let text = text(&chunks);
    u64::from_str_radix(text.trim().rsplit('\t').next().expect("a field"), 16).expect("a set")
}

#[tokio::test]
async fn a_command_hears_every_signal_that_slots_and_runtimes_play_with() {
    assert_eq!(signals("SigBlk").await, 0);
    let heard = [Signal::HUP, Signal::INT, Signal::PIPE, Signal::TERM, Signal::CHILD];
    let ignored = signals("SigIgn").await;
    for signal in heard {
        assert_eq!(ignored >> (signal.as_raw() - 1) & 1, 0, "{signal:?} is ignored");
    }
}

#[tokio::test]
async fn a_command_has_its_own_group_in_a_session_without_terminal() {
    // Process, parent, group, session and terminal, as the reading process has them.
    let (chunks, _) = run(Command::new(["cut", "-d ", "-f1,4-7", "/proc/self/stat"])).await;
    let text = text(&chunks);
    let fields: Vec<i32> = text.split_whitespace().map(|field| field.parse().expect("a number")).collect();
    let [process, supervisor, group, session, terminal] = fields[..] else { panic!("{fields:?}") };
    assert_eq!((group, terminal), (process, 0));
    assert!(session != process && session != supervisor, "the session is the monitor's");
}

/// This process holds a pipe that its children inherit, as a worker's parent may have left one.
#[tokio::test]
async fn a_command_has_three_descriptors() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    rustix::io::fcntl_setfd(&reader, rustix::io::FdFlags::empty()).expect("inherited");
    rustix::io::fcntl_setfd(&writer, rustix::io::FdFlags::empty()).expect("inherited");
    let (chunks, _) = run(Command::new(["ls", "/proc/self/fd"])).await;
    assert_eq!(text(&chunks), "0\n1\n2\n3\n", "and the directory that ls reads");
}

#[tokio::test]
async fn privileges_cannot_be_gained_where_that_is_asked_for() {
    for (no_new_privileges, expected) in [(false, "NoNewPrivs:\t0\n"), (true, "NoNewPrivs:\t1\n")] {
        let setup = Setup { no_new_privileges, ..Setup::default() };
        let options = Options { setup, program: PROGRAM.into(), ..Options::default() };
        let command = Command::new(["grep", "NoNewPrivs", "/proc/self/status"]);
        let mut running = Slots::new(options).acquire().await.run(command).await.expect("a slot");
        let said = running.next().await.expect("a line").bytes;
        assert_eq!(String::from_utf8_lossy(&said), expected);
        assert_eq!(running.wait().await.status, Status::Exit(0));
    }
}

#[tokio::test]
async fn audit_m10_a_command_has_the_limits_of_its_slot() {
    let own = "ulimit -c; ulimit -n; ulimit -v";
    let limits =
        ProcessLimits { open_files: Some(100), memory_bytes: Some(1 << 30), ..ProcessLimits::default() };
    for (limits, expected) in [(limits, "0\n100\n1048576\n"), (ProcessLimits::default(), "0\n")] {
        let setup = Setup { limits, ..Setup::default() };
        let slots = Slots::new(Options { setup, program: PROGRAM.into(), ..Options::default() });
        let mut running = slots.acquire().await.run(Command::script(own)).await.expect("a slot");
        let mut said = String::new();
        while let Some(chunk) = running.next().await {
            said.push_str(&String::from_utf8(chunk.bytes).expect("text"));
        }
        assert!(said.starts_with(expected), "{said}");
    }
}
