//! Schemas of types of `jobhall-core`, which does not depend on schemars.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::session::INDICATOR_BYTES;

/// The schema of [`jobhall_core::OnDuplicate`].
pub(crate) struct OnDuplicateSchema;

impl JsonSchema for OnDuplicateSchema {
    fn schema_name() -> Cow<'static, str> {
        "OnDuplicate".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let word = |word: &str, description: &str| json_schema!({ "description": description, "type": "string", "const": word });
        json_schema!({
            "description": "Handling of a live job with the same type and key.",
            "oneOf": [
                word("join", "Returns the live job."),
                word("reject", "Refuses the submit."),
                word("supersede", "Cancels the live job; the new job waits as its successor."),
                word("run_again", "Runs once more after the live job has ended."),
            ],
        })
    }
}

/// The schema of [`jobhall_core::Indicator`].
pub(crate) struct IndicatorSchema;

impl JsonSchema for IndicatorSchema {
    fn schema_name() -> Cow<'static, str> {
        "Indicator".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "One indicator of progress.",
            "type": "object",
            "properties": {
                "name": {
                    "description": "Name of the indicator, if there are several.",
                    "type": "string",
                    "maxLength": INDICATOR_BYTES,
                    "default": "",
                },
                "step": { "description": "Current value.", "type": "integer", "format": "uint64", "minimum": 0 },
                "total": {
                    "description": "Final value, if known.",
                    "type": ["integer", "null"],
                    "format": "uint64",
                    "minimum": 0,
                },
                "message": {
                    "description": "Message for people.",
                    "type": "string",
                    "maxLength": INDICATOR_BYTES,
                    "default": "",
                },
            },
            "required": ["step"],
            "additionalProperties": false,
        })
    }
}
