//! The job of a node.

use std::collections::{BTreeMap, BTreeSet};

use jobhall_core::needs::{Needs, Number, Uses};
use jobhall_core::query::{
    Declaration, Identity, Kept, Node, NodeParams, Place, PlannedCheck, PlannedStep, Span,
};
use jobhall_core::{
    After, JobId, Json, Key, NewJob, OnDuplicate, Owner, QueueName, RetryPolicy, Reuse, Time, Timeouts,
    TypeName,
};

use crate::{Asker, Error, QUERIES, QUEUE};

/// The ability of a worker that lists its commands with their versions.
const COMMANDS: &str = "commands";
/// The ability of the main worker, which has one of it.
const MAIN: &str = "main";

/// What the caller decides about the jobs of a query.
#[derive(Clone, Debug)]
pub(crate) struct Manner {
    pub priority: i32,
    pub owner: Option<Owner>,
    /// The attempt that asks; its job is the parent.
    pub within: Option<Asker>,
}

/// The priority of what nobody waits for.
pub(crate) const BACKGROUND: i32 = 100;

impl Manner {
    /// For someone in the background.
    pub fn background() -> Manner {
        Manner { priority: BACKGROUND, owner: None, within: None }
    }
}

/// The type of the jobs that end in this command.
pub(crate) fn job_type(node: &Node) -> Result<TypeName, Error> {
    let last = node.steps.last().map(|step| &step.declared.declaration.name);
    let name = last.map_or_else(String::new, ToString::to_string);
    TypeName::new(&format!("{}{name}", QUERIES.0)).map_err(damaged)
}

/// The key of a node; none if its value is for one evaluation only.
pub(crate) fn key(node: &Node) -> Result<Option<Key>, Error> {
    match node.kept {
        Kept::Shared | Kept::InFlight => Key::new(&node.identity.to_string()).map(Some).map_err(damaged),
        Kept::OnWorker | Kept::Never => Ok(None),
    }
}

pub(crate) fn queue() -> Result<QueueName, Error> {
    QueueName::new(QUEUE).map_err(damaged)
}

/// The values that a job receives: their identities, the jobs that make them, and when the first of them expires.
#[derive(Default)]
pub(crate) struct Inputs {
    pub identities: Vec<Identity>,
    pub after: Vec<After>,
    pub expire_at: Option<Time>,
}

/// The job of a node with these params. `seen` is a success that must not answer.
pub(crate) fn job(
    node: &Node,
    params: &NodeParams,
    after: Vec<After>,
    seen: Option<JobId>,
    manner: &Manner,
) -> Result<NewJob, Error> {
    let params = serde_json::to_string(params).map_err(damaged)?;
    let declarations = || node.steps.iter().map(|step| &step.declared.declaration);
    let retries = declarations().map(|declaration| declaration.retries).max().unwrap_or(0);
    let retry = match retries {
        0 => RetryPolicy::once(),
        _ => RetryPolicy { max_attempts: retries + 1, ..RetryPolicy::named() },
    };
    let limits: Option<Vec<u64>> = declarations().map(|declaration| declaration.timeout_ms).collect();
    let total_ms = limits.map(|limits| limits.into_iter().fold(0, u64::saturating_add));
    Ok(NewJob {
        key: key(node)?,
        queue: queue()?,
        params: Json::params(&params).map_err(|error| Error::Refused(error.to_string()))?,
        needs: needs(node)?,
        uses: uses(node)?,
        timeouts: Timeouts { total_ms, silence_ms: None },
        after,
        owner: manner.owner.clone(),
        priority: manner.priority,
        retry: Some(retry),
        on_duplicate: OnDuplicate::Join,
        reuse: match (node.kept, seen) {
            (Kept::Shared, None) => Some(Reuse::Any),
            (Kept::Shared, Some(seen)) => Some(Reuse::Above(seen)),
            _ => None,
        },
        ..NewJob::new(job_type(node)?)
    })
}

/// The job of a check. Those who ask at the same time share it, and it answers no later request.
pub(crate) fn of_check(check: &PlannedCheck, manner: &Manner) -> Result<NewJob, Error> {
    let params = NodeParams::of_check(check);
    let step = PlannedStep {
        identity: check.identity,
        declared: check.declared.clone(),
        arguments: Vec::new(),
        input: None,
        format: None,
        check: None,
        stays: false,
        span: Span::default(),
        text: check.text.clone(),
    };
    let node = Node {
        identity: check.identity,
        kept: Kept::InFlight,
        place: check.place.clone(),
        steps: vec![step],
        inputs: Vec::new(),
        text: check.text.clone(),
    };
    Ok(NewJob {
        // No identity of a value has this form.
        key: Some(Key::new(&format!("check:{}", check.identity)).map_err(damaged)?),
        retry: Some(RetryPolicy::once()),
        ..job(&node, &params, Vec::new(), None, manner)?
    })
}

/// What the steps need: their commands in these versions, what the commands declare, and the place.
fn needs(node: &Node) -> Result<Needs, Error> {
    let mut terms: BTreeSet<String> = node.steps.iter().map(command_term).collect();
    let declared = node.steps.iter().filter_map(|step| step.declared.declaration.needs.as_ref());
    terms.extend(declared.map(|needs| needs.as_str().to_owned()).filter(|text| !text.is_empty()));
    match &node.place {
        Place::Any => {}
        Place::Main => terms.extend([format!("{MAIN}>=1")]),
        Place::On(worker) => terms.extend([format!("worker={worker}"), format!("!{MAIN}")]),
    }
    let text = terms.into_iter().collect::<Vec<_>>().join(", ");
    Needs::parse(&text).map_err(|error| Error::Refused(format!("the needs of {}: {error}", node.text)))
}

fn command_term(step: &PlannedStep) -> String {
    format!("{COMMANDS}={}@{}", step.declared.declaration.name, step.declared.version)
}

/// What the steps use, one after the other: the most of each.
fn uses(node: &Node) -> Result<Uses, Error> {
    let mut most: BTreeMap<String, Number> = BTreeMap::new();
    for Declaration { uses, .. } in node.steps.iter().map(|step| &step.declared.declaration) {
        for (name, amount) in uses.iter().flat_map(Uses::iter) {
            let known = most.entry(name.to_owned()).or_insert(amount);
            *known = amount.max(*known);
        }
    }
    let mut terms: Vec<String> = most.into_iter().map(|(name, amount)| format!("{name}={amount}")).collect();
    if node.place == Place::Main && !terms.iter().any(|term| term.starts_with(&format!("{MAIN}="))) {
        terms.push(format!("{MAIN}=1"));
    }
    Uses::parse(&terms.join(", "))
        .map_err(|error| Error::Refused(format!("the uses of {}: {error}", node.text)))
}

#[expect(clippy::needless_pass_by_value, reason = "so that it fits map_err")]
pub(crate) fn damaged(error: impl ToString) -> Error {
    Error::Damaged(error.to_string())
}
