//! The demonstration of queries in `examples/`.

use std::path::Path;
use std::process::Command;

use jobhall_tests::{binary, text};

#[test]
fn the_demonstration_of_queries_runs_what_it_says_and_no_more() {
    let own = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/queries/demo.sh"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("JOBHALL_")) {
        command.env_remove(name);
    }
    command.env("PATH", format!("{}:{own}", binary().parent().unwrap().display()));
    // Servers of other tests are not found, nor do they find this one.
    command.env("XDG_RUNTIME_DIR", "/proc/none").env("XDG_STATE_HOME", "/proc/none");
    let output = command.output().unwrap();
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}");
    assert!(said.contains("\neast,12378\nnorth,11910\n"), "{said}");
    assert!(said.contains("would run on local") && said.contains("clean has another version"), "{said}");
}
