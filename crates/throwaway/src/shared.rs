//! One server for all tests that run at the time, in any process.
//!
//! Every process that uses the server holds a shared lock on `users`. A keeper, a shell in a separate session,
//! starts the server and tries every second to take that lock exclusively. After ten successes in a row no test
//! uses the server any more: the keeper stops the server and removes the directory, after renaming it, because
//! removing hundreds of databases takes a while. The lock on `gate` serializes starting and stopping.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::cluster::{Database, SETTINGS, poll, until_ready};
use crate::pooler::Pooler;
use crate::programs::{demote, owned, program};
use crate::template;

const PORT: u16 = 5432;

/// Numbers the databases of this process.
static DATABASES: AtomicU32 = AtomicU32::new(0);

const KEEPER: &str = r#"
"$@" </dev/null >/dev/null 2>>"$DIRECTORY/log" &
server=$!
while kill -0 $server 2>/dev/null; do
    idle=0
    while [ $idle -lt 10 ] && kill -0 $server 2>/dev/null; do
        sleep 1
        if flock --exclusive --nonblock "$USERS" true; then idle=$((idle + 1)); else idle=0; fi
    done
    exec 9>>"$GATE"
    flock --exclusive 9
    if flock --exclusive --nonblock "$USERS" true; then
        kill -QUIT $server 2>/dev/null
        wait $server
        mv "$DIRECTORY" "$DIRECTORY.$server"
    fi
    exec 9>&-
done
rm -rf "$DIRECTORY.$server"
"#;

/// The use of the shared server by this process.
#[derive(Debug)]
pub struct Shared {
    directory: PathBuf,
    _use: File,
}

impl Shared {
    pub(crate) fn join() -> Shared {
        let common = template::common();
        let (directory, gate_path) = (common.join("shared"), common.join("shared.gate"));
        let users_path = common.join("shared.users");
        let gate = lockable(&gate_path);
        gate.lock().expect("the gate opens");
        let users = lockable(&users_path);
        users.lock_shared().expect("use is shared");
        if !answers(&directory) {
            if directory.exists() {
                fs::remove_dir_all(&directory).expect("what a dead server left can be removed");
            }
            owned(&directory);
            template::copy_to(&directory.join("data"));
            keep(&directory, &gate_path, &users_path);
            until_ready(&directory, PORT);
        }
        Shared { directory, _use: users }
    }

    /// A new database; it is removed with the server.
    pub fn database(&self) -> Database {
        let n = DATABASES.fetch_add(1, Ordering::Relaxed);
        Database::create(&self.directory, PORT, &format!("throwaway_{}_{n}", std::process::id()), false)
    }

    /// A pooler in transaction mode in front of it.
    pub fn pgbouncer(&self, connections: u32) -> Pooler {
        Pooler::start(&self.directory, PORT, connections)
    }
}

/// A file that any user of the directory may lock.
fn lockable(path: &Path) -> File {
    let file = File::options().create(true).truncate(false).read(true).write(true).open(path);
    let file = file.expect("a lock can be made");
    crate::programs::own(path);
    file
}

fn answers(directory: &Path) -> bool {
    let mut ready = program("pg_isready");
    ready.args(["--quiet", "--port", &PORT.to_string()]).arg("--host").arg(directory);
    ready.status().is_ok_and(|status| status.success())
}

fn keep(directory: &Path, gate: &Path, users: &Path) {
    let server = program("postgres");
    let mut keeper = Command::new("/usr/bin/setsid");
    keeper.args(["--fork", "sh", "-c", KEEPER, "keeper"]).arg(server.get_program());
    keeper.arg("-D").arg(directory.join("data")).arg("-k").arg(directory).args(SETTINGS);
    keeper.args(["-p", &PORT.to_string()]);
    keeper.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C.UTF-8");
    keeper.env("DIRECTORY", directory).env("GATE", gate).env("USERS", users);
    keeper.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
    keeper.process_group(0);
    demote(&mut keeper);
    let status = keeper.status().expect("a keeper can be started");
    assert!(status.success(), "the keeper did not start: {status}");
    poll("the shared server to begin", || directory.join("log").exists());
}
