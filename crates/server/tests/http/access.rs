use jobhall_engine::Config;

use crate::server::TestServer;

/// Roles in the order of the columns.
const ROLES: [&str; 6] = ["viewer", "client", "worker", "admin", "job", "join"];

/// Method, a path that the route matches, and the status for each role; 0 is any status except 401 and 403.
const ROUTES: &[(&str, &str, [u16; 6])] = &[
    ("POST", "/logout", [0, 0, 0, 0, 403, 403]),
    ("GET", "/metrics", [0, 0, 403, 0, 403, 403]),
    ("POST", "/api/v1/jobs", [403, 0, 403, 0, 403, 403]),
    ("GET", "/api/v1/jobs", [0, 0, 403, 0, 403, 403]),
    ("GET", "/api/v1/jobs/1", [0, 0, 403, 0, 0, 403]),
    ("PATCH", "/api/v1/jobs/2", [403, 0, 403, 0, 403, 403]),
    ("POST", "/api/v1/jobs/2/hold", [403, 0, 403, 0, 403, 403]),
    ("POST", "/api/v1/jobs/2/release", [403, 0, 403, 0, 403, 403]),
    ("POST", "/api/v1/jobs/2/run_now", [403, 0, 403, 0, 403, 403]),
    ("POST", "/api/v1/jobs/2/cancel", [403, 0, 403, 0, 403, 403]),
    ("POST", "/api/v1/jobs/2/retry", [403, 0, 403, 0, 403, 403]),
    ("GET", "/api/v1/jobs/1/explain", [0, 0, 403, 0, 403, 403]),
    ("GET", "/api/v1/jobs/1/attempts", [0, 0, 403, 0, 403, 403]),
    ("GET", "/api/v1/jobs/1/result", [0, 0, 403, 0, 403, 403]),
    ("GET", "/api/v1/jobs/1/log", [0, 0, 403, 0, 0, 403]),
    ("GET", "/api/v1/jobs/0/events", [0, 0, 403, 0, 403, 403]),
    ("GET", "/api/v1/events?after=x", [0, 0, 403, 0, 403, 403]),
    ("POST", "/api/v1/vacancies", [403, 403, 0, 0, 403, 403]),
    ("POST", "/api/v1/attempts/1-1/accept", [403, 403, 0, 0, 403, 403]),
    ("POST", "/api/v1/attempts/1-1/progress", [403, 403, 0, 0, 0, 403]),
    ("POST", "/api/v1/attempts/1-1/log", [403, 403, 0, 0, 403, 403]),
    ("POST", "/api/v1/attempts/1-1/outcome", [403, 403, 0, 0, 403, 403]),
    ("POST", "/api/v1/attempts/1-1/jobs", [403, 403, 0, 0, 0, 403]),
    ("POST", "/api/v1/attempts/1-1/wait", [403, 403, 0, 0, 0, 403]),
    ("GET", "/api/v1/attempts/1-1/jobs/1/result", [403, 403, 0, 0, 0, 403]),
    ("PUT", "/api/v1/outcomes/a/b", [403, 0, 403, 0, 403, 403]),
    ("POST", "/api/v1/renewals", [403, 403, 0, 0, 403, 403]),
    ("GET", "/api/v1/workers", [0, 0, 403, 0, 403, 403]),
    ("POST", "/api/v1/workers/w/pause", [403, 403, 403, 0, 403, 403]),
    ("POST", "/api/v1/workers/w/resume", [403, 403, 403, 0, 403, 403]),
    ("POST", "/api/v1/workers/w/drain", [403, 403, 403, 0, 403, 403]),
    ("GET", "/api/v1/nodes", [0, 0, 403, 0, 403, 403]),
    ("GET", "/api/v1/retention", [0, 0, 403, 0, 403, 403]),
    ("PUT", "/api/v1/retention", [403, 403, 403, 0, 403, 403]),
    ("GET", "/api/v1/types", [0, 0, 403, 0, 403, 403]),
    ("PUT", "/api/v1/types/a", [403, 403, 403, 0, 403, 403]),
    ("GET", "/openapi.json", [0, 0, 0, 0, 403, 403]),
    ("GET", "/api/v1/jobs/1/artifacts", [0, 0, 403, 0, 0, 403]),
    ("GET", "/api/v1/jobs/1/artifacts/a/b", [0, 0, 403, 0, 0, 403]),
    ("PUT", "/api/v1/attempts/1-1/artifacts/a/b", [403, 403, 0, 0, 0, 403]),
    ("GET", "/api/v1/attempts/1-1/inputs", [403, 403, 0, 0, 0, 403]),
    ("GET", "/api/v1/attempts/1-1/inputs/0", [403, 403, 0, 0, 0, 403]),
    ("GET", "/api/v1/attempts/1-1/inputs/0/artifacts/a/b", [403, 403, 0, 0, 0, 403]),
    ("GET", "/api/v1/attempts/1-1/values/a", [403, 403, 0, 0, 0, 403]),
    ("GET", "/api/v1/attempts/1-1/seen", [403, 403, 0, 0, 0, 403]),
    // The job of the token is no step of a query.
    ("POST", "/api/v1/attempts/1-1/queries", [403, 403, 0, 0, 403, 403]),
    ("GET", "/api/v1/attempts/1-1/queries/1", [403, 403, 0, 0, 403, 403]),
    ("GET", "/q/a", [0, 0, 403, 0, 403, 403]),
    ("POST", "/api/v1/queries", [403, 0, 403, 0, 403, 403]),
    ("GET", "/api/v1/queries?query=a", [0, 0, 403, 0, 403, 403]),
    ("GET", "/api/v1/queries/plan?query=a", [0, 0, 403, 0, 403, 403]),
    ("GET", "/api/v1/queries/1/steps", [0, 0, 403, 0, 403, 403]),
    ("GET", "/api/v1/queries/1", [0, 0, 403, 0, 403, 403]),
    ("GET", "/api/v1/queries/1/value", [0, 0, 403, 0, 403, 403]),
    ("GET", "/api/v1/commands", [0, 0, 0, 0, 403, 403]),
    ("PUT", "/api/v1/commands", [403, 403, 0, 0, 403, 403]),
    ("GET", "/api/v1/sources", [0, 0, 403, 0, 403, 403]),
    ("GET", "/api/v1/sources/a/b", [0, 0, 403, 0, 403, 403]),
    ("PUT", "/api/v1/sources/a/b", [403, 0, 403, 0, 403, 403]),
    ("DELETE", "/api/v1/sources/a/b", [403, 0, 403, 0, 403, 403]),
    ("GET", "/api/v1/recipes", [0, 0, 403, 0, 403, 403]),
    ("POST", "/api/v1/recipes", [403, 0, 403, 0, 403, 403]),
    ("GET", "/api/v1/recipes/a/b", [0, 0, 403, 0, 403, 403]),
    ("PUT", "/api/v1/recipes/a/b", [403, 0, 403, 0, 403, 403]),
    ("DELETE", "/api/v1/recipes/a/b", [403, 0, 403, 0, 403, 403]),
    ("GET", "/api/v1/cache", [0, 0, 403, 0, 403, 403]),
    ("DELETE", "/api/v1/cache", [403, 0, 403, 0, 403, 403]),
    ("GET", "/api/v1/cache/stats", [0, 0, 403, 0, 403, 403]),
    ("PUT", "/api/v1/cache/pins/a", [403, 0, 403, 0, 403, 403]),
    ("DELETE", "/api/v1/cache/pins/a", [403, 0, 403, 0, 403, 403]),
    ("POST", "/api/v1/cache/verify", [403, 0, 403, 0, 403, 403]),
    ("POST", "/api/v1/groups", [403, 0, 403, 0, 403, 403]),
    ("GET", "/api/v1/groups", [0, 0, 403, 0, 403, 403]),
    ("GET", "/api/v1/groups/1", [0, 0, 403, 0, 403, 403]),
    ("POST", "/api/v1/groups/1/close", [403, 0, 403, 0, 403, 403]),
    ("POST", "/api/v1/groups/1/cancel", [403, 0, 403, 0, 403, 403]),
    ("POST", "/api/v1/groups/1/retry", [403, 0, 403, 0, 403, 403]),
    ("POST", "/api/v1/operations", [403, 0, 403, 0, 403, 403]),
    ("GET", "/api/v1/operations", [0, 0, 403, 0, 403, 403]),
    ("GET", "/api/v1/operations/1", [0, 0, 403, 0, 403, 403]),
    ("POST", "/api/v1/operations/1/cancel", [403, 0, 403, 0, 403, 403]),
    ("GET", "/api/v1/session", [403, 403, 0, 0, 403, 403]),
    ("GET", "/api/v1/queues", [0, 0, 403, 0, 403, 403]),
    ("GET", "/api/v1/queues/a", [0, 0, 403, 0, 403, 403]),
    ("PUT", "/api/v1/queues/a", [403, 403, 403, 0, 403, 403]),
    ("DELETE", "/api/v1/queues/a", [403, 403, 403, 0, 403, 403]),
    ("GET", "/api/v1/stats", [0, 0, 403, 0, 403, 403]),
    ("GET", "/api/v1/types/a", [0, 0, 403, 0, 403, 403]),
    ("DELETE", "/api/v1/types/a", [403, 403, 403, 0, 403, 403]),
    ("GET", "/api/v1/schedules", [0, 0, 403, 0, 403, 403]),
    ("GET", "/api/v1/schedules/a", [0, 0, 403, 0, 403, 403]),
    ("PUT", "/api/v1/schedules/a", [403, 0, 403, 0, 403, 403]),
    ("DELETE", "/api/v1/schedules/a", [403, 0, 403, 0, 403, 403]),
    ("GET", "/api/v1/schedules/a/ticks", [0, 0, 403, 0, 403, 403]),
    ("POST", "/api/v1/schedules/a/run", [403, 0, 403, 0, 403, 403]),
    ("GET", "/api/v1/tokens", [403, 403, 403, 0, 403, 403]),
    ("POST", "/api/v1/tokens", [403, 403, 403, 0, 403, 403]),
    ("DELETE", "/api/v1/tokens/x", [403, 403, 403, 0, 403, 403]),
    ("POST", "/api/v1/join", [403, 403, 403, 403, 403, 0]),
    ("GET", "/api/v1/audit", [403, 403, 403, 0, 403, 403]),
];

/// The routes in the server's own table, except open routes.
pub fn listed() -> Vec<(String, String)> {
    let table = include_str!("../../src/auth/access.rs");
    let table = table.split("TABLE: &[").nth(1).unwrap().split("];").next().unwrap();
    let rows = table.lines().filter(|row| row.contains('"') && !row.contains("Access::Open"));
    let words = rows.map(|row| row.split('"').map(str::to_owned).collect::<Vec<_>>());
    words.map(|words| (words[1].clone(), words[3].clone())).collect()
}

fn is_of(path: &str, route: &str) -> bool {
    let path: Vec<_> = path.split('?').next().unwrap().split('/').collect();
    let route: Vec<_> = route.split('/').collect();
    let lengths = match route.last() {
        // This parameter matches the rest of the path.
        Some(last) if last.starts_with("{*") => path.len() >= route.len(),
        _ => path.len() == route.len(),
    };
    lengths && path.iter().zip(&route).all(|(is, wanted)| is == wanted || wanted.starts_with('{'))
}

#[test]
fn every_route_of_the_table_is_asked_by_every_role() {
    for (method, route) in listed() {
        let asked = ROUTES.iter().any(|(verb, path, _)| *verb == method && is_of(path, &route));
        assert!(asked, "{method} {route} is missing in ROUTES");
    }
    assert_eq!(listed().len(), ROUTES.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_role_may_do_what_its_row_says_and_nothing_else() {
    let hall = TestServer::with(Config { lease_ms: 600_000, ..Config::default() }).await;
    assert_eq!(hall.submit(r#"{"type":"a"}"#).await, 1);
    let job = hall.take().await["token"].as_str().unwrap().to_owned();
    let join = hall.secret(r#"{"role":"worker","kind":"join"}"#).await;
    let tokens = [&hall.viewer, &hall.client, &hall.worker, &hall.admin, &job, &join];
    for (method, path, expected) in ROUTES {
        hall.send(method, path, "", &[], b"").await.problem(401, "unauthorized");
        for ((token, role), expected) in tokens.iter().zip(ROLES).zip(expected) {
            let reply = hall.send(method, path, token, &[], b"").await;
            match expected {
                403 => drop(reply.problem(403, "forbidden")),
                _ => assert!(![401, 403].contains(&reply.status), "{role}: {method} {path}: {reply:?}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn l07_without_a_good_token_there_is_a_challenge() {
    let hall = TestServer::start().await;
    let mut wrong = hall.worker.clone();
    let last = if wrong.pop() == Some('a') { 'b' } else { 'a' };
    wrong.push(last);
    for token in ["", "x", "jh_", wrong.as_str()] {
        let reply = hall.send("POST", "/api/v1/vacancies", token, &[], br#"{"slots":1,"wait_s":0}"#).await;
        reply.problem(401, "unauthorized");
        assert!(reply.header("www-authenticate").unwrap().starts_with("Bearer"));
        assert!(token.len() < 10 || !reply.text().contains(token), "a token is never repeated");
    }
    let basic = [("Authorization", "Basic dzp3")];
    hall.send("GET", "/api/v1/jobs", "", &basic, b"").await.problem(401, "unauthorized");
    hall.send("GET", "/no/such/route", "", &[], b"").await.problem(401, "unauthorized");
    hall.tokens.revoke("w");
    hall.work("/api/v1/vacancies", r#"{"slots":1,"wait_s":0}"#).await.problem(401, "unauthorized");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_requests_meant_for_this_hall_are_answered() {
    let hall = TestServer::start().await;
    for (host, status) in [
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("hall.example:1", 200),
        ("localhost:9", 200),
    ] {
        let reply = hall.send("GET", "/api/v1/jobs", &hall.viewer, &[("Host", host)], b"").await;
        assert_eq!(reply.status, status, "{host}");
    }
    let misdirected = hall.send("GET", "/livez", "", &[("Host", "evil.example")], b"").await;
    misdirected.problem(421, "misdirected");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_another_origin_change_nothing() {
    let hall = TestServer::start().await;
    let send = async |method: &str, origin: &str| {
        hall.send(method, "/api/v1/jobs", &hall.client, &[("Origin", origin)], br#"{"type":"a"}"#).await
    };
    for origin in ["http://evil.example", "null", "http://127.0.0.1:1", ""] {
        send("POST", origin).await.problem(403, "forbidden");
        send("DELETE", origin).await.problem(403, "forbidden");
    }
    assert_eq!(send("GET", "http://evil.example").await.status, 200);
    assert_eq!(hall.get("/api/v1/jobs").await.json()["items"].as_array().unwrap().len(), 0);
    assert_eq!(send("POST", &format!("http://{}", hall.address)).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_machines_are_not_served_in_the_clear_unless_asked() {
    let hall = TestServer::start().await;
    let serve = async |insecure| {
        let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
        let blobs = jobhall_blobs::Blobs::open(&hall.dir.path().join("more")).unwrap();
        let listen = jobhall_server::Listen { insecure, ..Default::default() };
        jobhall_server::Server::serve(listener, listen, hall.options(blobs))
    };
    let error = serve(false).await.unwrap_err();
    assert!(error.to_string().contains("TLS"), "{error}");
    serve(true).await.unwrap().stop().await;
}
