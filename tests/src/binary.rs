//! The binary under test.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The command to run when the binary is missing or outdated.
const REMEDY: &str = "build it first: `cargo build -p jobhall-cli`, or run the tests with `--workspace`";

/// Libraries that are not part of the binary.
const TESTING: [&str; 4] = ["jobhall_bench", "jobhall_sim", "jobhall_store_conformance", "jobhall_tests"];

/// The binary that was built beside the running test, checked once.
///
/// # Panics
/// The binary is missing, or one of its sources is newer.
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

/// Checks that the binary exists and is not older than its sources, according to the dependency files that the
/// compiler wrote for it and for the libraries of this workspace. Libraries that only tests use are ignored.
fn is_fresh(binary: &Path) -> Result<(), String> {
    let built = found(binary)?.modified().map_err(|error| error.to_string())?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut lists = 0;
    for list in lists_of(binary)? {
        lists += 1;
        let text = std::fs::read_to_string(&list).map_err(|error| error.to_string())?;
        for source in sources(&text).into_iter().map(|source| root.join(source)) {
            // A file that no longer exists belonged to an earlier build.
            let changed = found(&source).ok().and_then(|found| found.modified().ok());
            if changed.is_some_and(|changed| changed > built) {
                return Err(format!("it is older than {}", source.display()));
            }
        }
    }
    if lists == 0 { Err("its dependency file is missing".to_owned()) } else { Ok(()) }
}

fn found(path: &Path) -> Result<Metadata, String> {
    std::fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The dependency files of the binary itself, which has another name there, and of its libraries.
fn lists_of(binary: &Path) -> Result<Vec<PathBuf>, String> {
    let (folder, same) = (binary.with_file_name("deps"), found(binary)?.ino());
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let ours = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_binary = || found(&folder.join(&name)).is_ok_and(|found| found.ino() == same);
        let is_library = || folder.join(format!("lib{name}.rlib")).exists();
        let for_tests = TESTING.iter().any(|room| name.starts_with(room));
        path.extension().is_some_and(|end| end == "d")
            && (name.starts_with("jobhall-") && is_binary()
                || name.starts_with("jobhall_") && !for_tests && is_library())
    };
    Ok(entries.filter_map(|entry| Some(entry.ok()?.path())).filter(ours).collect())
}

/// The names after the colon in the first line of a dependency file; spaces in names are escaped.
fn sources(list: &str) -> Vec<PathBuf> {
    let names = list.lines().next().and_then(|line| line.split_once(": ")).map_or("", |(_, names)| names);
    let names = names.replace("\\ ", "\0");
    names.split(' ').filter(|name| !name.is_empty()).map(|name| name.replace('\0', " ").into()).collect()
}

/// The binary with a clean environment: no setting of the user who runs the test reaches it.
pub fn jobhall() -> Command {
    let mut command = Command::new(binary());
    for name in ["JOBHALL_SERVER", "JOBHALL_TOKEN", "JOBHALL_DATA", "JOBHALL_TOKEN_FILE", "JOBHALL_COLOR"] {
        command.env_remove(name);
    }
    // Servers of other tests and of the user who runs the tests are not found, nor do these write records there.
    command.env("XDG_RUNTIME_DIR", "/proc/none").env("XDG_STATE_HOME", "/proc/none");
    command.env("NO_COLOR", "1");
    command
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn a_binary_that_is_missing_or_old_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (binary, deps) = (folder.path().join("jobhall"), folder.path().join("deps"));
        let (source, library) = (folder.path().join("a b.rs"), folder.path().join("lib.rs"));
        assert!(is_fresh(&binary).unwrap_err().contains("jobhall: No such file"));
        let write = |path: &Path, second: u64| {
            let file = std::fs::File::create(path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(second)).unwrap();
        };
        let list = |name: &str, source: &Path| {
            let text = format!("out: {}\n", source.display().to_string().replace(' ', "\\ "));
            std::fs::write(deps.join(name), text).unwrap();
        };
        std::fs::create_dir(&deps).unwrap();
        write(&binary, 10);
        assert!(is_fresh(&binary).is_err(), "nothing is known about it");
        std::fs::hard_link(&binary, deps.join("jobhall-1")).unwrap();
        list("jobhall-1.d", &source);
        write(&deps.join("libjobhall_core-2.rlib"), 8);
        list("jobhall_core-2.d", &library);
        write(&source, 9);
        write(&library, 7);
        assert_eq!(is_fresh(&binary), Ok(()));
        write(&library, 11);
        assert!(is_fresh(&binary).unwrap_err().contains("lib.rs"), "a source of a library is newer");
        write(&library, 7);
        write(&source, 11);
        assert!(is_fresh(&binary).unwrap_err().contains("a b.rs"), "one of its sources is newer");
    }
}
