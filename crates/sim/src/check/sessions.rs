//! Sessions: each lives as long as its own lease, and those of a process that began anew end at once.

use jobhall_core::{JobId, WorkerName};

use super::{Checker, Invariant, Seen};

impl Seen {
    /// A session that was opened now.
    pub fn new(worker: WorkerName, (skill, accepts): (usize, usize), lease_ms: u64, now: u64) -> Seen {
        Seen {
            worker,
            skill,
            accepts,
            lease_ms,
            renewed: now,
            renewal_came: now,
            announced: false,
            connected: true,
            closed: false,
            ended: false,
            replaced: false,
            assigned: 0,
        }
    }
}

impl Checker {
    /// The process of a worker began anew, so its disconnected sessions are to end.
    pub fn began_anew(&mut self, worker: &WorkerName) {
        self.anew.insert(worker.clone());
        let old = self.sessions.values_mut().filter(|seen| seen.worker == *worker);
        for seen in old.filter(|seen| !seen.connected && !seen.ended) {
            seen.replaced = true;
            self.seen.push(("orders", "ended by a fresh session"));
        }
    }

    /// Whether the worker that holds a job, as stored, began anew since the last start of the server.
    pub(super) fn holder_began_anew(&self, id: JobId) -> bool {
        let lease = self.rows.get(&id).and_then(|row| row.status.state.leased());
        lease.is_some_and(|held| self.anew.contains(&held.lease.worker))
    }

    /// The kernel ran its timers: no session may be beyond its lease, and none may be left that was to end.
    pub(super) fn sessions_in_time(&mut self) {
        let now = self.now.mono;
        let live = || self.sessions.values().filter(|seen| !seen.ended && !seen.closed);
        let beyond = |seen: &&Seen| now > seen.renewed.max(seen.renewal_came) + seen.lease_ms;
        if let Some(seen) = live().find(|seen| seen.replaced) {
            let text = format!("a disconnected session of {} outlives the start of its process", seen.worker);
            return self.fail(Invariant::Fresh, &[], text);
        }
        if let Some(seen) = live().find(beyond) {
            let (worker, lease_ms) = (&seen.worker, seen.lease_ms);
            let silent = now - seen.renewed;
            let text = format!(
                "the session of {worker} lives {silent} ms after its last renewal, its lease is {lease_ms}"
            );
            self.fail(Invariant::Renewed, &[], text);
        }
    }
}
