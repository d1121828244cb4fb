use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::server::{Reply, TestServer};

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_bounded_whether_or_not_they_say_their_length() {
    let hall = TestServer::start().await;
    let too_long = ((1 << 20) + 1).to_string();
    let reply = hall.send("POST", "/api/v1/jobs", &hall.client, &[("Content-Length", &too_long)], b"").await;
    assert!(reply.problem(413, "too_large").contains("1048576"));
    let mut stream = TcpStream::connect(&hall.address).await.unwrap();
    let head = format!(
        "POST /api/v1/jobs HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nTransfer-Encoding: chunked\r\n\r\n",
        hall.address, hall.client
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    for _ in 0..17 {
        if stream.write_all(chunk.as_bytes()).await.is_err() {
            break;
        }
    }
    let mut bytes = [0; 4096];
    let n = stream.read(&mut bytes).await.unwrap();
    assert_eq!(Reply::parse(&bytes[..n]).status, 413);
    assert_eq!(hall.get("/api/v1/jobs").await.status, 200, "the server still works");
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_are_bounded_and_garbage_is_answered() {
    let hall = TestServer::start().await;
    let long = "x".repeat(32 * 1024);
    let reply = hall.send("GET", "/livez", "", &[("X-Long", &long)], b"").await;
    assert!([400, 431].contains(&reply.status), "{reply:?}");
    let mut stream = TcpStream::connect(&hall.address).await.unwrap();
    stream.write_all(b"\x16\x03\x01 garbage\r\n\r\n").await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    assert_eq!(hall.get("/livez").await.status, 200, "the server still works");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_routes_and_methods_are_problems_too() {
    let hall = TestServer::start().await;
    for path in ["/nothing", "/api/v1/nothing", "/api/v1/jobs/", "/api/v2/jobs"] {
        hall.get(path).await.problem(404, "not_found");
    }
    let reply = hall.send("DELETE", "/api/v1/jobs", &hall.admin, &[], b"").await;
    assert!(reply.problem(405, "method_not_allowed").contains("POST, GET"));
    assert_eq!(reply.header("allow"), Some("POST, GET"));
    let head = hall.send("HEAD", "/livez", "", &[], b"").await;
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_names_its_request() {
    let hall = TestServer::start().await;
    let one = hall.get("/livez").await;
    let two = hall.get("/livez").await;
    assert_ne!(one.header("x-request-id").unwrap(), two.header("x-request-id").unwrap());
    let named = [("X-Request-Id", "trace-7")];
    let reply = hall.send("GET", "/api/v1/jobs/7", &hall.viewer, &named, b"").await;
    reply.problem(404, "not_found");
    assert_eq!(reply.header("x-request-id"), Some("trace-7"));
    let odd = [("X-Request-Id", "a b\"c")];
    let reply = hall.send("GET", "/livez", "", &odd, b"").await;
    assert_ne!(reply.header("x-request-id"), Some("a b\"c"), "an invalid id is replaced");
}

#[tokio::test(flavor = "multi_thread")]
async fn deep_and_large_params_are_refused_with_their_limit() {
    let hall = TestServer::start().await;
    let deep = format!(r#"{{"type":"a","params":{}{}}}"#, "[".repeat(65), "]".repeat(65));
    assert!(hall.post("/api/v1/jobs", &deep).await.problem(400, "bad_request").contains("nested"));
    let large = format!(r#"{{"type":"a","params":"{}"}}"#, "x".repeat(256 * 1024));
    assert!(hall.post("/api/v1/jobs", &large).await.problem(400, "bad_request").contains("262144"));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_body_makes_the_hall_fail() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let attempt = hall.take().await;
    let lease = [("Jobhall-Lease", attempt["lease"].as_str().unwrap())];
    let bodies: [&[u8]; 8] = [b"", b"{", b"[]", b"[[[[", b"\xff\xfe", b"null", b"{\"a\":1}", b"\"\\ud800\""];
    let paths = [
        "jobs".to_owned(),
        format!("jobs/{id}/cancel"),
        "vacancies".to_owned(),
        "renewals".to_owned(),
        format!("attempts/{id}-1/progress"),
        format!("attempts/{id}-1/outcome"),
    ];
    for (path, body) in paths.iter().flat_map(|path| bodies.map(|body| (path, body))) {
        let reply = hall.send("POST", &format!("/api/v1/{path}"), &hall.admin, &lease, body).await;
        assert!(reply.status < 500, "{path} {body:?}: {reply:?}");
    }
    let big = u64::MAX.to_string();
    for path in [format!("log?offset={big}"), "log?offset=-1".to_owned()] {
        let reply = hall.word(&attempt, &path, b"x").await;
        assert!((400..500).contains(&reply.status), "{path}: {reply:?}");
    }
}
