//! Rules on the shape of the tree.
//!
//! A rule is a function from plain inputs to a list of [`Fault`]s, so that a test can plant a fault and check that
//! it is caught. The tests in `xtask/tests/` apply the rules to this repository.

use std::fs;
use std::io;
use std::path::Path;

pub mod decisions;
pub mod edges;
pub mod links;
pub mod manifests;
pub mod methods;
pub mod modules;
pub mod old_words;
pub mod purity;
pub mod ratchet;
pub mod sleeps;
pub mod source;
pub mod status_codes;
pub mod words;

/// One violation: where, and what is wrong there.
pub type Fault = String;

/// A text file of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Path from the root of the workspace, separated by `/`.
    pub path: String,
    pub text: String,
}

impl File {
    /// A file with this content.
    #[must_use]
    pub fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }
}

/// Every file below `root/directory` whose name ends in `suffix`, by path; none for a missing directory.
///
/// Build output and hidden directories are skipped.
///
/// # Errors
/// The directory or a file cannot be read; files must be UTF-8.
pub fn files(root: &Path, directory: &str, suffix: &str) -> io::Result<Vec<File>> {
    let named = paths(root, directory)?.into_iter().filter(|path| path.ends_with(suffix));
    named.map(|path| Ok(File { text: fs::read_to_string(root.join(&path))?, path })).collect()
}

/// Every file of the tree, by path, including the settings of tools in hidden directories. A file that is not UTF-8
/// has an empty text.
///
/// # Errors
/// A directory or a file cannot be read.
pub fn tree(root: &Path) -> io::Result<Vec<File>> {
    let mut found = paths(root, "")?;
    for hidden in [".cargo", ".ci", ".config", ".github"] {
        found.extend(paths(root, hidden)?);
    }
    let read = |path: String| {
        let bytes = fs::read(root.join(&path))?;
        Ok(File { text: String::from_utf8(bytes).unwrap_or_default(), path })
    };
    found.into_iter().map(read).collect()
}

/// The paths from `root` of the files below `root/directory`, sorted.
fn paths(root: &Path, directory: &str) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    collect(root, &root.join(directory), &mut found)?;
    found.sort_unstable();
    Ok(found)
}

fn collect(root: &Path, directory: &Path, found: &mut Vec<String>) -> io::Result<()> {
    if !directory.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || ["target", "mutants.out", "node_modules"].contains(&name.as_str()) {
            continue;
        }
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            collect(root, &path, found)?;
        } else {
            found.push(path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/"));
        }
    }
    Ok(())
}
