//! Bodies that have no type of their own on the wire.

use std::borrow::Cow;

use jobhall_core::bounds::SUBMIT_JOBS;
use jobhall_protocol as wire;
use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema, json_schema};
use serde_json::json;

/// One job, or an array of jobs that is accepted or refused as a whole.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes a body that is read by its first character")]
pub(super) enum Submit {
    One(Box<wire::SubmitJob>),
    Many(#[schemars(length(min = 1, max = SUBMIT_JOBS))] Vec<wire::SubmitJob>),
}

/// One sub-job, or an array of sub-jobs that is accepted or refused as a whole.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes a body that is read by its first character")]
pub(super) enum SubJobs {
    One(Box<wire::SubJob>),
    Many(#[schemars(length(min = 1, max = SUBMIT_JOBS))] Vec<wire::SubJob>),
}

/// A report of an outcome that ends the work.
pub(super) struct FinalReport;

impl JsonSchema for FinalReport {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "FinalReport".into()
    }

    fn json_schema(schemas: &mut SchemaGenerator) -> Schema {
        let mut report = schemas.subschema_for::<wire::OutcomeReport>();
        let ends = json!({ "outcome": { "not": { "const": wire::Outcome::Started } } });
        report.insert("properties".to_owned(), ends);
        report
    }
}

/// One event of a stream of server-sent events.
pub(super) struct Event;

impl JsonSchema for Event {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Event".into()
    }

    fn json_schema(schemas: &mut SchemaGenerator) -> Schema {
        let change = schemas.subschema_for::<wire::Change>();
        let progress = schemas.subschema_for::<wire::ProgressChange>();
        json_schema!({
            "description": "One event. `job` and `group` carry the new state, `progress` the progress; after `reset` \
                            the client reads everything again, and after `closing` it reconnects.",
            "type": "object",
            "properties": {
                "id": { "description": "Position to resume after, with `Last-Event-ID`.", "type": "string" },
                "event": { "type": "string", "enum": ["job", "group", "progress", "reset", "closing"] },
                "data": {
                    "type": "string",
                    "contentMediaType": "application/json",
                    "contentSchema": { "anyOf": [change, progress, { "type": "object", "maxProperties": 0 }] },
                },
            },
        })
    }
}

/// The sub-job, if one object was sent; otherwise one response for each.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes the responses to two kinds of requests")]
pub(super) enum SubJobsAnswer {
    One(Box<wire::Called>),
    Many(Vec<wire::Called>),
}

/// The job, if one object was submitted; otherwise one response for each.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes the responses to two kinds of requests")]
pub(super) enum SubmitAnswer {
    One(Box<wire::Job>),
    Many(Vec<wire::Submitted>),
}
