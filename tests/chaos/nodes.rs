//! Three nodes on a separate database, with all their faults: each node may be killed, suspended or stopped, the
//! database may crash, and every connection to it may be cut.

use std::time::{Duration, SystemTime};

use jobhall_core::Time;
use jobhall_sim::Stored;
use jobhall_tests::{Rig, Signal, eventually};
use jobhall_throwaway::{Cluster, Database};
use rand::RngExt as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;

use super::ground::Ground;
use super::record::Record;
use super::stored;

const NODES: usize = 3;
/// Long enough for a worker to find the next leader after a kill, short enough for leases to expire within the run.
const LEASE: &str = "15s";
const BACKENDS: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
     WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
const THEFT: &str = "WITH gone AS (DELETE FROM jobhall.jobs WHERE id = (SELECT min(id) FROM jobhall.jobs \
     WHERE state >= 8) RETURNING id) DELETE FROM jobhall.specs WHERE id IN (SELECT id FROM gone) RETURNING id";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gust {
    /// The leader is killed without warning.
    KillHolder,
    /// Any node is killed without warning.
    Kill,
    /// The leader is suspended until another node leads, and then resumed.
    Pause,
    /// Any node is suspended for a moment.
    Doze,
    /// The leader is stopped gracefully.
    Stop,
    /// PostgreSQL stops like in a crash.
    Crash,
    /// The same, for longer than a term of leadership.
    Outage,
    /// Every connection to PostgreSQL is cut.
    Cut,
    /// Not a fault of the system, but of an operator: the row of a completed job is deleted.
    Theft,
}

/// All faults that a correct hall must tolerate.
pub const WEATHER: [Gust; 8] =
    [Gust::KillHolder, Gust::Kill, Gust::Pause, Gust::Doze, Gust::Stop, Gust::Crash, Gust::Outage, Gust::Cut];

/// The current fault.
enum Broken {
    Node(usize),
    Paused(usize),
    Database,
}

pub struct Three {
    nodes: Vec<Rig>,
    database: Database,
    cluster: Cluster,
    weather: Vec<Gust>,
    /// Faults that remain before all are repeated in another order.
    deck: Vec<Gust>,
    broken: Option<Broken>,
    /// Since when, and at which epoch, the leadership is without its node.
    vacant: Option<(Time, u64)>,
}

impl Three {
    /// Starts three nodes, which will have these faults.
    pub fn new(weather: &[Gust]) -> Three {
        let cluster = Cluster::start();
        let database = cluster.database();
        let (nodes, weather) = (Vec::new(), weather.to_vec());
        let mut three =
            Three { nodes, database, cluster, weather, deck: Vec::new(), broken: None, vacant: None };
        for at in 0..NODES {
            three.nodes.push(Rig::new());
            if at > 0 {
                // The first node has created the administrator's token; it is valid on all nodes.
                let (from, to) = (three.nodes[0].data(), three.nodes[at].data());
                three.nodes[at].share_key(&three.nodes[0]);
                std::fs::copy(from.join("admin.token"), to.join("admin.token")).unwrap();
            }
            three.start_node(at);
        }
        three
    }

    fn start_node(&mut self, at: usize) {
        let url = self.database.url();
        self.nodes[at].start(&["server", "--log", "info", "--lease", LEASE, "--database", &url]);
    }

    fn epoch(&self) -> u64 {
        self.database.sql("SELECT epoch FROM jobhall.leadership").trim().parse().unwrap()
    }

    /// The current leader; records that it is about to be lost.
    fn holder(&mut self) -> usize {
        self.vacant = Some((now(), self.epoch()));
        let url = self.database.sql("SELECT url FROM jobhall.leadership");
        self.nodes.iter().position(|node| node.url() == url.trim()).unwrap()
    }

    /// Waits until another node leads.
    fn until_taken(&mut self, record: &Record) {
        let Some((from, epoch)) = self.vacant.take() else { return };
        eventually("another leader", || self.epoch() > epoch);
        record.count("leaderships taken over");
        record.book().changes.push((from, now()));
    }

    fn stop_node(&mut self, at: usize) {
        self.nodes[at].hall().signal(Signal::TERM);
        let ended = self.nodes[at].hall().wait();
        assert!(ended.success(), "a node that is told to stop does so well\n{}", self.nodes[at].said("hall"));
    }
}

impl Ground for Three {
    const HANDS: u64 = 3;
    const PROCESSES: usize = 3;

    fn rig(&self) -> &Rig {
        &self.nodes[0]
    }

    fn places(&self, number: usize) -> String {
        let mut urls: Vec<_> = self.nodes.iter().map(Rig::url).collect();
        urls.rotate_left(number % NODES);
        urls.join(",")
    }

    async fn strike(&mut self, _: u64, random: &mut StdRng, record: &Record) {
        tokio::time::sleep(Duration::from_millis(random.random_range(200..3_000))).await;
        if self.deck.is_empty() {
            self.deck.clone_from(&self.weather);
            self.deck.shuffle(random);
        }
        let gust = self.deck.pop().unwrap();
        println!("{:>6} ms  {gust:?}", record.now() / 1_000);
        match gust {
            Gust::KillHolder | Gust::Kill => {
                let some = random.random_range(0..NODES);
                let at = if gust == Gust::Kill { some } else { self.holder() };
                self.nodes[at].hall().kill();
                record.count("nodes killed");
                self.broken = Some(Broken::Node(at));
            }
            Gust::Pause => {
                let at = self.holder();
                self.nodes[at].hall().signal(Signal::STOP);
                record.count("nodes held up");
                self.broken = Some(Broken::Paused(at));
            }
            Gust::Doze => {
                let at = random.random_range(0..NODES);
                self.nodes[at].hall().signal(Signal::STOP);
                tokio::time::sleep(Duration::from_millis(random.random_range(200..4_000))).await;
                self.nodes[at].hall().signal(Signal::CONT);
                record.count("nodes that dozed");
            }
            Gust::Stop => {
                let at = self.holder();
                self.stop_node(at);
                record.count("nodes stopped");
                self.broken = Some(Broken::Node(at));
            }
            Gust::Crash => {
                self.cluster.stop_immediate();
                record.count("crashes of the database");
                self.broken = Some(Broken::Database);
                tokio::time::sleep(Duration::from_millis(random.random_range(0..2_000))).await;
            }
            Gust::Outage => {
                self.holder();
                self.cluster.stop_immediate();
                record.count("outages of the database");
                self.broken = Some(Broken::Database);
                tokio::time::sleep(Duration::from_millis(random.random_range(7_000..10_000))).await;
            }
            Gust::Cut => {
                let cut: u64 = self.database.sql(BACKENDS).trim().parse().unwrap();
                assert!(cut > 0, "nodes have connections");
                record.count("cuts of all connections");
            }
            Gust::Theft => {
                eventually("a completed job", || !self.database.sql(THEFT).trim().is_empty());
                record.count("rows stolen");
            }
        }
    }

    async fn heal(&mut self, record: &Record) {
        match self.broken.take() {
            Some(Broken::Node(at)) => {
                self.until_taken(record);
                self.start_node(at);
            }
            Some(Broken::Paused(at)) => {
                self.until_taken(record);
                self.nodes[at].hall().signal(Signal::CONT);
            }
            Some(Broken::Database) => {
                self.cluster.start_again();
                self.until_taken(record);
            }
            None => {}
        }
    }

    fn stop(&mut self) {
        (0..NODES).for_each(|at| self.stop_node(at));
    }

    fn start(&mut self) {
        (0..NODES).for_each(|at| self.start_node(at));
    }

    async fn stored(&self) -> Stored {
        stored::in_database(&self.database).await
    }
}

/// The current time on the clock that the nodes use too.
fn now() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Time::from_ms(i64::try_from(since.as_millis()).unwrap()).unwrap()
}
