//! The worker file of `jobhall worker` and `jobhall up`, and the flags that override it.

pub mod project;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jobhall_core::needs::WORKER_BOUNDS;
use jobhall_protocol::{Ability, Keep, WorkerFile};
use jobhall_worker::Reread;

use crate::commands::worker::WorkerArgs;
use crate::failure::{Failure, Outcome};
use crate::suggest;

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
            .fix(
                "add `[types.NAME]` or `[commands.NAME]` with `run = [\"PROGRAM\"]` to a worker file (--config FILE), \
                 or give --allow exec",
            ));
    }
    let (given, most) = (types.len(), WORKER_BOUNDS.entries);
    if given > most {
        let why = format!("types: {given} given, with those that `allow` adds; the limit is {most}");
        return Err(Failure::usage("this worker has too many types").why(why));
    }
    let shown = types.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match types.len().saturating_sub(SHOWN) {
        0 => Ok(shown),
        more => Ok(format!("{shown} and {more} more")),
    }
}

/// Reads a worker file, and what its commands consist of.
pub fn read(path: &Path) -> Outcome<WorkerFile> {
    let file = parse(path)?;
    let failed = |why: String| unreadable(path, why);
    let filters = jobhall_worker::Filters::read(&file).map_err(failed)?;
    jobhall_worker::abilities(&file, &filters).map_err(|error| failed(format!("abilities: {error}")))?;
    Ok(file)
}

/// Reads the file of a running worker again.
pub fn reread(path: PathBuf) -> Reread {
    Arc::new(move || parse(&path).map_err(|failure| failure.to_string()))
}

/// Reads a worker file without the files that its commands consist of.
pub fn parse(path: &Path) -> Outcome<WorkerFile> {
    let failed = |why: String| unreadable(path, why);
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    if project::is_one(path) {
        project::check_tables(&text, path)?;
    }
    let mut file: WorkerFile = toml::from_str(&text).map_err(|error| {
        let failure = failed(error.to_string());
        match (has_allow_exec(&text), meant(error.message())) {
            (true, _) => failure.fix("write `allow = [\"exec\"]` instead of `allow_exec = true`"),
            (false, Some(meant)) => failure.fix(format!("did you mean `{meant}`?")),
            (false, None) => failure,
        }
    })?;
    file.directory = path.parent().unwrap_or(Path::new("")).to_owned();
    file.path = Some(std::path::absolute(path).map_err(|error| failed(error.to_string()))?);
    if file.client.is_some() && !project::is_one(path) {
        return Err(failed(format!("client: a worker file has no settings; they are in {}", project::NAME)));
    }
    file.check().map_err(failed)?;
    Ok(file)
}

fn unreadable(path: &Path, why: String) -> Failure {
    Failure::usage(format!("failed to read {}", path.display())).why(why)
}

/// The known key that is nearest to an unknown one, of a message such as "unknown field `rum`, expected one of `run`".
fn meant(message: &str) -> Option<&str> {
    let mut words = message.strip_prefix("unknown field ")?.split('`').skip(1).step_by(2);
    let unknown = words.next()?;
    suggest::nearest(unknown, words)
}

/// Whether a file has the key that `allow` replaced.
fn has_allow_exec(text: &str) -> bool {
    toml::from_str::<toml::Table>(text).is_ok_and(|table| table.contains_key("allow_exec"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_is_refused_with_the_one_that_was_meant() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(project::NAME);
        std::fs::write(&path, "[commands.clean]\nrum = ['sh']\n").unwrap();
        let failure = read(&path).unwrap_err();
        assert!(failure.why.as_deref().is_some_and(|why| why.contains("line 2")), "{failure}");
        assert_eq!(failure.fix.as_deref(), Some("did you mean `run`?"), "{failure}");
        std::fs::write(&path, "[commands.clean]\nrun = ['sh']\n").unwrap();
        assert_eq!(read(&path).unwrap().path, Some(path));
    }
}
