//! The program that the tests of `jobhall-worker` run slots with. It also acts as a worker that will be killed.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{OpenTreeFlags, open_tree};

use jobhall_worker::{Command, Hidden, Options, Setup, Slots, supervisor};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next().as_ref().and_then(|word| word.to_str()) {
        Some("__slot") => supervisor::main(arguments),
        Some("worker") => worker(arguments.collect()),
        Some("uncover") => {
            let mut path = || PathBuf::from(arguments.next().unwrap_or_default());
            uncover(&path(), &path())
        }
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
    let hidden = std::env::var_os("JOBHALL_TEST_HIDDEN");
    let hidden = hidden.map(|paths| Hidden::new(std::env::split_paths(&paths))).transpose().ok()?;
    let setup = Setup { hidden, ..Setup::default() };
    let slots = Slots::new(Options { setup, adopts: true, ..Options::default() });
    let command = Command::new(argv).env("JOBHALL_TEST_MARKER", marker);
    let mut running = slots.acquire().await.run(command).await.ok()?;
    while let Some(chunk) = running.next().await {
        std::io::stdout().write_all(&chunk.bytes).ok()?;
        std::io::stdout().flush().ok()?;
    }
    Some(())
}

/// Prints a file as it is in a copy of the mount of this directory: a copy does not have the mounts on top of it.
fn uncover(directory: &Path, file: &Path) -> ExitCode {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let opened = open_tree(CWD, directory, flags)
        .and_then(|tree| openat(&tree, file, OFlags::RDONLY, Mode::empty()))
        .map(std::fs::File::from);
    match opened.map(|mut file| std::io::copy(&mut file, &mut std::io::stdout())) {
        Ok(Ok(_)) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
