//! Invalid frames of a session: the server closes with code and reason, or refuses the message, and nothing changes.

use jobhall_protocol::{Encoding, FRAME_BYTES, FRAME_MESSAGES};
use jobhall_tests::eventually;

use super::guarded::Guarded;
use super::socket::{BINARY, CLOSE, CONTINUED, FINAL, PING, Socket, TEXT, bare, frame, head};

/// A text in MessagePack, of up to 31 bytes.
fn packed(text: &str) -> Vec<u8> {
    [&[0xa0 | u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
}

/// Each of these ends an open session with a reason.
#[track_caller]
fn each_is_told(hall: &Guarded, encoding: Encoding, cases: Vec<(&str, Vec<u8>, u16, &str)>) {
    for (name, bytes, code, word) in cases {
        let mut socket = Socket::welcomed(hall, &hall.token(), encoding);
        let (got, reason) = socket.say(bytes).closed();
        assert!(got == code && reason.contains(word), "{name}: {got} {reason:?}, not {code} {word:?}");
    }
}

/// The server is unchanged, and has no session left.
#[track_caller]
fn nobody_is_left(hall: &Guarded) {
    eventually("the end of all sessions", || hall.get("/api/v1/workers").body.contains(r#""items":[]"#));
    hall.is_unharmed();
}

#[test]
fn messages_in_json_that_are_none_end_the_session_with_a_reason() {
    let hall = Guarded::server();
    let text = |text: &str| frame(FINAL | TEXT, text.as_bytes());
    let deep = format!(r#"[{{"outcome":{}"#, r#"{"report":"#.repeat(50_000));
    let many = format!("[{}]", vec![r#"{"renew":{}}"#; FRAME_MESSAGES + 1].join(","));
    let cases = vec![
        ("no JSON", text("bow"), 1007, "expected value"),
        ("half of it", text(r#"[{"renew":"#), 1007, "EOF"),
        ("no list", text(r#"{"renew":{}}"#), 1007, "sequence"),
        ("an unknown kind", text(r#"[{"bow":{}}]"#), 1007, "bow"),
        ("an unknown field", text(r#"[{"credit":{"total":1,"queue":"q"}}]"#), 1007, "queue"),
        ("a wrong type", text(r#"[{"credit":{"total":"many"}}]"#), 1007, "many"),
        ("a number that is none", text(r#"[{"credit":{"total":1.5}}]"#), 1007, "1.5"),
        ("an attempt that is none", text(r#"[{"accept":{"attempt":"x","lease":"y"}}]"#), 1007, "17-1"),
        ("one wrong of two", text(r#"[{"credit":{"total":9}},{"bow":{}}]"#), 1007, "bow"),
        ("far too deep", text(&deep), 1007, "not a list"),
        ("too many", text(&many), 1009, "4097 messages"),
        ("too long", text(&" ".repeat(FRAME_BYTES + 1)), 1009, "1048577 bytes"),
        ("no UTF-8", frame(FINAL | TEXT, b"[\"\xff\xfe\"]"), 1007, "UTF-8"),
        ("MessagePack", frame(FINAL | BINARY, &[0x90]), 1003, "jobhall.v1.json"),
        ("hello twice", text(r#"[{"hello":{"version":1}}]"#), 1002, "hello must be sent once"),
    ];
    each_is_told(&hall, Encoding::Json, cases);
    nobody_is_left(&hall);
}

#[test]
fn messages_in_messagepack_that_are_none_end_the_session_with_a_reason() {
    let hall = Guarded::server();
    let binary = |parts: &[&[u8]]| frame(FINAL | BINARY, &parts.concat());
    let vacancies = [&[0x91, 0x81][..], &packed("credit"), &[0x81], &packed("total")].concat();
    let whole = [&vacancies[..], &[7]].concat();
    let mut cases = vec![
        ("JSON", frame(FINAL | TEXT, b"[]"), 1003, "jobhall.v1.msgpack"),
        ("nothing", binary(&[]), 1007, "not a list"),
        ("a byte that means nothing", binary(&[&[0xc1]]), 1007, "not a list"),
        ("a depth bomb", binary(&[&[0x91; 900_000]]), 1007, "not a list"),
        ("a list of all numbers", binary(&[&[0xdd, 0xff, 0xff, 0xff, 0xff]]), 1007, "not a list"),
        ("bytes without end", binary(&[&[0x91, 0xc6, 0xff, 0xff, 0xff, 0xff]]), 1007, "not a list"),
        ("an unknown kind", binary(&[&[0x91, 0x81], &packed("bow"), &[0x80]]), 1007, "bow"),
        ("a wrong type", binary(&[&vacancies, &packed("many")]), 1007, "FixStr(4)"),
        ("no number at all", binary(&[&vacancies, &[0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0]]), 1007, "float"),
        ("more than one list", binary(&[&whole, &[0x90]]), 1007, "bytes after its end"),
        ("too long", binary(&[&vec![0; FRAME_BYTES + 1]]), 1009, "1048577 bytes"),
    ];
    // A truncated frame is invalid at any length.
    cases.extend((1..whole.len()).map(|cut| ("cut", binary(&[&whole[..cut]]), 1007, "not a list")));
    each_is_told(&hall, Encoding::MessagePack, cases);
    nobody_is_left(&hall);
}

#[test]
fn frames_that_break_the_rules_of_sockets_end_the_session_with_a_reason() {
    let hall = Guarded::server();
    let ping = br#"[{"ping":{"n":1}}]"#;
    let piece = vec![b' '; FRAME_BYTES];
    let without_end: Vec<u8> =
        [frame(TEXT, &piece), frame(CONTINUED, &piece), frame(CONTINUED, b" ")].concat();
    let cases = vec![
        ("not masked", bare(FINAL | TEXT, ping), 1002, "mask"),
        ("a bit that is kept free", frame(FINAL | 0x40 | TEXT, ping), 1002, "eserved"),
        ("a kind that is kept free", frame(FINAL | 0x3, ping), 1002, "3"),
        ("a control that is kept free", frame(FINAL | 0xb, b""), 1002, "11"),
        ("a part of nothing", frame(FINAL | CONTINUED, ping), 1002, "ontinu"),
        ("one inside another", [frame(TEXT, b"["), frame(FINAL | TEXT, ping)].concat(), 1002, "fragment"),
        ("a ping in parts", frame(PING, b""), 1002, "ragment"),
        ("a ping too long", frame(FINAL | PING, &[0; 126]), 1002, "ontrol"),
        ("parts without end, too long", without_end, 1009, "1048576"),
    ];
    each_is_told(&hall, Encoding::Json, cases);
    // A far too long frame is not read: the server closes the connection, and pending messages are lost.
    for length in [64 << 20, 1 << 40, u64::MAX] {
        let mut socket = Socket::welcomed(&hall, &hall.token(), Encoding::MessagePack);
        socket.say(head(FINAL | BINARY, length)).say([0x91; 4_096]).is_cut();
    }
    // A close without a reason is answered too, and a different mask gives different bytes.
    Socket::welcomed(&hall, &hall.token(), Encoding::Json).say(frame(FINAL | CLOSE, &[3])).is_cut();
    let mut other = frame(FINAL | TEXT, ping);
    other[2] ^= 0xff;
    let (code, _) = Socket::welcomed(&hall, &hall.token(), Encoding::Json).say(other).closed();
    assert_eq!(code, 1007);
    nobody_is_left(&hall);
}

#[test]
fn whoever_begins_and_does_not_go_on_is_sent_away() {
    let hall = Guarded::with(&["--lease", "3s"]);
    let open = || Socket::open(&hall, &hall.token(), Encoding::Json);
    let welcomed = || Socket::welcomed(&hall, &hall.token(), Encoding::Json);
    let mut silent = open();
    let mut half = open();
    half.say(frame(TEXT, br#"[{"hello":{"#));
    let mut part = welcomed();
    part.say(frame(TEXT, br#"[{"renew":"#));
    let mut cut = welcomed();
    cut.say(&frame(FINAL | TEXT, br#"[{"renew":{}}]"#)[..9]);
    let mut rude = open();
    rude.say(frame(FINAL | TEXT, br#"[{"renew":{}}]"#));
    assert_eq!(rude.closed(), (1002, "the first message must be hello".to_owned()));
    let mut old = open();
    old.say(frame(FINAL | TEXT, br#"[{"hello":{"version":9}}]"#));
    assert_eq!(old.hear("refused")["code"], "bad_request");
    assert_eq!(old.closed().0, 1008);
    for mut begun in [silent.closed(), half.closed()] {
        assert_eq!((begun.0, begun.1.split_off(3)), (1008, "hello was received in time".to_owned()));
    }
    for ended in [part.closed(), cut.closed()] {
        assert_eq!(ended, (1008, "the session was not renewed in time".to_owned()));
    }
    // A client that disconnects in the middle of a message.
    welcomed().say(frame(TEXT, br#"[{"credit":{"total":9}"#));
    nobody_is_left(&hall);
}

/// If a frame is valid and a message in it is not, that message is refused and the session continues.
#[test]
fn words_that_make_no_sense_are_refused_by_name() {
    let hall = Guarded::server();
    let mut socket = Socket::welcomed(&hall, &hall.token(), Encoding::Json);
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let passed = |more: &str| format!(r#""report":{{"outcome":"succeeded",{more}}}"#);
    let cases = [
        ("outcome", passed(&format!(r#""value":{}"#, deep(100))), "64"),
        ("outcome", passed(&format!(r#""value":{}"#, deep(100_000))), "64"),
        ("outcome", passed(&format!(r#""value":"{}""#, "v".repeat(300_000))), "262144"),
        ("outcome", passed(r#""error":{"reason":"r","explanation":""}"#), "error"),
        ("progress", format!(r#""indicators":[{{"name":"{}","step":1}}]"#, "n".repeat(2_000)), "name"),
    ];
    for (word, more, told) in cases {
        let held = format!(r#""attempt":"1-1","lease":"{}""#, "0".repeat(32));
        let message = format!(r#"[{{"{word}":{{{held},{more}}}}}]"#);
        let refused = socket.say(frame(FINAL | TEXT, message.as_bytes())).hear("refused");
        assert_eq!((&refused["to"], &refused["code"]), (&word.into(), &"bad_request".into()), "{refused}");
        assert!(refused["detail"].as_str().unwrap().contains(told), "{told}: {refused}");
    }
    drop(socket);
    nobody_is_left(&hall);
}
