use crate::server::TestServer;

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
    let foreign = [("Cookie", "jobhall_session=0000")];
    hall.send("GET", "/api/v1/jobs", "", &foreign, b"").await.problem(401, "unauthorized");
}
