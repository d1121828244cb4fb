//! The binary under test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

/// What to run when the binary is missing or old.
const REMEDY: &str = "build it first: `cargo build -p jobhall-cli`, or run the tests with `--workspace`";

/// The binary that was built beside the running test, checked once.
///
/// # Panics
/// It is missing, or a source of it is newer.
pub fn binary() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let path = test.parent().and_then(Path::parent).unwrap().join("jobhall");
        if let Err(why) = is_fresh(&path) {
            panic!("{}: {why}; {REMEDY}", path.display());
        }
        path
    })
}

/// Whether it is there and no older than what it was made of, which cargo wrote beside it.
fn is_fresh(binary: &Path) -> Result<(), String> {
    let built = changed(binary)?;
    let list = std::fs::read_to_string(binary.with_extension("d")).map_err(|error| error.to_string())?;
    for source in sources(&list) {
        if changed(&source)? > built {
            return Err(format!("it is older than {}", source.display()));
        }
    }
    Ok(())
}

fn changed(path: &Path) -> Result<SystemTime, String> {
    let changed = std::fs::metadata(path).and_then(|found| found.modified());
    changed.map_err(|error| format!("{}: {error}", path.display()))
}

/// The names after the colon of a dependency list, in which a space of a name is escaped.
fn sources(list: &str) -> Vec<PathBuf> {
    let names = list.split_once(": ").map_or("", |(_, names)| names.trim_end());
    let names = names.replace("\\ ", "\0");
    names.split(' ').filter(|name| !name.is_empty()).map(|name| name.replace('\0', " ").into()).collect()
}

/// The binary with a clean slate: no setting of whoever runs the test reaches it.
pub fn jobhall() -> Command {
    let mut command = Command::new(binary());
    for name in ["JOBHALL_SERVER", "JOBHALL_TOKEN", "JOBHALL_DATA", "JOBHALL_TOKEN_FILE", "JOBHALL_COLOR"] {
        command.env_remove(name);
    }
    command.env("NO_COLOR", "1");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_that_is_missing_or_old_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (binary, source) = (folder.path().join("jobhall"), folder.path().join("a b.rs"));
        assert!(is_fresh(&binary).unwrap_err().contains("jobhall: No such file"));
        let write = |path: &Path, second: u64| {
            let file = std::fs::File::create(path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(second)).unwrap();
        };
        write(&binary, 10);
        write(&source, 9);
        let list = format!("{}: {}\n", binary.display(), source.display().to_string().replace(' ', "\\ "));
        std::fs::write(binary.with_extension("d"), list).unwrap();
        assert_eq!(is_fresh(&binary), Ok(()));
        write(&source, 11);
        assert!(is_fresh(&binary).unwrap_err().contains("older than"), "a source that is newer");
    }
}
