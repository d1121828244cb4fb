//! One row for each route; a test compares them with the list of routes in both directions.

use jobhall_protocol as wire;
use jobhall_protocol::{Code, Page};
use serde_json::Value;

use super::super::{
    artifacts, attempts, audit, events, groups as group, health, history, inputs, job_log, list,
    operations as operation, outcomes, page, queues as queue, schedules as schedule, types,
};
use super::bodies::{Event, FinalReport, SubJobs, SubJobsAnswer, Submit, SubmitAnswer};
use super::headers::{
    ARTIFACT, CACHED, IDEMPOTENCY, INPUT_HEADERS, LEASE, LEASE_OR_JOB, POSITION, RANGE, RANGE_OR_CACHED,
    SESSION, VERSIONS, WORKER,
};
use super::{JSON, Row, part};

mod cache;
mod queries;
mod recipes;

const TEXT: &str = "text/plain";
const BYTES: &str = "application/octet-stream";
const EVENTS: &str = "text/event-stream";
const LOCATION: &[(&str, &str)] = &[("Location", "Address of the resource")];
const TAG: &[(&str, &str)] = &[("ETag", "Entity tag of this version")];
/// Problems of every change in the store.
const STORE: &[Code] = &[Code::Unavailable, Code::StorageFull];
/// Problems of a change of a job.
const CHANGE: &[Code] = &[Code::NotFound, Code::Conflict, Code::Unavailable, Code::StorageFull];
/// Problems of a change of settings.
const CONFIGURE: &[Code] = &[Code::PreconditionFailed, Code::Conflict, Code::Unavailable, Code::StorageFull];
/// Problems of a worker's message about an attempt.
const WORD: &[Code] = &[
    Code::BadRequest,
    Code::NotFound,
    Code::LeaseLost,
    Code::Conflict,
    Code::Unavailable,
    Code::StorageFull,
];

/// Problems of a read of the inputs of an attempt.
const INPUT: &[Code] = &[Code::NotFound, Code::LeaseLost, Code::Unavailable];
const INPUT_BYTES: &[Code] = &[Code::NotFound, Code::LeaseLost, Code::Conflict, Code::RangeNotSatisfiable];

fn get(path: &'static str, id: &'static str, summary: &'static str) -> Row {
    Row::new("GET", path, id, summary)
}

fn post(path: &'static str, id: &'static str, summary: &'static str) -> Row {
    Row::new("POST", path, id, summary)
}

fn put(path: &'static str, id: &'static str, summary: &'static str) -> Row {
    Row::new("PUT", path, id, summary)
}

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
        inputs_rows(),
        queries::all(),
        recipes::all(),
        cache::all(),
        retention(),
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
        get("/", "page", "Overview page")
            .query::<page::PageQuery>()
            .gives_as::<String>("text/html", "Overview of the hall for a signed-in user")
            .answers_with(303, "The code was valid; the response sets a session cookie", None)
            .telling(LOCATION)
            .problems(&[Code::Unauthorized, Code::TooManyRequests]),
        post("/logout", "logout", "End the browser session of the cookie")
            .answers_with(303, "The session has ended; the response removes the cookie", None)
            .telling(LOCATION)
            .problems(&[Code::BadRequest]),
        get("/livez", "livez", "Liveness check").gives_as::<String>(TEXT, "Success"),
        get("/readyz", "readyz", "Readiness check")
            .query::<health::ReadyQuery>()
            .gives_as::<String>(TEXT, "Success")
            .problems(&[Code::Unavailable]),
        get("/metrics", "metrics", "Metrics for Prometheus")
            .gives_as::<String>("application/openmetrics-text", "The metrics"),
        get("/api/v1/stats", "stats", "Statistics of the hall").gives::<wire::Stats>("The statistics"),
        get("/api/v1/queues", "listQueues", "List queues with their open jobs, by name")
            .query::<queue::QueuesQuery>()
            .gives::<Page<wire::Queue>>("A page"),
        get("/api/v1/queues/{name}", "showQueue", "Show a queue with its open jobs")
            .gives::<wire::Queue>("The queue")
            .telling(TAG)
            .problems(&[Code::NotFound]),
        put("/api/v1/queues/{name}", "setQueue", "Configure a queue; omitted fields are unchanged")
            .headers(VERSIONS)
            .takes::<wire::SetQueue>()
            .gives::<wire::QueueSettings>("The new settings")
            .telling(TAG)
            .answers_with(201, "The queue had no settings", Some((JSON, part::<wire::QueueSettings>)))
            .telling(TAG)
            .problems(CONFIGURE),
        Row::new("DELETE", "/api/v1/queues/{name}", "resetQueue", "Reset a queue to its defaults")
            .headers(VERSIONS)
            .answers_with(204, "Reset", None)
            .problems(&[
                Code::NotFound,
                Code::PreconditionFailed,
                Code::Conflict,
                Code::Unavailable,
                Code::StorageFull,
            ]),
        get("/openapi.json", "openapi", "This document").gives::<Value>("This document"),
        get("/api/v1/events", "events", "Stream all events as server-sent events")
            .query::<events::AllEventsQuery>()
            .headers(POSITION)
            .gives_as::<Event>(EVENTS, "Event stream; `group` is sent at the end of a group")
            .problems(&[Code::BadRequest, Code::Unavailable]),
    ]
}

fn jobs() -> Vec<Row> {
    vec![
        post("/api/v1/jobs", "submitJobs", "Submit one job, or several atomically")
            .headers(IDEMPOTENCY)
            .takes::<Submit>()
            .answers_with(201, "A new job", Some((JSON, part::<wire::Job>)))
            .telling(LOCATION)
            .gives::<SubmitAnswer>("An existing job, or the results for several jobs")
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
        get("/api/v1/jobs", "listJobs", "List jobs, newest first")
            .query::<list::JobsQuery>()
            .gives::<Page<wire::Job>>("A page; it may be short even if more pages follow")
            .telling(&[("Link", "Address of the next page, with rel=\"next\"")]),
    ]
}

fn groups() -> Vec<Row> {
    const CHANGE: &[Code] = &[Code::NotFound, Code::Conflict, Code::Unavailable, Code::StorageFull];
    vec![
        post("/api/v1/groups", "createGroup", "Create a group with jobs")
            .headers(IDEMPOTENCY)
            .takes::<wire::CreateGroup>()
            .answers_with(201, "The group and the results for its jobs", Some((JSON, part::<wire::Group>)))
            .telling(LOCATION)
            .problems(&[
                Code::KeyHeld,
                Code::IdempotencyKeyReused,
                Code::DependencyUnmet,
                Code::Conflict,
                Code::Unavailable,
                Code::StorageFull,
            ]),
        get("/api/v1/groups", "listGroups", "List groups, newest first")
            .query::<group::GroupsQuery>()
            .gives::<Page<wire::Group>>("A page")
            .telling(&[("Link", "Address of the next page, with rel=\"next\"")]),
        get("/api/v1/groups/{id}", "showGroup", "Show a group with its job counts")
            .gives::<wire::Group>("The group")
            .problems(&[Code::NotFound]),
        post(
            "/api/v1/groups/{id}/close",
            "closeGroup",
            "Close a group: it accepts no more jobs and ends with its last job",
        )
        .gives::<wire::Group>("The group")
        .problems(CHANGE),
        post("/api/v1/groups/{id}/cancel", "cancelGroup", "Cancel all jobs of a group (idempotent)")
            .may_take::<wire::CancelGroup>()
            .gives::<wire::Group>("The group")
            .problems(CHANGE),
        post(
            "/api/v1/groups/{id}/retry",
            "retryGroup",
            "Create a new group from the failed jobs of an ended group",
        )
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
        get("/api/v1/jobs/{id}", "showJob", "Show a job with its attempts")
            .gives::<wire::Job>("The job")
            .problems(&[Code::NotFound]),
        Row::new("PATCH", "/api/v1/jobs/{id}", "editJob", "Edit a job that is not assigned to a worker")
            .takes::<wire::EditJob>()
            .gives::<wire::Job>("The job")
            .problems(CHANGE),
        post("/api/v1/jobs/{id}/hold", "holdJob", "Hold a job: it is not assigned until released")
            .gives::<wire::Job>("The job")
            .problems(CHANGE),
        post("/api/v1/jobs/{id}/release", "releaseJob", "Release a held job")
            .gives::<wire::Job>("The job")
            .problems(CHANGE),
        post(
            "/api/v1/jobs/{id}/run_now",
            "runJobNow",
            "Run a job now, ignoring its start time, backoff and windows",
        )
        .gives::<wire::Job>("The job")
        .problems(CHANGE),
        post("/api/v1/jobs/{id}/cancel", "cancelJob", "Cancel a job (idempotent)")
            .may_take::<wire::Cancel>()
            .gives::<wire::Job>("The job")
            .problems(&[Code::NotFound, Code::Conflict, Code::Unavailable, Code::StorageFull]),
        post("/api/v1/jobs/{id}/retry", "retryJob", "Create a new job from a completed job")
            .headers(IDEMPOTENCY)
            .answers_with(201, "The new job", Some((JSON, part::<wire::Job>)))
            .telling(LOCATION)
            .problems(&[
                Code::NotFound,
                Code::KeyHeld,
                Code::IdempotencyKeyReused,
                Code::Conflict,
                Code::Unavailable,
                Code::StorageFull,
            ]),
        get("/api/v1/jobs/{id}/explain", "explainJob", "Explain why a job is not running")
            .gives::<wire::Explanation>("The reasons, most relevant first")
            .problems(&[Code::NotFound]),
        get("/api/v1/jobs/{id}/attempts", "jobAttempts", "List the attempts of a job, newest first")
            .query::<history::AttemptsQuery>()
            .gives::<Page<wire::Attempt>>("A page")
            .problems(&[Code::NotFound]),
        get("/api/v1/jobs/{id}/result", "jobResult", "Result of a succeeded job")
            .gives::<Value>("The value")
            .problems(&[Code::NotFound, Code::Conflict]),
        get("/api/v1/jobs/{id}/log", "jobLog", "Log of a job")
            .query::<job_log::LogQuery>()
            .headers(RANGE)
            .gives_as::<String>(TEXT, "The log")
            .answers_with(206, "A range of the log", Some((TEXT, part::<String>)))
            .problems(&[Code::NotFound, Code::RangeNotSatisfiable]),
        get("/api/v1/jobs/{id}/events", "jobEvents", "Stream the events of a job as server-sent events")
            .query::<events::EventsQuery>()
            .headers(POSITION)
            .gives_as::<Event>(EVENTS, "Event stream that ends with the job")
            .problems(&[Code::NotFound, Code::Unavailable]),
    ]
}

fn artifacts_rows() -> Vec<Row> {
    vec![
        get("/api/v1/jobs/{id}/artifacts", "listArtifacts", "List the artifacts of an attempt, by name")
            .query::<artifacts::ArtifactsQuery>()
            .gives::<Page<wire::Artifact>>("A page")
            .problems(&[Code::NotFound]),
        get(
            "/api/v1/jobs/{id}/artifacts/{*name}",
            "artifact",
            "Download an artifact; its name may contain slashes",
        )
        .query::<artifacts::ArtifactQuery>()
        .headers(RANGE_OR_CACHED)
        .gives_as::<String>(BYTES, "The bytes, with the media type given at upload")
        .telling(TAG)
        .answers_with(206, "A range of the bytes", Some((BYTES, part::<String>)))
        .answers_with(304, "Not modified: the client has this version", None)
        .problems(&[Code::NotFound, Code::RangeNotSatisfiable]),
        put(
            "/api/v1/attempts/{id}/artifacts/{*name}",
            "putArtifact",
            "Store a file as an artifact of the attempt",
        )
        .headers(ARTIFACT)
        .takes_as::<String>(BYTES)
        .gives::<wire::Artifact>("The stored artifact")
        .problems(WORD),
    ]
}

fn operations() -> Vec<Row> {
    vec![
        post("/api/v1/operations", "startOperation", "Start an operation on all jobs that match a filter")
            .takes::<wire::StartOperation>()
            .answers_with(
                202,
                "The recorded operation, with its job count if already known",
                Some((JSON, part::<wire::Operation>)),
            )
            .telling(LOCATION)
            .problems(STORE),
        get("/api/v1/operations", "listOperations", "List operations, newest first")
            .query::<operation::OperationsQuery>()
            .gives::<Page<wire::Operation>>("A page")
            .telling(&[("Link", "Address of the next page, with rel=\"next\"")]),
        get("/api/v1/operations/{id}", "showOperation", "Show an operation and its progress")
            .gives::<wire::Operation>("The operation")
            .problems(&[Code::NotFound]),
        post(
            "/api/v1/operations/{id}/cancel",
            "cancelOperation",
            "Stop an operation; completed changes remain",
        )
        .gives::<wire::Operation>("The operation")
        .problems(&[Code::NotFound, Code::Conflict, Code::Unavailable, Code::StorageFull]),
    ]
}

fn workers() -> Vec<Row> {
    const CHANGE_WORKER: &[Code] = &[Code::NotFound, Code::Conflict, Code::Unavailable, Code::StorageFull];
    vec![
        post("/api/v1/vacancies", "offerVacancy", "Worker long poll: offer free slots and receive jobs")
            .headers(WORKER)
            .takes::<wire::Vacancy>()
            .gives::<wire::Assignments>("Jobs for this worker")
            .answers_with(204, "No job was assigned in time", None)
            .problems(STORE),
        post("/api/v1/renewals", "renewLeases", "Renew the leases of a worker's attempts")
            .headers(WORKER)
            .takes::<wire::Renewals>()
            .gives::<wire::Renewed>("Attempts that continue, are lost, or must be stopped")
            .problems(STORE),
        get(
            "/api/v1/session",
            "openSession",
            "Open a worker session: batches of messages over one WebSocket",
        )
        .headers(SESSION)
        .answers_with(101, "The session starts with a hello message", None)
        .problems(&[Code::BadRequest, Code::Unavailable]),
        get("/api/v1/workers", "listWorkers", "List workers that are connected, paused or draining")
            .gives::<Page<wire::Worker>>("All of them"),
        post("/api/v1/workers/{name}/pause", "pauseWorker", "Pause a worker: it takes no new jobs")
            .gives::<wire::Worker>("The worker")
            .problems(CHANGE_WORKER),
        post("/api/v1/workers/{name}/resume", "resumeWorker", "Resume a worker that is paused")
            .gives::<wire::Worker>("The worker")
            .problems(CHANGE_WORKER),
        post("/api/v1/workers/{name}/drain", "drainWorker", "Let a worker finish its jobs and exit")
            .gives::<wire::Worker>("The worker")
            .problems(CHANGE_WORKER),
        get("/api/v1/nodes", "listNodes", "List the server nodes of the hall and the leader")
            .gives::<Page<wire::Node>>("All of them"),
    ]
}

/// Results and artifacts that an attempt reads under its lease.
fn inputs_rows() -> Vec<Row> {
    vec![
        get("/api/v1/attempts/{id}/inputs", "listInputs", "List the inputs of an attempt, the parent last")
            .headers(LEASE_OR_JOB)
            .query::<inputs::InputsQuery>()
            .gives::<Page<wire::Input>>("A page")
            .problems(INPUT),
        get("/api/v1/attempts/{id}/inputs/{n}", "inputResult", "Read the result of an input")
            .headers(INPUT_HEADERS)
            .gives_as::<Value>(JSON, "The result itself, with its own media type if it is an artifact")
            .answers_with(206, "A range of the bytes", Some((BYTES, part::<String>)))
            .answers_with(304, "Not modified: the client has this version", None)
            .problems(INPUT_BYTES),
        get(
            "/api/v1/attempts/{id}/inputs/{n}/artifacts/{*name}",
            "inputArtifact",
            "Download an artifact of an input; its name may contain slashes",
        )
        .headers(INPUT_HEADERS)
        .gives_as::<String>(BYTES, "The bytes, with the media type given at upload")
        .telling(TAG)
        .answers_with(206, "A range of the bytes", Some((BYTES, part::<String>)))
        .answers_with(304, "Not modified: the client has this version", None)
        .problems(INPUT_BYTES),
    ]
}

fn attempts_rows() -> Vec<Row> {
    vec![
        post("/api/v1/attempts/{id}/accept", "acceptAttempt", "Accept an attempt")
            .headers(LEASE)
            .gives::<wire::Moved>("The job's state")
            .problems(WORD),
        post("/api/v1/attempts/{id}/progress", "reportProgress", "Report progress of an attempt")
            .headers(LEASE_OR_JOB)
            .may_take::<wire::Progress>()
            .gives::<wire::Moved>("The job's state")
            .problems(WORD),
        post("/api/v1/attempts/{id}/log", "appendLog", "Append to the log of an attempt")
            .headers(LEASE)
            .query::<attempts::LogPlace>()
            .takes_as::<String>("application/octet-stream")
            .gives::<wire::LogPosition>("Offset of the next chunk")
            .problems(WORD),
        post("/api/v1/attempts/{id}/outcome", "reportOutcome", "Report the outcome of an attempt")
            .headers(LEASE)
            .takes::<wire::OutcomeReport>()
            .gives::<wire::Moved>("The job's state")
            .problems(WORD),
        post("/api/v1/attempts/{id}/jobs", "askForJob", "Create sub-jobs of an attempt, under call names")
            .headers(LEASE_OR_JOB)
            .takes::<SubJobs>()
            .answers_with(201, "A new job", Some((JSON, part::<wire::Called>)))
            .telling(LOCATION)
            .gives::<SubJobsAnswer>("The existing sub-job, or one answer for each of several")
            .problems(&[
                Code::NotFound,
                Code::KeyHeld,
                Code::LeaseLost,
                Code::DependencyUnmet,
                Code::GroupClosed,
                Code::Conflict,
                Code::Unavailable,
                Code::StorageFull,
            ]),
        post("/api/v1/attempts/{id}/wait", "waitForJobs", "Wait for sub-jobs of an attempt")
            .headers(LEASE_OR_JOB)
            .may_take::<wire::Wait>()
            .gives::<wire::Waited>("The sub-jobs have ended and the attempt continues")
            .answers_with(204, "The attempt still waits; repeat the request", None)
            .problems(WORD),
        get("/api/v1/attempts/{id}/jobs/{job}/result", "subJobResult", "Read the result of a sub-job")
            .headers(INPUT_HEADERS)
            .gives_as::<Value>(JSON, "The result itself, with its own media type if it is an artifact")
            .answers_with(206, "A range of the bytes", Some((BYTES, part::<String>)))
            .answers_with(304, "Not modified: the client has this version", None)
            .problems(INPUT_BYTES),
        put(
            "/api/v1/outcomes/{type}/{*key}",
            "finishJob",
            "Report the outcome of external work that a worker started",
        )
        .query::<outcomes::OutcomeQuery>()
        .takes::<FinalReport>()
        .gives::<wire::Job>("The job")
        .problems(&[Code::NotFound, Code::Conflict, Code::Unavailable, Code::StorageFull]),
    ]
}

fn tokens() -> Vec<Row> {
    vec![
        get("/api/v1/tokens", "listTokens", "List stored tokens, without their secrets")
            .gives::<Page<wire::Token>>("All of them"),
        post("/api/v1/tokens", "createToken", "Create a token; its secret is returned only once")
            .takes::<wire::CreateToken>()
            .answers_with(201, "The token and its secret", Some((JSON, part::<wire::CreatedToken>)))
            .telling(LOCATION)
            .problems(&[Code::Conflict, Code::Unavailable, Code::StorageFull]),
        Row::new("DELETE", "/api/v1/tokens/{id}", "revokeToken", "Revoke a token immediately")
            .answers_with(204, "Revoked", None)
            .problems(&[Code::NotFound, Code::Conflict, Code::Unavailable, Code::StorageFull]),
        post("/api/v1/join", "join", "Exchange a join token for a worker token")
            .takes::<wire::Join>()
            .gives::<wire::CreatedToken>("The worker token and its secret")
            .problems(&[Code::Conflict, Code::Unavailable, Code::StorageFull]),
        get("/api/v1/audit", "listAudit", "List audit entries, newest first")
            .query::<audit::AuditQuery>()
            .gives::<Page<wire::Act>>("A page")
            .telling(&[("Link", "Address of the next page, with rel=\"next\"")]),
    ]
}

fn schedules() -> Vec<Row> {
    vec![
        get("/api/v1/schedules", "listSchedules", "List schedules")
            .query::<schedule::SchedulesQuery>()
            .gives::<Page<wire::Schedule>>("A page")
            .telling(&[("Link", "Address of the next page, with rel=\"next\"")]),
        get("/api/v1/schedules/{name}", "showSchedule", "Show a schedule")
            .headers(CACHED)
            .gives::<wire::Schedule>("The current settings")
            .telling(TAG)
            .answers_with(304, "Not modified: the client has this version", None)
            .telling(TAG)
            .problems(&[Code::NotFound]),
        put(
            "/api/v1/schedules/{name}",
            "setSchedule",
            "Create or change a schedule; omitted fields are unchanged",
        )
        .headers(VERSIONS)
        .takes::<wire::SetSchedule>()
        .gives::<wire::Schedule>("The new settings")
        .telling(TAG)
        .answers_with(201, "A new schedule", Some((JSON, part::<wire::Schedule>)))
        .telling(TAG)
        .problems(&[Code::PreconditionFailed, Code::Conflict, Code::Unavailable, Code::StorageFull]),
        Row::new(
            "DELETE",
            "/api/v1/schedules/{name}",
            "removeSchedule",
            "Remove a schedule; its jobs remain",
        )
        .headers(VERSIONS)
        .answers_with(204, "Removed", None)
        .problems(&[
            Code::NotFound,
            Code::PreconditionFailed,
            Code::Conflict,
            Code::Unavailable,
            Code::StorageFull,
        ]),
        get("/api/v1/schedules/{name}/ticks", "nextTicks", "List the next ticks of a schedule")
            .query::<schedule::TicksQuery>()
            .gives::<Page<wire::Tick>>("The next ticks")
            .problems(&[Code::NotFound]),
        post(
            "/api/v1/schedules/{name}/run",
            "runSchedule",
            "Submit the job of a schedule now, in addition to its ticks",
        )
        .headers(IDEMPOTENCY)
        .gives::<wire::Submitted>("The job")
        .problems(&[
            Code::NotFound,
            Code::KeyHeld,
            Code::IdempotencyKeyReused,
            Code::Conflict,
            Code::Unavailable,
            Code::StorageFull,
        ]),
    ]
}

fn retention() -> Vec<Row> {
    vec![
        get("/api/v1/retention", "showRetention", "Show the server's rule for completed jobs")
            .headers(CACHED)
            .gives::<wire::Retention>("The current rule")
            .telling(TAG)
            .answers_with(304, "Not modified: the client has this version", None)
            .telling(TAG),
        put(
            "/api/v1/retention",
            "setRetention",
            "Change the server's rule for completed jobs; omitted fields are unchanged",
        )
        .headers(VERSIONS)
        .takes::<wire::SetRetention>()
        .gives::<wire::Retention>("The new rule")
        .telling(TAG)
        .problems(&[Code::PreconditionFailed, Code::Conflict, Code::Unavailable, Code::StorageFull]),
    ]
}

fn types() -> Vec<Row> {
    vec![
        get("/api/v1/types", "listTypes", "List known job types and their settings, by name")
            .query::<types::TypesQuery>()
            .gives::<Page<wire::TypeSettings>>("A page"),
        get("/api/v1/types/{name}", "showType", "Show the settings of a type")
            .headers(CACHED)
            .gives::<wire::TypeSettings>("The current settings")
            .telling(TAG)
            .answers_with(304, "Not modified: the client has this version", None)
            .telling(TAG)
            .problems(&[Code::NotFound]),
        put("/api/v1/types/{name}", "setType", "Configure a type; omitted fields are unchanged")
            .headers(VERSIONS)
            .takes::<wire::SetType>()
            .gives::<wire::TypeSettings>("The new settings")
            .telling(TAG)
            .answers_with(201, "The type was not known", Some((JSON, part::<wire::TypeSettings>)))
            .telling(TAG)
            .problems(&[Code::PreconditionFailed, Code::Conflict, Code::Unavailable, Code::StorageFull]),
        Row::new("DELETE", "/api/v1/types/{name}", "resetType", "Reset a type to its defaults")
            .headers(VERSIONS)
            .answers_with(204, "Reset", None)
            .problems(&[
                Code::NotFound,
                Code::PreconditionFailed,
                Code::Conflict,
                Code::Unavailable,
                Code::StorageFull,
            ]),
    ]
}
