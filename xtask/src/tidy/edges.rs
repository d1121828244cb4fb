//! Which crate may depend on which.
//!
//! A crate here is a directory below `crates/`. Dev-only crates (`sim`, `store-conformance`, `throwaway`) exist for
//! tests and benches: nothing that ships depends on them. Dev-dependencies on the other crates are allowed, except
//! that `core` has none.

use super::Fault;
use super::manifests::{Dependency, Kind, Package};

const PREFIX: &str = "jobhall-";
const DEV_ONLY: [&str; 3] = ["sim", "store-conformance", "throwaway"];
const APPLICATION: &[&str] = &["engine", "tree", "core", "store", "blobs"];

/// Packages that `core` may depend on.
const CORE_ALLOWED: &[&str] = &["jiff", "serde", "serde_json"];

/// Packages that `kernel` may depend on.
const KERNEL_ALLOWED: &[&str] = &["jobhall-core", "jobhall-store", "lru", "serde", "serde_json", "thiserror"];

/// Packages that `kernel` must not depend on, even indirectly: a runtime, randomness, logging.
const KERNEL_BANNED: [&str; 3] = ["tokio", "rand", "tracing"];

/// The crates that the crate `room` may depend on; none for a crate that is not in the plan.
fn allowed(room: &str) -> Option<&'static [&'static str]> {
    Some(match room {
        "core" | "blobs" | "tree" | "throwaway" => &[],
        "store" | "protocol" => &["core"],
        "store-sqlite" | "store-postgres" | "store-conformance" => &["store", "core"],
        "kernel" => &["core", "store"],
        "engine" => &["kernel", "core", "store", "blobs"],
        "queries" | "tasksets" | "builds" => APPLICATION,
        "server" => &["core", "engine", "queries", "tasksets", "builds", "store", "blobs", "protocol"],
        "client" => &["protocol"],
        "worker" => &["client", "protocol", "tree", "core"],
        "cli" => &[
            "core",
            "store",
            "store-sqlite",
            "store-postgres",
            "engine",
            "blobs",
            "tree",
            "queries",
            "tasksets",
            "builds",
            "protocol",
            "server",
            "client",
            "worker",
        ],
        "sim" => &["kernel", "engine", "store", "core", "store-conformance"],
        _ => return None,
    })
}

/// Every dependency between crates that the plan does not allow.
#[must_use]
pub fn forbidden(packages: &[Package]) -> Vec<Fault> {
    packages.iter().flat_map(faults_of).collect()
}

fn faults_of(package: &Package) -> Vec<Fault> {
    let known =
        package.dependencies.iter().filter_map(|found| Some((found, found.name.strip_prefix(PREFIX)?)));
    if let Some(room) = package.directory.strip_prefix("crates/") {
        let Some(plan) = allowed(room) else {
            return vec![format!("the crate {room} is not in the plan of crates")];
        };
        let mut faults = misnamed(package, room);
        faults.extend(known.filter_map(|(found, target)| edge_fault(room, plan, found.kind, target)));
        faults
    } else if package.directory.starts_with("bench/") {
        let bare = package.name.contains("baseline") || package.name.contains("raw");
        known
            // One baseline may use the measuring code of another.
            .filter(|(_, target)| bare && !target.contains("raw"))
            .map(|(_, target)| format!("the baseline {} must not depend on {target}", package.name))
            .collect()
    } else if package.directory == "tests" {
        Vec::new()
    } else {
        known.map(|(_, target)| format!("{} must not depend on {target}", package.name)).collect()
    }
}

fn misnamed(package: &Package, room: &str) -> Vec<Fault> {
    let expected = format!("{PREFIX}{room}");
    // The binary is named after the product, and its package may have that name too.
    let right = package.name == expected || (room == "cli" && package.name == "jobhall");
    if right { Vec::new() } else { vec![format!("the package in crates/{room} must be named {expected}")] }
}

fn edge_fault(room: &str, plan: &[&str], kind: Kind, target: &str) -> Option<Fault> {
    let fine = match (kind, target) {
        (Kind::Dev, _) if room == "core" => false,
        (Kind::Dev, "store-conformance") => room == "store" || room.starts_with("store-") || room == "sim",
        (Kind::Dev, _) => true,
        (Kind::Normal | Kind::Build, target) => plan.contains(&target),
    };
    let word = if DEV_ONLY.contains(&target) { "the dev-only crate " } else { "" };
    (!fine).then(|| format!("{room} must not depend on {word}{target}"))
}

/// Every dependency of `core` and `kernel` beyond their short lists; their tests may use more.
#[must_use]
pub fn impure(packages: &[Package]) -> Vec<Fault> {
    let rooms = [("core", CORE_ALLOWED), ("kernel", KERNEL_ALLOWED)];
    rooms.into_iter().flat_map(|(room, allowed)| impure_room(packages, room, allowed)).collect()
}

fn impure_room(packages: &[Package], room: &str, allowed: &[&str]) -> Vec<Fault> {
    let beyond = |found: &&Dependency| found.kind != Kind::Dev && !allowed.contains(&found.name.as_str());
    packages
        .iter()
        .filter(|package| package.directory.strip_prefix("crates/") == Some(room))
        .flat_map(|package| package.dependencies.iter().filter(beyond))
        .map(|found| format!("{room} must not depend on {}", found.name))
        .collect()
}

/// Every package that `kernel` must not depend on, even indirectly. `tree` has the names of all packages that
/// `package` depends on.
#[must_use]
pub fn brought_in(package: &str, tree: &[String]) -> Vec<Fault> {
    let banned = KERNEL_BANNED.iter().filter(|banned| tree.iter().any(|name| name == *banned));
    banned.map(|name| format!("{package} brings in {name}, which the kernel must not have")).collect()
}
