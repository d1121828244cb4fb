//! Renamed words are not used again.

use xtask::tidy::old_words::{self, OLD, Old, Scope};
use xtask::tidy::{self, File};
use xtask::workspace_root;

#[test]
fn no_word_is_said_whose_rename_is_done() {
    let files = tidy::tree(&workspace_root()).expect("the files of this workspace");
    for path in ["crates/engine/src/lib.rs", ".config/nextest.toml", "README.md", "Makefile"] {
        assert!(files.iter().any(|file| file.path == path), "{path} is not seen");
    }
    let faults = old_words::returned(&old_words::prepare(&files), OLD);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn each_word_is_listed_once_for_a_scope() {
    let mut known = std::collections::BTreeSet::new();
    for Old { word, since, scope, .. } in OLD {
        assert!(!word.trim_matches('_').is_empty() && !since.is_empty());
        assert!(known.insert(format!("{word} {scope:?}")), "{word} is listed twice");
    }
}

fn old(word: &'static str, scope: Scope) -> Old {
    Old { word, since: "leader", scope, done: true }
}

#[track_caller]
fn check(path: &str, text: &str, entry: Old, expected: usize) {
    let texts = old_words::prepare(&[File::new(path, text)]);
    let faults = old_words::returned(&texts, &[entry]);
    assert_eq!(faults.len(), expected, "{path}: {faults:?}");
    let open = Old { done: false, ..entry };
    assert!(old_words::returned(&texts, &[open]).is_empty());
    assert_eq!(old_words::hits(&texts, &open).len(), expected);
}

#[test]
fn an_old_word_is_caught() {
    let tree = |word| old(word, Scope::Tree);
    check("a.rs", "struct Desk; // a Desk\nfn f() { \"Desk\" }", tree("Desk"), 3);
    check("a.rs", "OpenDesk DeskLost Desks Desk2 desk my_Desk Desk_", tree("Desk"), 0);
    check("a.sql", "no_desk desk_lost desk, jobhall.desk", tree("desk"), 2);
    check("a.rs", "desk_lost a_desk_b desk mydesk_b desktop _desk", tree("desk_"), 2);
    check("a.rs", "no_desk a_desk_b desk _desktop no_desks", tree("_desk"), 2);
    check("a.rs", "Why::Kept, Why::KeptForIt, OtherWhy::Kept", tree("Why::Kept"), 1);
    check("a.rs", "reach::shown(); outreach::x; reach", tree("reach::"), 1);
    check("a.md", "jobhall call --begin x; --beginning", tree("--begin"), 1);
    check("a.json", "{\"code\": \"held\", \"a\": \"was held\"}", tree("\"held\""), 1);
}

#[test]
fn the_message_has_the_place_and_the_new_word() {
    let files = [File::new("src/desk.rs", "\n// the desk\n")];
    let faults = old_words::returned(&old_words::prepare(&files), &[old("desk", Scope::Tree)]);
    let expected =
        ["src/desk.rs has desk in its name, now called leader", "src/desk.rs:2 says desk, now called leader"];
    assert_eq!(faults, expected);
}

#[test]
fn an_old_name_of_a_file_is_caught() {
    check("crates/server/src/floor.rs", "", old("floor.rs", Scope::Tree), 1);
    check("crates/server/src/floor.rs", "", old("floor", Scope::Tree), 1);
    check("crates/server/src/second_floor.rs", "", old("floor.rs", Scope::Tree), 0);
    check("crates/engine/src/desk/run.rs", "", old("desk", Scope::Tree), 1);
    check("ARCHITECTURE.md", "see floor.rs", old("floor.rs", Scope::Tree), 1);
    check("crates/a/sql/take_desk.sql", "", old("_desk", Scope::Tree), 1);
}

#[test]
fn a_word_is_looked_for_in_its_scope() {
    let text = "// What\nfn f(what: What) { g(\"What\") }";
    check("crates/engine/src/a.rs", text, old("What", Scope::Code(&["crates/engine/"])), 1);
    check("crates/kernel/src/a.rs", text, old("What", Scope::Code(&["crates/engine/", "crates/kernel/"])), 1);
    check("crates/server/src/a.rs", text, old("What", Scope::Code(&["crates/engine/"])), 0);
    check("crates/engine/a.md", text, old("What", Scope::Code(&["crates/engine/"])), 0);
    check("crates/engine/src/a.rs", text, old("What", Scope::Under(&["crates/engine/"])), 3);
    check("crates/server/src/a.rs", text, old("What", Scope::Under(&["crates/engine/"])), 0);
}

#[test]
fn the_past_may_keep_its_words() {
    let desk = old("desk", Scope::Tree);
    for path in [
        "crates/store-postgres/src/migrations/0002_desk.sql",
        "docs/decisions/0006-one-desk.md",
        "CHANGELOG.md",
        "docs/acceptance.md",
        "docs/acceptance.toml",
        "crates/cli/tests/fixtures/0.1.0/desk.json",
        "xtask/src/tidy/old_words/list.rs",
        "xtask/tests/old_words.rs",
    ] {
        check(path, "desk", desk, 0);
    }
    for path in [
        "docs/decisions/0007-words.md",
        "docs/decisions/README.md",
        "docs/sql.md",
        "crates/store-postgres/src/migrations.rs",
        "crates/store-postgres/src/sql/migrations.sql",
        "crates/cli/tests/fixture/mod.rs",
        "xtask/src/tidy/words.rs",
    ] {
        check(path, "desk", desk, 1);
    }
}

#[test]
fn a_file_that_keeps_its_name_may_be_mentioned() {
    let mentions =
        "include_str!(\"migrations/0002_desk.sql\"); [how](decisions/0006-one-desk-many-doors.md)\n";
    let files = [
        File::new("crates/a/src/migrations/0002_desk.sql", ""),
        File::new("docs/decisions/0006-one-desk-many-doors.md", ""),
        File::new("a.rs", &format!("{mentions}{mentions}desk")),
    ];
    let texts = old_words::prepare(&files);
    let hits = |word| old_words::hits(&texts, &old(word, Scope::Tree));
    assert_eq!(hits("desk").iter().map(|hit| hit.line).collect::<Vec<_>>(), [Some(3)]);
    assert!(hits("_desk").is_empty() && hits("doors").is_empty());
}

#[test]
fn occurrences_are_listed_by_file() {
    let files = [File::new("a.rs", "desk\ndesk desk"), File::new("b.rs", ""), File::new("c.rs", "desk")];
    let entries = [old("desk", Scope::Tree), Old { done: false, ..old("hop", Scope::Tree) }];
    let expected =
        "    4 done desk -> leader\n              3 a.rs\n              1 c.rs\n    0 open hop -> leader";
    assert_eq!(old_words::report(&old_words::prepare(&files), &entries), expected);
}
