//! Groups steps to nodes: which steps run in one job.

use std::collections::BTreeSet;

use super::super::error::{QueryError, QueryErrorKind as Kind};
use super::super::{FileName, Input, Kept, Node, Plan, PlannedStep, SourceKey, StepInput, Typed};
use super::{Found, From};

/// Groups the steps. Each comes after those that it depends on, so the last step of a group has the highest number,
/// and is the only one whose value leaves the group.
pub(super) fn group(
    steps: &[Found],
    value: &From,
    recipes: &[(SourceKey, From)],
    file: Option<FileName>,
) -> Result<Plan, QueryError> {
    let carriers = carriers(steps, value)?;
    let mut node_of = vec![None; steps.len()];
    let mut nodes: Vec<Node> = Vec::new();
    for last in 0..steps.len() {
        if carriers[last] == last {
            let members: Vec<usize> = (0..=last).filter(|at| carriers[*at] == last).collect();
            let node = node(steps, &members, &node_of);
            node_of[last] = Some(nodes.len());
            nodes.push(node);
        }
    }
    let value = match value {
        From::Source(key, digest) => Input::Source(key.clone(), *digest),
        From::Step(step) => Input::Node(node_of[*step].unwrap_or_default()),
    };
    // The value of a recipe may be carried, and then has no node of its own.
    let made = |from: &From| match from {
        From::Source(key, digest) => Some(Input::Source(key.clone(), *digest)),
        From::Step(step) => node_of[*step].map(Input::Node),
    };
    let recipes = recipes.iter().filter_map(|(key, from)| Some((key.clone(), made(from)?))).collect();
    Ok(Plan { nodes, value, file, checks: Vec::new(), recipes })
}

/// For each step the last step of the node that it runs in.
fn carriers(steps: &[Found], value: &From) -> Result<Vec<usize>, QueryError> {
    let mut carriers: Vec<usize> = (0..steps.len()).collect();
    for at in (0..steps.len()).rev() {
        let users: BTreeSet<usize> = (at + 1..steps.len())
            .filter(|user| steps[*user].inputs().any(|from| *from == From::Step(at)))
            .collect();
        let groups: BTreeSet<usize> = users.iter().map(|user| carriers[*user]).collect();
        let only = match groups.first() {
            Some(group) if groups.len() == 1 && *value != From::Step(at) => Some(*group),
            _ => None,
        };
        let unkept = matches!(steps[at].ruling.kept, Kept::Never | Kept::OnWorker);
        match only.filter(|group| unkept && steps[*group].ruling.place == steps[at].ruling.place) {
            Some(group) => carriers[at] = group,
            None => {
                if let Some(user) = users.iter().find(|_| !steps[at].leaves()) {
                    let (command, consumer) = (steps[at].command(), steps[*user].command());
                    return Err(QueryError::new(steps[at].span, Kind::ValueStays { command, consumer }));
                }
            }
        }
    }
    Ok(carriers)
}

fn node(steps: &[Found], members: &[usize], node_of: &[Option<usize>]) -> Node {
    let mut inputs = Vec::new();
    let planned: Vec<PlannedStep> =
        members.iter().map(|member| planned(&steps[*member], members, node_of, &mut inputs)).collect();
    let last = &steps[members.last().copied().unwrap_or_default()];
    Node {
        identity: last.identity,
        kept: last.ruling.kept,
        place: last.ruling.place.clone(),
        steps: planned,
        inputs,
        text: last.text.clone(),
    }
}

fn planned(
    step: &Found,
    members: &[usize],
    node_of: &[Option<usize>],
    inputs: &mut Vec<Input>,
) -> PlannedStep {
    let mut resolve = |from: &From| match from {
        From::Step(at) => match members.iter().position(|member| member == at) {
            Some(position) => StepInput::Step(position),
            None => StepInput::Input(position_of(inputs, Input::Node(node_of[*at].unwrap_or_default()))),
        },
        From::Source(key, digest) => {
            StepInput::Input(position_of(inputs, Input::Source(key.clone(), *digest)))
        }
    };
    let input = step.input.as_ref().map(&mut resolve);
    let arguments = step
        .arguments
        .iter()
        .map(|argument| match argument {
            Typed::Text(text) => Typed::Text(text.clone()),
            Typed::Link(from) => Typed::Link(resolve(from)),
        })
        .collect();
    PlannedStep {
        identity: step.identity,
        declared: step.declared.clone(),
        arguments,
        input,
        format: step.format.clone(),
        check: step.check,
        stays: step.ruling.kept == Kept::OnWorker,
        span: step.span,
        text: step.text.clone(),
    }
}

/// The number of an input, which is added if it is new.
fn position_of(inputs: &mut Vec<Input>, input: Input) -> usize {
    inputs.iter().position(|known| *known == input).unwrap_or_else(|| {
        inputs.push(input);
        inputs.len() - 1
    })
}
