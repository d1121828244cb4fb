//! Several nodes of one hall, each a process of its own with its own data directory and port, on a database that is
//! thrown away with them.

use std::path::PathBuf;
use std::process::Output;

use jobhall_client::Client;
use jobhall_tests::{Process, Rig, eventually, jobhall};
use jobhall_throwaway::{Cluster, Database, Pooler, Shared};
use serde_json::Value;

/// The nodes, the first of which was first on the leader.
pub struct Crowd {
    pub nodes: Vec<Rig>,
    pub token: String,
    pub database: Database,
    /// How nodes are told of the database.
    told: Vec<String>,
    _pooler: Option<Pooler>,
    _server: Option<Shared>,
}

impl Crowd {
    /// So many nodes, all ready, with these further words.
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

    /// So many nodes behind a pooler in transaction mode, with a way past it or without one.
    pub fn pooled(count: usize, direct: bool) -> Crowd {
        let server = Cluster::shared();
        // Fewer connections than one node has of its own.
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

    /// One more node.
    pub fn add(&mut self, words: &[&str]) {
        let mut node = Rig::new();
        if self.token.is_empty() {
            self.serve(&mut node, words);
            self.token = node.token();
        } else {
            // The first node has made the administrator's token; it is good at every other.
            std::fs::create_dir_all(node.data()).unwrap();
            std::fs::copy(self.nodes[0].data().join("admin.token"), node.data().join("admin.token")).unwrap();
            self.serve(&mut node, words);
        }
        self.nodes.push(node);
    }

    /// Starts a node with these further words.
    fn serve(&self, node: &mut Rig, words: &[&str]) {
        let told: Vec<_> = self.told.iter().map(String::as_str).collect();
        node.start(&[&["server", "--log", "info"], told.as_slice(), words].concat());
    }

    /// Starts a node again that has ended.
    pub fn start(&mut self, at: usize) {
        let mut node = self.nodes.remove(at);
        self.serve(&mut node, &[]);
        self.nodes.insert(at, node);
    }

    /// Where all of them are.
    pub fn urls(&self) -> String {
        self.nodes.iter().map(Rig::url).collect::<Vec<_>>().join(",")
    }

    /// A client that asks one of them.
    pub fn client(&self, at: usize) -> Client {
        Client::new(&self.nodes[at].url(), Some(&self.token)).unwrap()
    }

    /// What a command prints as JSON that asks one of them.
    pub fn json(&self, at: usize, words: &[&str]) -> Value {
        self.nodes[at].json(&[words, &["--json"]].concat())
    }

    /// Runs a command that asks one of them, and must go well.
    pub fn run(&self, at: usize, words: &[&str]) -> Output {
        let output = self.nodes[at].run(words);
        let said = jobhall_tests::text(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
        output
    }

    /// Submits a script at one of them; the id.
    pub fn submit(&self, at: usize, script: &str, more: &[&str]) -> String {
        let params = serde_json::json!({ "script": script }).to_string();
        let words = [&["job", "submit", "exec", "--params", params.as_str()], more].concat();
        self.json(at, &words)["id"].to_string()
    }

    /// A job as one of them tells it.
    pub fn job(&self, at: usize, id: &str) -> Value {
        self.json(at, &["job", "show", id])
    }

    /// Waits until one of them tells that a job is in this state.
    pub fn until(&self, at: usize, id: &str, state: &str) {
        eventually(&format!("job {id} to be {state}"), || self.job(at, id)["state"] == state);
    }

    /// A worker of this name that knows these addresses, with these further words.
    pub fn worker(&self, name: &str, server: &str, words: &[&str]) -> Process {
        let made = self.json(0, &["token", "create", name, "--role", "worker"]);
        let mut command = jobhall();
        command.args(["worker", "--name", name, "--server", server, "--allow-exec"]).args(words);
        command.env("JOBHALL_TOKEN", made["secret"].as_str().unwrap());
        self.nodes[0].spawn(command, name)
    }

    /// Which one leads, as this one tells it.
    pub fn holder(&self, asked: usize) -> Option<usize> {
        let output = self.nodes[asked].run(&["nodes", "--json"]);
        let nodes: Value = serde_json::from_slice(&output.stdout).ok()?;
        let holder = nodes.as_array()?.iter().find(|node| node["role"] == "leader")?;
        self.nodes.iter().position(|node| holder["url"] == node.url())
    }

    /// Where the one is that leads, as the database has it.
    pub fn holder_url(&self) -> String {
        self.database.sql("SELECT url FROM jobhall.leadership")
    }

    /// How often the leadership changed hands.
    pub fn epoch(&self) -> u64 {
        self.database.sql("SELECT epoch FROM jobhall.leadership").trim().parse().unwrap()
    }

    /// A file for whatever a test writes down.
    pub fn file(&self, name: &str) -> PathBuf {
        self.nodes[0].folder().join(name)
    }
}
