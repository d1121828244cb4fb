//! Recipes, checks and expiry over HTTP: a long poll plays the worker.

use serde_json::{Value, json};

use crate::queries::{hall, work};
use crate::server::{Reply, TestServer};

async fn put(hall: &TestServer, key: &str, recipe: &Value) -> Reply {
    let path = format!("/api/v1/recipes/{key}");
    hall.send("PUT", &path, &hall.client, &[], recipe.to_string().as_bytes()).await
}

async fn get(hall: &TestServer, path: &str) -> Reply {
    hall.send("GET", path, &hall.viewer, &[], b"").await
}

async fn make(hall: &TestServer, asked: &Value) -> Reply {
    hall.send("POST", "/api/v1/recipes", &hall.client, &[], asked.to_string().as_bytes()).await
}

fn keys(reply: &Reply) -> Vec<String> {
    let items = reply.json()["items"].as_array().unwrap().clone();
    items.iter().map(|item| item["key"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn q23_q24_a_recipe_is_put_made_read_listed_and_removed() {
    let hall = hall().await;
    let first = put(&hall, "2026/report%20%C3%A4.csv", &json!({"query": "/a-z/b/", "title": "R"})).await;
    assert_eq!(
        (first.status, first.header("location")),
        (201, Some("/api/v1/recipes/2026/report%20%C3%A4.csv"))
    );
    let shown = first.json();
    assert_eq!(
        (&shown["key"], &shown["query"], &shown["title"], &shown["state"]),
        (&json!("2026/report ä.csv"), &json!("a-z/b"), &json!("R"), &json!("recipe"))
    );
    let same = put(&hall, "2026/report%20%C3%A4.csv", &json!({"query": "a-z/b", "title": "R"})).await;
    assert_eq!(same.status, 200);
    // A missing key is made by asking for it.
    let path = "/q/-R/2026/report~.~xc3~xa4.csv/-";
    let (value, ()) = tokio::join!(hall.send("GET", path, &hall.client, &[], b""), async {
        work(&hall, "one").await;
        work(&hall, "two").await;
    });
    assert_eq!((value.status, value.text().as_str()), (200, "two"), "{value:?}");
    let ready = get(&hall, "/api/v1/recipes/2026/report%20%C3%A4.csv").await.json();
    assert_eq!(
        (&ready["state"], &ready["size"], &ready["media_type"]),
        (&json!("ready"), &json!(3), &json!("text/html"))
    );
    for key in ["b", "c/1", "c/2"] {
        assert_eq!(put(&hall, key, &json!({"query": "a"})).await.status, 201);
    }
    let page = get(&hall, "/api/v1/recipes?limit=2").await;
    assert_eq!(keys(&page), ["2026/report ä.csv", "b"]);
    let cursor = page.json()["next_cursor"].as_str().unwrap().to_owned();
    assert!(page.header("link").unwrap().contains(&cursor));
    assert_eq!(keys(&get(&hall, &format!("/api/v1/recipes?limit=2&cursor={cursor}")).await), ["c/1", "c/2"]);
    assert_eq!(keys(&get(&hall, "/api/v1/recipes?prefix=c/").await), ["c/1", "c/2"]);
    let removed = hall.send("DELETE", "/api/v1/recipes/b", &hall.client, &[], b"").await;
    assert_eq!(removed.status, 204);
    get(&hall, "/api/v1/recipes/b").await.problem(404, "not_found");
    hall.send("DELETE", "/api/v1/recipes/b", &hall.client, &[], b"").await.problem(404, "not_found");
    get(&hall, "/q/-R/b/-").await.problem(400, "unknown_source");
}

#[tokio::test(flavor = "multi_thread")]
async fn q23_many_recipes_are_made_by_one_request() {
    let hall = hall().await;
    for (key, query) in [("one", "a"), ("two", "-R/one/-/b"), ("wrong", "nothing"), ("data", "a")] {
        assert_eq!(put(&hall, key, &json!({"query": query})).await.status, 201);
    }
    hall.send("PUT", "/api/v1/sources/data", &hall.client, &[], b"mine").await;
    make(&hall, &json!({"keys": ["one", "none"]})).await.problem(404, "not_found");
    let all = json!({"keys": ["one", "two", "wrong", "data"], "dry_run": true});
    let would = make(&hall, &all).await.json()["items"].clone();
    let of = |items: &Value, field: &str| -> Vec<Value> {
        items.as_array().unwrap().iter().map(|item| item[field].clone()).collect()
    };
    assert_eq!(of(&would, "state"), ["recipe", "recipe", "failed", "ready"]);
    assert_eq!(of(&would, "runs"), [1, 2, 0, 0]);
    assert!(would[2]["why"].as_str().unwrap().contains("there is no command \"nothing\""), "{would}");
    assert_eq!(would[3]["why"], "data was put under this key");
    assert!(
        hall.get("/api/v1/jobs").await.json()["items"].as_array().unwrap().is_empty(),
        "nothing is queued"
    );
    let all = json!({"keys": ["one", "two", "wrong", "data"]});
    let made = make(&hall, &all).await.json()["items"].clone();
    assert_eq!(of(&made, "state"), ["making", "making", "failed", "ready"]);
    assert_eq!(of(&made, "runs"), [1, 1, 0, 0], "the step that both need runs once");
    let job = hall.get(&format!("/api/v1/jobs/{}", made[1]["promise"])).await.json();
    assert_eq!(job["priority"], 200, "what is interactive goes first");
    work(&hall, "1").await;
    work(&hall, "2").await;
    let made = make(&hall, &json!({"keys": ["one", "two"]})).await.json()["items"].clone();
    assert_eq!(of(&made, "state"), ["ready", "ready"]);
    make(&hall, &json!({"keys": vec!["one"; 1_001]})).await.problem(400, "bad_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_recipe_is_refused_and_a_cycle_is_named_when_it_is_asked_for() {
    let hall = hall().await;
    put(&hall, "r", &json!({"query": "a/B"})).await.problem(400, "query_syntax");
    put(&hall, "r", &json!({"query": ""})).await.problem(400, "query_syntax");
    put(&hall, "r", &json!({"query": "a", "tilte": "x"})).await.problem(400, "bad_request");
    put(&hall, "blake3/x", &json!({"query": "a"})).await.problem(400, "bad_request");
    put(&hall, "%20", &json!({"query": 1})).await.problem(400, "bad_request");
    let detail =
        put(&hall, "r", &json!({"query": "a", "title": "x".repeat(4_097)})).await.problem(400, "bad_request");
    assert!(detail.contains("title: a text has up to 4096 bytes"), "{detail}");
    assert!(keys(&get(&hall, "/api/v1/recipes").await).is_empty());
    put(&hall, "x", &json!({"query": "-R/y/-/a"})).await;
    put(&hall, "y", &json!({"query": "-R/x/-/b"})).await;
    let refused = hall.send("GET", "/q/-R/x/-/b", &hall.client, &[], b"").await;
    let detail = refused.problem(400, "recipe_cycle");
    assert!(detail.ends_with("x -> y -> x"), "{detail}");
    let shown = get(&hall, "/api/v1/recipes/x").await.json();
    assert_eq!(shown["state"], "failed");
    put(&hall, "z", &json!({"query": "zz"})).await;
    let refused = hall.send("GET", "/q/-R/z/-/b", &hall.client, &[], b"").await;
    let detail = refused.problem(400, "unknown_command");
    assert_eq!(detail, "column 1: in the recipe of \"z\": there is no command \"zz\"");
}

const CHECKED: &str = r#"{"commands":{"a":{"version":"1","command":
    {"run":["a"],"args":[{"name":"x","default":"z"}],"check":["stat","{x}"],"check_every":"100ms"}}}}"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_check_is_a_job_whose_answer_is_explained_and_whose_failure_is_that_of_the_step() {
    let hall = hall().await;
    hall.send("PUT", "/api/v1/commands", &hall.worker, &[], CHECKED.as_bytes()).await;
    hall.send("GET", "/q/a/b", &hall.viewer, &[], b"").await.problem(409, "not_computed");
    let (value, check) = tokio::join!(hall.send("GET", "/q/a/b", &hall.client, &[], b""), async {
        let check = work(&hall, "7 rows").await;
        work(&hall, "one").await;
        work(&hall, "two").await;
        check
    });
    assert_eq!((value.status, value.text().as_str()), (200, "two"), "{value:?}");
    assert_eq!((&check["job"]["type"], &check["job"]["params"]["check"]), (&json!("q.a"), &json!(true)));
    let plan = get(&hall, "/api/v1/queries/plan?query=a/b").await.json();
    let answered = &plan["steps"][0]["check"];
    assert_eq!((&answered["answer"], &answered["job"]), (&json!("7 rows"), &check["job"]["id"]));
    assert!(answered["age_ms"].is_u64() && answered["took_ms"].is_u64(), "{answered}");
    assert!(plan["steps"][1].get("check").is_none());
    // The next run fails: so does the step, and only who asks for it gets what is stale.
    let failed = async || {
        let path = "/q/a/b?wait=20";
        let ask = hall.send("GET", path, &hall.client, &[], b"");
        let mut ask = std::pin::pin!(ask);
        let offer =
            r#"{"slots":1,"wait_s":1,"abilities":"commands=[a@1,b@1]","accepts":"type in (q.a,q.b)"}"#;
        let refuse = async {
            let reply = hall.work("/api/v1/vacancies", offer).await;
            if reply.status == 200 && !reply.json()["attempts"].as_array().unwrap().is_empty() {
                let given = reply.json()["attempts"][0].clone();
                let outcome =
                    br#"{"outcome":"failed","error":{"reason":"exit_2","explanation":"no connection"}}"#;
                assert_eq!(hall.word(&given, "outcome", outcome).await.status, 200);
            }
        };
        tokio::join!(&mut ask, refuse).0
    };
    let until_failed = async {
        loop {
            let reply = failed().await;
            if reply.status != 200 {
                return reply;
            }
        }
    };
    let reply = until_failed.await;
    let detail = reply.problem(422, "step_failed");
    assert!(
        detail.starts_with("the check of a (job ") && detail.ends_with("exit_2: no connection"),
        "{detail}"
    );
    let stale = hall.send("GET", "/q/a/b?stale=ok", &hall.viewer, &[], b"").await;
    assert_eq!((stale.status, stale.text().as_str()), (200, "two"), "{stale:?}");
    let plan = get(&hall, "/api/v1/queries/plan?query=a/b").await.json();
    let check = &plan["steps"][0]["check"];
    assert_eq!((&check["error"], check.get("answer")), (&json!("exit_2: no connection"), None));
    hall.send("GET", "/q/a/b?stale=yes", &hall.client, &[], b"").await.problem(400, "bad_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn q27_an_expired_value_is_made_again_and_is_readable_by_its_promise_and_by_who_allows_it() {
    let hall = hall().await;
    let declared = r#"{"commands":{"a":{"version":"1","command":{"run":["a"],"expires":"200ms"}}}}"#;
    hall.send("PUT", "/api/v1/commands", &hall.worker, &[], declared.as_bytes()).await;
    let asked = hall.send("GET", "/q/a?wait=0", &hall.client, &[], b"").await.json();
    work(&hall, "one").await;
    let promise = format!("/api/v1/queries/{}/value", asked["id"]);
    assert_eq!(get(&hall, &promise).await.text(), "one");
    crate::server::wait_until("the end of the term", async || get(&hall, "/q/a").await.status == 409).await;
    assert_eq!(get(&hall, &promise).await.text(), "one", "by its promise");
    let stale = get(&hall, "/q/a?stale=ok").await;
    assert_eq!((stale.status, stale.text().as_str()), (200, "one"));
    let (value, _) = tokio::join!(hall.send("GET", "/q/a", &hall.client, &[], b""), work(&hall, "two"));
    assert_eq!((value.text().as_str(), value.header("jobhall-cache")), ("two", Some("computed")));
    assert_eq!(get(&hall, &promise).await.text(), "one");
}
