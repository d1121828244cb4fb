//! A hall with jobs in four queues, in every state and with every relation, within and across the queues.

use std::collections::{BTreeMap, BTreeSet};

use jobhall_engine::Config;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::Dice;
use super::actor::{Actor, Who};
use super::change::Jobs;
use crate::server::TestServer;

/// The queues. Each name is the beginning of every mark of the queue.
pub const QUEUES: [&str; 4] = ["mkaz", "mkbz", "mkcz", "mkdz"];

/// A leased attempt.
pub struct TakenAttempt {
    pub queue: usize,
    pub job: u64,
    pub id: String,
    pub lease: String,
    /// The token of the job.
    pub token: String,
    /// The token of its worker.
    pub worker: String,
}

pub struct World {
    pub hall: TestServer,
    pub dice: Dice,
    pub held: Vec<TakenAttempt>,
    pub group: u64,
    /// The names of schedules, by queue.
    pub schedules: Vec<String>,
    /// The schedules that exist: actors remove and create them.
    pub existing_schedules: BTreeSet<String>,
    /// Jobs with the artifact of their only attempt.
    pub artifacts: Vec<(u64, String)>,
    /// A job of each queue that has succeeded.
    done: Vec<u64>,
    /// Leased jobs, each with the job of its queue that it comes after.
    pub inputs: BTreeMap<u64, u64>,
    /// One worker token per queue.
    workers: Vec<String>,
    marks: usize,
    /// Long polls of workers that no pending job matches, so that explanations have workers to name.
    _parked: Vec<TcpStream>,
}

impl World {
    pub async fn build(dice: Dice) -> World {
        // Nothing ends by itself during a run.
        let hour = 3_600_000;
        let hall = TestServer::with(Config { lease_ms: hour, accept_ms: hour, ..Config::default() }).await;
        let (workers, held) = (Vec::new(), Vec::new());
        let mut world = World {
            hall,
            dice,
            held,
            group: 0,
            schedules: Vec::new(),
            existing_schedules: BTreeSet::new(),
            artifacts: Vec::new(),
            done: Vec::new(),
            inputs: BTreeMap::new(),
            workers,
            marks: 0,
            _parked: Vec::new(),
        };
        world.settings().await;
        for queue in 0..QUEUES.len() {
            world.completed(queue).await;
            world.running(queue).await;
        }
        world.parked().await;
        for queue in 0..QUEUES.len() {
            world.pending(queue).await;
        }
        world.group().await;
        world
    }

    /// A new mark of a queue, which ends with what it is for.
    fn mark(&mut self, queue: usize, what: char) -> String {
        self.marks += 1;
        format!("{}{}{what}", QUEUES[queue], self.marks)
    }

    async fn admin(&self, method: &str, path: &str, body: &Value) -> Value {
        let path = format!("/api/v1/{path}");
        let reply = self.hall.send(method, &path, &self.hall.admin, &[], body.to_string().as_bytes()).await;
        assert!(reply.status < 300, "{method} {path} {body}: {}", reply.text());
        reply.json()
    }

    /// A job with marks; `more` overrides its fields.
    fn job(&mut self, queue: usize, more: &Value) -> Value {
        let mut job = json!({
            "type": "shared",
            "queue": QUEUES[queue],
            "params": {"p": self.mark(queue, 'p')},
            "owner": self.mark(queue, 'o'),
            "tags": [self.mark(queue, 't')],
            "retry": {"max_attempts": 1},
        });
        job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        job
    }

    async fn submit(&mut self, queue: usize, more: &Value) -> u64 {
        let job = self.job(queue, more);
        self.admin("POST", "jobs", &job).await["id"].as_u64().unwrap()
    }

    /// A job without marks, which ends at once.
    pub async fn submit_to(&self, queue: &str) -> u64 {
        let id =
            self.admin("POST", "jobs", &json!({"type": "shared", "queue": queue, "needs": "never"})).await;
        let id = id["id"].as_u64().unwrap();
        self.admin("POST", &format!("jobs/{id}/cancel"), &json!({})).await;
        id
    }

    async fn settings(&mut self) {
        self.admin("PUT", "types/ext", &json!({"external": true, "timeouts": {"total": "1h"}})).await;
        self.admin("PUT", "types/limited", &json!({"limits": [{"concurrency": 1}]})).await;
        for (at, queue) in QUEUES.iter().enumerate() {
            let name = self.mark(at, 'w');
            let token = json!({"name": name, "role": "worker", "queues": [queue]}).to_string();
            let token = self.hall.secret(&token).await;
            self.workers.push(token);
            self.admin("PUT", &format!("types/{queue}type"), &json!({"keep_count": 500})).await;
            self.admin("PUT", &format!("queues/{queue}"), &json!({"limits": [{"concurrency": 1_000}]})).await;
            let job = self.job(at, &json!({"needs": "never"}));
            let schedule = self.mark(at, 's');
            let body = json!({"cron": "0 3 1 1 *", "job": job});
            self.admin("PUT", &format!("schedules/{schedule}"), &body).await;
            self.admin("POST", &format!("schedules/{schedule}/run"), &json!({})).await;
            self.existing_schedules.insert(schedule.clone());
            self.schedules.push(schedule);
        }
    }

    /// Takes this job with the worker of its queue, and sends a log, progress and an artifact.
    async fn take(&mut self, queue: usize, job: u64) -> usize {
        let worker = self.workers[queue].clone();
        self.take_as(worker, queue, job).await
    }

    async fn take_as(&mut self, worker: String, queue: usize, job: u64) -> usize {
        let body =
            json!({"slots": 1, "wait_s": 10, "accepts": format!("queue={}", QUEUES[queue])}).to_string();
        let reply = self.hall.send("POST", "/api/v1/vacancies", &worker, &[], body.as_bytes()).await;
        let given = reply.json()["attempts"][0].clone();
        assert_eq!(given["job"]["id"], job, "{given}");
        let text = |name: &str| given[name].as_str().unwrap().to_owned();
        let (id, lease, token) = (text("id"), text("lease"), text("token"));
        self.held.push(TakenAttempt { queue, job, id, lease, token, worker });
        let at = self.held.len() - 1;
        let progress = json!({"indicators": [{"step": 1, "message": self.mark(queue, 'i')}]});
        self.word(at, "progress", &progress.to_string()).await;
        let log = self.mark(queue, 'l');
        self.word(at, "log", &log).await;
        let (name, content) = (self.mark(queue, 'f'), self.mark(queue, 'c'));
        self.word(at, &format!("artifacts/{name}"), &content).await;
        self.artifacts.push((job, name));
        at
    }

    /// Sends a message about an attempt as its worker.
    async fn word(&self, at: usize, verb: &str, body: &str) -> Value {
        let held = &self.held[at];
        let method = if verb.starts_with("artifacts") { "PUT" } else { "POST" };
        let (path, lease) =
            (format!("/api/v1/attempts/{}/{verb}", held.id), [("Jobhall-Lease", held.lease.as_str())]);
        let reply = self.hall.send(method, &path, &held.worker, &lease, body.as_bytes()).await;
        assert!(reply.status < 300, "{path} {body}: {}", reply.text());
        serde_json::from_slice(&reply.body).unwrap_or_default()
    }

    async fn end(&mut self, at: usize, outcome: &Value) {
        self.word(at, "outcome", &outcome.to_string()).await;
        self.held.remove(at);
    }

    /// Jobs that have ended: with a result, with an error, and because of another job.
    async fn completed(&mut self, queue: usize) {
        let done = self.submit(queue, &json!({"key": format!("done-{queue}")})).await;
        self.done.push(done);
        let at = self.take(queue, done).await;
        let value = self.mark(queue, 'r');
        self.end(at, &json!({"outcome": "succeeded", "value": {"r": value}})).await;
        let failed = self.submit(queue, &json!({"type": format!("{}type", QUEUES[queue])})).await;
        for other in 0..QUEUES.len() {
            self.submit(other, &json!({"after": [failed]})).await;
        }
        let at = self.take(queue, failed).await;
        let [reason, explanation, data] = ['e', 'x', 'd'].map(|what| self.mark(queue, what));
        let error = json!({"reason": reason, "explanation": explanation, "data": {"d": data}});
        self.end(at, &json!({"outcome": "failed", "error": error})).await;
    }

    /// Leased jobs: one with a successor in the next queue, one that waits for a sub-job, one that runs outside, and one
    /// that reads another job of its queue.
    async fn running(&mut self, queue: usize) {
        let key = format!("held-{queue}");
        let id = self.submit(queue, &json!({"key": key})).await;
        self.take(queue, id).await;
        let next = (queue + 1) % QUEUES.len();
        self.submit(next, &json!({"key": key, "on_duplicate": "supersede", "needs": "never"})).await;
        let id = self.submit(queue, &json!({})).await;
        let at = self.take(queue, id).await;
        let mut job = self.job(queue, &json!({"needs": "never", "key": format!("sub-{queue}")}));
        job.as_object_mut().unwrap().remove("retry");
        self.word(at, "jobs", &json!({"call": "c", "job": job}).to_string()).await;
        let id = self.submit(queue, &json!({"type": "ext", "key": format!("ext-{queue}")})).await;
        let at = self.take(queue, id).await;
        self.word(at, "outcome", r#"{"outcome":"started"}"#).await;
        let id = self.submit(queue, &json!({"after": [self.done[queue]]})).await;
        self.take(queue, id).await;
        self.inputs.insert(id, self.done[queue]);
        // Its worker is limited to no queue.
        let id = self.submit(queue, &json!({})).await;
        self.take_as(self.hall.worker.clone(), queue, id).await;
    }

    /// Workers with marks that wait for jobs of the type `limited` only.
    async fn parked(&mut self) {
        for (at, queue) in QUEUES.iter().enumerate() {
            let name = self.mark(at, 'w');
            let token = json!({"name": name, "role": "worker", "queues": [queue]}).to_string();
            let token = self.hall.secret(&token).await;
            let ability = self.mark(at, 'a');
            let body = json!({"slots": 1, "wait_s": 60, "abilities": format!("{ability}=1"), "accepts": "type=limited"});
            let body = body.to_string();
            self._parked
                .push(self.hall.open("POST", "/api/v1/vacancies", &token, &[], body.as_bytes()).await);
            self.hall.until_offered(&name, 1).await;
        }
    }

    /// Jobs that wait: for a worker, a time, a limit, a dependency in another queue.
    async fn pending(&mut self, queue: usize) {
        let never = json!({"needs": "never"});
        let open = json!({"key": format!("open-{queue}"), "needs": "never"});
        self.submit(queue, &open).await;
        let later = json!({"run_at": "2999-01-01T00:00:00Z", "type": format!("{}type", QUEUES[queue])});
        self.submit(queue, &later).await;
        self.submit(queue, &json!({"type": "limited"})).await;
        let held = self.submit(queue, &never).await;
        self.admin("POST", &format!("jobs/{held}/hold"), &json!({})).await;
        let first = self.submit(queue, &never).await;
        let next = (queue + 1) % QUEUES.len();
        self.submit(next, &json!({"after": [first], "needs": "never"})).await;
        // Workers among the actors can take these.
        for _ in 0..3 {
            self.submit(queue, &json!({})).await;
        }
    }

    /// A group with a job in every queue, and a copy of the first in the last queue.
    async fn group(&mut self) {
        let made = self.admin("POST", "groups", &json!({"name": "all"})).await;
        self.group = made["id"].as_u64().unwrap();
        let member = json!({"needs": "never", "group": self.group});
        let mut first = None;
        for queue in 0..QUEUES.len() {
            let id = self.submit(queue, &member).await;
            first = first.or(Some(id));
        }
        let copy = json!({"needs": "never", "group": self.group, "copy_of": first});
        self.submit(QUEUES.len() - 1, &copy).await;
    }

    /// All jobs, without what changes by itself.
    pub async fn jobs(&self) -> Jobs {
        let (mut jobs, mut next) = (Jobs::new(), Some("/api/v1/jobs?limit=500".to_owned()));
        while let Some(path) = next.take() {
            let page = self.hall.send("GET", &path, &self.hall.admin, &[], b"").await.json();
            for job in page["items"].as_array().unwrap() {
                jobs.insert(job["id"].as_u64().unwrap(), lasting(job.clone()));
            }
            next =
                page["next_cursor"].as_str().map(|cursor| format!("/api/v1/jobs?limit=500&cursor={cursor}"));
        }
        jobs
    }

    /// Tokens of jobs, tokens of every role with random scopes, and tokens of all queues. The tokens of jobs are first,
    /// because others end their jobs.
    pub async fn actors(&mut self) -> Vec<Actor> {
        let mut actors = Vec::new();
        for _ in 0..2 {
            let at = self.dice.below(self.held.len());
            let TakenAttempt { queue, job, token, .. } = &self.held[at];
            let queue = QUEUES[*queue].to_owned();
            let (who, token) = (Who::Job(*job), token.clone());
            actors.push(Actor { who, token, scope: vec![queue.clone()], queues: vec![queue] });
        }
        // A worker reaches the queue of each lease that it holds, even if its token reaches all queues.
        let at = self.dice.below(QUEUES.len());
        let queue = QUEUES[at].to_owned();
        let (who, token) = (Who::Holder, self.hall.worker.clone());
        self.held.retain(|held| held.worker != token || held.queue == at);
        actors.push(Actor { who, token, scope: vec![queue.clone()], queues: vec![queue] });
        let (queue, token) = (QUEUES[at].to_owned(), self.workers[at].clone());
        actors.push(Actor { who: Who::Worker, token, scope: vec![queue.clone()], queues: vec![queue] });
        for (n, (who, role)) in [
            (Who::Viewer, "viewer"),
            (Who::Client, "client"),
            (Who::Client, "client"),
            (Who::Worker, "worker"),
        ]
        .into_iter()
        .enumerate()
        {
            actors.push(self.limited(who, role, n).await);
        }
        let hall = &self.hall;
        let queues = [&QUEUES[..], &["default"]].concat().into_iter().map(str::to_owned).collect::<Vec<_>>();
        for (who, token) in
            [(Who::Viewer, &hall.viewer), (Who::Client, &hall.client), (Who::Admin, &hall.admin)]
        {
            let (token, queues) = (token.clone(), queues.clone());
            actors.push(Actor { who, token, scope: Vec::new(), queues });
        }
        actors
    }

    /// A token of one or two queues, each by its name or by a prefix.
    async fn limited(&mut self, who: Who, role: &str, n: usize) -> Actor {
        let first = self.dice.below(QUEUES.len());
        let second = self.dice.below(QUEUES.len());
        let mut queues = vec![QUEUES[first].to_owned()];
        if second != first && self.dice.one_in(2) {
            queues.push(QUEUES[second].to_owned());
        }
        let mut scope = queues.clone();
        if self.dice.one_in(2) {
            scope[0] = format!("{}*", &scope[0][..3]);
        }
        let body = json!({"name": format!("actor-{n}"), "role": role, "queues": scope}).to_string();
        Actor { who, token: self.hall.secret(&body).await, scope, queues }
    }
}

fn lasting(mut job: Value) -> Value {
    let fields = job.as_object_mut().unwrap();
    for name in ["updated_at", "started_at", "progress", "longer_than_expected"] {
        fields.remove(name);
    }
    // Time alone makes a job of these states a queued one.
    if ["scheduled", "retrying"].contains(&job["state"].as_str().unwrap()) {
        job["state"] = "queued".into();
    }
    job
}
