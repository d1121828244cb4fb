//! One row for each route; a test compares them with the list of routes in both directions.

use jobhall_protocol as wire;
use jobhall_protocol::{Code, DIGEST_HEADER, LEASE_HEADER, Page};
use schemars::JsonSchema;
use serde_json::Value;

use super::super::{
    artifacts, attempts, audit, events, groups as group, health, job_log, list, operations as operation,
    outcomes, page, queues as queue, schedules as schedule,
};
use super::{JSON, Row, part};

const TEXT: &str = "text/plain";
const BYTES: &str = "application/octet-stream";
const EVENTS: &str = "text/event-stream";
const LOCATION: &[(&str, &str)] = &[("Location", "Where it is")];
const LEASE: &[(&str, &str)] = &[(LEASE_HEADER, "The lease of the attempt: 32 hex digits")];
const ARTIFACT: &[(&str, &str)] = &[
    (LEASE_HEADER, "The lease of the attempt: 32 hex digits"),
    (DIGEST_HEADER, "The BLAKE3 hash of the bytes; others are refused"),
];
const POSITION: &[(&str, &str)] = &[("Last-Event-ID", "Go on behind this event")];
const IDEMPOTENCY: &[(&str, &str)] =
    &[("Idempotency-Key", "Repeats of this request are answered as the first was, for a day")];
const TAG: &[(&str, &str)] = &[("ETag", "Names this version")];
const VERSIONS: &[(&str, &str)] = &[
    ("If-Match", "Change only these versions; * stands for any that is there"),
    ("If-None-Match", "With *: only make what is not there"),
];
/// What every change of stored things can meet.
const STORE: &[Code] = &[Code::Unavailable, Code::StorageFull];
/// What a change of a job can meet.
const CHANGE: &[Code] = &[Code::NotFound, Code::Conflict, Code::Unavailable, Code::StorageFull];
/// What a change of a configuration can meet.
const CONFIGURE: &[Code] = &[Code::PreconditionFailed, Code::Conflict, Code::Unavailable, Code::StorageFull];
/// What a word on an attempt can meet.
const WORD: &[Code] =
    &[Code::BadRequest, Code::LeaseLost, Code::Conflict, Code::Unavailable, Code::StorageFull];

fn get(path: &'static str, id: &'static str, summary: &'static str) -> Row {
    Row::new("GET", path, id, summary)
}

fn post(path: &'static str, id: &'static str, summary: &'static str) -> Row {
    Row::new("POST", path, id, summary)
}

fn put(path: &'static str, id: &'static str, summary: &'static str) -> Row {
    Row::new("PUT", path, id, summary)
}

/// One object, or an array of them that is taken as a whole or not at all.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes a body that is read by its first character")]
enum Submit {
    One(Box<wire::SubmitJob>),
    Many(Vec<wire::SubmitJob>),
}

/// The job, where one object was submitted; else one answer for each.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes what two kinds of requests are answered with")]
enum SubmitAnswer {
    One(Box<wire::Job>),
    Many(Vec<wire::Submitted>),
}

/// All rows.
pub(super) fn all() -> Vec<Row> {
    [
        hall(),
        jobs(),
        one_job(),
        artifacts_rows(),
        groups(),
        operations(),
        workers(),
        attempts_rows(),
        types(),
        schedules(),
        tokens(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn hall() -> Vec<Row> {
    vec![
        get("/", "page", "A page for people")
            .query::<page::PageQuery>()
            .gives_as::<String>("text/html", "The hall at a glance, for whoever is signed in")
            .answers_with(303, "A code was good: the browser has a cookie now", None)
            .telling(LOCATION)
            .problems(&[Code::Unauthorized, Code::TooManyRequests]),
        get("/livez", "livez", "Whether the process answers").gives_as::<String>(TEXT, "It does"),
        get("/readyz", "readyz", "Whether the hall takes work")
            .query::<health::ReadyQuery>()
            .gives_as::<String>(TEXT, "It does")
            .problems(&[Code::Unavailable]),
        get("/metrics", "metrics", "Numbers for Prometheus")
            .gives_as::<String>("application/openmetrics-text", "The numbers"),
        get("/api/v1/stats", "stats", "The hall as a whole, in figures").gives::<wire::Stats>("The figures"),
        get("/api/v1/queues", "listQueues", "Queues with their open jobs, by name")
            .query::<queue::QueuesQuery>()
            .gives::<Page<wire::Queue>>("A page"),
        get("/api/v1/queues/{name}", "showQueue", "One queue with its open jobs")
            .gives::<wire::Queue>("The queue")
            .telling(TAG)
            .problems(&[Code::NotFound]),
        put("/api/v1/queues/{name}", "setQueue", "Configure a queue; what is missing stays as it is")
            .headers(VERSIONS)
            .takes::<wire::SetQueue>()
            .gives::<wire::QueueSettings>("As it is now")
            .telling(TAG)
            .answers_with(
                201,
                "A queue that nobody had configured",
                Some((JSON, part::<wire::QueueSettings>)),
            )
            .telling(TAG)
            .problems(CONFIGURE),
        Row::new("DELETE", "/api/v1/queues/{name}", "resetQueue", "Give a queue its defaults again")
            .headers(VERSIONS)
            .answers_with(204, "It has them", None)
            .problems(CONFIGURE)
            .problems(&[Code::NotFound]),
        get("/openapi.json", "openapi", "This document").gives::<Value>("This document"),
        get("/api/v1/events", "events", "Everything that happens, as server-sent events")
            .query::<events::AllEventsQuery>()
            .headers(POSITION)
            .gives_as::<wire::Change>(EVENTS, "A stream whose events named `job` carry this as data")
            .problems(&[Code::BadRequest, Code::Unavailable]),
    ]
}

fn jobs() -> Vec<Row> {
    vec![
        post("/api/v1/jobs", "submitJobs", "Submit one job, or many together")
            .headers(IDEMPOTENCY)
            .takes::<Submit>()
            .answers_with(201, "A new job", Some((JSON, part::<wire::Job>)))
            .telling(LOCATION)
            .gives::<SubmitAnswer>("A job that was there already, or the answers to many")
            .problems(&[
                Code::NotFound,
                Code::KeyHeld,
                Code::IdempotencyKeyReused,
                Code::DependencyUnmet,
                Code::GroupClosed,
                Code::Conflict,
                Code::Unavailable,
                Code::StorageFull,
            ]),
        get("/api/v1/jobs", "listJobs", "Jobs, newest first")
            .query::<list::JobsQuery>()
            .gives::<Page<wire::Job>>("A page; it may be short although the list goes on")
            .telling(&[("Link", "The address of the next page, with rel=\"next\"")]),
    ]
}

fn groups() -> Vec<Row> {
    const CHANGE: &[Code] = &[Code::NotFound, Code::Conflict, Code::Unavailable, Code::StorageFull];
    vec![
        post("/api/v1/groups", "createGroup", "Make a group, and jobs in it")
            .headers(IDEMPOTENCY)
            .takes::<wire::CreateGroup>()
            .answers_with(201, "The group with what became of its jobs", Some((JSON, part::<wire::Group>)))
            .telling(LOCATION)
            .problems(&[
                Code::KeyHeld,
                Code::IdempotencyKeyReused,
                Code::DependencyUnmet,
                Code::Conflict,
                Code::Unavailable,
                Code::StorageFull,
            ]),
        get("/api/v1/groups", "listGroups", "Groups, newest first")
            .query::<group::GroupsQuery>()
            .gives::<Page<wire::Group>>("A page")
            .telling(&[("Link", "The address of the next page, with rel=\"next\"")]),
        get("/api/v1/groups/{id}", "showGroup", "One group with its members counted")
            .gives::<wire::Group>("The group")
            .problems(&[Code::NotFound]),
        post(
            "/api/v1/groups/{id}/close",
            "closeGroup",
            "A group takes no more jobs, and ends with its last one",
        )
        .gives::<wire::Group>("The group")
        .problems(CHANGE),
        post(
            "/api/v1/groups/{id}/cancel",
            "cancelGroup",
            "End all jobs of a group; doing it again changes nothing",
        )
        .may_take::<wire::Cancel>()
        .gives::<wire::Group>("The group")
        .problems(CHANGE),
        post("/api/v1/groups/{id}/retry", "retryGroup", "Make a new group of what failed in an ended one")
            .headers(IDEMPOTENCY)
            .answers_with(201, "The new group", Some((JSON, part::<wire::Group>)))
            .telling(LOCATION)
            .problems(&[
                Code::NotFound,
                Code::IdempotencyKeyReused,
                Code::Conflict,
                Code::Unavailable,
                Code::StorageFull,
            ]),
    ]
}

fn one_job() -> Vec<Row> {
    vec![
        get("/api/v1/jobs/{id}", "showJob", "One job with its attempts")
            .gives::<wire::Job>("The job")
            .problems(&[Code::NotFound]),
        Row::new("PATCH", "/api/v1/jobs/{id}", "editJob", "Change a job that no worker has")
            .takes::<wire::EditJob>()
            .gives::<wire::Job>("The job")
            .problems(CHANGE),
        post("/api/v1/jobs/{id}/hold", "holdJob", "Keep a job from being given to a worker")
            .gives::<wire::Job>("The job")
            .problems(CHANGE),
        post("/api/v1/jobs/{id}/release", "releaseJob", "Keep a job back no longer")
            .gives::<wire::Job>("The job")
            .problems(CHANGE),
        post("/api/v1/jobs/{id}/run_now", "runJobNow", "Pass over a job's time, backoff and windows")
            .gives::<wire::Job>("The job")
            .problems(CHANGE),
        post("/api/v1/jobs/{id}/cancel", "cancelJob", "End a job; doing it again changes nothing")
            .may_take::<wire::Cancel>()
            .gives::<wire::Job>("The job")
            .problems(&[Code::NotFound, Code::Conflict, Code::Unavailable, Code::StorageFull]),
        post("/api/v1/jobs/{id}/retry", "retryJob", "Make a new job like this completed one")
            .answers_with(201, "The new job", Some((JSON, part::<wire::Job>)))
            .telling(LOCATION)
            .problems(&[Code::NotFound, Code::KeyHeld, Code::Conflict, Code::Unavailable, Code::StorageFull]),
        get("/api/v1/jobs/{id}/explain", "explainJob", "Why a job is not running")
            .gives::<wire::Explanation>("The reasons, the nearest first")
            .problems(&[Code::NotFound]),
        get("/api/v1/jobs/{id}/result", "jobResult", "The value of a success")
            .gives::<Value>("The value itself")
            .problems(&[Code::NotFound, Code::Conflict]),
        get("/api/v1/jobs/{id}/log", "jobLog", "What a job wrote")
            .query::<job_log::LogQuery>()
            .headers(&[("Range", "One range in bytes, such as bytes=100-")])
            .gives_as::<String>(TEXT, "The log")
            .answers_with(206, "A range of it", Some((TEXT, part::<String>)))
            .problems(&[Code::NotFound, Code::RangeNotSatisfiable]),
        get("/api/v1/jobs/{id}/events", "jobEvents", "What happens to one job, as server-sent events")
            .query::<events::EventsQuery>()
            .headers(POSITION)
            .gives_as::<wire::Change>(EVENTS, "A stream that ends with the job")
            .problems(&[Code::NotFound, Code::Unavailable]),
    ]
}

fn artifacts_rows() -> Vec<Row> {
    vec![
        get("/api/v1/jobs/{id}/artifacts", "listArtifacts", "What an attempt left, by name")
            .query::<artifacts::ArtifactsQuery>()
            .gives::<Page<wire::Artifact>>("A page")
            .problems(&[Code::NotFound]),
        get("/api/v1/jobs/{id}/artifacts/{*name}", "artifact", "One artifact; its name may have slashes")
            .query::<artifacts::ArtifactQuery>()
            .headers(&[
                ("Range", "One range in bytes, such as bytes=100-"),
                ("If-None-Match", "Versions that the client has"),
            ])
            .gives_as::<String>(BYTES, "The bytes, with the media type they were put with")
            .telling(TAG)
            .answers_with(206, "A range of them", Some((BYTES, part::<String>)))
            .answers_with(304, "The client has this version", None)
            .problems(&[Code::NotFound, Code::RangeNotSatisfiable]),
        put("/api/v1/attempts/{id}/artifacts/{*name}", "putArtifact", "Keep a file of this attempt")
            .headers(ARTIFACT)
            .takes_as::<String>(BYTES)
            .gives::<wire::Artifact>("It is kept")
            .problems(WORD),
    ]
}

fn operations() -> Vec<Row> {
    vec![
        post("/api/v1/operations", "startOperation", "Change all jobs that a filter means")
            .takes::<wire::StartOperation>()
            .answers_with(
                202,
                "It is recorded, and counted if that was quick",
                Some((JSON, part::<wire::Operation>)),
            )
            .telling(LOCATION)
            .problems(STORE),
        get("/api/v1/operations", "listOperations", "Operations, newest first")
            .query::<operation::OperationsQuery>()
            .gives::<Page<wire::Operation>>("A page")
            .telling(&[("Link", "The address of the next page, with rel=\"next\"")]),
        get("/api/v1/operations/{id}", "showOperation", "How far an operation is")
            .gives::<wire::Operation>("The operation")
            .problems(&[Code::NotFound]),
        post(
            "/api/v1/operations/{id}/cancel",
            "cancelOperation",
            "Stop an operation; what was done stays done",
        )
        .gives::<wire::Operation>("The operation")
        .problems(&[Code::NotFound, Code::Conflict, Code::Unavailable, Code::StorageFull]),
    ]
}

fn workers() -> Vec<Row> {
    vec![
        post("/api/v1/vacancies", "offerVacancy", "A worker's long poll: it can take jobs now")
            .takes::<wire::Vacancy>()
            .gives::<wire::Assignments>("Jobs for this worker")
            .answers_with(204, "None came in time", None)
            .problems(STORE),
        post("/api/v1/renewals", "renewLeases", "A worker still has these attempts")
            .takes::<wire::Renewals>()
            .gives::<wire::Renewed>("Which go on, which are lost, which are to be stopped")
            .problems(STORE),
        get("/api/v1/session", "openSession", "A worker's session: batches of messages over one WebSocket")
            .headers(&[("Sec-WebSocket-Protocol", "jobhall.v1.json or jobhall.v1.msgpack")])
            .answers_with(101, "The session begins with a hello", None)
            .problems(&[Code::BadRequest, Code::Unavailable]),
        get("/api/v1/workers", "listWorkers", "The workers that wait or have an attempt")
            .gives::<Page<wire::Worker>>("All of them"),
        get("/api/v1/nodes", "listNodes", "The server processes of the hall, and which leads").gives::<Page<
            wire::Node,
        >>(
            "All of them"
        ),
    ]
}

fn attempts_rows() -> Vec<Row> {
    vec![
        post("/api/v1/attempts/{id}/accept", "acceptAttempt", "The worker has the job")
            .headers(LEASE)
            .gives::<wire::Moved>("The job's state")
            .problems(WORD),
        post("/api/v1/attempts/{id}/progress", "reportProgress", "How far the worker is")
            .headers(LEASE)
            .may_take::<wire::Progress>()
            .gives::<wire::Moved>("The job's state")
            .problems(WORD),
        post("/api/v1/attempts/{id}/log", "appendLog", "More of the attempt's log")
            .headers(LEASE)
            .query::<attempts::LogPlace>()
            .takes_as::<String>("application/octet-stream")
            .gives::<wire::LogPosition>("Where the next chunk begins")
            .problems(WORD),
        post("/api/v1/attempts/{id}/outcome", "reportOutcome", "How the attempt ended")
            .headers(LEASE)
            .takes::<wire::OutcomeReport>()
            .gives::<wire::Moved>("The job's state")
            .problems(WORD),
        post("/api/v1/attempts/{id}/jobs", "askForJob", "The attempt asks for a job, by a name of its own")
            .headers(LEASE)
            .takes::<wire::SubJob>()
            .answers_with(201, "A new job", Some((JSON, part::<wire::Called>)))
            .telling(LOCATION)
            .gives::<wire::Called>("The job that answers already")
            .problems(&[
                Code::KeyHeld,
                Code::LeaseLost,
                Code::Conflict,
                Code::Unavailable,
                Code::StorageFull,
            ]),
        post("/api/v1/attempts/{id}/wait", "waitForJobs", "The attempt waits for jobs that it asked for")
            .headers(LEASE)
            .may_take::<wire::Wait>()
            .gives::<wire::Waited>("They are over, and the attempt goes on")
            .answers_with(204, "It still waits: ask again", None)
            .problems(WORD),
        put(
            "/api/v1/outcomes/{type}/{*key}",
            "finishJob",
            "Tell the outcome of work that a worker has started",
        )
        .query::<outcomes::OutcomeQuery>()
        .takes::<wire::OutcomeReport>()
        .gives::<wire::Job>("The job")
        .problems(&[Code::NotFound, Code::Conflict, Code::Unavailable, Code::StorageFull]),
    ]
}

fn tokens() -> Vec<Row> {
    vec![
        get("/api/v1/tokens", "listTokens", "The tokens that are stored, without their secrets")
            .gives::<Page<wire::Token>>("All of them"),
        post("/api/v1/tokens", "createToken", "Make a token; its secret is told this once")
            .takes::<wire::CreateToken>()
            .answers_with(201, "The token and its secret", Some((JSON, part::<wire::CreatedToken>)))
            .telling(LOCATION)
            .problems(&[Code::Conflict, Code::Unavailable, Code::StorageFull]),
        Row::new("DELETE", "/api/v1/tokens/{id}", "revokeToken", "Take a token away, at once")
            .answers_with(204, "It is good for nothing any more", None)
            .problems(&[Code::NotFound, Code::Conflict, Code::Unavailable, Code::StorageFull]),
        post("/api/v1/join", "join", "A worker exchanges its join token for a credential of its own")
            .takes::<wire::Join>()
            .gives::<wire::CreatedToken>("The credential and its secret")
            .problems(&[Code::Conflict, Code::Unavailable, Code::StorageFull]),
        get("/api/v1/audit", "listAudit", "Who did what, newest first")
            .query::<audit::AuditQuery>()
            .gives::<Page<wire::Act>>("A page")
            .telling(&[("Link", "The address of the next page, with rel=\"next\"")]),
    ]
}

fn schedules() -> Vec<Row> {
    vec![
        get("/api/v1/schedules", "listSchedules", "The schedules")
            .gives::<Page<wire::Schedule>>("All of them"),
        get("/api/v1/schedules/{name}", "showSchedule", "A schedule")
            .headers(&[("If-None-Match", "Versions that the client has")])
            .gives::<wire::Schedule>("As it is")
            .telling(TAG)
            .answers_with(304, "The client has this version", None)
            .telling(TAG)
            .problems(&[Code::NotFound]),
        put(
            "/api/v1/schedules/{name}",
            "setSchedule",
            "Make a schedule, or change one; what is missing stays as it is",
        )
        .headers(VERSIONS)
        .takes::<wire::SetSchedule>()
        .gives::<wire::Schedule>("As it is now")
        .telling(TAG)
        .answers_with(201, "A new one", Some((JSON, part::<wire::Schedule>)))
        .telling(TAG)
        .problems(&[Code::PreconditionFailed, Code::Conflict, Code::Unavailable, Code::StorageFull]),
        Row::new(
            "DELETE",
            "/api/v1/schedules/{name}",
            "removeSchedule",
            "Remove a schedule; the jobs that it made stay",
        )
        .headers(VERSIONS)
        .answers_with(204, "It is gone", None)
        .problems(&[
            Code::NotFound,
            Code::PreconditionFailed,
            Code::Conflict,
            Code::Unavailable,
            Code::StorageFull,
        ]),
        get("/api/v1/schedules/{name}/ticks", "nextTicks", "The ticks to come")
            .query::<schedule::TicksQuery>()
            .gives::<Page<wire::Tick>>("The next ones")
            .problems(&[Code::NotFound]),
        post(
            "/api/v1/schedules/{name}/run",
            "runSchedule",
            "Make the job of a schedule now, beside its ticks",
        )
        .gives::<wire::Submitted>("The job")
        .problems(&[
            Code::NotFound,
            Code::KeyHeld,
            Code::Conflict,
            Code::Unavailable,
            Code::StorageFull,
        ]),
    ]
}

fn types() -> Vec<Row> {
    vec![
        get("/api/v1/types", "listTypes", "The types that are known, and what is configured for them")
            .gives::<Page<wire::TypeSettings>>("All of them"),
        get("/api/v1/types/{name}", "showType", "What is configured for a type")
            .headers(&[("If-None-Match", "Versions that the client has")])
            .gives::<wire::TypeSettings>("As it is")
            .telling(TAG)
            .answers_with(304, "The client has this version", None)
            .telling(TAG)
            .problems(&[Code::NotFound]),
        put("/api/v1/types/{name}", "setType", "Configure a type; what is missing stays as it is")
            .headers(VERSIONS)
            .takes::<wire::SetType>()
            .gives::<wire::TypeSettings>("As it is now")
            .telling(TAG)
            .answers_with(201, "A type that was not known", Some((JSON, part::<wire::TypeSettings>)))
            .telling(TAG)
            .problems(&[Code::PreconditionFailed, Code::Conflict, Code::Unavailable, Code::StorageFull]),
        Row::new("DELETE", "/api/v1/types/{name}", "resetType", "Give a type its defaults again")
            .headers(VERSIONS)
            .answers_with(204, "It has them", None)
            .problems(&[
                Code::NotFound,
                Code::PreconditionFailed,
                Code::Conflict,
                Code::Unavailable,
                Code::StorageFull,
            ]),
    ]
}
