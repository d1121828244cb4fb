//! The frames of a session compared with files, which are the contract for workers in other languages. `UPDATE=1
//! cargo test -p jobhall-protocol --test session` writes the MessagePack files again.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::PathBuf;

use jobhall_protocol::{
    Encoding, FRAME_BYTES, FRAME_MESSAGES, FrameError, FrameWriter, LogStream, ToServer, ToWorker,
    read_frame, read_message, split_frame,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/session").join(name)
}

fn write<M: Serialize>(encoding: Encoding, messages: &[M]) -> Vec<u8> {
    let mut frame = FrameWriter::new(encoding);
    for message in messages {
        assert!(frame.push(message).unwrap());
    }
    frame.take().unwrap()
}

fn hex(bytes: &[u8]) -> String {
    let lines =
        bytes.chunks(32).map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.chars().filter(|digit| !digit.is_whitespace()).collect();
    digits.chunks(2).map(|two| u8::from_str_radix(&two.iter().collect::<String>(), 16).unwrap()).collect()
}

/// The example in JSON is parsed, written back unchanged, and converted to MessagePack and back without a difference.
fn check<M: Serialize + DeserializeOwned>(name: &str, kinds: &[&str]) {
    let json = std::fs::read_to_string(path(&format!("{name}.json"))).unwrap();
    let value: Value = serde_json::from_str(&json).unwrap();
    let found: Vec<_> = value
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message.as_object().unwrap().keys().next().unwrap())
        .collect();
    for kind in kinds {
        assert!(found.iter().any(|found| found == kind), "{name}.json has no example of {kind}");
    }
    let messages: Vec<M> = read_frame(Encoding::Json, json.as_bytes()).unwrap();
    let again: Value = serde_json::from_slice(&write(Encoding::Json, &messages)).unwrap();
    assert_eq!(again, value);
    let packed = write(Encoding::MessagePack, &messages);
    let file = path(&format!("{name}.msgpack.hex"));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, hex(&packed)).unwrap();
    }
    let stored = unhex(&std::fs::read_to_string(&file).unwrap());
    assert_eq!(hex(&packed), hex(&stored), "{}", file.display());
    let unpacked: Vec<M> = read_frame(Encoding::MessagePack, &stored).unwrap();
    let again: Value = serde_json::from_slice(&write(Encoding::Json, &unpacked)).unwrap();
    assert_eq!(again, value, "through MessagePack and back");
}

#[test]
fn the_examples_of_what_workers_say_hold() {
    let kinds = [
        "hello",
        "credit",
        "accept",
        "progress",
        "log",
        "outcome",
        "sub_job",
        "wait",
        "abilities",
        "renew",
        "ping",
        "leave",
    ];
    check::<ToServer>("to_server", &kinds);
}

#[test]
fn the_examples_of_what_the_hall_says_hold() {
    let kinds = [
        "welcome",
        "assign",
        "cancel",
        "revoke",
        "sub_job",
        "resumed",
        "moved",
        "logged",
        "renewed",
        "abilities_set",
        "refused",
        "pong",
        "drain",
    ];
    check::<ToWorker>("to_worker", &kinds);
}

#[test]
fn what_is_not_known_is_named() {
    let lease = "0".repeat(32);
    for (frame, word) in [
        (r#"[{"bow":{}}]"#.to_owned(), "bow"),
        (r#"[{"renew":{"now":true}}]"#.to_owned(), "now"),
        (r#"[{"credit":{}}]"#.to_owned(), "total"),
        (r#"[{"credit":{"total":1.5}}]"#.to_owned(), "1.5"),
        (r#"[{"wait":{"attempt":"1-1"}}]"#.to_owned(), "lease"),
        (format!(r#"[{{"accept":{{"attempt":"x","lease":"{lease}"}}}}]"#), "17-1"),
        (r#"[{"accept":{"attempt":"1-1","lease":"7"}}]"#.to_owned(), "32 hex digits"),
        (
            format!(r#"[{{"log":{{"attempt":"1-1","lease":"{lease}","offset":0,"stream":"stdin"}}}}]"#),
            "stdin",
        ),
        (
            format!(
                r#"[{{"log":{{"attempt":"1-1","lease":"{lease}","offset":0,"stream":"stdout","bytes":"?"}}}}]"#
            ),
            "base64",
        ),
        (r#"{"renew":{}}"#.to_owned(), "sequence"),
        ("[".to_owned(), "EOF"),
        (r#"[{"renew":{}}] x"#.to_owned(), "trailing"),
        ("[".repeat(100_000), "not a list"),
    ] {
        let error = read_frame::<ToServer>(Encoding::Json, frame.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(word), "{error} does not name {word}");
        if let Ok(value) = serde_json::from_str::<Value>(&frame) {
            let packed = rmp_serde::to_vec(&value).unwrap();
            let error = read_frame::<ToServer>(Encoding::MessagePack, &packed).unwrap_err();
            assert!(matches!(error, FrameError::Wrong(_)), "{error}");
        }
    }
    let unknown = rmp_serde::to_vec(&serde_json::json!([{ "renew": { "now": true } }])).unwrap();
    let error = read_frame::<ToServer>(Encoding::MessagePack, &unknown).unwrap_err();
    assert!(error.to_string().contains("now"), "{error}");
}

#[test]
fn spoilt_messagepack_is_refused_and_never_more_than_that() {
    let whole = unhex(&std::fs::read_to_string(path("to_server.msgpack.hex")).unwrap());
    for end in 0..whole.len() {
        assert!(read_frame::<ToServer>(Encoding::MessagePack, &whole[..end]).is_err(), "cut at {end}");
    }
    let more = [whole.as_slice(), &[0xc0]].concat();
    assert!(read_frame::<ToServer>(Encoding::MessagePack, &more).is_err(), "bytes after its end");
    let lists = vec![0x91; 100_000];
    assert!(read_frame::<ToServer>(Encoding::MessagePack, &lists).is_err(), "nested without end");
    let claims = [0xdd, 0xff, 0xff, 0xff, 0xff, 0xc0];
    assert!(read_frame::<ToServer>(Encoding::MessagePack, &claims).is_err(), "a length that is not there");
    for (at, byte) in [(0, 0x00), (0, 0xc6), (5, 0xff), (6, 0xdb)] {
        let mut spoilt = whole.clone();
        spoilt[at] = byte;
        assert!(read_frame::<ToServer>(Encoding::MessagePack, &spoilt).is_err(), "byte {at}");
    }
}

#[test]
fn a_frame_has_its_bounds_on_both_ends() {
    let many = serde_json::to_vec(&vec![ToServer::Renew {}; FRAME_MESSAGES + 1]).unwrap();
    let error = read_frame::<ToServer>(Encoding::Json, &many).unwrap_err();
    assert_eq!(error, FrameError::Messages(FRAME_MESSAGES + 1));
    let error = read_frame::<ToServer>(Encoding::Json, &vec![b' '; FRAME_BYTES + 1]).unwrap_err();
    assert_eq!(error, FrameError::Bytes(FRAME_BYTES + 1));
    for encoding in Encoding::ALL {
        let mut frame = FrameWriter::new(encoding);
        while frame.push(&ToServer::Renew {}).unwrap() {}
        assert_eq!(read_frame::<ToServer>(encoding, &frame.take().unwrap()).unwrap().len(), FRAME_MESSAGES);
        assert!(frame.push(&log(300_000)).unwrap() && frame.push(&log(300_000)).unwrap());
        let third = frame.push(&log(450_000)).unwrap();
        assert!(!third && frame.len() < FRAME_BYTES, "it is left out whole");
        assert_eq!(read_frame::<ToServer>(encoding, &frame.take().unwrap()).unwrap().len(), 2);
        assert!(frame.is_empty() && frame.take().is_none());
        assert!(matches!(frame.push(&log(FRAME_BYTES)), Err(FrameError::Bytes(_))));
        assert!(frame.take().is_none(), "nothing is left of it");
    }
}

fn log(bytes: usize) -> ToServer {
    let attempt = "1-1".parse().unwrap();
    let (lease, offset, stream) = (jobhall_core::LeaseId(7), 0, LogStream::Stdout);
    ToServer::Log { attempt, lease, offset, stream, bytes: vec![7; bytes] }
}

#[test]
fn a_frame_is_split_into_its_messages_whatever_they_are() {
    for count in [0, 1, 15, 16, 70_000] {
        let values: Vec<Value> = (0..count).map(|n| serde_json::json!({"n": [n, {"é": null}]})).collect();
        let read = |encoding, frame: &[u8]| {
            let messages = split_frame(encoding, frame);
            let values = |message: &&[u8]| read_message::<Value>(encoding, message).unwrap();
            messages.map(|messages| messages.iter().map(values).collect::<Vec<_>>())
        };
        let expected =
            if count > FRAME_MESSAGES { Err(FrameError::Messages(count)) } else { Ok(values.clone()) };
        let frames = [serde_json::to_vec(&values).unwrap(), rmp_serde::to_vec(&values).unwrap()];
        if frames[0].len() < FRAME_BYTES {
            assert_eq!(read(Encoding::Json, &frames[0]), expected);
        }
        if frames[1].len() < FRAME_BYTES {
            assert_eq!(read(Encoding::MessagePack, &frames[1]), expected);
        }
    }
    let whole = unhex(&std::fs::read_to_string(path("to_server.msgpack.hex")).unwrap());
    for end in 0..whole.len() {
        assert!(split_frame(Encoding::MessagePack, &whole[..end]).is_err(), "cut at {end}");
    }
    let more = [whole.as_slice(), &[0xc0]].concat();
    let claims = [0xdd, 0xff, 0xff, 0xff, 0xff, 0xc0].to_vec();
    for wrong in [more, vec![0x91; 100_000], claims, vec![0x80], vec![0xdc, 1], vec![0xdd, 0, 0], vec![]] {
        assert!(split_frame(Encoding::MessagePack, &wrong).is_err());
    }
    let long = vec![b' '; FRAME_BYTES + 1];
    for encoding in Encoding::ALL {
        assert_eq!(split_frame(encoding, &long), Err(FrameError::Bytes(FRAME_BYTES + 1)));
    }
}
