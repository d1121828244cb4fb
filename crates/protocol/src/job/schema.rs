//! Bounds and formats of requests for the API's description, made from the constants of the checks.
//!
//! JSON Schema counts characters and the checks count bytes: `maxLength` is exact for ASCII, and an upper bound for
//! other texts. A text with a grammar has a `format`, which the description explains; a duration has its bounds in
//! `x-minimum-ms` and `x-maximum-ms`.

mod pattern;
mod relation;

use std::borrow::Cow;

use jobhall_core::needs::{JOB_BOUNDS, RESERVED_BOUNDS, WORKER_BOUNDS};
use jobhall_core::{StateName, bounds, limits, query};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use crate::session::Encoding;

pub(crate) use relation::{
    create_group, create_token, edit_job, limit, outcome_report, set_schedule, start_operation, sub_job,
    submit_job,
};

/// Defines types that only have a schema, which is written in place.
macro_rules! schemas {
    ($($(#[$doc:meta])* $name:ident = $schema:expr;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            pub struct $name;

            impl JsonSchema for $name {
                fn inline_schema() -> bool {
                    true
                }

                fn schema_name() -> Cow<'static, str> {
                    stringify!($name).into()
                }

                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    $schema
                }
            }
        )*
    };
}

schemas! {
    /// The name of a type, a queue, a worker, a token or a schedule.
    Name = text(bounds::NAME_BYTES, pattern::NAME);
    /// The key of a job.
    Key = text(bounds::KEY_BYTES, pattern::TEXT);
    /// The owner of a job or a group.
    Owner = text(bounds::NAME_BYTES, pattern::TEXT);
    /// A tag.
    Tag = text(bounds::TAG_BYTES, pattern::TAG);
    /// The name of a sub-job.
    Call = json_schema!({ "type": "string", "minLength": 1, "maxLength": bounds::CALL_BYTES });
    /// A text that lists are searched for.
    Search = json_schema!({ "type": "string", "minLength": 1, "maxLength": bounds::SEARCH_BYTES });
    /// The reason of a failure.
    FailureReason = text(bounds::REASON_BYTES, pattern::WITHOUT_NUL);
    /// The explanation of a failure.
    FailureExplanation = json_schema!({
        "type": "string",
        "maxLength": bounds::EXPLANATION_BYTES,
        "pattern": pattern::WITHOUT_NUL,
    });
    /// The id of a job or a group.
    JobId = json_schema!({
        "type": "integer", "format": "uint64", "minimum": 1, "maximum": bounds::JOB_ID,
    });
    /// The id of an attempt.
    AttemptId = json_schema!({
        "type": "string", "pattern": format!("^{}$", pattern::attempt()), "examples": ["17-1"],
    });
    /// An attempt of a job: its id or its number.
    WhichAttempt = json_schema!({
        "type": "string",
        "pattern": format!("^(?:{}|{})$", pattern::up_to(u64::from(u32::MAX)), pattern::attempt()),
        "examples": ["17-2", "1"],
    });
    /// An input of an attempt.
    WhichInput = json_schema!({
        "type": "string",
        "pattern": format!("^(?:parent|0|{})$", pattern::up_to(u64::from(u32::MAX))),
        "examples": ["0", "parent"],
    });
    /// A lease.
    Lease = json_schema!({ "type": "string", "pattern": "^[0-9A-Fa-f]{32}$" });
    /// A digest of a body.
    Digest = json_schema!({ "type": "string", "pattern": "^[0-9a-f]{64}$" });
    /// An idempotency key.
    IdempotencyKey = text(bounds::SUBMIT_KEY_BYTES, pattern::HEADER);
    /// `*`, or entity tags.
    EntityTags = json_schema!({ "type": "string", "pattern": pattern::ENTITY_TAGS, "examples": ["\"2-0a1b2c3d\"", "*"] });
    /// One range of bytes. Another text is not refused, but ignored, so there is no pattern.
    ByteRange = json_schema!({ "type": "string", "format": "byte-range", "examples": ["bytes=100-"] });
    /// Entity tags of content. Another text is not refused, but matches nothing, so there is no pattern.
    ContentTags = json_schema!({ "type": "string", "format": "entity-tags", "examples": ["\"af1349b9\""] });
    /// Preferences of RFC 7240. Others than respond-async and wait are ignored, so there is no pattern.
    Preferences = json_schema!({ "type": "string", "format": "prefer", "examples": ["respond-async, wait=10"] });
    /// A position of an event stream.
    Position = json_schema!({ "type": "string", "pattern": format!("^(?:0|{})$", pattern::up_to(u64::MAX)) });
    /// Subprotocols of a session.
    Subprotocols = {
        let one = Encoding::ALL.map(|encoding| encoding.subprotocol().replace('.', "\\.")).join("|");
        json_schema!({ "type": "string", "pattern": format!("^(?:{one})(?:, ?(?:{one}))*$") })
    };
    /// States of jobs, separated by commas.
    States = {
        let one = StateName::ALL.map(StateName::as_str).join("|");
        json_schema!({ "type": "string", "pattern": format!("^(?:{one})(?:,(?:{one}))*$") })
    };
    /// A queue, or the beginning of queue names and `*`.
    ScopeQueue = json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": bounds::NAME_BYTES + 1,
        "pattern": pattern::SCOPE_QUEUE,
    });
    /// Requirements on a worker.
    Needs = formatted("needs", RESERVED_BOUNDS.bytes);
    /// Resources that a job uses.
    Uses = formatted("uses", JOB_BOUNDS.bytes);
    /// Abilities of a worker.
    Abilities = formatted("abilities", WORKER_BOUNDS.bytes);
    /// Jobs that a worker accepts.
    Accepts = formatted("accepts", WORKER_BOUNDS.bytes);
    /// Daily windows.
    Windows = formatted("windows", bounds::WINDOWS_BYTES);
    /// A cron expression.
    Cron = formatted("cron", bounds::CRON_BYTES);
    /// A time zone.
    Zone = formatted("time-zone", bounds::ZONE_BYTES);
    /// The expression of a limit.
    LimitBy = formatted("limit-by", limits::EXPRESSION_BYTES_MAX);
    /// The cursor of a list that is sorted by name.
    NameCursor = json_schema!({
        "type": "string",
        "maxLength": bounds::NAME_BYTES + 1,
        "pattern": pattern::NAME_CURSOR,
    });
    /// The text of a query that is sent in a body.
    QueryText = formatted("query", query::TEXT_BYTES_MAX);
    /// The text of a query in a URL.
    QueryPath = formatted("query", query::URL_BYTES_MAX);
    /// What of a query is computed anew: a command, or `*` for all.
    Refreshed = text(query::COMMAND_CHARS_MAX, r"^(?:\*|[a-z_][A-Za-z0-9_]{0,47})$");
    /// What a value is stored under.
    QueryIdentity = json_schema!({
        "type": "string", "pattern": format!("^[0-9a-v]{{{}}}$", query::IDENTITY_CHARS),
    });
    /// What a step receives: a value by its identity, or stored data by its digest.
    QueryInput = json_schema!({
        "type": "string", "pattern": format!("^(?:[0-9a-v]{{{}}}|[0-9a-f]{{64}})$", query::IDENTITY_CHARS),
    });
    /// The key of a source.
    SourceKey = text(bounds::KEY_BYTES, pattern::SOURCE_KEY);
    /// The beginning of keys of sources.
    SourcePrefix = json_schema!({ "type": "string", "maxLength": bounds::KEY_BYTES });
    /// The cursor of a list of sources.
    SourceCursor = json_schema!({
        "type": "string", "maxLength": 2 * bounds::KEY_BYTES + 1, "pattern": "^s(?:[0-9a-f]{2})*$",
    });
    /// The version of a command.
    CommandVersion = text(query::VERSION_BYTES_MAX, "^[A-Za-z0-9._-]+$");
    /// The name of an argument of a command.
    ArgumentName = text(query::COMMAND_CHARS_MAX, "^[a-z_][A-Za-z0-9_]*$");
    /// A text of the declaration of a command.
    CommandText = json_schema!({
        "type": "string", "maxLength": query::DECLARED_BYTES_MAX, "pattern": pattern::WITHOUT_NUL,
    });
    /// Names of commands, separated by commas.
    CommandNames = text(16 << 10, "^[a-z_][A-Za-z0-9_]{0,47}(,[a-z_][A-Za-z0-9_]{0,47})*$");
    /// A short text about a file.
    FileWord = json_schema!({
        "type": "string", "maxLength": crate::FILE_WORD_BYTES_MAX, "pattern": pattern::WITHOUT_NUL,
    });
    /// A media type.
    MediaType = formatted("media-type", query::DECLARED_BYTES_MAX);
    /// When a value is fresh no longer.
    Expiry = formatted("expiry", query::DECLARED_BYTES_MAX);
}

fn text(bytes: usize, pattern: &str) -> Schema {
    json_schema!({ "type": "string", "minLength": 1, "maxLength": bytes, "pattern": pattern })
}

/// A text with a grammar that a pattern cannot describe.
fn formatted(format: &str, bytes: usize) -> Schema {
    json_schema!({ "type": "string", "format": format, "maxLength": bytes })
}

/// The cursor of a list that is sorted by number; the letter identifies the list.
#[derive(Clone, Copy, Debug)]
pub struct NumberCursor<const LETTER: char>;

impl<const LETTER: char> JsonSchema for NumberCursor<LETTER> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("NumberCursor_{LETTER}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": format!("^{LETTER}0*[0-9A-Fa-f]{{1,16}}$") })
    }
}

/// The cursor of a list of jobs or groups; the letter identifies the list.
#[derive(Clone, Copy, Debug)]
pub struct IdCursor<const LETTER: char>;

impl<const LETTER: char> JsonSchema for IdCursor<LETTER> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("IdCursor_{LETTER}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let id = pattern::hex_up_to(bounds::JOB_ID);
        json_schema!({ "type": "string", "pattern": format!("^{LETTER}0*{id}$") })
    }
}

/// A duration between two bounds in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct SpanBetween<const LEAST: u64, const MOST: u64>;

impl<const LEAST: u64, const MOST: u64> JsonSchema for SpanBetween<LEAST, MOST> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("SpanBetween_{LEAST}_{MOST}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        span(LEAST, MOST)
    }
}

/// The schema of a duration.
pub(crate) fn span(least: u64, most: u64) -> Schema {
    json_schema!({
        "type": "string",
        "format": "span",
        "minLength": 2,
        "pattern": pattern::SPAN,
        "x-minimum-ms": least,
        "x-maximum-ms": most,
        "examples": ["250ms", "30s", "1h30m", "7d"],
    })
}

/// A delay.
pub type Delay = SpanBetween<0, { bounds::DELAY_MS }>;
/// A time limit.
pub type TimeLimit = SpanBetween<1, { bounds::DELAY_MS }>;
/// The interval of a schedule.
pub type Interval = SpanBetween<{ bounds::EVERY_MS }, { bounds::DELAY_MS }>;

/// The schema of a time.
pub(crate) fn time() -> Schema {
    json_schema!({
        "type": "string",
        "format": "date-time",
        "pattern": pattern::TIME,
        "examples": ["2026-11-15T09:43:00.250Z"],
    })
}

/// States the bounds of every integer in a document that has none: those of its type.
pub fn bound_integers(document: &mut Value) {
    match document {
        Value::Object(fields) => {
            let bounds: Option<(Value, Value)> = match fields.get("format").and_then(Value::as_str) {
                Some("uint32") => Some((0.into(), u32::MAX.into())),
                Some("uint64") => Some((0.into(), u64::MAX.into())),
                Some("int32") => Some((i32::MIN.into(), i32::MAX.into())),
                _ => None,
            };
            if let Some((least, most)) = bounds {
                fields.entry("minimum").or_insert(least);
                fields.entry("maximum").or_insert(most);
            }
            fields.values_mut().for_each(bound_integers);
        }
        Value::Array(items) => items.iter_mut().for_each(bound_integers),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
