//! The hall under test: one node with a SQLite file. `nodes` has the other kind.

use std::path::Path;
use std::time::Duration;

use jobhall_sim::Stored;
use jobhall_tests::{Process, Rig, Signal, jobhall};
use rand::RngExt as _;
use rand::rngs::StdRng;

use super::record::Record;
use super::stored;

const SERVER: [&str; 3] = ["server", "--lease", "3s"];
/// After this many kills the server runs long enough for leases to expire.
const LONG: u64 = 25;

/// A hall and its faults.
pub trait Ground {
    /// Number of workers in the test, which use long polls.
    const HANDS: u64;
    /// Number of worker processes, which use sessions.
    const PROCESSES: usize;

    /// The rig with the directory of the run, from which workers are started.
    fn rig(&self) -> &Rig;
    /// All addresses of the hall; each number starts with a different one.
    fn places(&self, number: usize) -> String;
    /// Injects a fault after a while.
    async fn strike(&mut self, turn: u64, random: &mut StdRng, record: &Record);
    /// Repairs the fault.
    async fn heal(&mut self, record: &Record);
    /// Stops everything gracefully.
    fn stop(&mut self);
    /// Starts everything after that.
    fn start(&mut self);
    /// The content of the store after the stop.
    async fn stored(&self) -> Stored;

    fn token(&self) -> String {
        self.rig().token()
    }

    /// The directory of the run.
    fn folder(&self) -> &Path {
        self.rig().folder()
    }

    fn worker(&self, number: usize, file: &str) -> Process {
        let (name, places) = (format!("worker-{number}"), self.places(number));
        let mut command = jobhall();
        command.args(["worker", "--name", &name, "--server", &places, "--config", file]);
        command.env("JOBHALL_TOKEN", self.token());
        self.rig().spawn(command, &name)
    }
}

/// One node, which is killed repeatedly.
pub struct One(Rig);

impl One {
    /// Starts the node and waits until it is ready.
    pub fn new() -> One {
        One(Rig::server(&SERVER[1..]))
    }
}

impl Ground for One {
    const HANDS: u64 = 5;
    const PROCESSES: usize = 2;

    fn rig(&self) -> &Rig {
        &self.0
    }

    fn places(&self, _: usize) -> String {
        self.0.url()
    }

    async fn strike(&mut self, turn: u64, random: &mut StdRng, _: &Record) {
        let up = if turn.is_multiple_of(LONG) { 4_500 } else { random.random_range(10..500) };
        tokio::time::sleep(Duration::from_millis(up)).await;
        self.0.hall().kill();
    }

    async fn heal(&mut self, _: &Record) {
        self.0.start(&SERVER);
    }

    fn stop(&mut self) {
        self.0.hall().signal(Signal::TERM);
        assert!(self.0.hall().wait().success(), "the server stops with success");
    }

    fn start(&mut self) {
        self.0.start(&SERVER);
    }

    async fn stored(&self) -> Stored {
        stored::in_file(&self.0.data()).await
    }
}
