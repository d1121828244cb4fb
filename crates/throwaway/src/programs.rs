//! Finds PostgreSQL's programs, and the user that runs them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The superuser of every throwaway cluster.
pub(crate) const OWNER: &str = "jobhall";

/// A program of PostgreSQL, run as the unprivileged user.
pub(crate) fn program(name: &str) -> Command {
    let mut command = Command::new(found(name));
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin").env("LC_ALL", "C.UTF-8");
    command.current_dir("/").stdin(Stdio::null());
    demote(&mut command);
    command
}

/// Makes a command run as the unprivileged user, if this is root.
pub(crate) fn demote(command: &mut Command) {
    if let Some((user, group)) = unprivileged() {
        command.uid(user).gid(group);
    }
}

/// A directory that the unprivileged user owns.
pub(crate) fn owned(path: &Path) {
    fs::create_dir_all(path).expect("a directory can be made");
    fs::set_permissions(path, fs::Permissions::from_mode(0o711)).expect("its mode can be set");
    own(path);
}

/// Changes the owner of a path to the unprivileged user.
pub(crate) fn own(path: &Path) {
    if let Some((user, group)) = unprivileged() {
        chown(path, Some(user), Some(group)).expect("root may give files away");
    }
}

/// Runs a program to its end; a failure fails the test with the program's output.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("failed to start {command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed: {said}");
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// The version of the programs, such as `15`.
pub(crate) fn version() -> String {
    let told = run(program("postgres").arg("--version"));
    let version = told.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    version.unwrap_or_else(|| panic!("no version in {told:?}")).to_owned()
}

/// The path of a program: in the directory that `JOBHALL_POSTGRESQL` names, to test with another version, or among
/// the newest installed. A newer client works with an older server, so not all programs must be there.
fn found(name: &str) -> PathBuf {
    let named = std::env::var_os("JOBHALL_POSTGRESQL").map(|directory| PathBuf::from(directory).join(name));
    named.filter(|path| path.exists()).unwrap_or_else(|| directory().join(name))
}

/// The directory of the newest PostgreSQL. On Debian the server's programs are not in the path.
fn directory() -> PathBuf {
    let mut found: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .filter(|(_, path)| path.join("initdb").exists())
        .collect();
    found.sort();
    if let Some((_, newest)) = found.pop() {
        return newest;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .find(|directory| directory.join("initdb").exists())
        .expect("PostgreSQL is needed for this test (Debian: apt-get install postgresql)")
}

/// User and group that run the programs, if this is root.
fn unprivileged() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("there are users");
    let numbers = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    Some(numbers("postgres").or_else(|| numbers("nobody")).expect("there is a user postgres or nobody"))
}
