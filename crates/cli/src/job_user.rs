//! The user of this machine as whom jobs run.

use std::path::PathBuf;
use std::process::Command;

use jobhall_worker::JobUser;

use crate::failure::{Failure, Outcome};

/// Finds a user by name. The tools of the system are asked, because users may be in a directory service.
pub fn find(name: &str) -> Outcome<JobUser> {
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::usage(format!("--job-user {name} needs root"))
            .why("only root can start processes of another user")
            .fix("start the worker as root, or as that user without --job-user"));
    }
    let unknown = || Failure::usage(format!("--job-user: there is no user {name:?} on this machine"));
    let entry = said(Command::new("getent").args(["--", "passwd", name]))?;
    let groups = said(Command::new("id").args(["-G", "--", name]))?;
    parse(&entry, &groups).ok_or_else(unknown)
}

fn said(command: &mut Command) -> Outcome<String> {
    let output = command.output().map_err(|error| {
        let program = command.get_program().to_string_lossy().into_owned();
        Failure::usage(format!("--job-user: failed to run {program}")).why(error.to_string())
    })?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// From a line of `getent passwd` and the output of `id -G`.
fn parse(entry: &str, groups: &str) -> Option<JobUser> {
    let fields: Vec<&str> = entry.trim_end().split(':').collect();
    let [name, _, uid, gid, _, home, _] = fields[..] else { return None };
    let groups = groups.split_whitespace().map(|group| group.parse().ok()).collect::<Option<_>>()?;
    let (uid, gid) = (uid.parse().ok()?, gid.parse().ok()?);
    Some(JobUser { name: name.to_owned(), uid, gid, groups, home: PathBuf::from(home) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_read_from_the_tools_of_the_system() {
        let user = parse("ci:x:1001:100:CI,,,:/home/ci:/bin/sh\n", "100 27\n").unwrap();
        let expected = ("ci", 1001, 100, vec![100, 27], PathBuf::from("/home/ci"));
        assert_eq!((user.name.as_str(), user.uid, user.gid, user.groups, user.home), expected);
        assert!(parse("", "100").is_none());
        assert!(parse("ci:x:1001:100:CI:/home/ci:/bin/sh", "x").is_none());
    }
}
