//! The measured processes: the server, a worker, and the server for comparison.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::{Failed, Options};

const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// A server in a separate process, stopped on drop.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// The address it listens on.
    pub address: String,
    /// The token for requests.
    pub token: String,
}

impl Server {
    /// A server with the store in this directory, which is created if there is none.
    pub async fn hall(binary: &Path, data: &Path) -> Result<Server, Failed> {
        let mut command = Command::new(binary);
        command.args(["server", "--listen", "127.0.0.1:0", "--data"]).arg(data);
        let (child, line) = first_line(&mut command).await?;
        let address = line.trim().rsplit("//").next().ok_or("a hall without an address")?.to_owned();
        let token = fs::read_to_string(data.join("admin.token"))?.trim().to_owned();
        Ok(Server { child, address, token })
    }

    /// The nodes of a hall: one with an empty store, or the requested number on the database. The first one leads,
    /// because it starts before the others.
    pub async fn nodes(options: &Options, count: usize) -> Result<Vec<Server>, Failed> {
        let Some(database) = &options.database else {
            return Ok(vec![Server::hall(&options.binary, &options.directory.join("hall")).await?]);
        };
        let mut nodes: Vec<Server> = Vec::new();
        for number in 1..=count {
            let data = options.directory.join(format!("node-{number}"));
            if number > 1 {
                fs::create_dir_all(&data)?;
                let _ = fs::copy(options.directory.join("node-1/hall.key"), data.join("hall.key"));
            }
            let mut command = Command::new(&options.binary);
            command.args(["server", "--listen", "127.0.0.1:0", "--database", database, "--data"]).arg(&data);
            let (child, line) = first_line(&mut command).await?;
            let address = line.trim().rsplit("//").next().ok_or("a node without an address")?.to_owned();
            let token = match nodes.first() {
                Some(first) => first.token.clone(),
                None => fs::read_to_string(data.join("admin.token"))?.trim().to_owned(),
            };
            nodes.push(Server { child, address, token });
        }
        Ok(nodes)
    }

    /// The server for comparison.
    pub async fn echo() -> Result<Server, Failed> {
        let (child, line) = first_line(Command::new(env::current_exe()?).arg("echo")).await?;
        Ok(Server { child, address: line.trim().to_owned(), token: "none".to_owned() })
    }

    /// Its resident memory, in bytes.
    pub fn memory(&self) -> Result<u64, Failed> {
        self.status("VmRSS:")
    }

    /// The largest resident memory since it was started, in bytes.
    pub fn peak_memory(&self) -> Result<u64, Failed> {
        self.status("VmHWM:")
    }

    fn status(&self, name: &str) -> Result<u64, Failed> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()?))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let line = line.ok_or("a process without memory")?.trim().trim_end_matches(" kB");
        Ok(line.parse::<u64>()? * 1_024)
    }

    /// Stops it as a service manager does, and waits until it has ended.
    pub async fn stop(mut self) -> Result<(), Failed> {
        let pid = self.pid()?.to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().await?;
        let ended = timeout(STOP_TIMEOUT, self.child.wait()).await??;
        if sent.success() && ended.success() {
            return Ok(());
        }
        Err(format!("the server ended with {ended}").into())
    }

    /// CPU time that it has used, in seconds.
    pub fn cpu_seconds(&self) -> Result<f64, Failed> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid()?))?;
        let (_, fields) = stat.rsplit_once(')').ok_or("a stat file without a name")?;
        let mut ticks = fields.split_whitespace().skip(11).map(str::parse::<f64>);
        let mut next = || ticks.next().ok_or("a short stat file");
        Ok((next()?? + next()??) / 100.0)
    }

    fn pid(&self) -> Result<u32, Failed> {
        self.child.id().ok_or_else(|| "the server has ended".into())
    }
}

/// A worker with two slots that runs any command.
pub fn worker(binary: &Path, hall: &Server) -> Result<Child, Failed> {
    let server = format!("http://{}", hall.address);
    let mut command = Command::new(binary);
    command.args(["worker", "--name", "bench", "--slots", "2", "--allow", "exec", "--server", &server]);
    command.env("JOBHALL_TOKEN", &hall.token).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    Ok(command.spawn()?)
}

async fn first_line(command: &mut Command) -> Result<(Child, String), Failed> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let out = child.stdout.take().ok_or("a process without output")?;
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line).await?;
    if line.is_empty() {
        return Err(format!("{command:?} ended immediately").into());
    }
    Ok((child, line))
}
