//! The client against a server with scripted responses, valid or not.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod server;

use jobhall_client::{Client, ClientError, LogQuery, LogRange, Stream, Upload, UploadError};
use jobhall_protocol::{Code, Hello, SubmitJob, Vacancy};
use server::{Server, answer, answer_with};

fn client(server: &Server) -> Client {
    Client::new(&server.url(), Some("secret")).expect("a good address")
}

const EVENTS: (&str, &str) = ("content-type", "text/event-stream");

fn event(id: u64, state: &str) -> String {
    format!("id: {id}\nevent: job\ndata: {{\"id\":7,\"state\":\"{state}\"}}\n\n")
}

#[tokio::test]
async fn nobody_there_is_told_with_the_address_and_the_reason() {
    let server = Server::start(Vec::new()).await;
    let url = server.url();
    drop(server);
    let error = Client::new(&url, None).unwrap().job(1).await.unwrap_err();
    let ClientError::Unreachable { url: told, why } = error else { panic!("{error}") };
    assert_eq!(told, url);
    assert!(why.to_lowercase().contains("refused"), "{why}");
}

#[tokio::test]
async fn a_problem_keeps_its_code() {
    let body =
        r#"{"type":"about:blank","title":"t","status":401,"detail":"no such token","code":"unauthorized"}"#;
    let server = Server::start(vec![answer(401, body)]).await;
    let error = client(&server).job(1).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::Unauthorized));
    let request = server.requests().remove(0);
    assert!(request.starts_with("GET /api/v1/jobs/1 HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("authorization: Bearer secret\r\n"), "{request}");
}

#[tokio::test]
async fn what_is_no_hall_is_told_so() {
    let server = Server::start(vec![answer(200, "<html>"), answer(502, "bad gateway")]).await;
    for _ in 0..2 {
        let error = client(&server).job(1).await.unwrap_err();
        assert!(matches!(error, ClientError::Protocol(_)), "{error}");
    }
}

#[tokio::test]
async fn a_session_that_does_not_begin_says_why() {
    let problem =
        r#"{"type":"about:blank","title":"t","status":401,"detail":"no such token","code":"unauthorized"}"#;
    let answers =
        vec![answer(401, problem), answer(403, ""), answer(200, "<html>"), answer(502, "x"), String::new()];
    let server = Server::start(answers).await;
    let session = async || client(&server).session(Hello::default()).await.unwrap_err();
    assert_eq!(session().await.code(), Some(Code::Unauthorized));
    assert_eq!(session().await.code(), Some(Code::Forbidden), "even without a body");
    for _ in 0..3 {
        let error = session().await;
        assert!(error.code().is_none(), "the error says that this is not a Jobhall server: {error}");
    }
    let request = server.requests().remove(0);
    assert!(request.starts_with("GET /api/v1/session HTTP/1.1\r\n"), "{request}");
    let head = request.to_lowercase();
    for line in ["authorization: bearer secret\r\n", "sec-websocket-protocol: jobhall.v1.msgpack\r\n"] {
        assert!(head.contains(line), "{request}");
    }
    let url = server.url();
    drop(server);
    let nobody = Client::new(&url, None).unwrap().session(Hello::default()).await.unwrap_err();
    assert!(matches!(nobody, ClientError::Unreachable { .. }), "{nobody}");
}

#[tokio::test]
async fn a_read_is_repeated_when_the_connection_breaks() {
    let page = r#"{"items":[],"next_cursor":null}"#;
    let server = Server::start(vec![String::new(), String::new(), answer(200, page)]).await;
    assert_eq!(client(&server).types().await.unwrap(), []);
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn a_submit_is_repeated_only_under_an_idempotency_key() {
    let made = r#"[{"id":7,"disposition":"created"}]"#;
    let server = Server::start(vec![String::new(), answer(200, made)]).await;
    let submitted = client(&server).submit(&SubmitJob::new("t"), Some("k-1")).await.unwrap();
    assert_eq!((submitted.id, submitted.disposition.as_str()), (7, "created"));
    let requests = server.requests();
    assert!(requests.iter().all(|request| request.contains("idempotency-key: k-1\r\n")), "{requests:?}");
    assert_eq!(requests.len(), 2);

    let server = Server::start(vec![String::new(), answer(200, made)]).await;
    let error = client(&server).submit(&SubmitJob::new("t"), None).await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_poll_without_work_is_no_error() {
    let server = Server::start(vec![answer(204, "")]).await;
    let vacancy = Vacancy { wait_s: 1, ..Vacancy::default() };
    assert!(client(&server).vacancies(&vacancy).await.unwrap().attempts.is_empty());
}

#[tokio::test]
async fn events_go_on_from_the_last_one_after_a_break() {
    let first = format!("retry: 10\n\n{}{}id: 3\ndata: ha", event(1, "queued"), event(2, "assigned"));
    let second = format!(":\n\n{}{}", event(3, "running"), event(4, "succeeded"));
    let server =
        Server::start(vec![answer_with(200, &[EVENTS], &first), answer_with(200, &[EVENTS], &second)]).await;
    let mut events = client(&server).events(Some(7), None);
    let mut ids = Vec::new();
    while let Some(event) = events.next().await.unwrap() {
        ids.push(event.id);
    }
    assert_eq!(ids, ["1", "2", "3", "4"], "no gap, no repeat, and an end with the job");
    let requests = server.requests();
    assert!(!requests[0].contains("last-event-id"), "{requests:?}");
    assert!(requests[1].contains("last-event-id: 2\r\n"), "{requests:?}");
}

const BUSY: &str =
    r#"{"type":"x","title":"t","status":503,"detail":"the hall is stopping","code":"unavailable"}"#;

fn job(state: &str) -> String {
    let at = "2026-11-15T09:43:00.250Z";
    format!(
        r#"{{"id":7,"type":"t","key":null,"queue":"default","params":{{}},"needs":"","priority":100,"state":"{state}",
        "attempt":1,"max_attempts":1,"run_at":"{at}","created_at":"{at}","updated_at":"{at}","started_at":null,
        "completed_at":null,"worker":null,"error":null,"retry_of":null}}"#
    )
}

#[tokio::test]
async fn the_end_of_a_job_is_heard_over_a_restart_of_the_hall() {
    let opening = "retry: 10\nid: 4\n\n";
    let closing = "event: closing\ndata: {}\n\n";
    let server = Server::start(vec![
        answer_with(200, &[EVENTS], &format!("{opening}{}{closing}", event(4, "queued"))),
        answer(503, BUSY),
        answer(200, &job("queued")),
        answer(503, BUSY),
        String::new(),
        answer_with(200, &[EVENTS], &format!("{opening}{}", event(5, "succeeded"))),
        answer(200, &job("succeeded")),
    ])
    .await;
    let mut ends = client(&server).ends([7]);
    let ended = ends.next().await.unwrap().expect("it ends");
    assert_eq!((ended.id, ended.state.as_str()), (7, "succeeded"));
    assert!(ends.next().await.unwrap().is_none() && ends.pending().is_empty());
    let requests = server.requests();
    assert!(requests[0].starts_with("GET /api/v1/jobs/7/events "), "{requests:?}");
    assert!(
        requests[1].starts_with("GET /api/v1/jobs/7 "),
        "it reads after the stream is open: {requests:?}"
    );
    assert!(requests[5].contains("last-event-id: 4\r\n"), "no gap: {requests:?}");
    assert_eq!(requests.len(), 7);
}

#[tokio::test]
async fn a_stream_that_missed_something_is_made_good_by_a_look() {
    let reset = "retry: 10\nid: 4\n\nid: 9\nevent: reset\ndata: {}\n\n";
    let server = Server::start(vec![
        answer_with(200, &[EVENTS], reset),
        answer(200, &job("running")),
        answer(200, &job("running").replace("\"id\":7", "\"id\":8")),
        answer(200, &job("failed")),
        answer(200, &job("failed").replace("\"id\":7", "\"id\":8")),
    ])
    .await;
    let mut ends = client(&server).ends([7, 8, 7]);
    let ids = [ends.next().await.unwrap().unwrap().id, ends.next().await.unwrap().unwrap().id];
    assert_eq!(ids, [7, 8]);
    assert!(server.requests()[0].starts_with("GET /api/v1/events "), "{:?}", server.requests());
}

#[tokio::test]
async fn a_read_is_repeated_when_the_hall_cannot_take_it_now() {
    let page = r#"{"items":[],"next_cursor":null}"#;
    let server = Server::start(vec![answer(503, BUSY), answer(200, page)]).await;
    assert_eq!(client(&server).types().await.unwrap(), []);
    let server = Server::start(vec![answer(503, BUSY), answer(200, "[]")]).await;
    let error = client(&server).submit(&SubmitJob::new("t"), None).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::Unavailable), "but no request that could be executed twice");
}

const NO_LEADER: &str = r#"{"type":"x","title":"t","status":503,"detail":"nobody leads","code":"no_leader"}"#;
const OUTCOME_UNKNOWN: &str =
    r#"{"type":"x","title":"t","status":502,"detail":"it was gone","code":"outcome_unknown"}"#;

fn client_of(places: &[&Server]) -> Client {
    let urls: Vec<_> = places.iter().map(|server| server.url()).collect();
    Client::new(&urls.join(","), Some("secret")).unwrap()
}

#[tokio::test]
async fn of_several_nodes_the_next_is_asked_when_one_fails_and_asked_again_from_then_on() {
    let page = r#"{"items":[],"next_cursor":null}"#;
    let (gone, good) = (Server::start(Vec::new()).await, Server::start(vec![answer(200, page); 2]).await);
    let client = client_of(&[&gone, &good]);
    drop(gone);
    assert_eq!(client.types().await.unwrap(), []);
    assert_eq!(client.types().await.unwrap(), []);
    assert_eq!(good.requests().len(), 2);
}

#[tokio::test]
async fn what_a_node_did_not_hear_or_do_is_asked_of_another_even_if_it_must_not_be_done_twice() {
    let made = r#"[{"id":7,"disposition":"created"}]"#;
    let gone = Server::start(Vec::new()).await;
    let (idle, good) =
        (Server::start(vec![answer(503, NO_LEADER)]).await, Server::start(vec![answer(200, made)]).await);
    let client = client_of(&[&gone, &idle, &good]);
    drop(gone);
    assert_eq!(client.submit(&SubmitJob::new("t"), None).await.unwrap().id, 7);
    assert_eq!((idle.requests().len(), good.requests().len()), (1, 1));
}

#[tokio::test]
async fn a_client_waits_while_the_leadership_goes_from_one_node_to_another() {
    let made = r#"[{"id":7,"disposition":"created"}]"#;
    let answers = [vec![answer(503, NO_LEADER); 5], vec![answer(200, made)]].concat();
    let server = Server::start(answers).await;
    assert_eq!(client(&server).submit(&SubmitJob::new("t"), None).await.unwrap().id, 7);
}

#[tokio::test]
async fn what_may_have_been_done_is_not_asked_of_another_node() {
    let (lost, other) =
        (Server::start(vec![answer(502, OUTCOME_UNKNOWN)]).await, Server::start(Vec::new()).await);
    let error = client_of(&[&lost, &other]).submit(&SubmitJob::new("t"), None).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::OutcomeUnknown));
    let broken = Server::start(vec![String::new()]).await;
    let error = client_of(&[&broken, &other]).submit(&SubmitJob::new("t"), None).await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
    assert_eq!(other.requests().len(), 0);
}

#[tokio::test]
async fn a_session_is_begun_at_the_next_node_when_one_is_gone() {
    let problem = r#"{"type":"x","title":"t","status":401,"detail":"no such token","code":"unauthorized"}"#;
    let (gone, other) = (Server::start(Vec::new()).await, Server::start(vec![answer(401, problem)]).await);
    let client = client_of(&[&gone, &other]);
    drop(gone);
    let first = client.session(Hello::default()).await.unwrap_err();
    assert!(matches!(first, ClientError::Unreachable { .. }), "{first}");
    assert_eq!(client.session(Hello::default()).await.unwrap_err().code(), Some(Code::Unauthorized));
}

#[tokio::test]
async fn a_stream_of_something_else_is_refused() {
    let server = Server::start(vec![answer(200, "{}")]).await;
    let error = client(&server).events(None, None).next().await.unwrap_err();
    assert!(matches!(error, ClientError::Protocol(_)), "{error}");
}

#[tokio::test]
async fn a_followed_log_is_taken_up_where_it_broke() {
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhello ".to_owned();
    // This server ignores the range of a followed log, and starts from the beginning.
    let server = Server::start(vec![cut, answer(200, "hello world")]).await;
    let mut log = client(&server).follow_log(7, Some("7-1"), 0);
    let mut bytes = Vec::new();
    while let Some(chunk) = log.next().await.unwrap() {
        bytes.extend_from_slice(&chunk);
    }
    assert_eq!(String::from_utf8(bytes).unwrap(), "hello world");
    let requests = server.requests();
    assert!(requests[1].starts_with("GET /api/v1/jobs/7/log?attempt=7-1&follow=true "), "{requests:?}");
    assert!(requests[1].contains("range: bytes=6-\r\n"), "{requests:?}");
}

#[tokio::test]
async fn a_part_of_a_log_that_is_not_there_is_empty() {
    let body = r#"{"type":"x","title":"t","status":416,"detail":"no","code":"range_not_satisfiable"}"#;
    let server = Server::start(vec![answer(416, body)]).await;
    let mut log = client(&server).read_log(7, None, LogRange::Last(10));
    assert_eq!(log.next().await.unwrap(), None);
    assert!(server.requests()[0].contains("range: bytes=-10\r\n"));
}

#[tokio::test]
async fn lists_go_on_from_page_to_page() {
    let first = r#"{"items":[{"name":"a","retry":{},"keep_ms":null,"keep_count":null,"reuse_window_ms":0}],"next_cursor":"c 1"}"#;
    let second = r#"{"items":[{"name":"b","retry":{},"keep_ms":null,"keep_count":null,"reuse_window_ms":0,"new":1}],"next_cursor":null}"#;
    let server = Server::start(vec![answer(200, first), answer(200, second)]).await;
    let names: Vec<String> =
        client(&server).types().await.unwrap().into_iter().map(|found| found.name).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(server.requests()[1].starts_with("GET /api/v1/types?cursor=c+1 "), "{:?}", server.requests());
}

const HELLO: &str = "ea8f163db38682925e4491c5e58d4bb3506ef8c14eb78a86e908c5624a67200f";

fn artifact(digest: &str) -> String {
    let at = "2026-11-15T09:43:00.250Z";
    format!(
        r#"{{"name":"a","digest":"{digest}","size":5,"media_type":"text/plain","at":"{at}","attempt":"7-1"}}"#
    )
}

/// An upload of a file with this text, announced with another size.
fn upload(words: &str, size: u64) -> Upload<'static> {
    use std::io::{Seek as _, Write as _};
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(words.as_bytes()).unwrap();
    file.rewind().unwrap();
    Upload { attempt: "7-1", lease: Some("1"), name: "a/b", media_type: "text/plain", file, size }
}

#[tokio::test]
async fn an_upload_is_believed_only_when_the_hall_has_the_same_bytes() {
    let server =
        Server::start(vec![answer(200, &artifact(HELLO)), answer(200, &artifact(&"0".repeat(64)))]).await;
    let kept = client(&server).put_artifact(upload("hello", 5), |_| {}).await.unwrap();
    assert_eq!(kept.size, 5);
    let request = server.requests().remove(0);
    assert!(request.starts_with("PUT /api/v1/attempts/7-1/artifacts/a%2Fb HTTP/1.1\r\n"), "{request}");
    for part in
        ["content-length: 5\r\n", "content-type: text/plain\r\n", "jobhall-lease: 1\r\n", "\r\n\r\nhello"]
    {
        assert!(request.contains(part), "{request}");
    }
    let error = client(&server).put_artifact(upload("hello", 5), |_| {}).await.unwrap_err();
    assert!(matches!(&error, UploadError::Client(ClientError::Protocol(_))), "{error}");
}

#[tokio::test]
async fn a_file_that_became_shorter_is_told_as_such() {
    // The server waits for the whole body, and the connection breaks first.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(&format!("http://{}", listener.local_addr().unwrap()), None).unwrap();
    let error = client.put_artifact(upload("hello", 9), |_| {}).await.unwrap_err();
    assert!(matches!(&error, UploadError::File(why) if why.to_string().contains("shrank")), "{error}");
}

fn part(status: u16, length: &str, digest: &str, body: &str) -> String {
    answer_with(status, &[("content-length", length), ("jobhall-digest", digest)], body)
}

async fn download(answers: Vec<String>) -> (Server, Result<String, ClientError>) {
    let server = Server::start(answers).await;
    let mut reader = client(&server).read_artifact(7, Some("1"), "a/b");
    let mut all = Vec::new();
    loop {
        match reader.next().await {
            Ok(Some(bytes)) => all.extend_from_slice(&bytes),
            Ok(None) => return (server, Ok(String::from_utf8(all).unwrap())),
            Err(error) => return (server, Err(error)),
        }
    }
}

#[tokio::test]
async fn a_download_that_breaks_goes_on_behind_the_last_byte() {
    let (server, all) = download(vec![part(200, "5", HELLO, "hel"), part(206, "2", HELLO, "lo")]).await;
    assert_eq!(all.unwrap(), "hello");
    let requests = server.requests();
    assert!(
        requests[0].starts_with("GET /api/v1/jobs/7/artifacts/a%2Fb?attempt=1 HTTP/1.1\r\n"),
        "{requests:?}"
    );
    assert!(requests[1].contains("range: bytes=3-\r\n"), "{requests:?}");
}

#[tokio::test]
async fn a_download_of_other_bytes_is_an_error() {
    for answers in [
        vec![part(200, "5", HELLO, "jello")],
        vec![part(200, "5", HELLO, "hel"), part(206, "2", &"0".repeat(64), "lo")],
        vec![part(200, "5", HELLO, "hel"), part(200, "5", HELLO, "hello")],
        vec![answer(200, "no digest")],
    ] {
        let (_server, all) = download(answers).await;
        assert!(matches!(all, Err(ClientError::Protocol(_))), "{all:?}");
    }
}

#[tokio::test]
async fn frames_are_taken_up_where_they_broke() {
    let frame = |offset: u64, text: &str| {
        let at = "2026-11-15T09:43:00.250Z";
        format!("{{\"at\":\"{at}\",\"stream\":\"stderr\",\"offset\":{offset},\"text\":\"{text}\"}}\n")
    };
    let long = "100000";
    let half = frame(0, "one") + &frame(3, "two")[..20];
    let server = Server::start(vec![
        answer_with(200, &[("content-length", long)], &half),
        answer_with(200, &[], &(frame(3, "two") + "nonsense\n")),
    ])
    .await;
    let query = LogQuery { stream: Some(Stream::Stderr), follow: true, ..LogQuery::default() };
    let mut frames = client(&server).log_frames(7, query);
    let mut seen = Vec::new();
    let error = loop {
        match frames.next().await {
            Ok(frame) => seen.push(frame.unwrap().1),
            Err(error) => break error,
        }
    };
    assert_eq!(seen, [b"one".to_vec(), b"two".to_vec()]);
    assert!(matches!(error, ClientError::Protocol(_)), "{error}");
    let requests = server.requests();
    assert!(
        requests[0].starts_with("GET /api/v1/jobs/7/log?stream=stderr&follow=true HTTP/1.1\r\n"),
        "{requests:?}"
    );
    assert!(
        requests[1].starts_with("GET /api/v1/jobs/7/log?stream=stderr&from=3&follow=true "),
        "{requests:?}"
    );
    assert!(requests[0].contains("accept: application/x-ndjson\r\n"), "{requests:?}");
}

#[tokio::test]
async fn ground_3_a_followed_group_is_read_once_and_again_at_its_end() {
    let group = |state: &str, completed_at: &str| {
        let counts =
            r#"{"total":1,"pending":0,"active":1,"succeeded":0,"failed":0,"crashed":0,"cancelled":0}"#;
        let at = r#""2026-11-15T09:43:00.250Z""#;
        let text = format!(
            r#"{{"id":7,"name":null,"owner":null,"tags":[],"state":"{state}","closed":true,
            "cancel_requested":false,"counts":{counts},"retry_of":null,"created_at":{at},
            "completed_at":{completed_at}}}"#
        );
        answer(200, &text)
    };
    let progress = "event: progress\ndata: {\"id\":8,\"progress\":[]}\n\n";
    let end = "event: group\ndata: {\"id\":7,\"state\":\"succeeded\"}\n\n";
    let stream = format!("retry: 2000\nid: 3\n\n{progress}{end}");
    let ended = group("succeeded", r#""2026-11-15T09:44:00.250Z""#);
    let answers = vec![answer_with(200, &[EVENTS], &stream), group("running", "null"), ended];
    let server = Server::start(answers).await;
    let mut follow = client(&server).follow_group(7);
    assert_eq!(follow.next().await.unwrap().unwrap().state, "running");
    assert_eq!(follow.next().await.unwrap().unwrap().state, "succeeded");
    assert!(follow.next().await.unwrap().is_none());
    let requests: Vec<_> =
        server.requests().iter().map(|request| request.lines().next().unwrap_or("").to_owned()).collect();
    let read = "GET /api/v1/groups/7 HTTP/1.1".to_owned();
    assert_eq!(requests, ["GET /api/v1/events?group=7 HTTP/1.1".to_owned(), read.clone(), read]);
}
