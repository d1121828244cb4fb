//! Invalid or too large request heads; invalid tokens, hosts and addresses.

use jobhall_tests::Rig;

use super::guarded::Guarded;

/// Input that is not HTTP is refused or the connection is closed, without a wait.
#[test]
fn garbage_is_refused_and_leaves_nothing_behind() {
    let hall = Guarded::server();
    let every_byte: Vec<u8> = (0..=255).collect();
    let garbage: [(&str, Vec<u8>); 9] = [
        ("no request", b"GARBAGE\r\n\r\n".to_vec()),
        ("every byte", every_byte.repeat(20)),
        ("a TLS greeting", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".repeat(3)),
        ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec()),
        ("a version of the future", b"GET / HTTP/9.9\r\n\r\n".to_vec()),
        ("nothing but lines", b"\r\n\r\n\r\n\r\n\r\n\r\n".to_vec()),
        ("a NUL in the path", b"GET /\0 HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
        ("a NUL in a header", b"GET / HTTP/1.1\r\nHost: local\0host\r\n\r\n".to_vec()),
        ("a folded line", b"GET / HTTP/1.1\r\nHost: localhost\r\n folded: x\r\n\r\n".to_vec()),
    ];
    for (name, bytes) in garbage {
        let answer = hall.raw().say(bytes).close_writing().answer();
        assert!(matches!(answer.status, 0 | 400..=499 | 505), "{name}: {}", answer.head);
    }
    hall.is_unharmed();
}

#[test]
fn a_head_that_is_too_large_is_refused() {
    let hall = Guarded::server();
    let long = format!("X-Long: {}\r\n", "x".repeat(100_000));
    assert_eq!(hall.raw().say(hall.head("GET /livez", &long)).answer().status, 431);
    let many: String = (0..2_000).map(|n| format!("X-{n}: y\r\n")).collect();
    assert_eq!(hall.raw().say(hall.head("GET /livez", &many)).answer().status, 431);
    let path = format!("GET /{}", "x".repeat(100_000));
    let status = hall.raw().say(hall.head(&path, "")).answer().status;
    assert!(matches!(status, 414 | 431), "{status}");
    hall.is_unharmed();
}

#[test]
fn what_follows_a_good_request_on_its_connection_is_no_request() {
    let hall = Guarded::server();
    let mut bytes = hall.head("GET /livez", "").into_bytes();
    bytes.extend_from_slice(b"\x00\x01garbage without end\r\n\r\n");
    let all = String::from_utf8_lossy(&hall.raw().say(bytes).rest()).into_owned();
    assert!(all.starts_with("HTTP/1.1 200"), "{all}");
    assert!(all.matches("HTTP/1.1 ").count() <= 2 && !all[12..].contains("HTTP/1.1 200"), "{all}");
    let three = [hall.head("GET /livez", ""), hall.head("GET /nothing", "")].concat()
        + &hall.head("GET /livez", "Connection: close\r\n");
    let all = String::from_utf8_lossy(&hall.raw().say(three).rest()).into_owned();
    let statuses: Vec<_> = all.match_indices("HTTP/1.1 ").map(|(at, _)| &all[at + 9..at + 12]).collect();
    assert_eq!(statuses, ["200", "404", "200"], "pipelined valid requests are answered in order");
    hall.is_unharmed();
}

#[test]
fn l7_missing_and_wrong_tokens_are_challenged() {
    let hall = Guarded::server();
    let token = hall.token();
    let almost = format!("{}{}", &token[..token.len() - 1], if token.ends_with('0') { '1' } else { '0' });
    let other = Rig::server(&[]).token();
    let headers = [
        "Authorization: Bearer\r\n".to_owned(),
        "Authorization: Bearer jh_0_0\r\n".to_owned(),
        format!("Authorization: Basic {token}\r\n"),
        format!("Authorization: Bearer {almost}\r\n"),
        format!("Authorization: Bearer {other}\r\n"),
        format!("Authorization: Bearer {}\r\n", "x".repeat(10_000)),
        "Authorization: Bearer \u{fffd}\r\n".to_owned(),
    ];
    let firsts = ["GET /api/v1/jobs", "POST /api/v1/jobs", "POST /api/v1/vacancies", "GET /nothing"];
    let ask = |first: &str, header: &str| {
        let request = format!("{first} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{header}\r\n");
        hall.raw().say(request).answer()
    };
    let challenged = |first: &str, header: &str| {
        let answer = ask(first, header);
        assert_eq!((answer.status, answer.code().as_str()), (401, "unauthorized"), "{first} {header:.80}");
        assert!(answer.head.to_lowercase().contains("www-authenticate: bearer"), "{}", answer.head);
    };
    firsts.iter().for_each(|first| challenged(first, ""));
    for (header, first) in headers.iter().zip(firsts.iter().cycle()) {
        challenged(first, header);
    }
    // Ten invalid tokens per minute are checked; a valid one always is.
    (headers.len()..10).for_each(|_| challenged(firsts[0], &headers[1]));
    let answer = ask(firsts[0], &headers[1]);
    assert_eq!((answer.status, answer.code().as_str()), (429, "too_many_requests"));
    assert!(answer.head.to_lowercase().contains("retry-after: "), "{}", answer.head);
    assert_eq!(ask(firsts[0], &format!("Authorization: Bearer {token}\r\n")).status, 200);
    hall.is_unharmed();
}

#[test]
fn hosts_and_origins_that_are_not_ours_are_refused() {
    let hall = Guarded::server();
    let (token, lines) = (hall.token(), "Connection: close\r\nContent-Length: 2\r\n");
    for host in ["evil.example", "localhost.evil.example", "", "localhost@evil.example"] {
        let request = format!(
            "POST /api/v1/jobs HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n{lines}\r\n{{}}"
        );
        let answer = hall.raw().say(request).answer();
        assert_eq!((answer.status, answer.code().as_str()), (421, "misdirected"), "{host:?}");
    }
    let foreign = hall.request("POST /api/v1/jobs", "Origin: http://evil.example\r\n", "{}");
    assert_eq!(hall.raw().say(foreign).answer().code(), "forbidden");
    hall.is_unharmed();
}

#[test]
fn l3_unknown_and_malformed_ids_are_told_apart() {
    let hall = Guarded::server();
    let cases = [
        ("GET /api/v1/jobs/999999", 404, "not_found"),
        ("GET /api/v1/jobs/abc", 400, "bad_request"),
        ("GET /api/v1/jobs/0", 400, "bad_request"),
        ("GET /api/v1/jobs/-1", 400, "bad_request"),
        ("GET /api/v1/jobs/9007199254740993", 400, "bad_request"),
        ("GET /api/v1/jobs/%ff", 400, "bad_request"),
        ("GET /api/v1/jobs/1%00", 400, "bad_request"),
        ("GET /api/v1/jobs/../../etc/passwd", 404, "not_found"),
        ("GET /api/v1/jobs/999999/log", 404, "not_found"),
        ("GET /api/v1/jobs/1/log?attempt=1-77", 404, "not_found"),
        ("GET /api/v1/jobs/1/log?attempt=x", 400, "bad_request"),
        ("GET /api/v1/jobs/999999/explain", 404, "not_found"),
        ("GET /api/v1/jobs/1/result", 409, "conflict"),
        ("POST /api/v1/jobs/999999/cancel", 404, "not_found"),
        ("POST /api/v1/jobs/999999/retry", 404, "not_found"),
        ("POST /api/v1/jobs/1/retry", 409, "conflict"),
        ("GET /api/v1/jobs?limit=0", 400, "bad_request"),
        ("GET /api/v1/jobs?limit=100000", 400, "bad_request"),
        ("GET /api/v1/jobs?cursor=%00", 400, "bad_request"),
        ("GET /api/v1/jobs?state=done", 400, "bad_request"),
        ("GET /api/v1/jobs?colour=red", 400, "bad_request"),
        ("GET /api/v1/nothing", 404, "not_found"),
        ("DELETE /api/v1/jobs/1", 405, "method_not_allowed"),
        ("BREW /api/v1/jobs", 405, "method_not_allowed"),
    ];
    for (first, status, code) in cases {
        let answer = hall.raw().say(hall.request(first, "", "")).answer();
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{first}: {}", answer.body);
    }
    hall.is_unharmed();
}
