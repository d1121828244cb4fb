//! Commands that cannot be run, and output that is not text.

use std::os::unix::fs::PermissionsExt as _;

use jobhall_tests::text;

use super::guarded::Guarded;

#[test]
fn a_command_that_cannot_be_run_says_why() {
    let hall = Guarded::up();
    let plain = hall.folder().join("plain.txt");
    std::fs::write(&plain, "echo never").unwrap();
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (plain, folder) = (plain.display().to_string(), hall.folder().display().to_string());
    for (argv, word) in [
        (vec!["/no/such/program"], "/no/such/program"),
        (vec!["no-such-program-anywhere"], "no-such-program-anywhere"),
        (vec![plain.as_str()], "plain.txt"),
        (vec![folder.as_str()], "cannot be run"),
    ] {
        let output = hall.run(&[&["run", "--"], argv.as_slice()].concat());
        assert_eq!(output.status.code(), Some(103), "{argv:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(word), "{argv:?}: {}", text(&output.stderr));
    }
    let output = hall.run(&["run", "--cwd", "/no/such/place", "--", "true"]);
    assert_eq!(output.status.code(), Some(103), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("/no/such/place"), "{}", text(&output.stderr));
    let output = hall.run(&["run", "--", "sh", "-c", "kill -SEGV $$"]);
    assert_eq!(output.status.code(), Some(103), "a signal: {}", text(&output.stderr));
    for (params, word) in [
        (r#"{"argv":[]}"#, "argv or script"),
        (r#"{"argv":["true"],"script":"true"}"#, "argv or script"),
        (r#"{"argv":["true"],"shell":"zsh"}"#, "shell"),
    ] {
        let output = hall.run(&["job", "submit", "exec", "--wait", "--params", params]);
        assert_eq!(output.status.code(), Some(100), "{params}: {}", text(&output.stderr));
        let all = text(&output.stdout) + &text(&output.stderr);
        assert!(all.contains(word), "{params}: {all}");
    }
    assert_eq!(hall.run(&["run", "--", "true"]).status.code(), Some(0), "and the next one runs");
    hall.is_well();
}

/// All byte values, many times, and ten megabytes without a line feed.
#[test]
fn output_that_is_no_text_is_kept_byte_by_byte() {
    let hall = Guarded::up();
    let every_byte: Vec<u8> = (0..=255u8).cycle().take(256 * 1_000).collect();
    let file = hall.folder().join("bytes");
    std::fs::write(&file, &every_byte).unwrap();
    let output = hall.run(&["run", "--", "cat", &file.display().to_string()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(output.stdout == every_byte, "followed: {} bytes", output.stdout.len());
    let log = hall.run(&["job", "log", "2"]).stdout;
    assert!(log == every_byte, "read again: {} bytes", log.len());
    let line = "head -c 10485760 /dev/zero | tr '\\0' x";
    let output = hall.run(&["run", "--", "sh", "-c", line]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(output.stdout.len(), 10 << 20, "one line of ten megabytes");
    assert!(output.stdout.iter().all(|byte| *byte == b'x'));
    hall.is_well();
}
