//! Several nodes of one hall, each a process with its own data directory and port, on a throwaway database.

use std::path::PathBuf;
use std::process::Output;

use jobhall_client::Client;
use jobhall_tests::{Process, Rig, eventually, jobhall};
use jobhall_throwaway::{Cluster, Database, Pooler, Shared};
use serde_json::Value;

/// The nodes; the first one led first.
pub struct Crowd {
    pub nodes: Vec<Rig>,
    pub token: String,
    pub database: Database,
    /// The flags for the database.
    told: Vec<String>,
    _pooler: Option<Pooler>,
    _server: Option<Shared>,
}

impl Crowd {
    /// Starts this many nodes with these additional arguments; all are ready.
    pub fn of(count: usize, words: &[&str]) -> Crowd {
        let server = Cluster::shared();
        let database = server.database();
        Crowd { _server: Some(server), ..Crowd::on(database, 0, &[]) }.with(count, words)
    }

    /// The same on this database, whose server a test may stop.
    pub fn on(database: Database, count: usize, words: &[&str]) -> Crowd {
        let told = vec!["--database".to_owned(), database.url()];
        Crowd { nodes: Vec::new(), token: String::new(), database, told, _pooler: None, _server: None }
            .with(count, words)
    }

    /// Nodes behind a pooler in transaction mode, with or without a direct connection.
    pub fn pooled(count: usize, direct: bool) -> Crowd {
        let server = Cluster::shared();
        // Fewer connections than one node opens.
        let (database, pooler) = (server.database(), server.pgbouncer(3));
        let mut told = vec!["--database-pooled".to_owned(), "--database".to_owned()];
        told.push(pooler.url(database.name()));
        if direct {
            told.extend(["--database-direct".to_owned(), database.url()]);
        }
        let crowd = Crowd::on(database, 0, &[]);
        Crowd { told, _pooler: Some(pooler), _server: Some(server), ..crowd }.with(count, &[])
    }

    fn with(mut self, count: usize, words: &[&str]) -> Crowd {
        for _ in 0..count {
            self.add(words);
        }
        self
    }

    pub fn add(&mut self, words: &[&str]) {
        let mut node = Rig::new();
        if self.token.is_empty() {
            self.serve(&mut node, words);
            self.token = node.token();
        } else {
            // The first node has created the administrator's token; it is valid on all nodes.
            node.share_key(&self.nodes[0]);
            std::fs::copy(self.nodes[0].data().join("admin.token"), node.data().join("admin.token")).unwrap();
            self.serve(&mut node, words);
        }
        self.nodes.push(node);
    }

    /// Starts a node with these additional arguments.
    fn serve(&self, node: &mut Rig, words: &[&str]) {
        let told: Vec<_> = self.told.iter().map(String::as_str).collect();
        node.start(&[&["server", "--log", "info"], told.as_slice(), words].concat());
    }

    /// Restarts a node that has ended.
    pub fn start(&mut self, at: usize) {
        let mut node = self.nodes.remove(at);
        self.serve(&mut node, &[]);
        self.nodes.insert(at, node);
    }

    /// The URLs of all nodes.
    pub fn urls(&self) -> String {
        self.nodes.iter().map(Rig::url).collect::<Vec<_>>().join(",")
    }

    /// A client of one node.
    pub fn client(&self, at: usize) -> Client {
        Client::new(&self.nodes[at].url(), Some(&self.token)).unwrap()
    }

    /// The JSON output of a command against one node.
    pub fn json(&self, at: usize, words: &[&str]) -> Value {
        self.nodes[at].json(&[words, &["--json"]].concat())
    }

    /// Runs a command against one node, which must succeed.
    pub fn run(&self, at: usize, words: &[&str]) -> Output {
        let output = self.nodes[at].run(words);
        let said = jobhall_tests::text(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
        output
    }

    /// Submits a script to one node; returns the id.
    pub fn submit(&self, at: usize, script: &str, more: &[&str]) -> String {
        let params = serde_json::json!({ "script": script }).to_string();
        let words = [&["job", "submit", "exec", "--params", params.as_str()], more].concat();
        self.json(at, &words)["id"].to_string()
    }

    /// A job as shown by one node.
    pub fn job(&self, at: usize, id: &str) -> Value {
        self.json(at, &["job", "show", id])
    }

    /// Waits until one node shows a job in this state.
    pub fn until(&self, at: usize, id: &str, state: &str) {
        eventually(&format!("job {id} to be {state}"), || self.job(at, id)["state"] == state);
    }

    /// A worker with this name and these server addresses, with these additional arguments.
    pub fn worker(&self, name: &str, server: &str, words: &[&str]) -> Process {
        let made = self.json(0, &["token", "create", name, "--role", "worker"]);
        let mut command = jobhall();
        command.args(["worker", "--name", name, "--server", server, "--allow", "exec"]).args(words);
        command.env("JOBHALL_TOKEN", made["secret"].as_str().unwrap());
        self.nodes[0].spawn(command, name)
    }

    /// The leader according to this node.
    pub fn holder(&self, asked: usize) -> Option<usize> {
        let output = self.nodes[asked].run(&["nodes", "--json"]);
        let nodes: Value = serde_json::from_slice(&output.stdout).ok()?;
        let holder = nodes.as_array()?.iter().find(|node| node["role"] == "leader")?;
        self.nodes.iter().position(|node| holder["url"] == node.url())
    }

    /// The URL of the leader according to the database.
    pub fn holder_url(&self) -> String {
        self.database.sql("SELECT url FROM jobhall.leadership")
    }

    /// The number of changes of leadership.
    pub fn epoch(&self) -> u64 {
        self.database.sql("SELECT epoch FROM jobhall.leadership").trim().parse().unwrap()
    }

    /// A file for the use of a test.
    pub fn file(&self, name: &str) -> PathBuf {
        self.nodes[0].folder().join(name)
    }
}
