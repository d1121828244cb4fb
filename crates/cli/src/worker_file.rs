//! The worker file of `jobhall worker` and `jobhall up`, and the flags that override it.

use std::path::Path;

use jobhall_core::needs::WORKER_BOUNDS;
use jobhall_protocol::{Ability, Keep, WorkerFile};

use crate::commands::worker::WorkerArgs;
use crate::failure::{Failure, Outcome};

/// Maximum number of types in a start line.
const SHOWN: usize = 20;

/// The worker file, with the flags applied.
pub fn with_flags(args: &WorkerArgs) -> Outcome<WorkerFile> {
    if args.allow_exec {
        return Err(Failure::usage("--allow-exec was replaced").fix("give --allow exec"));
    }
    let mut file = match &args.config {
        Some(path) => read(path)?,
        None => WorkerFile::default(),
    };
    file.name = args.name.clone().or(file.name);
    file.slots = args.slots.or(file.slots);
    file.allow.extend(&args.allow);
    // After the file was read: it cannot give this ability itself.
    file.abilities.extend(args.main.then(|| ("main".to_owned(), Ability::Number(1))));
    file.keep = args.keep_failed.then_some(Keep::Failed).or(file.keep);
    Ok(file)
}

/// What the worker runs; an error if that is nothing.
pub fn runs(file: &WorkerFile) -> Outcome<String> {
    let types = jobhall_worker::types(file);
    if types.is_empty() {
        return Err(Failure::usage("this worker has nothing to run")
            .why("it has no types, and may not run jobs of type exec")
            .fix("add `[types.NAME]` with `run = [\"PROGRAM\"]` to a worker file (--config FILE), or give --allow exec"));
    }
    let (given, most) = (types.len(), WORKER_BOUNDS.entries);
    if given > most {
        let why = format!("types: {given} given, with those that `allow` adds; the limit is {most}");
        return Err(Failure::usage("this worker has too many types").why(why));
    }
    let shown = types.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match types.len().saturating_sub(SHOWN) {
        0 => Ok(shown),
        more => Ok(format!("{shown} and {more} more")),
    }
}

pub fn read(path: &Path) -> Outcome<WorkerFile> {
    let failed = |why: String| Failure::usage(format!("failed to read {}", path.display())).why(why);
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let file: WorkerFile = toml::from_str(&text).map_err(|error| {
        let failure = failed(error.to_string());
        if has_allow_exec(&text) {
            failure.fix("write `allow = [\"exec\"]` instead of `allow_exec = true`")
        } else {
            failure
        }
    })?;
    file.check().map_err(failed)?;
    jobhall_worker::abilities(&file).map_err(|error| failed(format!("abilities: {error}")))?;
    Ok(file)
}

/// Whether a file has the key that `allow` replaced.
fn has_allow_exec(text: &str) -> bool {
    toml::from_str::<toml::Table>(text).is_ok_and(|table| table.contains_key("allow_exec"))
}
