//! Classes of jobs that match the same workers.

use crate::name::{QueueName, TypeName};
use crate::needs::{Abilities, Accepts, Needs, Uses};

/// All queued jobs with equal (queue, type, needs, uses). A match with a worker is decided per class, never per job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class {
    /// The queue.
    pub queue: QueueName,
    /// The type.
    pub job_type: TypeName,
    /// What its jobs require of a worker.
    pub needs: Needs,
    /// What each of its jobs uses of a worker's resources.
    pub uses: Uses,
}

impl Class {
    /// Whether a worker with these abilities and accepts matches, apart from its name ([`Needs::admits`]).
    pub fn suits(&self, abilities: &Abilities, accepts: &Accepts) -> bool {
        accepts.admits(self.queue.as_str(), self.job_type.as_str())
            && self.needs.satisfied_by(abilities)
            && self.uses.fits(abilities)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l13_a_worker_suits_only_if_it_accepts_the_job_and_has_the_abilities() {
        let class = |queue: &str, job_type: &str, needs: &str| Class {
            queue: QueueName::new(queue).unwrap(),
            job_type: TypeName::new(job_type).unwrap(),
            needs: Needs::parse(needs).unwrap(),
            uses: Uses::default(),
        };
        let abilities = Abilities::parse("os=linux, gpu=2").unwrap();
        let accepts = Accepts::parse("queue=fast, type!=exec").unwrap();
        assert!(class("fast", "render", "gpu>=1").suits(&abilities, &accepts));
        assert!(class("fast", "render", "").suits(&abilities, &accepts));
        assert!(!class("fast", "render", "gpu>=3").suits(&abilities, &accepts));
        assert!(!class("slow", "render", "gpu>=1").suits(&abilities, &accepts));
        assert!(!class("fast", "exec", "gpu>=1").suits(&abilities, &accepts));
        let using = |uses: &str| Class { uses: Uses::parse(uses).unwrap(), ..class("fast", "render", "") };
        assert!(using("gpu=2").suits(&abilities, &accepts));
        assert!(!using("gpu=2.001").suits(&abilities, &accepts), "more than it has");
        assert!(!using("disk=1").suits(&abilities, &accepts), "nothing of it");
    }
}
