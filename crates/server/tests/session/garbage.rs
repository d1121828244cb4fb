//! Invalid messages: the server closes the session with code and reason, and nothing changes.

use jobhall_protocol::{Encoding, FRAME_BYTES, FRAME_MESSAGES};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use crate::server::TestServer;
use crate::socket::Socket;
use crate::worker::{TestWorker, until_none_connected};

const HELLO: &str = r#"[{"hello":{"version":1}}]"#;

fn packed(json: &str) -> Message {
    let value: serde_json::Value = serde_json::from_str(json).unwrap();
    Message::binary(rmp_serde::to_vec(&value).unwrap())
}

/// A session in this encoding after the welcome.
async fn welcomed(hall: &TestServer, encoding: Encoding) -> Socket {
    let mut socket = Socket::speaking(hall, encoding.subprotocol()).await;
    match encoding {
        Encoding::Json => socket.text(HELLO).await,
        Encoding::MessagePack => socket.send(packed(HELLO)).await,
    }
    socket
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_ends_the_session_with_a_reason_and_changes_nothing() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let lease = "0".repeat(32);
    let text = |text: &str| Message::text(text.to_owned());
    let deep = format!(
        r#"[{{"outcome":{{"attempt":"1-1","lease":"{lease}","report":{}"#,
        r#"{"error":"#.repeat(50_000)
    );
    let many = format!("[{}]", vec![r#"{"renew":{}}"#; FRAME_MESSAGES + 1].join(","));
    let json = [
        (text("hello"), 1007, "expected value"),
        (text(""), 1007, "EOF"),
        (text("{}"), 1007, "sequence"),
        (text(r#"[{"bow":{}}]"#), 1007, "bow"),
        (text(r#"[{"credit":{"total":1,"queue":"x"}}]"#), 1007, "queue"),
        (text(r#"[{"credit":{"total":"many"}}]"#), 1007, "many"),
        (text(r#"[{"progress":{"attempt":"one","lease":"2"}}]"#), 1007, "one"),
        (text(r#"[{"note":{"attempt":"1-1"}}]"#), 1007, "note"),
        (text(r#"[{"wait":{"attempt":"1-1"},"progress":{"attempt":"1-1"}}]"#), 1007, "not a list"),
        (text(&deep), 1007, "not a list"),
        (text(&many), 1009, "4097 messages"),
        (text(&" ".repeat(FRAME_BYTES + 1)), 1009, "1048577 bytes"),
        (Message::binary(b"[]".to_vec()), 1003, "kind of frame"),
        (Message::Frame(Frame::message(vec![0xff, 0xfe], OpCode::Data(Data::Text), true)), 1007, "UTF-8"),
    ];
    for (message, code, word) in json {
        let mut socket = welcomed(&hall, Encoding::Json).await;
        socket.send(message).await;
        let (got, reason) = socket.closed().await;
        assert!(got == code && reason.contains(word), "{got} {reason} instead of {code} {word}");
    }
    let pack = [
        (Message::text("[]"), 1003, "kind of frame"),
        (Message::binary(Vec::new()), 1007, "not a list"),
        (Message::binary(vec![0xc1]), 1007, "not a list"),
        (Message::binary(vec![0x91; 900_000]), 1007, "not a list"),
        (Message::binary(vec![0xdd, 0xff, 0xff, 0xff, 0xff]), 1007, "not a list"),
        (Message::binary(vec![0x91, 0x81, 0xa5, b'r', b'e', b'n']), 1007, "not a list"),
        (packed(r#"[{"credit":{"total":1,"queue":"x"}}]"#), 1007, "queue"),
        (Message::binary(vec![0; FRAME_BYTES + 1]), 1009, "1048577 bytes"),
    ];
    for (message, code, word) in pack {
        let mut socket = welcomed(&hall, Encoding::MessagePack).await;
        socket.send(message).await;
        let (got, reason) = socket.closed().await;
        assert!(got == code && reason.contains(word), "{got} {reason} instead of {code} {word}");
    }
    assert_eq!(hall.state(id).await, "queued", "nothing was assigned");
    let mut worker = TestWorker::ready(&hall, 1).await;
    assert_eq!(worker.job().await.job.id, id, "and the server still works");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_frame_that_is_wrong_in_one_place_nothing_is_done() {
    let hall = TestServer::start().await;
    let mut socket = welcomed(&hall, Encoding::Json).await;
    socket.hear().await;
    socket.text(r#"[{"credit":{"total":5}},{"bow":{}}]"#).await;
    assert_eq!(socket.closed().await.0, 1007);
    let id = hall.submit(r#"{"type":"a"}"#).await;
    assert_eq!(hall.state(id).await, "queued");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_far_too_long_is_not_even_read() {
    let hall = TestServer::start().await;
    let mut socket = welcomed(&hall, Encoding::MessagePack).await;
    socket.send(Message::binary(vec![0x91; 8 * FRAME_BYTES])).await;
    assert!(socket.until_cut().await);
    until_none_connected(&hall).await;
}
