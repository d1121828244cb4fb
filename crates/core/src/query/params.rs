//! What the job of a node is given, and the value that it leaves: the forms that the server, the workers and the store
//! share.

use serde::{Deserialize, Serialize};

use super::arguments::is_false;
use super::declaration::text_form;
use super::{
    AskedQueries, CommandName, Expiry, Identity, Input, Node, PlannedCheck, SourceDigest, SourceKey,
    StepCheck, StepInput, Typed, Version,
};
use crate::json::base64;
use crate::time::Time;

text_form!(Identity, str::parse::<Identity>);
text_form!(SourceDigest, str::parse::<SourceDigest>);

/// The params of a job that runs a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeParams {
    /// The canonical text up to the last step.
    pub query: String,
    pub identity: Identity,
    /// In the order in which they run; the value of the last one is the result.
    pub steps: Vec<StepParams>,
    /// The identities of the values that the steps receive, in the order of the job's dependencies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Identity>,
    /// The stored data that the steps receive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceParam>,
    /// When the first of the values that the steps receive expires, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs_expire_at: Option<i64>,
    /// Whether the check of the only step is run, and not the step.
    #[serde(default, skip_serializing_if = "is_false")]
    pub check: bool,
    /// Whether the job runs even if the same was run before with the same bytes.
    #[serde(default, skip_serializing_if = "is_false")]
    pub anew: bool,
}

/// Stored data that a step receives: the bytes that the key named when the query was planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceParam {
    pub key: SourceKey,
    pub digest: SourceDigest,
}

/// One step of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepParams {
    pub command: CommandName,
    pub version: Version,
    /// One for each parameter of the command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<Argument>,
    /// None if the step begins with nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Place>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Set if the value of the step stays on its worker: the worker may keep it under this identity for later jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Identity>,
    /// What the check of the command has answered when the query was planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<CheckParam>,
    /// The rule for the end of the value's freshness.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Expiry>,
}

/// A check with its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckParam {
    pub identity: Identity,
    /// The digest of what it wrote.
    pub answer: SourceDigest,
}

/// An argument of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Argument {
    Text(String),
    /// The value of another query, as a file.
    Link(Place),
}

/// Where a step has a value from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// An earlier step of the job.
    Step(usize),
    /// An input of the job.
    Input(usize),
    /// Stored data that the job receives.
    Source(usize),
}

/// Where a step of the node finds a value. Values and stored data are numbered apart, so that the number of a value is
/// also that of the dependency which makes it.
fn place(node: &Node, input: &StepInput) -> Place {
    let number = |at: usize, sources: bool| {
        let before = node.inputs.iter().take(at);
        before.filter(|input| matches!(input, Input::Source(..)) == sources).count()
    };
    match *input {
        StepInput::Step(at) => Place::Step(at),
        StepInput::Input(at) if matches!(node.inputs.get(at), Some(Input::Source(..))) => {
            Place::Source(number(at, true))
        }
        StepInput::Input(at) => Place::Input(number(at, false)),
    }
}

impl NodeParams {
    /// The params of a node. The identities are those of the nodes that it receives values from, in their order.
    #[must_use]
    pub fn new(node: &Node, inputs: Vec<Identity>) -> NodeParams {
        let argument = |argument: &Typed<StepInput>| match argument {
            Typed::Text(text) => Argument::Text(text.clone()),
            Typed::Link(input) => Argument::Link(place(node, input)),
        };
        let steps = node.steps.iter().map(|step| StepParams {
            command: step.declared.declaration.name.clone(),
            version: step.declared.version.clone(),
            arguments: step.arguments.iter().map(argument).collect(),
            input: step.input.as_ref().map(|input| place(node, input)),
            format: step.format.clone(),
            check: step
                .check
                .and_then(|StepCheck { identity, answer }| Some(CheckParam { identity, answer: answer? })),
            expires: step.declared.declaration.expires.clone(),
            kept: step.stays.then_some(step.identity),
        });
        let sources = node.inputs.iter().filter_map(|input| match input {
            Input::Source(key, digest) => Some(SourceParam { key: key.clone(), digest: *digest }),
            Input::Node(_) => None,
        });
        NodeParams {
            query: node.text.clone(),
            identity: node.identity,
            steps: steps.collect(),
            inputs,
            sources: sources.collect(),
            inputs_expire_at: None,
            check: false,
            anew: false,
        }
    }

    /// The params of a job that runs the check of a step.
    #[must_use]
    pub fn of_check(check: &PlannedCheck) -> NodeParams {
        let step = StepParams {
            command: check.declared.declaration.name.clone(),
            version: check.declared.version.clone(),
            arguments: check.arguments.iter().cloned().map(Argument::Text).collect(),
            input: None,
            format: None,
            check: None,
            expires: None,
            kept: None,
        };
        NodeParams {
            query: check.text.clone(),
            identity: check.identity,
            steps: vec![step],
            inputs: Vec::new(),
            sources: Vec::new(),
            inputs_expire_at: None,
            check: true,
            anew: false,
        }
    }

    /// When a value that was made at this time expires: the first of the terms of its steps and of what they received.
    #[must_use]
    pub fn expires_at(&self, made: Time) -> Option<Time> {
        let own = self.steps.iter().filter_map(|step| step.expires.as_ref()).map(|expiry| expiry.at(made));
        let inputs = self.inputs_expire_at.and_then(|ms| Time::from_ms(ms).ok());
        own.chain(inputs).min()
    }
}

/// Largest value that is stored in the row of its job, in bytes.
pub const INLINE_VALUE_BYTES: usize = 64 << 10;

/// How many bytes JSON adds to a text.
fn escapes(text: &str) -> usize {
    let added = |byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 1,
        0..0x20 => 5,
        _ => 0,
    };
    text.bytes().map(added).sum()
}

/// A value as it is stored in the row of its job: a media type with the bytes, or with the digest of bytes that are
/// stored as an artifact of the attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredValue {
    pub media_type: String,
    pub size: u64,
    /// The bytes, if they are UTF-8 and JSON adds little to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The bytes in base 64, if they are anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    /// The digest of the bytes, if they are stored as an artifact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<SourceDigest>,
    /// What was asked for while it and its inputs were made. The server writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    asked: Option<AskedQueries>,
}

impl StoredValue {
    /// Stores these bytes.
    #[must_use]
    pub fn new(media_type: &str, bytes: Vec<u8>) -> StoredValue {
        let (media_type, size) = (media_type.to_owned(), bytes.len() as u64);
        let encoded = |bytes: &[u8]| Some(base64::encode(bytes));
        let (text, base64) = match String::from_utf8(bytes) {
            Ok(text) if escapes(&text) > text.len() / 3 => (None, encoded(text.as_bytes())),
            Ok(text) => (Some(text), None),
            Err(error) => (None, encoded(error.as_bytes())),
        };
        StoredValue { media_type, size, text, base64, digest: None, asked: None }
    }

    /// Names bytes that are stored as an artifact.
    #[must_use]
    pub fn artifact(media_type: &str, size: u64, digest: SourceDigest) -> StoredValue {
        let media_type = media_type.to_owned();
        StoredValue { media_type, size, text: None, base64: None, digest: Some(digest), asked: None }
    }

    /// Reads a stored value; none if it is none or its size is another.
    #[must_use]
    pub fn parse(json: &str) -> Option<StoredValue> {
        let value: StoredValue = serde_json::from_str(json).ok()?;
        let sound = match value.digest {
            Some(_) => value.text.is_none() && value.base64.is_none(),
            None => value.bytes()?.len() as u64 == value.size,
        };
        sound.then_some(value)
    }

    /// The same value, with what was asked for while it was made.
    #[must_use]
    pub fn asking(self, asked: AskedQueries) -> StoredValue {
        StoredValue { asked: Some(asked).filter(|asked| !asked.is_empty()), ..self }
    }

    /// What was asked for while it and its inputs were made; none if nothing was.
    #[must_use]
    pub fn asked(&self) -> Option<&AskedQueries> {
        self.asked.as_ref()
    }

    /// The digest of the bytes, if they are stored as an artifact.
    #[must_use]
    pub fn digest(&self) -> Option<SourceDigest> {
        self.digest
    }

    /// The bytes; none if they are stored elsewhere or cannot be read.
    #[must_use]
    pub fn bytes(&self) -> Option<Vec<u8>> {
        match (&self.text, &self.base64) {
            (Some(text), None) => Some(text.clone().into_bytes()),
            (None, Some(text)) => base64::decode(text),
            _ => None,
        }
    }
}
