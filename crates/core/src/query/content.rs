//! What the steps of a job are given, byte for byte. Two jobs with the same content run the same on the same data, also if
//! their inputs were made in different ways: the value of one is that of the other.

use super::{
    ArgumentParam, Commands, Hasher, Identity, InputPlace, Modes, NodeParams, Parameter, StepParams,
};

/// Changes if the transcript does.
const DOMAIN: &[u8] = b"jobhall.content.1";

/// The identity of the content of a job: its commands with their versions and the arguments that count, the digests of the
/// bytes of its inputs, and what it needs of a worker, as a step may be designated to one. `hasher` has seen nothing yet.
///
/// None if a value must not be taken from another job: a step begins with nothing, or is not of a plain, current command.
pub fn content_identity<H: Hasher>(
    mut hasher: H,
    params: &NodeParams,
    needs: &str,
    digests: &[[u8; 32]],
    commands: &Commands,
) -> Option<Identity> {
    if digests.is_empty() || digests.len() != params.inputs.len() {
        return None;
    }
    field(&mut hasher, DOMAIN);
    field(&mut hasher, needs.as_bytes());
    for digest in digests {
        field(&mut hasher, digest);
    }
    hasher.update(&[1]);
    for source in &params.sources {
        field(&mut hasher, &source.digest.0);
    }
    for step in &params.steps {
        let declared = commands.get(&step.command).filter(|declared| declared.version == step.version)?;
        if declared.declaration.modes
            != (Modes { mainthread: declared.declaration.modes.mainthread, ..Modes::default() })
        {
            return None;
        }
        write_step(&mut hasher, step, &declared.declaration.args)?;
    }
    Some(hasher.identity())
}

fn write_step<H: Hasher>(hasher: &mut H, step: &StepParams, parameters: &[Parameter]) -> Option<()> {
    hasher.update(&[2]);
    field(hasher, step.command.as_str().as_bytes());
    field(hasher, step.version.as_str().as_bytes());
    match step.input {
        Some(input) => write_place(hasher, input),
        None => hasher.update(&[0]),
    }
    if parameters.len() != step.arguments.len() {
        return None;
    }
    for (parameter, argument) in
        parameters.iter().zip(&step.arguments).filter(|(parameter, _)| !parameter.ignore)
    {
        hasher.update(&[4]);
        field(hasher, parameter.name.as_bytes());
        match argument {
            ArgumentParam::Text(text) => {
                hasher.update(&[0]);
                field(hasher, text.as_bytes());
            }
            ArgumentParam::Link(input) => write_place(hasher, *input),
        }
    }
    // A value that expires is to be made again from the same bytes.
    if step.expires.is_some() {
        return None;
    }
    if let Some(check) = &step.check {
        hasher.update(&[9]);
        field(hasher, &check.answer.0);
    }
    hasher.update(&[5]);
    match &step.format {
        Some(format) => {
            hasher.update(&[1]);
            field(hasher, format.as_bytes());
        }
        None => hasher.update(&[0]),
    }
    Some(())
}

fn write_place<H: Hasher>(hasher: &mut H, place: InputPlace) {
    let (kind, at) = match place {
        InputPlace::Step(at) => (6, at),
        InputPlace::Input(at) => (7, at),
        InputPlace::Source(at) => (8, at),
    };
    hasher.update(&[kind]);
    hasher.update(&(at as u64).to_le_bytes());
}

fn field<H: Hasher>(hasher: &mut H, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}
