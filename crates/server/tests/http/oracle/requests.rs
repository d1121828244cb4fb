//! Requests to every route. A route that is not listed here fails the test.

use serde_json::{Value, json};

use super::actor::{Actor, Who};
use super::change::Jobs;
use super::world::{QUEUES, TakenAttempt, World};
use crate::access;

pub const LEASE: &str = "Jobhall-Lease";

#[derive(Clone, Debug)]
pub struct Asked {
    pub method: &'static str,
    pub path: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

impl Asked {
    pub fn get(path: &str) -> Asked {
        Asked { method: "GET", path: path.to_owned(), headers: Vec::new(), body: String::new() }
    }

    fn new(method: &'static str, path: String, body: &Value) -> Asked {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        Asked { method, path, headers: Vec::new(), body }
    }

    /// Everything that the caller has sent: what a response repeats of it is no news.
    pub fn text(&self) -> String {
        format!("{} {:?} {}", self.path, self.headers, self.body)
    }
}

/// How often a route is used by each actor; those that relate jobs more often.
fn times(method: &str, route: &str) -> usize {
    match (method, route) {
        ("POST", "/api/v1/jobs") => 16,
        ("GET", "/api/v1/jobs") => 8,
        (_, "/api/v1/attempts/{id}/jobs") => 12,
        ("GET", path) if path.starts_with("/api/v1/attempts/") => 8,
        ("GET", "/api/v1/jobs/{id}" | "/api/v1/jobs/{id}/explain") => 6,
        ("GET", "/api/v1/jobs/{id}/artifacts/{*name}" | "/api/v1/schedules/{name}") => 6,
        (_, "/api/v1/vacancies" | "/api/v1/outcomes/{type}/{*key}") => 3,
        _ => 2,
    }
}

/// Requests to every route in random order, about jobs within and out of reach.
pub fn of_every_route(world: &mut World, actor: &Actor, jobs: &Jobs) -> Vec<Asked> {
    let open = [("GET", "/"), ("GET", "/livez"), ("GET", "/readyz")];
    let open = open.map(|(method, route)| (method.to_owned(), route.to_owned()));
    let mut asked = Vec::new();
    for (method, route) in access::listed().into_iter().chain(open) {
        for _ in 0..times(&method, &route) {
            asked.extend(request(world, actor, jobs, &method, &route));
        }
    }
    for at in (1..asked.len()).rev() {
        asked.swap(at, world.dice.below(at + 1));
    }
    asked
}

/// A job: mostly one out of reach.
fn job<'a>(world: &mut World, actor: &Actor, jobs: &'a Jobs) -> (u64, &'a Value) {
    let near = world.dice.one_in(3);
    let fits = |job: &Value| actor.reaches(job["queue"].as_str().unwrap()) == near;
    let mut some: Vec<_> = jobs.iter().filter(|(_, job)| fits(job)).collect();
    if some.is_empty() {
        some = jobs.iter().collect();
    }
    let (id, job) = *world.dice.pick(&some);
    (*id, job)
}

/// An artifact: every second one of a job within reach, if there is one.
fn artifact(world: &mut World, actor: &Actor, jobs: &Jobs) -> (u64, String) {
    let near = world.dice.one_in(2);
    let is_near = |id: &u64| actor.reaches(jobs[id]["queue"].as_str().unwrap());
    let some: Vec<_> = world.artifacts.iter().filter(|(id, _)| is_near(id) == near).cloned().collect();
    world.dice.pick(if some.is_empty() { &world.artifacts } else { &some }).clone()
}

fn request(world: &mut World, actor: &Actor, jobs: &Jobs, method: &str, route: &str) -> Option<Asked> {
    let get = |path: String| Some(Asked::get(&path));
    let post = |path: String, body: Value| Some(Asked::new("POST", path, &body));
    let rest = route.strip_prefix("/api/v1").unwrap_or(route);
    let (id, about) = job(world, actor, jobs);
    let far = QUEUES[world.dice.below(QUEUES.len())];
    let of_job = |verb: &str| format!("/api/v1/jobs/{id}{verb}");
    match (method, rest) {
        ("GET", "/" | "/livez" | "/readyz" | "/metrics" | "/openapi.json") => get(rest.to_owned()),
        ("POST", "/logout") => post(rest.to_owned(), Value::Null),
        ("POST", "/jobs") => post(route.to_owned(), submit(world, actor, jobs)),
        ("GET", "/jobs") => get(format!("{route}?{}", query(world, jobs))),
        ("GET", "/jobs/{id}") => get(of_job("")),
        ("PATCH", "/jobs/{id}") => {
            Some(Asked::new("PATCH", of_job(""), &json!({"priority": world.dice.below(9)})))
        }
        ("POST", "/jobs/{id}/hold") => post(of_job("/hold"), Value::Null),
        ("POST", "/jobs/{id}/release") => post(of_job("/release"), Value::Null),
        ("POST", "/jobs/{id}/run_now") => post(of_job("/run_now"), Value::Null),
        ("POST", "/jobs/{id}/cancel") => post(of_job("/cancel"), Value::Null),
        ("POST", "/jobs/{id}/retry") => post(of_job("/retry"), Value::Null),
        ("GET", "/jobs/{id}/explain") => get(of_job("/explain")),
        ("GET", "/jobs/{id}/result") => get(of_job("/result")),
        ("GET", "/jobs/{id}/attempts") => get(of_job("/attempts")),
        ("GET", "/jobs/{id}/artifacts") => get(of_job("/artifacts")),
        ("GET", "/jobs/{id}/artifacts/{*name}") => {
            let (id, name) = artifact(world, actor, jobs);
            get(format!("/api/v1/jobs/{id}/artifacts/{name}"))
        }
        ("GET", "/jobs/{id}/log") => get(of_job("/log")),
        // The stream of an open job does not end.
        ("GET", "/jobs/{id}/events") => {
            let ends = !about["completed_at"].is_null() || !actor.reaches(about["queue"].as_str().unwrap());
            ends.then(|| Asked::get(&of_job("/events")))
        }
        // This stream does not end either; `read_events` reads it.
        ("GET", "/events") => get(format!("{route}?group={}", if actor.is_limited() { "1" } else { "x" })),
        ("POST", "/groups") => post(route.to_owned(), json!({"jobs": [{"type": "shared", "queue": far}]})),
        (
            "GET",
            "/groups" | "/operations" | "/workers" | "/nodes" | "/stats" | "/types" | "/schedules"
            | "/tokens" | "/audit",
        ) => get(route.to_owned()),
        (_, "/groups/{id}" | "/groups/{id}/close" | "/groups/{id}/cancel" | "/groups/{id}/retry") => {
            let path = route.replace("{id}", &world.group.to_string());
            if method == "GET" { get(path) } else { post(path, Value::Null) }
        }
        ("POST", "/operations") => {
            post(route.to_owned(), json!({"verb": "cancel", "filter": {"queue": far}}))
        }
        (_, "/operations/{id}" | "/operations/{id}/cancel") => {
            let path = route.replace("{id}", "1");
            if method == "GET" { get(path) } else { post(path, Value::Null) }
        }
        ("POST", "/vacancies") if actor.who == Who::Holder => None,
        ("POST", "/vacancies") => post(route.to_owned(), json!({"slots": 1, "wait_s": 0})),
        ("GET", path) if path.starts_with("/attempts/") => input(world, actor, path),
        (_, path) if path.starts_with("/attempts/") => attempt(world, actor, jobs, path),
        ("PUT", "/outcomes/{type}/{*key}") => {
            let path = format!("/api/v1/outcomes/ext/ext-{}", world.dice.below(QUEUES.len()));
            Some(Asked::new("PUT", path, &json!({"outcome": "succeeded"})))
        }
        ("POST", "/renewals") => {
            let held = &world.held[world.dice.below(world.held.len())];
            post(route.to_owned(), json!({"attempts": [{"id": held.id, "lease": held.lease}]}))
        }
        ("GET", "/q/{*query}") => get("/q/nothing".to_owned()),
        ("POST", "/queries") => post(route.to_owned(), json!({"query": "nothing"})),
        ("GET", "/queries" | "/queries/plan") => get(format!("{route}?query=nothing")),
        ("GET", "/queries/{id}/steps") => get(format!("/api/v1/queries/{id}/steps")),
        ("GET", "/sources") => get(route.to_owned()),
        (_, "/sources/{*key}") => settings(method, "/api/v1/sources/nothing", &json!("data")),
        ("GET", "/queries/{id}") => get(format!("/api/v1/queries/{id}")),
        ("GET", "/queries/{id}/value") => get(format!("/api/v1/queries/{id}/value?wait=0")),
        ("GET", "/session" | "/commands") => get(route.to_owned()),
        ("PUT", "/commands") => settings(method, route, &json!({"commands": {}})),
        ("GET", "/recipes") => get(route.to_owned()),
        ("POST", "/recipes") => post(route.to_owned(), json!({"keys": ["nothing"]})),
        ("PUT", "/recipes/{*key}") => {
            settings(method, "/api/v1/recipes/nothing", &json!({"query": "nothing"}))
        }
        (_, "/recipes/{*key}") => settings(method, "/api/v1/recipes/nothing", &Value::Null),
        ("GET", "/cache" | "/cache/stats") => get(route.to_owned()),
        ("DELETE", "/cache") => settings(method, &format!("{route}?all=true"), &Value::Null),
        (_, "/cache/pins/{*query}") => settings(method, "/api/v1/cache/pins/nothing", &Value::Null),
        ("POST", "/cache/verify") => post(route.to_owned(), Value::Null),
        ("GET", "/queues") => get(format!("{route}?limit={}", 1 + world.dice.below(3))),
        ("POST", "/workers/{name}/pause" | "/workers/{name}/resume" | "/workers/{name}/drain") => {
            post(route.replace("{name}", "w"), Value::Null)
        }
        (_, "/queues/{name}") => {
            settings(method, &route.replace("{name}", far), &json!({"limits": [{"concurrency": 900}]}))
        }
        (_, "/retention") => settings(method, route, &json!({"keep_count": 500_000})),
        (_, "/types/{name}") => {
            let path = route.replace("{name}", &format!("{far}type"));
            settings(method, &path, &json!({"keep_count": 400}))
        }
        (_, "/schedules/{name}" | "/schedules/{name}/ticks" | "/schedules/{name}/run") => {
            let name = world.dice.pick(&world.schedules);
            let path = route.replace("{name}", name);
            let job = json!({"type": "shared", "queue": far, "needs": "never"});
            if method == "POST" {
                post(path, Value::Null)
            } else {
                settings(method, &path, &json!({"cron": "0 3 1 1 *", "job": job}))
            }
        }
        ("POST", "/tokens") => {
            let name = format!("made-{}", world.dice.below(1_000_000));
            let role = *world.dice.pick(&["viewer", "client", "worker", "admin"]);
            let queues = if world.dice.one_in(2) { json!([]) } else { json!([far]) };
            post(route.to_owned(), json!({"name": name, "role": role, "queues": queues}))
        }
        ("DELETE", "/tokens/{id}") => {
            Some(Asked::new("DELETE", "/api/v1/tokens/0000".to_owned(), &Value::Null))
        }
        ("POST", "/join") => post(route.to_owned(), json!({"name": "joined"})),
        _ => panic!("no request to {method} {route}: add one"),
    }
}

fn settings(method: &str, path: &str, body: &Value) -> Option<Asked> {
    match method {
        "GET" => Some(Asked::get(path)),
        "PUT" => Some(Asked::new("PUT", path.to_owned(), body)),
        "DELETE" => Some(Asked::new("DELETE", path.to_owned(), &Value::Null)),
        other => panic!("{other}"),
    }
}

/// A key that a job of some queue holds or held.
fn key(world: &mut World) -> String {
    let name = *world.dice.pick(&["done", "held", "open", "sub", "ext"]);
    format!("{name}-{}", world.dice.below(QUEUES.len()))
}

/// A job that is related to others in some way, mostly in an own queue.
fn submit(world: &mut World, actor: &Actor, jobs: &Jobs) -> Value {
    let own = actor.queues[world.dice.below(actor.queues.len())].clone();
    let queue = if world.dice.one_in(6) { QUEUES[world.dice.below(QUEUES.len())].to_owned() } else { own };
    let mut new = json!({"type": "shared", "queue": queue, "needs": "never", "params": {"own": 1}});
    let (other, _) = job(world, actor, jobs);
    match world.dice.below(8) {
        0 => new["after"] = json!([other]),
        1 => new["copy_of"] = json!(other),
        2 => new["group"] = json!(world.group),
        3 => {
            new["key"] = key(world).into();
            new["reuse"] = json!({"max_age": "1h"});
        }
        _ => {
            new["key"] = key(world).into();
            new["on_duplicate"] = (*world.dice.pick(&["join", "reject", "supersede", "run_again"])).into();
        }
    }
    if world.dice.one_in(4) { json!([new]) } else { new }
}

/// A filter that means jobs of some queue.
fn query(world: &mut World, jobs: &Jobs) -> String {
    let some: Vec<_> = jobs.values().collect();
    let job = *world.dice.pick(&some);
    let word = |value: &Value| value.as_str().unwrap_or("none").to_owned();
    let filter = match world.dice.below(7) {
        0 => format!("type={}", word(&job["type"])),
        1 => format!("key={}", word(&job["key"])),
        2 => format!("queue={}", word(&job["queue"])),
        3 => format!("owner={}", word(&job["owner"])),
        4 => format!("tag={}", word(&job["tags"][0])),
        5 => "q=mk".to_owned(),
        _ => "state=failed,crashed,cancelled,succeeded".to_owned(),
    };
    format!("limit={}&{filter}", 1 + world.dice.below(40))
}

/// Whether the token is that of an attempt's worker or process.
pub fn is_own(actor: &Actor, held: &TakenAttempt) -> bool {
    held.worker == actor.token || Who::Job(held.job) == actor.who
}

/// A lease, mostly the right one.
fn lease(world: &mut World, at: usize) -> String {
    if world.dice.one_in(4) { "0".repeat(32) } else { world.held[at].lease.clone() }
}

/// An attempt reads the job that it comes after.
fn input(world: &mut World, actor: &Actor, route: &str) -> Option<Asked> {
    let reads = |held: &TakenAttempt| world.inputs.contains_key(&held.job);
    let some: Vec<_> = (0..world.held.len()).filter(|at| reads(&world.held[*at])).collect();
    let own = some.iter().copied().find(|at| is_own(actor, &world.held[*at]));
    let at = own.filter(|_| world.dice.one_in(2)).unwrap_or_else(|| *world.dice.pick(&some));
    let lease = lease(world, at);
    let held = &world.held[at];
    let of = world.inputs[&held.job];
    let (_, name) = world.artifacts.iter().find(|(job, _)| *job == of).expect("its artifact");
    let n = *world.dice.pick(&["0", "0", "0", "1", "parent"]);
    let path = route.replace("{id}", &held.id).replace("{n}", n).replace("{*name}", name);
    let path = path.replace("{job}", &of.to_string()).replace("{identity}", &"0".repeat(32));
    Some(Asked { headers: vec![(LEASE, lease)], ..Asked::get(&format!("/api/v1{path}")) })
}

/// A message about some attempt, often with the right lease: another worker's lease is worth nothing.
fn attempt(world: &mut World, actor: &Actor, jobs: &Jobs, route: &str) -> Option<Asked> {
    let mut at = world.dice.below(world.held.len());
    let own = world.held.iter().position(|held| is_own(actor, held));
    if let Some(own) = own.filter(|_| world.dice.one_in(2)) {
        at = own;
    }
    let lease = lease(world, at);
    let path = format!("/api/v1{}", route.replace("{id}", &world.held[at].id).replace("{*name}", "mine"));
    let path = path.replace("{identity}", &"0".repeat(32));
    let job = json!({"type": "shared", "key": key(world), "needs": "never"});
    let mut job = job.as_object().unwrap().clone();
    if world.dice.one_in(2) {
        job.insert("queue".to_owned(), QUEUES[world.dice.below(QUEUES.len())].into());
    }
    let (other, _) = self::job(world, actor, jobs);
    let choices = ["join", "reject", "supersede", "run_again"];
    let (field, value) = match world.dice.below(6) {
        0 => ("after", json!([other])),
        1 => ("copy_of", json!(other)),
        2 => ("reuse", json!({"max_age": "1h"})),
        _ => ("on_duplicate", json!(world.dice.pick(&choices))),
    };
    job.insert(field.to_owned(), value);
    let call = format!("call-{}", world.dice.below(1_000));
    let sub_job = json!({"call": call, "job": job});
    let several =
        json!([{"call": format!("{call}-b"), "job": {"type": "shared", "needs": "never"}}, sub_job]);
    let body = match route.rsplit('/').next() {
        Some("jobs") => if world.dice.one_in(2) { several } else { sub_job }.to_string(),
        Some("wait") if world.dice.one_in(2) => json!({"wait_s": 0, "jobs": [other]}).to_string(),
        Some("wait") => json!({"wait_s": 0}).to_string(),
        Some("outcome") => json!({"outcome": "succeeded"}).to_string(),
        Some("log" | "{*name}") => "text".to_owned(),
        _ => String::new(),
    };
    let method = if route.ends_with("{*name}") { "PUT" } else { "POST" };
    Some(Asked { method, path, headers: vec![(LEASE, lease)], body })
}
