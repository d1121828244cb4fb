//! Checks: a command whose data is elsewhere has a cheap program whose output stands in the identity of its values.

use std::sync::Arc;

use super::super::{Facts, Hasher, Identity, Place, SourceDigest, Step, Typed};
use super::{Declared, append_text, field};

/// A check that a plan depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCheck {
    /// Of the command, its version, its place, and the command line of the check.
    pub identity: Identity,
    pub declared: Arc<Declared>,
    /// The arguments of the step; a link is empty.
    pub arguments: Vec<String>,
    pub place: Place,
    /// None if it has to be run. Nothing that depends on it has its identity before.
    pub answer: Option<SourceDigest>,
    /// The text of the step alone.
    pub text: String,
}

/// The check of a step, and what it has answered; none if it has to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepCheck {
    pub identity: Identity,
    pub answer: Option<SourceDigest>,
}

/// The check of a step, with its answer if that is known. `begun` has the beginning of every transcript.
pub(super) fn check_of<D: Hasher, L>(
    begun: &D,
    facts: &dyn Facts,
    declared: &Arc<Declared>,
    step: &Step,
    arguments: &[Typed<L>],
    place: &Place,
) -> Option<PlannedCheck> {
    let check = declared.declaration.check.as_ref()?;
    let text = |argument: &Typed<L>| match argument {
        Typed::Text(text) => text.clone(),
        Typed::Link(_) => String::new(),
    };
    let arguments: Vec<String> = arguments.iter().map(text).collect();
    let mut hasher = begun.clone();
    hasher.update(&[9]);
    field(&mut hasher, step.command.as_str().as_bytes());
    field(&mut hasher, declared.version.as_str().as_bytes());
    field(&mut hasher, step.on.as_ref().map_or("", |worker| worker.as_str()).as_bytes());
    for word in declared.declaration.check_line(&arguments) {
        field(&mut hasher, word.as_bytes());
    }
    let identity = hasher.identity();
    let mut text = String::new();
    append_text(step, &mut text);
    Some(PlannedCheck {
        identity,
        declared: declared.clone(),
        arguments,
        place: place.clone(),
        answer: facts.answer(&identity, check.every_ms),
        text,
    })
}

/// What a check has answered is part of the identity of its step.
pub(super) fn write_check<D: Hasher>(hasher: &mut D, check: Option<&PlannedCheck>) {
    match check.map(|check| check.answer) {
        Some(Some(answer)) => {
            hasher.update(&[7]);
            hasher.update(&answer.0);
        }
        Some(None) => hasher.update(&[8]),
        None => {}
    }
}
