//! Routes of queries.

use jobhall_protocol as wire;
use jobhall_protocol::{CACHE_HEADER, Code, Page};
use serde_json::Value;

use super::super::super::commands::CommandsQuery;
use super::super::super::queries::{EvaluateQuery, ValueQuery};
use super::super::super::query_metadata::MetadataQuery;
use super::super::super::query_steps::ExplainQuery;
use super::super::super::sources::SourcesQuery;
use super::super::headers::{INPUT_HEADERS, LEASE, PREFER, RANGE_OR_CACHED, WITH_DIGEST};
use super::{BYTES, JSON, LOCATION, Row, TAG, get, part, post, put};

/// Headers of a value.
const VALUE: &[(&str, &str)] = &[
    (CACHE_HEADER, "hit, joined or computed"),
    ("ETag", "Entity tag of the value"),
    ("Age", "Seconds since the value was made"),
];
/// Problems of a promise that ended without a value.
const FAILED: &[Code] = &[
    Code::NotFound,
    Code::RangeNotSatisfiable,
    Code::Conflict,
    Code::StepFailed,
    Code::StepCrashed,
    Code::StepCancelled,
    Code::VersionChanged,
    Code::Unavailable,
];
/// Problems of a query that is planned, and of a change of what is stored for it.
pub(super) const PLANNED: &[Code] = &[
    Code::BadRequest,
    Code::Conflict,
    Code::QuerySyntax,
    Code::QueryTooLong,
    Code::QueryTooLarge,
    Code::UnknownCommand,
    Code::WrongArgument,
    Code::WrongPlace,
    Code::UnknownSource,
    Code::RecipeCycle,
    Code::FormatNotOffered,
    Code::NotSerialisable,
    Code::Unavailable,
    Code::StorageFull,
];
/// Problems of a query that a running step asks for.
const ASKED_WITHIN: &[Code] = &[
    Code::BadRequest,
    Code::NotFound,
    Code::LeaseLost,
    Code::Conflict,
    Code::QueryCycle,
    Code::QuerySyntax,
    Code::QueryTooLarge,
    Code::UnknownCommand,
    Code::WrongArgument,
    Code::WrongPlace,
    Code::UnknownSource,
    Code::FormatNotOffered,
    Code::NotSerialisable,
    Code::StepFailed,
    Code::StepCrashed,
    Code::StepCancelled,
    Code::VersionChanged,
    Code::Unavailable,
    Code::StorageFull,
];
/// Problems of a request for a query.
const ASKED: &[Code] = &[
    Code::BadRequest,
    Code::NotComputed,
    Code::QuerySyntax,
    Code::QueryTooLong,
    Code::QueryTooLarge,
    Code::UnknownCommand,
    Code::WrongArgument,
    Code::WrongPlace,
    Code::UnknownSource,
    Code::RecipeCycle,
    Code::FormatNotOffered,
    Code::NotSerialisable,
    Code::RangeNotSatisfiable,
    Code::Conflict,
    Code::StepFailed,
    Code::StepCrashed,
    Code::StepCancelled,
    Code::VersionChanged,
    Code::Unavailable,
    Code::StorageFull,
];

pub(super) fn all() -> Vec<Row> {
    vec![
        get("/q/{*query}", "evaluateQuery", "Evaluate a query; the answer is its value")
            .query::<EvaluateQuery>()
            .headers(PREFER)
            .gives_as::<String>(BYTES, "The value, with its media type")
            .telling(VALUE)
            .answers_with(206, "A range of the value", Some((BYTES, part::<String>)))
            .answers_with(202, "The value is not there yet", Some((JSON, part::<wire::QueryPromise>)))
            .telling(LOCATION)
            .answers_with(304, "Not modified: the client has this value", None)
            .problems(ASKED),
        post("/api/v1/queries", "submitQuery", "Ask for a query in the background")
            .takes::<wire::AskQuery>()
            .gives::<wire::QueryPromise>("The value is cached")
            .telling(LOCATION)
            .answers_with(202, "The promise of the value", Some((JSON, part::<wire::QueryPromise>)))
            .telling(LOCATION)
            .problems(ASKED),
        get("/api/v1/queries", "queryMetadata", "Show what is known of a query without evaluating it")
            .query::<MetadataQuery>()
            .gives::<wire::QueryMetadata>("What is known of it")
            .problems(PLANNED),
        get("/api/v1/queries/{id}", "showQuery", "Show the promise of a value")
            .gives::<wire::QueryPromise>("The promise")
            .problems(&[Code::NotFound]),
        get("/api/v1/queries/plan", "explainQuery", "Show how a query would be answered; no step runs")
            .query::<ExplainQuery>()
            .gives::<wire::QueryPlan>("Each step: a hit, pending, or missing with its workers and why")
            .problems(PLANNED),
        get("/api/v1/queries/{id}/steps", "listQuerySteps", "List the steps of a promise with their jobs")
            .gives::<Page<wire::QueryStep>>("Each after those that it depends on, as far as they are stored")
            .problems(&[Code::NotFound]),
        get("/api/v1/queries/{id}/value", "queryValue", "Wait for the value of a promise")
            .query::<ValueQuery>()
            .headers(RANGE_OR_CACHED)
            .gives_as::<String>(BYTES, "The value, with its media type")
            .telling(VALUE)
            .answers_with(206, "A range of the value", Some((BYTES, part::<String>)))
            .answers_with(202, "The value is not there yet", Some((JSON, part::<wire::QueryPromise>)))
            .telling(LOCATION)
            .answers_with(304, "Not modified: the client has this value", None)
            .problems(FAILED),
        get("/api/v1/commands", "listCommands", "List the commands that queries can use")
            .query::<CommandsQuery>()
            .gives::<Page<wire::KnownCommand>>("All of them, or those that were asked for"),
        put("/api/v1/commands", "declareCommands", "Declare the commands of a worker")
            .takes::<wire::DeclareCommands>()
            .gives::<wire::CommandsDeclared>("How many have changed")
            .problems(&[Code::Conflict, Code::Unavailable, Code::StorageFull]),
        get(
            "/api/v1/attempts/{id}/values/{identity}",
            "inputValue",
            "Read a value that a step receives, by its identity, or stored data, by its digest",
        )
        .headers(INPUT_HEADERS)
        .gives_as::<String>(BYTES, "The value, with its media type")
        .answers_with(206, "A range of the value", Some((BYTES, part::<String>)))
        .answers_with(304, "Not modified: the client has this value", None)
        .problems(&[
            Code::NotFound,
            Code::LeaseLost,
            Code::Conflict,
            Code::RangeNotSatisfiable,
            Code::Unavailable,
        ]),
        post(
            "/api/v1/attempts/{id}/queries",
            "askWithin",
            "Ask for a query from a running step of another one",
        )
        .headers(LEASE)
        .takes::<wire::AskSubQuery>()
        .gives::<wire::SubQuery>("The value is there")
        .answers_with(202, "A job makes the value", Some((JSON, part::<wire::SubQuery>)))
        .telling(LOCATION)
        .problems(ASKED_WITHIN),
        get(
            "/api/v1/attempts/{id}/queries/{job}",
            "askedWithin",
            "Read the answer to a query that a running step has asked for",
        )
        .headers(LEASE)
        .gives::<wire::SubQuery>("The value is there")
        .answers_with(202, "A job makes the value", Some((JSON, part::<wire::SubQuery>)))
        .telling(LOCATION)
        .problems(&[
            Code::NotFound,
            Code::LeaseLost,
            Code::StepFailed,
            Code::StepCrashed,
            Code::StepCancelled,
            Code::VersionChanged,
            Code::Unavailable,
        ]),
        get(
            "/api/v1/attempts/{id}/seen",
            "seenValue",
            "Read the value that was made from the same bytes before",
        )
        .headers(LEASE)
        .gives_as::<Value>(
            JSON,
            "The result of the job that made it: the outcome of this attempt is `skipped`",
        )
        .answers_with(204, "There is none: the attempt has to run", None)
        .problems(&[Code::NotFound, Code::LeaseLost, Code::Unavailable]),
    ]
    .into_iter()
    .chain(sources())
    .collect()
}

fn sources() -> Vec<Row> {
    vec![
        get("/api/v1/sources", "listSources", "List sources, by key")
            .query::<SourcesQuery>()
            .gives::<Page<wire::Source>>("A page")
            .telling(&[("Link", "Address of the next page, with rel=\"next\"")]),
        get("/api/v1/sources/{*key}", "source", "Read the data of a source; its key may contain slashes")
            .headers(RANGE_OR_CACHED)
            .gives_as::<String>(BYTES, "The data, with the media type given when it was put")
            .telling(TAG)
            .answers_with(206, "A range of the data", Some((BYTES, part::<String>)))
            .answers_with(304, "Not modified: the client has this data", None)
            .problems(&[Code::NotFound, Code::RangeNotSatisfiable, Code::Conflict, Code::Unavailable]),
        put(
            "/api/v1/sources/{*key}",
            "putSource",
            "Put data under a key; a key that begins with blake3/ must be followed by the hash of the data",
        )
        .headers(WITH_DIGEST)
        .takes_as::<String>(BYTES)
        .gives::<wire::Source>("The source, which had this key before")
        .telling(TAG)
        .answers_with(201, "A new source", Some((JSON, part::<wire::Source>)))
        .telling(TAG)
        .problems(&[Code::Conflict, Code::Unavailable, Code::StorageFull]),
        Row::new("DELETE", "/api/v1/sources/{*key}", "removeSource", "Remove a source")
            .answers_with(204, "Removed", None)
            .problems(&[Code::NotFound, Code::Conflict, Code::Unavailable, Code::StorageFull]),
    ]
}
