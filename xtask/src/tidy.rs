//! Rules on the shape of the tree.
//!
//! A rule is a function from plain inputs to a list of [`Fault`]s, so that a test can plant one and see it caught.
//! `xtask/tests/tidy.rs` feeds the rules with this repository.

use std::fs;
use std::io;
use std::path::Path;

pub mod decisions;
pub mod edges;
pub mod links;
pub mod manifests;
pub mod purity;
pub mod source;
pub mod words;

/// One broken rule: where, and what is wrong there.
pub type Fault = String;

/// A text file of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Path from the root of the workspace, with `/` between its parts.
    pub path: String,
    /// Its whole text.
    pub text: String,
}

impl File {
    /// A file made on the spot.
    #[must_use]
    pub fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }
}

/// Every file below `root/directory` whose name ends in `suffix`, by path; a missing directory has none.
///
/// Build output and hidden directories are passed over.
///
/// # Errors
/// Those of reading the directory or a file, which must be UTF-8.
pub fn files(root: &Path, directory: &str, suffix: &str) -> io::Result<Vec<File>> {
    let mut found = Vec::new();
    collect(root, &root.join(directory), suffix, &mut found)?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn collect(root: &Path, directory: &Path, suffix: &str, found: &mut Vec<File>) -> io::Result<()> {
    if !directory.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || name == "target" || name == "mutants.out" {
            continue;
        }
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            collect(root, &path, suffix, found)?;
        } else if name.ends_with(suffix) {
            let relative = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            found.push(File { path: relative, text: fs::read_to_string(&path)? });
        }
    }
    Ok(())
}
