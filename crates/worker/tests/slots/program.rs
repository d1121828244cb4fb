//! The program that the tests of `jobhall-worker` run slots with. It also acts as a worker that will be killed.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use jobhall_worker::{Command, Options, Slots, supervisor};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next().as_ref().and_then(|word| word.to_str()) {
        Some("__slot") => supervisor::main(arguments),
        Some("worker") => worker(arguments.collect()),
        _ => ExitCode::FAILURE,
    }
}

/// Runs one command in a slot and forwards its output.
fn worker(argv: Vec<OsString>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.map(|runtime| runtime.block_on(pass_on(argv))) {
        Ok(Some(())) => ExitCode::SUCCESS,
        Ok(None) | Err(_) => ExitCode::FAILURE,
    }
}

async fn pass_on(argv: Vec<OsString>) -> Option<()> {
    let marker = std::env::var_os("JOBHALL_TEST_MARKER")?;
    let slots = Slots::new(Options::default());
    let command = Command::new(argv).env("JOBHALL_TEST_MARKER", marker);
    let mut running = slots.acquire().await.run(command).await.ok()?;
    while let Some(chunk) = running.next().await {
        std::io::stdout().write_all(&chunk.bytes).ok()?;
        std::io::stdout().flush().ok()?;
    }
    Some(())
}
