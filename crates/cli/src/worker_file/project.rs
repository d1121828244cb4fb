//! `.jobhall.toml`, the file of a repository: the types and commands that `jobhall up` serves there, the recipes that
//! `jobhall recipe` sends, and the settings of the commands that are started there.

use std::path::{Path, PathBuf};

use jobhall_protocol::WorkerFile;
use toml::de::DeTable;

use crate::failure::{Failure, Outcome};
use crate::suggest;

/// The name of the file.
pub const NAME: &str = ".jobhall.toml";
/// The tables that it may have.
pub const TABLES: [&str; 4] = [CLIENT, "commands", "recipes", "types"];
/// The table of settings.
pub const CLIENT: &str = "client";

/// The file of the repository that this directory is in: in the directory itself or above it, up to the root of the
/// repository. Outside of a repository only the directory counts.
pub fn find(directory: &Path) -> Option<PathBuf> {
    let root = directory.ancestors().find(|above| above.join(".git").exists()).unwrap_or(directory);
    let within = directory.ancestors().take_while(|above| above.starts_with(root));
    within.map(|above| above.join(NAME)).find(|path| path.is_file())
}

/// Whether a worker file is the file of a repository.
pub fn is_one(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == NAME)
}

/// Whether it has anything to serve.
pub fn serves(file: &WorkerFile) -> bool {
    !file.types.is_empty() || !file.commands.is_empty()
}

/// Refuses tables that it may not have.
pub fn check_tables(text: &str, path: &Path) -> Outcome<()> {
    // What is not TOML is refused with its place where it is read.
    let Ok(table) = DeTable::parse(text) else { return Ok(()) };
    for (key, _) in table.get_ref().iter() {
        let word = key.get_ref().as_ref();
        if !TABLES.contains(&word) {
            let line = 1 + text[..key.span().start].matches('\n').count();
            let (path, hint) = (path.display(), suggest::hint(word, TABLES));
            return Err(Failure::usage(format!("{path}:{line}: unknown table {word:?}{hint}"))
                .fix(format!("known tables: {}", TABLES.join(", "))));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn it_is_found_up_to_the_root_of_the_repository_and_not_above() {
        let place = tempfile::tempdir().unwrap();
        let (outside, root) = (place.path().join(NAME), place.path().join("repository"));
        let inner = root.join("a/b");
        fs::create_dir_all(&inner).unwrap();
        fs::write(&outside, "").unwrap();
        assert_eq!(find(&inner), None, "outside of a repository only the directory counts");
        fs::create_dir(root.join(".git")).unwrap();
        assert_eq!(find(&inner), None, "not above the root");
        fs::write(root.join(NAME), "").unwrap();
        assert_eq!(find(&inner), Some(root.join(NAME)));
        fs::write(inner.join(NAME), "").unwrap();
        assert_eq!(find(&inner), Some(inner.join(NAME)), "the nearest one");
        assert_eq!(find(place.path()), Some(outside));
    }

    #[test]
    fn an_unknown_table_is_named_with_its_line_and_the_nearest_one() {
        let check = |text: &str| check_tables(text, Path::new(NAME));
        assert_eq!(check("[commands.a]\nrun = ['x']\n[types.b]\nrun = ['y']\n"), Ok(()));
        let failure = check("[commands.a]\nrun = ['x']\n\n[comands.b]\nrun = ['y']\n").unwrap_err();
        assert_eq!(failure.what, ".jobhall.toml:4: unknown table \"comands\"; did you mean \"commands\"?");
        assert!(check("slots = 3").unwrap_err().what.starts_with(".jobhall.toml:1: unknown table \"slots\""));
    }
}
