//! Commands that a running command runs itself: those of the same worker, for a query whose value may not be kept. The worker
//! leaves a file with its commands; the process that asks reads it, and runs the steps as its own children.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use jobhall_core::query::{ArgumentParam, Declaration, InputPlace, NodeParams, StepParams, Version};
use jobhall_protocol::HERE_MAX;
use serde::{Deserialize, Serialize};

use super::filters::Filters;

/// The variable with the path of the file.
pub const COMMANDS_FILE: &str = "JOBHALL_COMMANDS";
/// A process that asks for a query leaves a file with this name beside its result.
pub const ASKED_FILE: &str = "asked";

/// A command of a worker.
#[derive(Debug, Serialize, Deserialize)]
struct OwnCommand {
    version: Version,
    directory: PathBuf,
    declaration: Declaration,
}

/// The commands of a worker, for the processes of its steps.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct OwnCommands(BTreeMap<String, OwnCommand>);

impl OwnCommands {
    /// The commands that may be run within others; none if the values of all may be kept, or if there are too many.
    pub(crate) fn of(filters: &Filters) -> Option<OwnCommands> {
        let unkept = filters.all().any(|filter| {
            let modes = filter.declaration.modes;
            modes.volatile || modes.soft_volatile || modes.inline || !modes.serialisable
        });
        if !unkept || filters.all().count() > HERE_MAX {
            return None;
        }
        let own = filters.all().map(|filter| {
            let (declaration, version) = (filter.declaration.clone(), filter.version.clone());
            let own = OwnCommand { version, directory: filter.directory.clone(), declaration };
            (filter.declaration.name.to_string(), own)
        });
        Some(OwnCommands(own.collect()))
    }

    /// Those that the worker of this process has left for it.
    #[must_use]
    pub fn left() -> OwnCommands {
        let text = std::env::var_os(COMMANDS_FILE).and_then(|path| fs::read(path).ok());
        text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    /// Each as `NAME@VERSION`.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(|(name, command)| format!("{name}@{}", command.version)).collect()
    }

    /// Runs the steps of a node with these variables besides those of this process. `folder` has what they receive, in files
    /// that [`received`] names, and gets their values.
    /// Returns the file with the value, and its media type.
    ///
    /// # Errors
    /// A step failed, or cannot be run; the text says which.
    pub fn run(
        &self,
        params: &NodeParams,
        folder: &Path,
        env: &[(&str, String)],
    ) -> Result<(PathBuf, String), String> {
        let mut last = None;
        for (at, step) in params.steps.iter().enumerate() {
            let own = self.0.get(step.command.as_str()).filter(|own| own.version == step.version);
            let name = format!("{}@{}", step.command, step.version);
            let own = own.ok_or_else(|| format!("this worker does not have {name} any more"))?;
            let value = folder.join(format!("value-{at}"));
            let ran = own
                .command(step, folder, &value)
                .and_then(|mut command| command.envs(env.iter().map(|(name, value)| (name, value))).status());
            match ran {
                Ok(status) if status.success() => {}
                Ok(status) => return Err(format!("{}, which ran here, has failed: {status}", step.command)),
                Err(error) => return Err(format!("{} could not be run here: {error}", step.command)),
            }
            last = Some((value, own.declaration.media_type().to_owned()));
        }
        last.ok_or_else(|| "there are no steps".to_owned())
    }
}

impl OwnCommand {
    fn command(&self, step: &StepParams, folder: &Path, value: &Path) -> std::io::Result<Command> {
        let text = |argument: &ArgumentParam| match argument {
            ArgumentParam::Text(text) => text.clone(),
            ArgumentParam::Link(place) => received(folder, *place).to_string_lossy().into_owned(),
        };
        let line = self.declaration.command_line(&step.arguments.iter().map(text).collect::<Vec<_>>());
        let (program, words) =
            line.split_first().ok_or_else(|| std::io::Error::other("it has no program"))?;
        // A program with a path is found from the directory of the declaration.
        let program = if program.contains('/') { self.directory.join(program) } else { program.into() };
        let mut command = Command::new(program);
        let input = match step.input {
            Some(place) => Stdio::from(File::open(received(folder, place))?),
            None => Stdio::null(),
        };
        command.args(words).envs(&self.declaration.env).current_dir(&self.directory).stdin(input);
        command.stdout(File::create(value)?);
        if let Some(format) = &step.format {
            command.env("JOBHALL_FORMAT", format);
        }
        Ok(command)
    }
}

/// The file with a value that a step receives.
#[must_use]
pub fn received(folder: &Path, place: InputPlace) -> PathBuf {
    folder.join(match place {
        InputPlace::Step(at) => format!("value-{at}"),
        InputPlace::Input(at) => format!("input-{at}"),
        InputPlace::Source(at) => format!("source-{at}"),
    })
}
