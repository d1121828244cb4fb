use std::fs;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::workspace::Workspaces;

/// Uploads to a listener on which a test acts as the server.
async fn rig() -> (TcpListener, Uploads, Workspace, watch::Sender<Order>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(&format!("http://{}", listener.local_addr().unwrap()), None).unwrap();
    let (orders, order) = watch::channel(Order::Go);
    let (attempt, lease) = ("7-1".to_owned(), "0".repeat(32));
    (
        listener,
        Uploads { client, attempt, lease, order },
        Workspaces::default().take("1-1", None).unwrap(),
        orders,
    )
}

fn ended(status: Status) -> Ended {
    Ended::bare(status)
}

/// Reads a request until its body has begun.
async fn heard(listener: &TcpListener) -> (TcpStream, String) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut bytes = Vec::new();
    while !String::from_utf8_lossy(&bytes).contains("\r\n\r\nbody") {
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "half a request");
    }
    (stream, String::from_utf8(bytes).unwrap())
}

#[tokio::test]
async fn of_a_lost_or_cancelled_attempt_nothing_is_uploaded() {
    for order in [Order::Lost, Order::Cancel] {
        let (listener, uploads, left, orders) = rig().await;
        fs::write(left.output().join("a"), "body").unwrap();
        fs::write(left.result(), "body").unwrap();
        orders.send_replace(order);
        let (value, notes) = uploads.put_all(&ended(Status::Exit(0)), &left).await;
        assert!(value.unwrap().is_none() && notes.is_empty());
        let nobody = tokio::time::timeout(Duration::ZERO, listener.accept()).await;
        assert!(nobody.is_err(), "nothing was sent");
    }
}

#[tokio::test]
async fn an_upload_ends_when_the_lease_is_lost() {
    let (listener, uploads, left, orders) = rig().await;
    fs::write(left.output().join("a"), "body").unwrap();
    let hall = async {
        let (stream, request) = heard(&listener).await;
        assert!(request.starts_with("PUT /api/v1/attempts/7-1/artifacts/a HTTP/1.1\r\n"), "{request}");
        // No response: the upload would wait forever.
        orders.send_replace(Order::Lost);
        stream
    };
    let ended = ended(Status::Exit(0));
    let (_stream, (value, notes)) = tokio::join!(hall, uploads.put_all(&ended, &left));
    assert!(value.unwrap().is_none() && notes.is_empty());
}

#[tokio::test]
async fn a_hall_that_says_the_lease_is_lost_is_believed() {
    let (listener, uploads, left, _orders) = rig().await;
    for n in 0..3 * AT_ONCE {
        fs::write(left.output().join(format!("{n}")), "body").unwrap();
    }
    let hall = async {
        let (mut stream, _) = heard(&listener).await;
        let problem = r#"{"type":"x","title":"t","status":409,"detail":"lost","code":"lease_lost"}"#;
        let length = problem.len();
        let answer =
            format!("HTTP/1.1 409 said\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{problem}");
        stream.write_all(answer.as_bytes()).await.unwrap();
    };
    let ended = ended(Status::Exit(3));
    let ((), (_, notes)) = tokio::join!(hall, uploads.put_all(&ended, &left));
    assert_eq!(notes, "");
    let mut more = 0;
    while tokio::time::timeout(Duration::ZERO, listener.accept()).await.is_ok() {
        more += 1;
    }
    assert!(more < AT_ONCE, "{more} files were sent besides the first");
}

#[test]
fn notes_are_lines_and_bounded() {
    assert_eq!(told(&[]), "");
    assert_eq!(told(&["x".to_owned()]), "[jobhall: x]\n");
    let many = told(&vec!["x".to_owned(); NOTES + 7]);
    assert_eq!(many.lines().count(), NOTES + 1);
    assert!(many.ends_with("[jobhall: 7 more artifacts were not kept]\n"));
}

#[tokio::test]
async fn an_upload_that_breaks_is_made_again() {
    let (listener, uploads, left, _orders) = rig().await;
    fs::write(left.output().join("a"), "body").unwrap();
    let hall = async {
        drop(heard(&listener).await);
        // It checks whether the server answers, and gets no reply.
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = Vec::new();
            while !String::from_utf8_lossy(&bytes).contains("\r\n\r\n") {
                assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "half a request");
            }
            if bytes.starts_with(b"PUT") {
                let problem =
                    r#"{"type":"x","title":"t","status":413,"detail":"the limit is 7","code":"too_large"}"#;
                let length = problem.len();
                let answer = format!(
                    "HTTP/1.1 413 said\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{problem}"
                );
                return stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }
    };
    let ended = ended(Status::Exit(3));
    let ((), (_, notes)) = tokio::join!(hall, uploads.put_all(&ended, &left));
    assert_eq!(notes, "[jobhall: artifact \"a\" was not kept: the limit is 7]\n");
    assert_eq!(*uploads.order.borrow(), Order::Go);
}
