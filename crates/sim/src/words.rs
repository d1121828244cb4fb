//! The small vocabulary of a run, and the simulator's own idea of which worker suits which job: a table, written by
//! hand, that knows nothing of the selector grammar.

use jobhall_core::needs::{Abilities, Accepts, Needs};
use jobhall_core::{Key, QueueName, Spec, TypeName, WorkerName};

/// Types of jobs.
pub(crate) const TYPES: [&str; 3] = ["exec", "mail", "thumb"];
/// Keys of jobs: few, so that they meet.
pub(crate) const KEYS: [&str; 4] = ["a", "b", "c", "d"];
/// Queues.
pub(crate) const QUEUES: [&str; 2] = ["default", "fast"];
/// What jobs need; the last suits no worker before the calm.
pub(crate) const NEEDS: [&str; 5] = ["", "os=linux", "gpu>=1", "lang=rust", "rare"];
/// What workers can do; the last can do everything.
pub(crate) const SKILLS: [&str; 5] = [
    "os=linux",
    "os=linux, gpu=2",
    "os=mac, lang=[rust,python]",
    "",
    "os=linux, gpu=4, lang=[rust,go], rare",
];
/// What workers take; the first takes everything.
pub(crate) const ACCEPTS: [&str; 4] = ["", "queue=fast", "type in (mail,thumb)", "queue!=fast, type!=thumb"];

/// The skill that suits every need.
pub(crate) const ABLE: usize = 4;

/// Which skills meet which need, in the order of the tables above.
const MEETS: [[bool; 5]; 5] = [
    [true, true, true, true, true],
    [true, true, false, false, true],
    [false, true, false, false, true],
    [false, false, true, false, true],
    [false, false, false, false, true],
];

/// Whether a worker of this skill, which accepts so, suits the job.
pub(crate) fn suits(skill: usize, accepts: usize, spec: &Spec) -> bool {
    let need = NEEDS.iter().position(|text| *text == spec.needs.as_str()).unwrap_or(0);
    let (queue, job_type) = (spec.queue.as_str(), spec.job_type.as_str());
    let taken = match accepts {
        1 => queue == "fast",
        2 => job_type == "mail" || job_type == "thumb",
        3 => queue != "fast" && job_type != "thumb",
        _ => true,
    };
    MEETS[need][skill] && taken
}

pub(crate) fn type_name(at: usize) -> TypeName {
    TypeName::new(TYPES[at]).expect("a constant name")
}

pub(crate) fn key(at: usize) -> Key {
    Key::new(KEYS[at]).expect("a constant key")
}

pub(crate) fn queue(at: usize) -> QueueName {
    QueueName::new(QUEUES[at]).expect("a constant name")
}

pub(crate) fn needs(at: usize) -> Needs {
    Needs::parse(NEEDS[at]).expect("constant needs")
}

pub(crate) fn abilities(at: usize) -> Abilities {
    Abilities::parse(SKILLS[at]).expect("constant abilities")
}

pub(crate) fn accepts(at: usize) -> Accepts {
    Accepts::parse(ACCEPTS[at]).expect("constant accepts")
}

pub(crate) fn worker_name(at: usize) -> WorkerName {
    WorkerName::new(&format!("w{at}")).expect("a short name")
}
