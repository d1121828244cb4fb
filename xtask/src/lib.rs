//! Maintenance tasks of the repository, written as plain functions so that each can be tested on planted input.
//!
//! [`acceptance`] turns one real test run into `docs/acceptance.md`. [`tidy`] contains the rules on the shape of
//! the tree; the tests in `xtask/tests/` apply them to this repository and prove that each can fail.

use std::path::PathBuf;

pub mod acceptance;
pub mod tidy;

/// The directory with the workspace's `Cargo.toml`.
///
/// Cargo sets the directory of the package at run time; the directory it was built from may have been moved or copied
/// since.
#[must_use]
pub fn workspace_root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let mut root = PathBuf::from(package);
    root.pop();
    root
}
