//! A pgbouncer in transaction mode, as Debian ships it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::cluster::{poll, url};
use crate::programs::{OWNER, demote, own, owned};

/// The port in the name distinguishes sockets.
const PORT: u16 = 6432;

/// A pooler; it ends when it is dropped.
#[derive(Debug)]
pub struct Pooler {
    directory: PathBuf,
    server: Child,
}

impl Pooler {
    pub(crate) fn start(cluster: &Path, port: u16, connections: u32) -> Pooler {
        let directory = tempfile::Builder::new().prefix("jobhall-pgb-").tempdir_in("/tmp");
        let directory = directory.expect("a temporary directory can be made").keep();
        owned(&directory);
        let (cluster, own_directory) = (cluster.display(), directory.display());
        let settings = format!(
            "[databases]\n* = host={cluster} port={port} user={OWNER}\n[pgbouncer]\nlisten_addr =\n\
             listen_port = {PORT}\nunix_socket_dir = {own_directory}\npool_mode = transaction\nauth_type = trust\n\
             auth_file = {own_directory}/users\ndefault_pool_size = {connections}\nmax_client_conn = 500\n\
             logfile = {own_directory}/log\n"
        );
        for (name, text) in [("pgbouncer.ini", settings), ("users", format!("\"{OWNER}\" \"\"\n"))] {
            let path = directory.join(name);
            fs::write(&path, text).expect("settings can be written");
            own(&path);
        }
        let program =
            ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].into_iter().find(|path| Path::new(path).exists());
        let program = program.expect("pgbouncer is needed for this test (Debian: apt-get install pgbouncer)");
        let mut command = Command::new(program);
        command.arg("--quiet").arg(directory.join("pgbouncer.ini")).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        demote(&mut command);
        let server = command.spawn().expect("pgbouncer can be started");
        let pooler = Pooler { directory, server };
        let socket = pooler.directory.join(format!(".s.PGSQL.{PORT}"));
        poll("pgbouncer to answer", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
        pooler
    }

    /// The address of a database through the pooler.
    pub fn url(&self, database: &str) -> String {
        url(&self.directory, PORT, database)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // It may have ended already; the directory is below /tmp.
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}
