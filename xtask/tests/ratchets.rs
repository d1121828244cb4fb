//! Counts of the tree that may only decrease, each with planted violations.

use xtask::tidy::ratchet::{self, Found};
use xtask::tidy::{self, Fault, File, modules, sleeps, status_codes};
use xtask::workspace_root;

#[track_caller]
fn assert_none(faults: &[Fault]) {
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn rust_files() -> Vec<File> {
    let read =
        |directory| tidy::files(&workspace_root(), directory, ".rs").expect("the files of this workspace");
    ["crates", "xtask", "bench", "tests"].into_iter().flat_map(read).collect()
}

#[track_caller]
fn check(found: usize, listed: Option<usize>, expected: Option<&str>) {
    let found = [Found { path: "a.rs".to_owned(), lines: (1..=found).collect() }];
    let listed: Vec<(&str, usize)> = listed.map(|count| ("a.rs", count)).into_iter().collect();
    let faults = ratchet::faults("things", 2, &found, &listed);
    assert_eq!(faults.first().map(String::as_str), expected);
}

#[test]
fn a_count_may_not_rise_and_its_entry_must_follow_it_down() {
    check(2, None, None);
    check(3, None, Some("a.rs has 3 things, 2 allowed: lines 1, 2, 3"));
    check(12, None, Some("a.rs has 12 things, 2 allowed: lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …"));
    check(3, Some(3), None);
    check(4, Some(3), Some("a.rs has 4 things, 3 allowed: lines 1, 2, 3, 4"));
    check(3, Some(4), Some("a.rs has only 3 things: lower its entry from 4"));
    check(2, Some(3), Some("a.rs has 2 things, 2 allowed for any file: remove its entry"));
    let gone = ratchet::faults("things", 2, &[], &[("b.rs", 3)]);
    assert_eq!(gone, ["b.rs has 0 things, 2 allowed for any file: remove its entry"]);
}

#[test]
fn a_crate_lists_few_modules() {
    assert_none(&modules::crowded(&rust_files()));
}

#[test]
fn a_crowded_crate_is_caught() {
    let many = |count: usize| (0..count).map(|n| format!("mod m{n};\n")).collect::<String>();
    let rest =
        "// mod a;\n/// mod b;\nuse c::mod_d;\n#[cfg(test)]\nmod tests;\n#[cfg(test)]\nmod more { mod x; }\n";
    let check = |text: String| modules::crowded(&[File::new("crates/a/src/lib.rs", &text)]).len();
    assert_eq!(check(many(modules::MOST) + rest), 0);
    assert_eq!(check(many(modules::MOST) + rest + "pub mod last;"), 1);
    assert_eq!(check(many(modules::MOST) + rest + "pub(crate) mod last;"), 1);
    assert_eq!(check(many(modules::MOST) + rest + "mod last { fn f() {} }"), 1);
    assert_none(&modules::crowded(&[File::new("crates/a/src/b.rs", &many(20))]));
}

#[test]
fn the_server_names_status_codes_in_one_file() {
    let files = rust_files();
    assert!(files.iter().any(|file| file.path == "crates/server/src/error.rs"));
    assert_none(&status_codes::outside_error(&files, status_codes::LISTED));
}

#[test]
fn a_status_code_elsewhere_is_caught() {
    let text = "// StatusCode\nuse axum::http::StatusCode;\nfn f() -> StatusCode { StatusCode::OK }\n";
    let check = |path: &str| status_codes::outside_error(&[File::new(path, text)], &[]);
    let expected = "crates/server/src/routes/a.rs has 3 mentions of StatusCode, 0 allowed: lines 2, 3, 3";
    assert_eq!(check("crates/server/src/routes/a.rs"), [expected]);
    assert_none(&check("crates/server/src/error.rs"));
    assert_none(&check("crates/server/tests/http/a.rs"));
    assert_none(&check("crates/client/src/a.rs"));
}

#[test]
fn tests_do_not_sleep() {
    assert_none(&sleeps::in_tests(&rust_files(), sleeps::LISTED));
}

#[track_caller]
fn check_sleeps(path: &str, text: &str, lines: &str) {
    let faults = sleeps::in_tests(&[File::new(path, text)], &[]);
    let found = faults.first().map_or("", |fault| fault.split("lines ").nth(1).unwrap_or("?"));
    assert_eq!(found, lines, "{path}: {text}");
}

#[test]
fn a_sleep_in_a_test_is_caught() {
    let test = "#[test]\nfn f() {\n    std::thread::sleep(SHORT);\n}\n";
    check_sleeps("crates/a/tests/b.rs", test, "3");
    check_sleeps("crates/a/tests/b/c.rs", test, "3");
    check_sleeps("tests/b/c.rs", test, "3");
    check_sleeps("crates/a/src/b.rs", &format!("#[cfg(test)]\nmod tests {{\n{test}}}\n"), "5");
    check_sleeps("tests/b.rs", "async fn f() { tokio::time::sleep(a).await; sleep_until(b).await }", "1, 1");
    check_sleeps("tests/b.rs", "fn wait_for() { fn inner() { sleep(a) } }", "1");
    check_sleeps("tests/b.rs", "fn wait_for() {}\nfn f() { loop { g(|| { sleep(a) }) } }", "2");
    check_sleeps("tests/b.rs", "#[tokio::test(start_paused = true)]\nfn f() {}\nfn g() {\nsleep(a) }", "4");
    let declared = [
        File::new("crates/a/src/lib.rs", "#[cfg(test)]\nmod rig;\n"),
        File::new("crates/a/src/rig.rs", test),
        File::new("crates/a/src/rig/deep.rs", test),
    ];
    assert_eq!(sleeps::in_tests(&declared, &[]).len(), 2);
}

#[test]
fn a_bounded_wait_may_sleep() {
    for name in ["wait_for_it", "poll_it", "until", "until_jobs", "eventually"] {
        let text =
            format!("pub async fn {name}() -> [u8; 2] {{ loop {{ if {{ x }} {{ y }} sleep(a).await }} }}");
        check_sleeps("tests/b.rs", &text, "");
    }
    check_sleeps("tests/b.rs", "#[tokio::test(start_paused = true)]\nasync fn f() { sleep(a).await }", "");
    check_sleeps("tests/chaos/b.rs", "fn f() { sleep(a) }", "");
    check_sleeps("crates/a/src/b.rs", "fn f() { sleep(a) }", "");
    check_sleeps(
        "tests/b.rs",
        "fn f() { g(\"sleep(a); pg_sleep(1)\"); pg_sleep(1); /* sleep(a) */ } // sleep(a)",
        "",
    );
}
