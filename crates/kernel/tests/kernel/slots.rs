//! A worker of several slots whose attempts wait for sub-jobs.
use std::collections::BTreeMap;

use jobhall_core::{JobId, StateName};
use jobhall_kernel::{Answer, Assignment, Rejected, SessionId, Waited};

use crate::rig::{Hall, passed};

/// A worker with a session and some slots, which says its credit as the real one does.
pub struct Slots {
    pub session: SessionId,
    count: i64,
    heard: i64,
    pub busy: BTreeMap<JobId, Assignment>,
}

impl Slots {
    pub fn new(hall: &mut Hall, count: i64) -> Slots {
        let session = hall.worker("w", "");
        let mut slots = Slots { session, count, heard: 0, busy: BTreeMap::new() };
        slots.tell(hall);
        slots
    }

    pub fn tell(&mut self, hall: &mut Hall) {
        loop {
            hall.credit(self.session, self.heard + self.count - self.busy.len() as i64);
            let assigned = hall.assignments();
            if assigned.is_empty() {
                return;
            }
            self.take(hall, assigned);
        }
    }

    pub fn take(&mut self, hall: &mut Hall, assigned: Vec<(SessionId, Assignment)>) {
        for (session, held) in assigned {
            assert_eq!(session, self.session);
            hall.accept("w", &held).unwrap();
            self.heard += 1;
            self.busy.insert(held.attempt.job, held);
        }
    }

    /// Takes what came because a slot was given back.
    pub fn look(&mut self, hall: &mut Hall) {
        let assigned = hall.assignments();
        self.take(hall, assigned);
        self.tell(hall);
    }

    pub fn end(&mut self, hall: &mut Hall, id: JobId) {
        let held = self.busy.remove(&id).expect("a job at hand");
        hall.report("w", &held, passed()).unwrap();
        self.tell(hall);
    }

    pub fn has(&self) -> Vec<JobId> {
        self.busy.keys().copied().collect()
    }
}

pub fn answered(hall: &mut Hall, ticket: u64) -> Option<Result<Answer, Rejected>> {
    hall.answers.remove(&ticket)
}

pub fn over(hall: &mut Hall, ticket: u64) -> Option<Vec<JobId>> {
    match answered(hall, ticket)? {
        Ok(Answer::Waited(Waited { jobs, over: true })) => Some(jobs),
        other => panic!("{other:?}"),
    }
}

pub fn running(hall: &mut Hall, slots: &Slots) -> usize {
    slots.busy.keys().filter(|id| hall.state(**id) != StateName::Waiting).count()
}
