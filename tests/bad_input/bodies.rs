//! Bodies that are truncated, too large, not JSON, or JSON of the wrong type.

use super::guarded::Guarded;

#[test]
fn lengths_that_are_wrong_make_no_job() {
    let hall = Guarded::server();
    let job = r#"{"type":"late"}"#;
    for (name, lines) in [
        ("not a number", "Content-Length: abc\r\n"),
        ("negative", "Content-Length: -1\r\n"),
        ("beyond all numbers", "Content-Length: 99999999999999999999999\r\n"),
        ("two that differ", "Content-Length: 15\r\nContent-Length: 16\r\n"),
        ("a list", "Content-Length: 15, 16\r\n"),
        ("chunks of nonsense", "Transfer-Encoding: chunked\r\n"),
        ("an unknown coding", "Transfer-Encoding: gzip\r\n"),
    ] {
        let answer = hall.raw().say(hall.head("POST /api/v1/jobs", lines) + job).close_writing().answer();
        assert!(matches!(answer.status, 0 | 400..=499 | 501), "{name}: {} {}", answer.head, answer.body);
    }
    // The announced length is too long: the body is never complete.
    let cut = hall.head("POST /api/v1/jobs", "Content-Length: 500\r\n") + job;
    let answer = hall.raw().say(&cut).close_writing().answer();
    assert!(matches!(answer.status, 0 | 400), "{} {}", answer.head, answer.body);
    // A client that disconnects before the end.
    hall.raw().say(&cut);
    hall.is_unharmed();
}

#[test]
fn a_body_that_is_too_large_is_refused_before_it_is_read() {
    let hall = Guarded::server();
    let head = hall.head("POST /api/v1/jobs", "Content-Length: 100000000\r\n");
    let answer = hall.raw().say(head).close_writing().answer();
    assert_eq!((answer.status, answer.code().as_str()), (413, "too_large"), "{}", answer.body);
    assert!(answer.body.contains("1048576"), "the limit is named: {}", answer.body);
    // With chunked encoding the length is not known in advance.
    let mut raw = hall.raw();
    raw.say(hall.head("POST /api/v1/jobs", "Transfer-Encoding: chunked\r\n"));
    let chunk = format!("{:x}\r\n{}\r\n", 65_536, "x".repeat(65_536));
    (0..40).for_each(|_| {
        raw.say(&chunk);
    });
    let answer = raw.answer();
    assert!(matches!(answer.status, 0 | 413), "{} {}", answer.head, answer.body);
    hall.is_unharmed();
}

#[test]
fn l2_what_is_wrong_with_a_job_is_named() {
    let hall = Guarded::server();
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let with = |fields: &str| format!(r#"{{"type":"t",{fields}}}"#).into_bytes();
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("nothing", Vec::new(), "the body is wrong"),
        ("a NUL", b"\0".to_vec(), "the body is wrong"),
        ("half of it", br#"{"type":"#.to_vec(), "EOF"),
        ("two of it", br#"{"type":"t"}{"type":"t"}"#.to_vec(), "trailing"),
        ("no UTF-8", b"{\"type\":\"\xff\xfe\"}".to_vec(), "unicode"),
        ("half a surrogate", br#"{"type":"\ud800"}"#.to_vec(), "the body is wrong"),
        ("another kind", b"7".to_vec(), "the body is wrong"),
        ("no type", b"{}".to_vec(), "type"),
        ("a type that is a number", br#"{"type":7}"#.to_vec(), "string"),
        ("an empty type", br#"{"type":""}"#.to_vec(), "type"),
        ("a type with a NUL", br#"{"type":"a\u0000b"}"#.to_vec(), "type"),
        ("a type that is too long", format!(r#"{{"type":"{}"}}"#, "t".repeat(200)).into_bytes(), "128"),
        ("a key with a NUL", with(r#""key":"a\u0000""#), "key"),
        ("a key that is too long", with(&format!(r#""key":"{}""#, "k".repeat(600))), "512"),
        ("an unknown field", with(r#""prioritty":5"#), "prioritty"),
        ("a field twice", br#"{"type":"t","type":"t"}"#.to_vec(), "type"),
        ("a priority that is text", with(r#""priority":"high""#), "priority"),
        ("a priority beyond all numbers", with(r#""priority":1e99"#), "priority"),
        ("a time that is none", with(r#""run_at":"tomorrow""#), "tomorrow"),
        ("invalid needs", with(r#""needs":"gpu >>> 4""#), "needs"),
        ("no attempt at all", with(r#""retry":{"max_attempts":0}"#), "attempts"),
        ("a backoff of another kind", with(r#""retry":{"backoff":"never"}"#), "backoff"),
        ("params that are too large", with(&format!(r#""params":"{}""#, "p".repeat(300_000))), "262144"),
        ("params that are too deep", with(&format!(r#""params":{}"#, nested(100))), "64"),
        ("far too deep", nested(200_000).into_bytes(), "the body is wrong"),
        ("a wrong one of many", br#"[{"type":"t"},{"type":""}]"#.to_vec(), "job 1"),
        ("too many", format!("[{}]", vec![r#"{"type":"t"}"#; 10_001].join(",")).into_bytes(), "10000"),
    ];
    for (name, body, word) in cases {
        let answer = hall.post("/api/v1/jobs", body);
        assert_eq!((answer.status, answer.code().as_str()), (400, "bad_request"), "{name}: {}", answer.body);
        assert!(answer.body.contains(word), "{name} says {word:?}: {}", answer.body);
    }
    hall.is_unharmed();
}

#[test]
fn idempotency_keys_that_are_none_are_refused() {
    let hall = Guarded::server();
    for (key, word) in [("", "idempotency"), (&"k".repeat(300), "256")] {
        let lines = format!("Idempotency-Key: {key}\r\n");
        let answer = hall.raw().say(hall.request("POST /api/v1/jobs", &lines, r#"{"type":"t"}"#)).answer();
        assert_eq!(answer.status, 400, "{key:.9}: {}", answer.body);
        assert!(answer.body.to_lowercase().contains(word), "{}", answer.body);
    }
    hall.is_unharmed();
}

#[test]
fn vacancies_and_renewals_that_make_no_sense_are_refused() {
    let hall = Guarded::server();
    let cases = [
        ("/api/v1/vacancies", r#"{"slots":0}"#, "slots"),
        ("/api/v1/vacancies", r#"{"slots":1000000}"#, "slots"),
        ("/api/v1/vacancies", r#"{"slots":-1}"#, "slots"),
        ("/api/v1/vacancies", r#"{"slots":1,"wait_s":3600}"#, "wait_s"),
        ("/api/v1/vacancies", r#"{"slots":1,"abilities":"os=="}"#, "abilities"),
        ("/api/v1/vacancies", r#"{"slots":1,"accepts":"queue in ("}"#, "accepts"),
        ("/api/v1/vacancies", r#"{"slots":1,"seats":2}"#, "seats"),
        ("/api/v1/renewals", r#"{"attempts":[{"id":"x","lease":"y"}]}"#, "attempt"),
        ("/api/v1/renewals", r#"{"attempts":7}"#, "attempts"),
    ];
    for (path, body, word) in cases {
        let answer = hall.post(path, body);
        assert_eq!((answer.status, answer.code().as_str()), (400, "bad_request"), "{body}: {}", answer.body);
        assert!(answer.body.contains(word), "{body}: {}", answer.body);
    }
    hall.is_unharmed();
}
