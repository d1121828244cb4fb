use crate::server::TestServer;

/// A server with data that visitors without a token must not see.
async fn hall() -> TestServer {
    let hall = TestServer::start().await;
    let failing = hall.submit(r#"{"type":"thumbnail","queue":"pictures"}"#).await;
    let given = hall.take().await;
    let outcome = br#"{"outcome":"failed","retry":"never","error":{"reason":"<b>\"no\" & 'never'</b>"}}"#;
    assert_eq!(hall.word(&given, "outcome", outcome).await.status, 200);
    hall.until(failing, "failed").await;
    hall.submit(r#"{"type":"thumbnail","queue":"pictures"}"#).await;
    hall.take().await;
    hall
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_see_that_a_hall_is_here_and_nothing_of_it() {
    let hall = hall().await;
    for token in ["", "jh_wrong", hall.worker.as_str()] {
        let page = hall.send("GET", "/", token, &[], b"").await;
        assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
        let text = page.text();
        assert!(text.contains("<h1>Jobhall"));
        for secret in ["pictures", "thumbnail", "never", "<table", "Queues", "Workers", "Up for"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_known_sees_the_hall_at_a_glance() {
    let hall = hall().await;
    let page = hall.send("GET", "/", &hall.viewer, &[], b"").await;
    let text = page.text();
    for part in [
        "Signed in as v.",
        "<tr><td>assigned<td>1\n",
        "<tr><td>failed since start<td>1\n",
        "<tr><td>pictures<td>1<td>0<td>\n",
        "<tr><td>w<td>0<td>1<td>2-1\n",
        "<tr><td>1<td>failed<td>thumbnail<td>&lt;b&gt;&quot;no&quot; &amp; &#39;never&#39;&lt;/b&gt;<td>20",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains("<b>") && !text.contains("<script"));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'"), "{policy}");
    assert_eq!(page.header("cache-control"), Some("no-store"));
}
