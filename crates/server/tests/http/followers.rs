//! Followers: a node that does not lead forwards requests, and clients see no difference.

use std::sync::Arc;
use std::time::Duration;

use jobhall_client::{Client, Trust, tls_config};
use jobhall_protocol::{Hello, ToServer, ToWorker};
use jobhall_server::{ForwardTo, HallKeys, Listen, NodeSecret, Options, Running, Server, Tls};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::server::{Reply, TestServer, read_until};

fn secret() -> NodeSecret {
    NodeSecret::new(Arc::new(HallKeys::fixed(&[1; 32])))
}

/// What a node with these keys shows.
fn shown() -> String {
    blake3::Hash::from(blake3::derive_key("jobhall 2026 requests that a node forwards", &[1; 32])).to_string()
}

/// A node that listens and has no role yet.
pub async fn node(listen: Listen) -> Running {
    Server::listen(TcpListener::bind("127.0.0.1:0").await.unwrap(), listen).unwrap()
}

/// The options of the leader of this hall.
pub fn leadership(hall: &TestServer) -> Options {
    let blobs = jobhall_blobs::Blobs::open(&hall.dir.path().join("of-the-holder")).unwrap();
    Options { secret: Some(secret()), ..hall.options(blobs) }
}

/// The forwarding target for the node at this address.
pub fn to(address: impl std::fmt::Display) -> ForwardTo {
    ForwardTo { url: format!("http://{address}"), secret: secret(), tls: None }
}

/// A hall with a leader and a follower; the test sends all requests to the follower.
struct Followers {
    hall: TestServer,
    holder: Running,
    follower: Running,
}

impl Followers {
    async fn open() -> Followers {
        Followers::listening(Listen::default(), Listen::default()).await
    }

    async fn listening(at_leadership: Listen, at_follower: Listen) -> Followers {
        let mut hall = TestServer::start().await;
        let (holder, follower) = (node(at_leadership).await, node(at_follower).await);
        holder.open(leadership(&hall)).await;
        follower.forward(to(holder.address)).await.unwrap();
        hall.address = follower.address.to_string();
        Followers { hall, holder, follower }
    }
}

/// Sends a request with an invalid token from this local address.
async fn guess(from: [u8; 4], at: &str, more: &str) -> Reply {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    let mut stream = socket.connect(at.parse().unwrap()).await.unwrap();
    let head = format!(
        "GET /api/v1/jobs HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\nAuthorization: Bearer jh_wrong\r\n{more}\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    Reply::parse(&bytes)
}

/// Sends a request from this local address.
async fn send_from(from: [u8; 4], at: &str, token: &str, request: &str) -> Reply {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    let mut stream = socket.connect(at.parse().unwrap()).await.unwrap();
    let head = format!(
        "{request} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Length: 0\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    Reply::parse(&bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_l9_an_entry_has_the_address_of_the_client_of_a_follower() {
    let Followers { hall, holder: _holder, follower: _follower } = Followers::open().await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let cancel = format!("POST /api/v1/jobs/{id}/cancel");
    let cancelled = send_from([127, 0, 0, 9], &hall.address, &hall.client, &cancel).await;
    assert_eq!(cancelled.status, 200, "{cancelled:?}");
    let acts = hall.send("GET", "/api/v1/audit", &hall.admin, &[], b"").await.json();
    let (act, detail) = (&acts["items"][0]["act"], acts["items"][0]["detail"].as_str().unwrap());
    assert!(act == "job_cancelled" && detail.starts_with("from 127.0.0.9"), "{acts}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_through_a_follower_comes_back_as_the_leadership_said_it() {
    let Followers { hall, holder: _holder, follower: _follower } = Followers::open().await;
    let made = hall.post("/api/v1/jobs", r#"{"type":"a","params":{"n":1}}"#).await;
    assert_eq!(made.status, 201, "{made:?}");
    let id = made.json()["id"].as_u64().unwrap();
    assert_eq!(made.header("location"), Some(format!("/api/v1/jobs/{id}").as_str()));
    let shown = hall.get(&format!("/api/v1/jobs/{id}")).await;
    assert_eq!(shown.json()["params"]["n"], 1);
    let listed = hall.get("/api/v1/jobs?type=a&limit=1").await.json();
    assert_eq!(listed["items"][0]["id"], id);
    hall.get("/api/v1/jobs/999999").await.problem(404, "not_found");
    hall.get("/nowhere").await.problem(404, "not_found");
    hall.send("PUT", "/api/v1/jobs", &hall.client, &[], b"").await.problem(405, "method_not_allowed");
    hall.post("/api/v1/jobs", "{").await.problem(400, "bad_request");
    let headers = hall.send("HEAD", &format!("/api/v1/jobs/{id}"), &hall.viewer, &[], b"").await;
    assert_eq!((headers.status, headers.body.len()), (200, 0));
    let named = hall.send("GET", "/api/v1/jobs", &hall.viewer, &[("X-Request-Id", "mine-7")], b"").await;
    assert_eq!(named.header("x-request-id"), Some("mine-7"));
    hall.send("GET", "/api/v1/jobs", "", &[], b"").await.problem(401, "unauthorized");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vacancy_parked_at_one_follower_is_woken_by_a_job_from_another() {
    let Followers { hall, holder, follower: _follower } = Followers::open().await;
    let other = node(Listen::default()).await;
    other.forward(to(holder.address)).await.unwrap();
    let parked = async {
        let mut parked =
            hall.open("POST", "/api/v1/vacancies", &hall.worker, &[], br#"{"slots":1,"wait_s":30}"#).await;
        hall.until_offered("w", 1).await;
        let client = Client::new(&format!("http://{}", other.address), Some(&hall.client)).unwrap();
        let job = serde_json::from_str(r#"{"type":"a"}"#).unwrap();
        let made = client.submit(&job, None).await.unwrap();
        let mut bytes = Vec::new();
        parked.read_to_end(&mut bytes).await.unwrap();
        (made.id, Reply::parse(&bytes))
    };
    let (id, given) = tokio::time::timeout(Duration::from_secs(30), parked).await.unwrap();
    assert_eq!(
        (given.status, given.json()["attempts"][0]["job"]["id"].as_u64()),
        (200, Some(id)),
        "{given:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn events_come_through_a_follower_as_they_happen() {
    let Followers { hall, holder: _holder, follower: _follower } = Followers::open().await;
    let mut events = hall.open("GET", "/api/v1/events", &hall.viewer, &[], b"").await;
    read_until(&mut events, "retry: 2000").await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    // The stream stays open, so the test does not wait for its end.
    read_until(&mut events, &format!("\"id\":{id}")).await;
    hall.post(&format!("/api/v1/jobs/{id}/cancel"), "").await;
    read_until(&mut events, "cancelled").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_followed_through_a_follower_while_it_grows() {
    let Followers { hall, holder: _holder, follower: _follower } = Followers::open().await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let given = hall.take().await;
    let mut log =
        hall.open("GET", &format!("/api/v1/jobs/{id}/log?follow=true"), &hall.viewer, &[], b"").await;
    for (at, line) in [(0, "one\n"), (4, "two\n")] {
        let path = format!("log?offset={at}");
        let reply = hall.word(&given, &path, line.as_bytes()).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        read_until(&mut log, line.trim()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_artifacts_go_through_a_follower_both_ways() {
    let Followers { hall, holder: _holder, follower: _follower } = Followers::open().await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let given = hall.take().await;
    let bytes: Vec<u8> = (0..24_u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let path = format!("/api/v1/attempts/{}/artifacts/big.bin", given["id"].as_str().unwrap());
    let lease = given["lease"].as_str().unwrap();
    let kept = hall.send("PUT", &path, &hall.worker, &[("Jobhall-Lease", lease)], &bytes).await;
    assert!([200, 201].contains(&kept.status), "{}", kept.text());
    hall.word(&given, "outcome", br#"{"outcome":"succeeded"}"#).await;
    hall.until(id, "succeeded").await;
    let read = hall.get(&format!("/api/v1/jobs/{id}/artifacts/big.bin")).await;
    assert_eq!(read.status, 200);
    assert!(read.body == bytes, "{} bytes came back", read.body.len());
    let mut ranged = hall
        .open(
            "GET",
            &format!("/api/v1/jobs/{id}/artifacts/big.bin"),
            &hall.viewer,
            &[("Range", "bytes=5-9")],
            b"",
        )
        .await;
    let mut part = Vec::new();
    ranged.read_to_end(&mut part).await.unwrap();
    assert_eq!((Reply::parse(&part).status, Reply::parse(&part).body), (206, bytes[5..10].to_vec()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_through_a_follower_and_ends_when_the_leadership_is_elsewhere() {
    let Followers { hall, follower, holder } = Followers::open().await;
    let client = Client::new(&format!("http://{}", follower.address), Some(&hall.worker)).unwrap();
    let mut session = client.session(Hello::default()).await.unwrap();
    session.send(&[ToServer::Credit { total: 1 }]).await.unwrap();
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let given = async {
        loop {
            for message in session.next().await.unwrap() {
                if let ToWorker::Assign { attempt, .. } = message {
                    return attempt.job.get();
                }
            }
        }
    };
    assert_eq!(tokio::time::timeout(Duration::from_secs(30), given).await.unwrap(), id);
    follower.shut("the leadership is elsewhere").await;
    let ended = async { while session.next().await.is_ok() {} };
    tokio::time::timeout(Duration::from_secs(30), ended).await.expect("the tunnel is cut");
    follower.forward(to(holder.address)).await.unwrap();
    client.session(Hello::default()).await.expect("another session through the same node");
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_waits_at_a_leadership_or_a_follower_is_ended_when_the_node_becomes_something_else() {
    for at_leadership in [true, false] {
        let Followers { mut hall, follower, holder } = Followers::open().await;
        hall.address = if at_leadership { holder.address } else { follower.address }.to_string();
        let vacancy = br#"{"slots":1,"wait_s":60}"#;
        let mut waiting = [
            hall.open("POST", "/api/v1/vacancies", &hall.worker, &[], vacancy).await,
            hall.open("GET", "/api/v1/events", &hall.viewer, &[], b"").await,
        ];
        // Both requests are in progress: the first is listed, the second has received a head.
        read_until(&mut waiting[1], "\r\n\r\n").await;
        hall.until_offered("w", 1).await;
        if at_leadership {
            holder.shut("gone").await;
        } else {
            follower.shut("gone").await;
        }
        for stream in &mut waiting {
            let mut rest = Vec::new();
            let read = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut rest));
            // How the connection ends does not matter; an aborted stream is not a complete response.
            let _ = read.await.expect("an end");
            assert!(!String::from_utf8_lossy(&rest).contains("\r\n0\r\n\r\n") || at_leadership);
        }
        hall.get("/api/v1/jobs").await.problem(503, "no_leader");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_sent_is_told_apart_from_what_was_not_answered() {
    let mut hall = TestServer::start().await;
    let follower = node(Listen::default()).await;
    hall.address = follower.address.to_string();
    let deaf = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = deaf.local_addr().unwrap();
    drop(deaf);
    follower.forward(to(address)).await.unwrap();
    let reply = hall.post("/api/v1/jobs", r#"{"type":"a"}"#).await;
    assert!(reply.problem(503, "no_leader").contains("nothing was done"));
    assert!(reply.header("retry-after").is_some());
    hall.get("/readyz").await.problem(503, "no_leader");

    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    follower.forward(to(mute.local_addr().unwrap())).await.unwrap();
    let listening = async {
        let (mut stream, _) = mute.accept().await.unwrap();
        read_until(&mut stream, "\"type\":\"a\"").await;
        drop(stream);
        // The request was sent once and must not be sent again.
        tokio::select! {
            again = mute.accept() => panic!("it was sent again: {again:?}"),
            () = std::future::pending() => {}
        }
    };
    let reply = tokio::select! {
        reply = hall.post("/api/v1/jobs", r#"{"type":"a"}"#) => reply,
        () = listening => unreachable!(),
    };
    assert!(reply.problem(502, "outcome_unknown").contains("not known"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_breaks_off_at_the_leadership_breaks_off_at_the_follower() {
    let mut hall = TestServer::start().await;
    let follower = node(Listen::default()).await;
    hall.address = follower.address.to_string();
    let half = TcpListener::bind("127.0.0.1:0").await.unwrap();
    follower.forward(to(half.local_addr().unwrap())).await.unwrap();
    let answering = async {
        let (mut stream, _) = half.accept().await.unwrap();
        read_until(&mut stream, "\r\n\r\n").await;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf").await.unwrap();
    };
    let mut stream = hall.open("GET", "/api/v1/jobs", &hall.viewer, &[], b"").await;
    let mut bytes = Vec::new();
    let reading =
        async { tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut bytes)).await };
    let ((), read) = tokio::join!(answering, reading);
    let _ = read.expect("an end");
    let reply = Reply::parse(&bytes);
    assert_eq!((reply.status, reply.body.len()), (200, 4), "less than announced in the head");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_tokens_are_counted_against_whoever_sent_them_to_the_follower() {
    let Followers { hall, holder, follower: _follower } = Followers::open().await;
    // The follower removes these headers from a client's request.
    let forged = format!("Jobhall-Node: {}x\r\nJobhall-Peer: http 127.0.0.9\r\n", shown());
    for _ in 0..10 {
        guess([127, 0, 0, 2], &hall.address, &forged).await.problem(401, "unauthorized");
    }
    guess([127, 0, 0, 2], &hall.address, "").await.problem(429, "too_many_requests");
    guess([127, 0, 0, 3], &hall.address, "").await.problem(401, "unauthorized");
    guess([127, 0, 0, 9], &hall.address, "").await.problem(401, "unauthorized");
    let at = holder.address.to_string();
    guess([127, 0, 0, 2], &at, "").await.problem(429, "too_many_requests");
    // The leader also accepts another source address only from a node.
    let blamed = "Jobhall-Node: guess\r\nJobhall-Peer: http 127.0.0.3\r\n";
    for _ in 0..10 {
        guess([127, 0, 0, 4], &at, blamed).await.problem(401, "unauthorized");
    }
    guess([127, 0, 0, 4], &at, blamed).await.problem(429, "too_many_requests");
    guess([127, 0, 0, 3], &at, "").await.problem(401, "unauthorized");
    let believed = format!("Jobhall-Node: {}\r\nJobhall-Peer: http 127.0.0.4\r\n", shown());
    guess([127, 0, 0, 5], &at, &believed).await.problem(429, "too_many_requests");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_has_names_of_its_own_and_the_leadership_takes_its_word() {
    let named = |name: &str| Listen { hosts: vec![name.to_owned()], ..Listen::default() };
    let Followers { mut hall, holder, follower: _follower } =
        Followers::listening(named("leadership.example"), named("follower.example")).await;
    let get = async |hall: &TestServer, host: &str, more: &[(&str, &str)]| {
        hall.send("GET", "/api/v1/jobs", &hall.viewer, &[&[("Host", host)], more].concat(), b"").await
    };
    assert_eq!(get(&hall, "follower.example", &[]).await.status, 200);
    get(&hall, "leadership.example", &[]).await.problem(421, "misdirected");
    let foreign = [("Host", "follower.example"), ("Origin", "http://evil.example")];
    let body = br#"{"type":"a"}"#;
    hall.send("POST", "/api/v1/jobs", &hall.client, &foreign, body).await.problem(403, "forbidden");
    let own = [("Host", "follower.example"), ("Origin", "http://follower.example")];
    assert_eq!(hall.send("POST", "/api/v1/jobs", &hall.client, &own, body).await.status, 201);
    hall.address = holder.address.to_string();
    let forged = [("Jobhall-Node", "guess"), ("Jobhall-Peer", "http 127.0.0.1")];
    get(&hall, "follower.example", &forged).await.problem(421, "misdirected");
    assert_eq!(get(&hall, "leadership.example", &[]).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_speaks_tls_with_a_leadership_behind_it_and_believes_no_other() {
    let mut hall = TestServer::start().await;
    let files = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        crate::tls::certify(files.path(), name);
    }
    let path = |name: &str| files.path().join(name);
    let tls = Tls::read(&path("a.crt"), &path("a.key")).unwrap();
    let holder = node(Listen { tls: Some(tls), ..Listen::default() }).await;
    holder.open(leadership(&hall)).await;
    let follower = node(Listen::default()).await;
    hall.address = follower.address.to_string();
    let leading = |authority: Option<&str>| ForwardTo {
        url: format!("https://localhost:{}", holder.address.port()),
        tls: authority.map(|name| tls_config(&Trust::Authority(path(name))).unwrap()),
        ..to(holder.address)
    };
    follower.forward(leading(Some("a.crt"))).await.unwrap();
    assert_eq!(hall.post("/api/v1/jobs", r#"{"type":"a"}"#).await.status, 201);
    let client = Client::new(&format!("http://{}", follower.address), Some(&hall.worker)).unwrap();
    client.session(Hello::default()).await.expect("a session through the follower");
    follower.forward(leading(Some("b.crt"))).await.unwrap();
    hall.get("/api/v1/jobs").await.problem(503, "no_leader");
    assert!(follower.forward(leading(None)).await.unwrap_err().contains("requires TLS"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_does_not_go_round() {
    let mut hall = TestServer::start().await;
    let (one, two) = (node(Listen::default()).await, node(Listen::default()).await);
    one.forward(to(two.address)).await.unwrap();
    two.forward(to(one.address)).await.unwrap();
    hall.address = one.address.to_string();
    hall.get("/api/v1/jobs").await.problem(503, "no_leader");
    hall.get("/readyz").await.problem(503, "no_leader");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_tells_its_own_health_and_numbers_whatever_it_is() {
    let Followers { hall, follower, holder: _holder } = Followers::open().await;
    assert_eq!(hall.get("/livez").await.text(), "ok\n");
    assert_eq!(hall.get("/readyz").await.text(), "ok\n");
    assert!(hall.get("/readyz?verbose").await.text().contains("store writes: ok"));
    hall.get("/readyz?verbose=maybe").await.problem(400, "bad_request");
    let numbers = hall.get("/metrics").await;
    assert_eq!(numbers.status, 200);
    assert!(numbers.text().contains("route=\"follower\"") || numbers.text().contains("route=\"/readyz\""));
    assert!(!numbers.text().contains("jobhall_jobs"), "metrics of jobs come from the leader");
    hall.send("GET", "/metrics", "", &[], b"").await.problem(401, "unauthorized");
    hall.send("GET", "/metrics", &hall.worker, &[], b"").await.problem(403, "forbidden");
    follower.shut("the leader is unknown").await;
    assert_eq!(hall.get("/livez").await.text(), "ok\n");
    hall.get("/readyz").await.problem(503, "no_leader");
    hall.get("/metrics").await.problem(503, "no_leader");
    let reply = hall.get("/api/v1/jobs").await;
    assert!(reply.problem(503, "no_leader").contains("the leader is unknown"));
    assert!(reply.header("retry-after").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_meets_whatever_the_node_is_at_the_time() {
    let hall = TestServer::start().await;
    let node = node(Listen::default()).await;
    let mut stream = TcpStream::connect(node.address).await.unwrap();
    let ask = async |stream: &mut TcpStream, wanted: &str| {
        let head = format!(
            "GET /api/v1/nodes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n",
            hall.viewer
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        read_until(stream, wanted).await
    };
    ask(&mut stream, "\"no_leader\"").await;
    node.open(leadership(&hall)).await;
    ask(&mut stream, "\"alone\"").await;
    let away = crate::followers::node(Listen::default()).await;
    node.forward(to(away.address)).await.unwrap();
    ask(&mut stream, "\"no_leader\"").await;
}
