use super::*;

fn through<T>(encoded: &[u8], decode: impl Fn(&[u8]) -> Result<T, Malformed>) -> T {
    let mut frames = Frames::default();
    // Byte by byte, the worst split of a stream.
    for (index, byte) in encoded.iter().enumerate() {
        frames.space().push(*byte);
        match frames.next().expect("a valid frame") {
            Some(frame) if index + 1 == encoded.len() => return decode(frame).expect("a valid frame"),
            Some(_) => panic!("a frame before its end"),
            None => {}
        }
    }
    panic!("no frame");
}

fn ended(status: Status) -> Ended {
    Ended {
        duration: Duration::from_micros(5),
        processor: Duration::from_micros(6),
        output_bytes: 1,
        dropped_bytes: 2,
        survivors_killed: 3,
        survivors_left: 4,
        ..Ended::bare(status)
    }
}

fn reports() -> Vec<Report> {
    let text = || "text".to_owned();
    let statuses = [
        Status::Exit(-1),
        Status::Signal(9),
        Status::NotFound { program: text(), searched: text() },
        Status::NotExecutable { program: text(), reason: text() },
        Status::NoDirectory { directory: text(), reason: text() },
        Status::TooBig { bytes: u64::MAX },
        Status::NotStarted { reason: text() },
        Status::Stuck,
        Status::LeaderLost,
        Status::NoFile { file: text(), reason: text() },
    ];
    let chunks = [Stream::Stdout, Stream::Stderr, Stream::Notice]
        .map(|stream| Report::Output(Chunk { at_ms: 7, stream, bytes: vec![0, 255, 10] }));
    let others = [Report::Started { pid: u32::MAX }, Report::Dropping, Report::Flushed];
    statuses.map(|status| Report::Ended(ended(status))).into_iter().chain(chunks).chain(others).collect()
}

#[test]
fn every_report_arrives_as_it_was_sent() {
    for report in reports() {
        let mut bytes = Vec::new();
        report.encode(&mut bytes);
        assert_eq!(through(&bytes, Report::decode), report);
    }
}

#[test]
fn a_command_arrives_as_it_was_sent() {
    let odd = OsString::from_vec(vec![b'a', 255, b'\n']);
    let command = Command::new([OsString::from("run"), odd.clone()])
        .environment(Environment::empty())
        .env("ODD", odd)
        .directory("/somewhere")
        .stdin(vec![0, 1, 2])
        .output_limit(9)
        .leftover_grace(Duration::from_millis(3));
    let mut bytes = Vec::new();
    Order::encode_run(&mut bytes, 3, &command);
    let Order::Run { run: 3, command: arrived } = through(&bytes, Order::decode) else {
        panic!("another order")
    };
    assert_eq!(format!("{arrived:?}"), format!("{command:?}"));
}

#[test]
fn ground_12_files_and_flushes_arrive_as_they_were_sent() {
    for command in [Command::new(["run"]), Command::new(["run"]).stdin_file("in").stdout_file("/out")] {
        let mut bytes = Vec::new();
        Order::encode_run(&mut bytes, 3, &command);
        let Order::Run { command: arrived, .. } = through(&bytes, Order::decode) else { panic!("a run") };
        assert_eq!((arrived.stdin, arrived.stdout), (command.stdin, command.stdout));
    }
    let mut bytes = Vec::new();
    Order::encode_flush(&mut bytes, 9);
    assert!(matches!(through(&bytes, Order::decode), Order::Flush { run: 9 }));
}

#[test]
fn a_stop_arrives_as_it_was_sent() {
    let grace = Duration::from_millis(1_500);
    let mut bytes = Vec::new();
    Order::encode_stop(&mut bytes, 9, grace);
    let Order::Stop { run, grace: arrived } = through(&bytes, Order::decode) else { panic!("another order") };
    assert_eq!((run, arrived), (9, grace));
}

#[test]
fn every_cut_and_every_addition_is_malformed() {
    for report in reports() {
        let mut bytes = Vec::new();
        report.encode(&mut bytes);
        for length in 4..bytes.len() {
            assert_eq!(Report::decode(&bytes[4..length]), Err(Malformed), "{report:?} cut at {length}");
        }
        bytes.push(0);
        assert_eq!(Report::decode(&bytes[4..]), Err(Malformed));
    }
}

#[test]
fn a_frame_past_the_limit_is_malformed_before_it_is_stored() {
    let mut frames = Frames::default();
    frames.space().extend_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(frames.next(), Err(Malformed));
}
