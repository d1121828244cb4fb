//! The attacks. Each asserts what the attacker is refused or how it is bounded, and goes on until it is dropped. Limits
//! that are too high to reach here are lowered by `--limits`.

mod connections;
mod jobs;
mod reads;

use jobhall_tests::Rig;
use serde_json::Value;

use crate::caller::Caller;
use crate::under_attack::UnderAttack;

/// The lowered limits: long polls and streams, and sessions, of one token, and open jobs of one queue.
const WAITING: usize = 100;
const SESSIONS: usize = 50;
const OPEN_JOBS: usize = 20_000;

#[derive(Clone, Copy, Debug)]
pub enum Attack {
    SlowReaders,
    Lists,
    History,
    Types,
    Uploads,
    Results,
    Outcomes,
    Ranges,
    Streams,
    Submits,
    Sessions,
}

impl Attack {
    /// The limits of the attacked server that are lower than usual. In a long version each connection that does not read is
    /// cut, and opened again, several times; usually that takes 30 s.
    pub fn limits(self, is_long: bool) -> String {
        match self {
            Attack::SlowReaders => format!("write_ms={}", if is_long { 5_000 } else { 1_000 }),
            Attack::Submits => format!("open_jobs_per_queue={OPEN_JOBS}"),
            _ => format!("waiting_per_token={WAITING},sessions_per_token={SESSIONS}"),
        }
    }
}

/// The attacker: a client and a worker of one queue. The administrator looks at what it has done.
pub struct Ground {
    address: std::net::SocketAddr,
    admin: Caller,
    client: Caller,
    worker: Caller,
}

impl Ground {
    pub fn new(rig: &Rig) -> Ground {
        Ground {
            address: rig.address(),
            admin: Caller::admin(rig),
            client: Caller::new(rig, "evil-client", "client", "evil"),
            worker: Caller::new(rig, "evil-worker", "worker", "evil"),
        }
    }

    /// Begins an attack; a large one in the long version.
    pub fn attack(&self, attack: Attack, large: bool) -> UnderAttack {
        let scale = if large { 4 } else { 1 };
        match attack {
            Attack::SlowReaders => self.slow_readers(32 * scale),
            Attack::Lists => self.lists(200),
            Attack::History => self.history(24 * scale),
            Attack::Types => self.types(2 * scale),
            Attack::Uploads => self.uploads(),
            Attack::Results => self.results(),
            Attack::Outcomes => self.outcomes(),
            Attack::Ranges => self.ranges((16 << 20) * scale),
            Attack::Streams => self.streams(150 * scale),
            Attack::Submits => self.submits(),
            Attack::Sessions => self.sessions(80 * scale),
        }
    }

    fn submit(&self, job: &str) -> Value {
        self.client.ask("POST", "jobs", "", job)
    }
}
