//! The packages according to cargo, and requirements on their manifests.

use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use super::{Fault, File};

/// How one package depends on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// In `[dev-dependencies]`: tests, examples and benches only.
    Dev,
    /// In `[build-dependencies]`.
    Build,
    /// In `[dependencies]`, for which cargo reports no kind.
    Normal,
}

/// One dependency of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The real name of the package.
    pub name: String,
    pub kind: Kind,
}

/// One package of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    pub name: String,
    /// Directory relative to the root, such as `crates/core`.
    pub directory: String,
    pub description: Option<String>,
    pub dependencies: Vec<Dependency>,
    /// The root source files of its library and binaries, relative to the root of the workspace.
    pub roots: Vec<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<MetadataPackage>,
}

#[derive(Deserialize)]
struct MetadataPackage {
    name: String,
    description: Option<String>,
    manifest_path: String,
    dependencies: Vec<MetadataDependency>,
    targets: Vec<MetadataTarget>,
}

#[derive(Deserialize)]
struct MetadataDependency {
    name: String,
    kind: Option<Kind>,
}

#[derive(Deserialize)]
struct MetadataTarget {
    kind: Vec<String>,
    src_path: String,
}

/// Asks cargo for the packages of the workspace at `root`.
///
/// # Errors
/// Cargo cannot be run or refuses a manifest.
pub fn packages(root: &Path) -> Result<Vec<Package>, String> {
    let output = cargo(root, &["metadata", "--no-deps", "--offline", "--format-version", "1"])?;
    let metadata: Metadata = serde_json::from_slice(&output)
        .map_err(|error| format!("failed to read what cargo metadata says: {error}"))?;
    Ok(metadata.packages.into_iter().map(|package| from_metadata(root, package)).collect())
}

/// Asks cargo for the names of all packages that ship with `package`, which is first.
///
/// # Errors
/// Cargo cannot be run or does not know the package.
pub fn normal_tree(root: &Path, package: &str) -> Result<Vec<String>, String> {
    let options = ["--edges", "normal", "--prefix", "none", "--format", "{p}", "--offline", "--locked"];
    let output = cargo(root, &[&["tree", "--package", package], &options[..]].concat())?;
    let text = String::from_utf8_lossy(&output);
    Ok(text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect())
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<Vec<u8>, String> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(arguments)
        .current_dir(root)
        .output()
        .map_err(|error| format!("failed to start cargo {}: {error}", arguments[0]))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(format!("cargo {} failed: {}", arguments[0], String::from_utf8_lossy(&output.stderr)))
    }
}

fn from_metadata(root: &Path, package: MetadataPackage) -> Package {
    let relative = |path: &str| {
        let path = Path::new(path);
        path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/")
    };
    let manifest = relative(&package.manifest_path);
    Package {
        name: package.name,
        directory: manifest.trim_end_matches("Cargo.toml").trim_end_matches('/').to_owned(),
        description: package.description,
        dependencies: package
            .dependencies
            .into_iter()
            .map(|found| Dependency { name: found.name, kind: found.kind.unwrap_or(Kind::Normal) })
            .collect(),
        roots: package
            .targets
            .iter()
            .filter(|target| {
                target.kind.iter().any(|kind| matches!(kind.as_str(), "lib" | "bin" | "proc-macro"))
            })
            .map(|target| relative(&target.src_path))
            .collect(),
    }
}

/// Every package has a description.
#[must_use]
pub fn undescribed(packages: &[Package]) -> Vec<Fault> {
    packages
        .iter()
        .filter(|package| package.description.as_deref().is_none_or(|text| text.trim().is_empty()))
        .map(|package| format!("{} has no description in its manifest", package.name))
        .collect()
}

/// Every library and binary begins with crate-level documentation. `sources` are the root files.
#[must_use]
pub fn undocumented(sources: &[File]) -> Vec<Fault> {
    sources
        .iter()
        .filter(|file| !file.text.starts_with("//!"))
        .map(|file| format!("{} does not begin with crate-level documentation", file.path))
        .collect()
}

/// Every manifest inherits the lints of the workspace. `manifests` are `Cargo.toml` files of packages.
#[must_use]
pub fn without_workspace_lints(manifests: &[File]) -> Vec<Fault> {
    manifests
        .iter()
        .filter_map(|file| match file.text.parse::<toml::Table>() {
            Err(error) => Some(format!("{} cannot be read: {error}", file.path)),
            Ok(table) => {
                let inherits = table.get("lints").and_then(|lints| lints.get("workspace"));
                (inherits.and_then(toml::Value::as_bool) != Some(true))
                    .then(|| format!("{} does not inherit the lints of the workspace", file.path))
            }
        })
        .collect()
}
