use crate::followers::{leadership, node, to};
use crate::server::{Reply, TestServer, read_until};
use jobhall_server::Listen;

#[tokio::test(flavor = "multi_thread")]
async fn a_link_lets_a_browser_in_once_and_its_cookie_changes_things_from_our_pages_alone() {
    let hall = TestServer::start().await;
    let code = hall.tokens.code();
    assert_eq!(hall.send("HEAD", &format!("/?code={code}"), "", &[], b"").await.status, 200, "not consumed");
    let entered = hall.send("GET", &format!("/?code={code}"), "", &[], b"").await;
    assert_eq!((entered.status, entered.header("location")), (303, Some("/")), "removed from the address");
    let cookie = entered.header("set-cookie").unwrap().to_owned();
    for word in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
        assert!(cookie.contains(word), "{cookie}");
    }
    assert!(!cookie.contains("Secure"), "there is no TLS here");
    let cookie = cookie.split(';').next().unwrap();
    let own = format!("http://{}", hall.address);
    let send = async |method: &str, path: &str, more: &[(&str, &str)]| {
        let headers = [&[("Cookie", cookie)], more].concat();
        hall.send(method, path, "", &headers, br#"{"type":"a"}"#).await
    };
    assert_eq!(send("GET", "/api/v1/tokens", &[]).await.status, 200, "as the administrator");
    send("POST", "/api/v1/jobs", &[]).await.problem(403, "forbidden");
    send("POST", "/api/v1/jobs", &[("Origin", "http://evil.example")]).await.problem(403, "forbidden");
    assert_eq!(send("POST", "/api/v1/jobs", &[("Origin", &own)]).await.status, 201);
    let again = hall.send("GET", &format!("/?code={code}"), "", &[], b"").await;
    assert!(again.problem(401, "unauthorized").contains("has been used"));
    assert_eq!(hall.send("GET", "/", "", &[], b"").await.status, 200);
    let foreign = format!("{}=0000", cookie.split('=').next().unwrap());
    let foreign = [("Cookie", foreign.as_str())];
    hall.send("GET", "/api/v1/jobs", "", &foreign, b"").await.problem(401, "unauthorized");
}

/// Signs a browser in with these headers; returns the response with the cookie.
async fn sign_in(hall: &TestServer, more: &[(&str, &str)]) -> Reply {
    let reply = hall.send("GET", &format!("/?code={}", hall.tokens.code()), "", more, b"").await;
    assert_eq!(reply.status, 303, "{reply:?}");
    reply
}

/// The cookie without its attributes.
fn cookie(reply: &Reply) -> String {
    reply.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_l8_halls_on_one_host_have_cookies_of_their_own() {
    let hall = TestServer::start().await;
    let port = hall.address.rsplit(':').next().unwrap();
    let own = cookie(&sign_in(&hall, &[]).await);
    assert!(own.starts_with(&format!("jobhall_session_{port}=")), "{own}");
    let other = "jobhall_session_1=0000; jobhall_session=0000; ";
    let both = format!("{other}{own}");
    assert_eq!(hall.send("GET", "/api/v1/jobs", "", &[("Cookie", &both)], b"").await.status, 200);
    hall.send("GET", "/api/v1/jobs", "", &[("Cookie", other)], b"").await.problem(401, "unauthorized");
    let named = cookie(&sign_in(&hall, &[("Host", "hall.example")]).await);
    assert!(named.starts_with("jobhall_session="), "{named}");
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_l8_a_sign_out_ends_the_cookie_and_its_streams() {
    let mut hall = TestServer::start().await;
    let (leader, follower) = (node(Listen::default()).await, node(Listen::default()).await);
    leader.open(leadership(&hall)).await;
    follower.forward(to(leader.address)).await.unwrap();
    for address in [hall.address.clone(), follower.address.to_string()] {
        hall.address = address;
        let (cookie, other) = (cookie(&sign_in(&hall, &[]).await), cookie(&sign_in(&hall, &[]).await));
        let page = hall.send("GET", "/", "", &[("Cookie", &cookie)], b"").await;
        assert!(page.text().contains(r#"<form method="post" action="/logout">"#), "{}", page.text());
        let mut events = hall.open("GET", "/api/v1/events", "", &[("Cookie", &cookie)], b"").await;
        read_until(&mut events, "retry:").await;
        let own = format!("http://{}", hall.address);
        hall.send("POST", "/logout", "", &[("Cookie", &cookie)], b"").await.problem(403, "forbidden");
        let out = hall.send("POST", "/logout", "", &[("Cookie", &cookie), ("Origin", &own)], b"").await;
        assert_eq!((out.status, out.header("location")), (303, Some("/")), "{out:?}");
        assert!(out.header("set-cookie").unwrap().contains("=; Path=/; Max-Age=0;"), "{out:?}");
        read_until(&mut events, "0\r\n\r\n").await;
        let after = hall.send("GET", "/api/v1/jobs", "", &[("Cookie", &cookie)], b"").await;
        after.problem(401, "unauthorized");
        let kept = hall.send("GET", "/api/v1/jobs", "", &[("Cookie", &other)], b"").await;
        assert_eq!(kept.status, 200, "another browser stays signed in");
    }
    let detail = hall.send("POST", "/logout", &hall.viewer, &[], b"").await.problem(400, "bad_request");
    assert!(detail.contains("cookie"), "{detail}");
    let page = hall.send("GET", "/", &hall.viewer, &[], b"").await;
    assert!(!page.text().contains("/logout"), "a token has nothing to sign out of");
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_l8_the_scheme_of_an_origin_counts() {
    let mut hall = TestServer::start().await;
    let (leader, follower) = (node(Listen::default()).await, node(Listen::default()).await);
    leader.open(leadership(&hall)).await;
    follower.forward(to(leader.address)).await.unwrap();
    for address in [hall.address.clone(), follower.address.to_string()] {
        hall.address = address;
        let plain = cookie(&sign_in(&hall, &[]).await);
        let behind = sign_in(&hall, &[("X-Forwarded-Proto", "https, http")]).await;
        assert!(behind.header("set-cookie").unwrap().ends_with("; Secure"), "{behind:?}");
        let post = async |scheme: &str, proto: &str| {
            let origin = format!("{scheme}://{}", hall.address);
            let headers = [("Cookie", plain.as_str()), ("Origin", &origin), ("X-Forwarded-Proto", proto)];
            hall.send("POST", "/api/v1/jobs", "", &headers, br#"{"type":"a"}"#).await
        };
        for (scheme, proto) in [("http", "http"), ("http", ""), ("HTTP", "x"), ("https", "https")] {
            assert_eq!(post(scheme, proto).await.status, 201, "{scheme} {proto}");
        }
        for (scheme, proto) in [("https", ""), ("https", "http"), ("file", ""), ("http", "https"), ("", "")] {
            let detail = post(scheme, proto).await.problem(403, "forbidden");
            assert!(detail.contains("X-Forwarded-Proto"), "{detail}");
        }
    }
}
