//! Rules on the shape of this repository; each has a planted violation that it must catch.

use std::path::Path;

use xtask::tidy::manifests::{self, Dependency, Kind, Package};
use xtask::tidy::{self, Fault, File, decisions, edges, links, purity, source, words};
use xtask::workspace_root;

#[track_caller]
fn assert_none(faults: &[Fault]) {
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn packages() -> Vec<Package> {
    manifests::packages(&workspace_root()).expect("cargo metadata of this workspace")
}

fn files(directory: &str, suffix: &str) -> Vec<File> {
    tidy::files(&workspace_root(), directory, suffix).expect("the files of this workspace")
}

fn rust_files() -> Vec<File> {
    ["crates", "xtask", "bench", "tests"].into_iter().flat_map(|directory| files(directory, ".rs")).collect()
}

fn read(path: &str) -> File {
    let text = std::fs::read_to_string(workspace_root().join(path)).expect("a file of this workspace");
    File { path: path.to_owned(), text }
}

fn pages() -> Vec<File> {
    let top = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "ARCHITECTURE.md"];
    let top = top.into_iter().filter(|path| workspace_root().join(path).exists()).map(read);
    top.chain(files("docs", ".md")).collect()
}

fn package(directory: &str, dependencies: &[(&str, Kind)]) -> Package {
    let name = directory.rsplit('/').next().unwrap_or(directory);
    let prefix = if directory.starts_with("crates/") { "jobhall-" } else { "" };
    Package {
        name: format!("{prefix}{name}"),
        directory: directory.to_owned(),
        description: Some("a planted package".to_owned()),
        dependencies: dependencies
            .iter()
            .map(|(name, kind)| Dependency { name: (*name).to_owned(), kind: *kind })
            .collect(),
        roots: Vec::new(),
    }
}

#[track_caller]
fn check_edge(from: &str, to: &str, kind: Kind, allowed: bool) {
    let faults = edges::forbidden(&[package(from, &[(to, kind)])]);
    assert_eq!(faults.is_empty(), allowed, "{from} -> {to} ({kind:?}): {faults:?}");
}

#[test]
fn rooms_know_only_the_rooms_of_the_plan() {
    assert_none(&edges::forbidden(&packages()));
}

#[test]
fn this_workspace_is_really_seen() {
    let packages = packages();
    let core = packages.iter().find(|package| package.directory == "crates/core").expect("core");
    assert_eq!(core.name, "jobhall-core");
    assert_eq!(core.roots, ["crates/core/src/lib.rs"]);
    let store = packages.iter().find(|package| package.directory == "crates/store").expect("store");
    assert!(store.dependencies.contains(&Dependency { name: "jobhall-core".to_owned(), kind: Kind::Normal }));
    assert!(rust_files().iter().any(|file| file.path == "xtask/tests/tidy.rs"));
    assert!(pages().iter().any(|page| page.path == "README.md"));
}

#[test]
fn a_forbidden_edge_is_caught() {
    check_edge("crates/core", "jobhall-store", Kind::Normal, false);
    check_edge("crates/core", "jobhall-store", Kind::Dev, false);
    check_edge("crates/store", "jobhall-store-sqlite", Kind::Normal, false);
    check_edge("crates/store-sqlite", "jobhall-engine", Kind::Normal, false);
    check_edge("crates/engine", "jobhall-server", Kind::Build, false);
    check_edge("crates/queries", "jobhall-builds", Kind::Normal, false);
    check_edge("crates/worker", "jobhall-engine", Kind::Normal, false);
    check_edge("crates/kernel", "jobhall-engine", Kind::Normal, false);
    check_edge("crates/kernel", "jobhall-blobs", Kind::Normal, false);
    check_edge("crates/server", "jobhall-kernel", Kind::Normal, false);
    check_edge("crates/cli", "jobhall-kernel", Kind::Normal, false);
    check_edge("crates/tasksets", "jobhall-kernel", Kind::Normal, false);
    check_edge("crates/worker", "jobhall-store", Kind::Normal, false);
    check_edge("xtask", "jobhall-core", Kind::Normal, false);
    check_edge("bench/baseline", "jobhall-core", Kind::Normal, false);
}

#[test]
fn an_edge_of_the_plan_is_allowed() {
    check_edge("crates/store", "jobhall-core", Kind::Normal, true);
    check_edge("crates/store-postgres", "jobhall-store", Kind::Normal, true);
    check_edge("crates/kernel", "jobhall-core", Kind::Normal, true);
    check_edge("crates/kernel", "jobhall-store", Kind::Normal, true);
    check_edge("crates/engine", "jobhall-kernel", Kind::Normal, true);
    check_edge("crates/sim", "jobhall-kernel", Kind::Normal, true);
    check_edge("crates/tasksets", "jobhall-tree", Kind::Normal, true);
    check_edge("crates/cli", "jobhall-worker", Kind::Normal, true);
    check_edge("crates/engine", "jobhall-store-sqlite", Kind::Dev, true);
    check_edge("bench/engine", "jobhall-sim", Kind::Normal, true);
    check_edge("tests", "jobhall-sim", Kind::Normal, true);
}

#[test]
fn shipping_on_a_dev_only_room_is_caught() {
    check_edge("crates/cli", "jobhall-sim", Kind::Normal, false);
    check_edge("crates/store-sqlite", "jobhall-store-conformance", Kind::Normal, false);
    check_edge("crates/engine", "jobhall-store-conformance", Kind::Dev, false);
    check_edge("crates/store", "jobhall-store-conformance", Kind::Dev, true);
    check_edge("crates/store-sqlite", "jobhall-store-conformance", Kind::Dev, true);
    check_edge("crates/sim", "jobhall-store-conformance", Kind::Normal, true);
}

#[test]
fn a_room_outside_the_plan_or_misnamed_is_caught() {
    assert_eq!(edges::forbidden(&[package("crates/helpers", &[])]).len(), 1);
    let mut misnamed = package("crates/store", &[]);
    misnamed.name = "store".to_owned();
    assert_eq!(edges::forbidden(&[misnamed]).len(), 1);
}

#[test]
fn core_stands_on_nothing() {
    assert!(packages().iter().any(|package| package.directory == "crates/core"));
    assert_none(&edges::impure(&packages()));
}

#[test]
fn a_dependency_of_core_is_caught() {
    let planted =
        package("crates/core", &[("serde", Kind::Normal), ("tokio", Kind::Normal), ("rand", Kind::Dev)]);
    assert_eq!(edges::impure(&[planted]), ["core must not depend on tokio"]);
}

#[test]
fn the_kernel_brings_in_no_runtime_randomness_or_logging() {
    for name in ["jobhall-store", "jobhall-kernel"] {
        let tree = manifests::normal_tree(&workspace_root(), name).expect("cargo tree of this workspace");
        assert_eq!(tree[0], name);
        assert!(tree.contains(&"jobhall-core".to_owned()), "{tree:?}");
        assert_none(&edges::brought_in(name, &tree));
    }
}

#[test]
fn a_runtime_below_the_kernel_is_caught() {
    let direct = [
        ("jobhall-store", Kind::Normal),
        ("lru", Kind::Normal),
        ("tracing", Kind::Normal),
        ("tokio", Kind::Build),
        ("rand", Kind::Dev),
    ];
    let faults = edges::impure(&[package("crates/kernel", &direct)]);
    assert_eq!(faults, ["kernel must not depend on tracing", "kernel must not depend on tokio"]);
    let tree = ["jobhall-kernel", "jobhall-store", "tokio", "tokio-util", "rand_core"].map(str::to_owned);
    let faults = edges::brought_in("jobhall-kernel", &tree);
    assert_eq!(faults, ["jobhall-kernel brings in tokio, which the kernel must not have"]);
    // The engine has a runtime, which cargo's tree shows.
    let engine = manifests::normal_tree(&workspace_root(), "jobhall-engine").expect("cargo tree");
    assert!(!edges::brought_in("jobhall-engine", &engine).is_empty());
}

#[test]
fn the_kernel_touches_nothing_outside() {
    let sources = files("crates/kernel/src", ".rs");
    assert!(!sources.is_empty());
    assert_none(&purity::touched(&sources, &[purity::CORE, purity::KERNEL]));
}

#[test]
fn a_touch_by_the_kernel_is_caught() {
    for planted in [
        "use tracing::info;",
        "fn f() { tracing::info!(1) }",
        "use std::thread;",
        "fn f() { rand::random() }",
    ] {
        let file = [File::new("crates/kernel/src/planted.rs", planted)];
        let faults = purity::touched(&file, &[purity::CORE, purity::KERNEL]);
        assert_eq!(faults.len(), 1, "{planted}: {faults:?}");
    }
    assert_none(&purity::touched(&[File::new("crates/core/src/a.rs", "fn tracing() {}")], &[purity::CORE]));
}

#[test]
fn core_touches_nothing_outside() {
    let sources = files("crates/core/src", ".rs");
    assert!(!sources.is_empty());
    assert_none(&purity::touched(&sources, &[purity::CORE]));
}

#[test]
fn a_touch_by_core_is_caught() {
    for planted in [
        "use std::fs;",
        "use std::{collections::BTreeMap, net::TcpStream};",
        "use std::{fmt, time::{Duration, SystemTime as Clock}};",
        "fn f() { std::io::stdout(); }",
        "fn f() { let at = std::time::Instant::now(); }",
        "fn f() { jiff::Timestamp::now(); }",
        "fn f() { Zoned::now(); }",
        "fn f() { TimeZone::system(); }",
        "fn f() { std::thread::yield_now() }",
        "use std::process::Command;",
        "fn f() { std :: env :: args(); }",
        "pub async fn f() {}",
        "fn f() { g().await }",
        "use tokio::sync::mpsc;",
        "fn f() -> u8 { rand::random() }",
        "use std::*;",
        "#[cfg(test)]\nmod tests { fn f() {} }\nuse std::fs::File;",
    ] {
        let faults = purity::touched(&[File::new("crates/core/src/planted.rs", planted)], &[purity::CORE]);
        assert!(!faults.is_empty(), "not caught: {planted}");
    }
}

#[test]
fn words_in_comments_texts_and_test_modules_of_core_are_fine() {
    let innocent = r####"
        //! No async, no tokio, no std::fs.
        /* nor /* nested */ rand */
        fn operand<'a>(brand: &'a str) -> char { let _ = ("std::io", r#"an "async" word"#, b"rand"); '"' }
        use std::time::{Duration, Instant};
        #[cfg(test)]
        mod tests { use std::fs; fn f() { let _ = '}'; std::thread::yield_now(); } }
        #[cfg(test)]
        mod more;
    "####;
    let files =
        [File::new("crates/core/src/lib.rs", innocent), File::new("crates/core/src/more.rs", "use std::fs;")];
    assert_none(&purity::touched(&files, &[purity::CORE]));
}

#[test]
fn imports_are_resolved_through_braces() {
    let tokens = source::tokens("use a::{b, c::{d, e as f}, g}; use h::i;");
    assert_eq!(source::imports(&tokens), ["a::b", "a::c::d", "a::c::e", "a::g", "h::i"]);
}

#[test]
fn crates_inherit_the_lints_of_the_workspace() {
    let manifests: Vec<File> =
        packages().iter().map(|package| read(&format!("{}/Cargo.toml", package.directory))).collect();
    assert_none(&manifests::without_workspace_lints(&manifests));
}

#[test]
fn a_manifest_without_the_lints_is_caught() {
    let planted = [
        File::new("a/Cargo.toml", "[package]\nname = \"a\"\n"),
        File::new("b/Cargo.toml", "[package]\nname = \"b\"\n[lints]\nworkspace = false\n"),
        File::new("c/Cargo.toml", "# [lints]\n# workspace = true\n"),
        File::new("d/Cargo.toml", "[lints\n"),
        File::new("e/Cargo.toml", "[lints]\nworkspace = true\n"),
    ];
    let faults = manifests::without_workspace_lints(&planted);
    assert_eq!(faults.len(), 4, "{faults:?}");
}

#[test]
fn crates_say_what_they_are() {
    let packages = packages();
    assert_none(&manifests::undescribed(&packages));
    let roots: Vec<File> =
        packages.iter().flat_map(|package| &package.roots).map(|path| read(path)).collect();
    assert!(roots.len() >= packages.len());
    assert_none(&manifests::undocumented(&roots));
}

#[test]
fn a_crate_that_does_not_say_what_it_is_is_caught() {
    let mut planted = package("crates/core", &[]);
    planted.description = Some(" ".to_owned());
    assert_eq!(manifests::undescribed(&[planted.clone()]).len(), 1);
    planted.description = None;
    assert_eq!(manifests::undescribed(&[planted]).len(), 1);
    assert_eq!(manifests::undocumented(&[File::new("lib.rs", "pub mod job;\n")]).len(), 1);
    assert_none(&manifests::undocumented(&[File::new("lib.rs", "//! What it is.\n")]));
}

#[test]
fn no_leftovers_stay() {
    assert_none(&words::leftovers(&rust_files()));
}

#[test]
fn a_leftover_is_caught() {
    for planted in [
        concat!("to", "do!()"),
        concat!("un", "implemented!()"),
        concat!("// FIX", "ME"),
        concat!("d", "bg!(x)"),
    ] {
        let faults = words::leftovers(&[File::new("a.rs", &format!("fn f() {{\n    {planted}\n}}\n"))]);
        assert_eq!(faults.len(), 1, "not caught: {planted}");
        assert!(faults[0].starts_with("a.rs:2 "), "{faults:?}");
    }
}

#[test]
fn source_files_stay_short() {
    let sources: Vec<File> = files("crates", ".rs")
        .into_iter()
        .filter(|file| file.path.split('/').nth(2) == Some("src"))
        .collect();
    assert!(!sources.is_empty());
    assert_none(&words::too_long(&sources));
}

#[test]
fn a_long_file_is_caught() {
    let lines = |count: usize| File::new("a.rs", &"x\n".repeat(count));
    assert_none(&words::too_long(&[lines(words::MOST_LINES)]));
    assert_eq!(words::too_long(&[lines(words::MOST_LINES + 1)]).len(), 1);
}

#[test]
fn links_lead_to_files() {
    let root = workspace_root();
    assert_none(&links::broken(&pages(), |path| root.join(path).exists()));
}

#[test]
fn a_broken_link_is_caught() {
    let text = "\
[here](real.md#part) [web](https://example.org/x.md) [top](#part) `[code](gone.md)`
```
[fenced](gone.md)
```
[gone](gone.md) and [out](../../out.md) and [root](/etc/hosts)

[named]: ../lost.md
";
    let exists = |path: &Path| path == Path::new("docs/real.md");
    let faults = links::broken(&[File::new("docs/page.md", text)], exists);
    assert_eq!(faults.len(), 4, "{faults:?}");
}

#[test]
fn decisions_are_numbered_without_gap() {
    let pages = files("docs/decisions", "");
    let names: Vec<&str> =
        pages.iter().filter_map(|page| page.path.strip_prefix("docs/decisions/")).collect();
    assert!(names.contains(&"README.md"));
    assert_none(&decisions::misnumbered(&names));
}

#[test]
fn a_misnumbered_decision_is_caught() {
    assert_none(&decisions::misnumbered(&["README.md", "0002-second.md", "0001-first.md"]));
    assert_eq!(decisions::misnumbered(&["0002-second.md"]).len(), 1);
    assert_eq!(decisions::misnumbered(&["0001-first.md", "0003-third.md"]).len(), 1);
    assert_eq!(decisions::misnumbered(&["0001-first.md", "0001-again.md"]).len(), 1);
    for name in
        ["1-first.md", "notes.md", "0001_first.md", "0001-First.md", "0001-first.txt", "000a-first.md"]
    {
        assert_eq!(decisions::misnumbered(&[name]).len(), 1, "not caught: {name}");
    }
}
