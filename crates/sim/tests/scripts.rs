//! Scripts that once showed a bug pass, and a script read from a file is the same run.

use std::fs;
use std::path::Path;

use jobhall_sim::{Outcome, Script, play};

/// One file for each bug, named after it.
#[test]
fn scripts_that_once_failed_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    assert!(!files.is_empty(), "{} has no scripts", folder.display());
    let failures: Vec<_> = files.iter().filter_map(|path| failure(path)).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn failure(path: &Path) -> Option<String> {
    let name = path.display();
    let text = fs::read_to_string(path).map_err(|error| error.to_string());
    match text.and_then(|text| Script::from_json(&text)) {
        Err(error) => Some(format!("{name}: {error}")),
        Ok(script) => {
            let violation = play(script, None, false).violation?;
            Some(format!("{name}: {}: {}", violation.invariant, violation.text))
        }
    }
}

/// All fields are equal, so the runs are equal; every tenth is run to check.
#[test]
fn a_script_from_a_file_is_the_same_run() {
    for seed in 0..200 {
        let script = Script::new(seed);
        let text = script.to_json();
        let read = Script::from_json(&text).unwrap();
        assert_eq!(read.to_json(), text, "seed {seed}");
        assert_eq!(format!("{read:?}"), format!("{script:?}"), "seed {seed}");
        if seed % 10 == 0 {
            let (first, second) = (play(script, None, false), play(read, None, false));
            let of = |outcome: &Outcome| (outcome.hash, outcome.events, outcome.ms);
            assert_eq!(of(&first), of(&second), "seed {seed}");
        }
    }
}

#[test]
fn an_unknown_field_at_any_depth_is_an_error() {
    let text = Script::new(1).to_json();
    for (known, path) in [
        ("\"seed\":", "extra"),
        ("\"lease_ms\":", "config.extra"),
        ("\"poison\":", "actions[1][1].submit.jobs[0].extra"),
        ("\"cap_ms\":", "actions[0][1].set_type[1].retry.backoff.exponential.extra"),
    ] {
        let more = text.replacen(known, &format!("\"extra\": 1, {known}"), 1);
        let error = Script::from_json(&more).map(|_| ()).unwrap_err();
        assert_eq!(error, format!("unknown field {path}"));
    }
    let error = Script::from_json(&text.replacen("\"bursts\":", "\"burst\":", 1)).map(|_| ()).unwrap_err();
    assert!(error.starts_with("missing field `bursts`"), "{error}");
}
