//! The values used in a run, and an independent model of which worker matches which job and which resources it
//! uses: tables, written by hand, without the grammar.

use jobhall_core::needs::{Abilities, Accepts, Needs, Uses};
use jobhall_core::{JobSpec, Key, QueueName, TypeName, WorkerName};

/// Types of jobs; the last has external work.
pub(crate) const TYPES: [&str; 4] = ["exec", "mail", "thumb", "outer"];
/// The number of types without external work.
pub(crate) const PLAIN: usize = 3;
/// The type with external work.
pub(crate) const EXTERNAL: usize = 3;
/// Keys of jobs: few, so that collisions are frequent.
pub(crate) const KEYS: [&str; 4] = ["a", "b", "c", "d"];
pub(crate) const QUEUES: [&str; 2] = ["default", "fast"];
/// The requirements of jobs; no worker matches the fifth before the calm phase. Those after it name workers.
pub(crate) const NEEDS: [&str; 7] =
    ["", "os=linux", "gpu>=1", "lang=rust", "rare", "worker in (w0,w2)", "os=linux, worker!=w1"];
/// The first requirement that names workers.
pub(crate) const NAMING: usize = 5;
/// The abilities of workers; the last matches everything.
pub(crate) const SKILLS: [&str; 5] = [
    "os=linux",
    "os=linux, gpu=2, mem_gb=4",
    "os=mac, lang=[rust,python], mem_gb=3",
    "",
    "os=linux, gpu=4, lang=[rust,go], mem_gb=8, rare",
];
/// The resources of jobs; the last exceeds every worker before the calm phase.
pub(crate) const USES: [&str; 6] = ["", "gpu=1", "gpu=2", "mem_gb=1.5", "gpu=1, mem_gb=2", "gpu=4"];
/// The filters of workers; the first accepts everything.
pub(crate) const ACCEPTS: [&str; 4] = ["", "queue=fast", "type in (mail,thumb)", "queue!=fast, type!=thumb"];

/// The skill that matches every need.
pub(crate) const ABLE: usize = 4;

/// Which abilities match which requirement, in the order of the tables above.
const MEETS: [[bool; 5]; 7] = [
    [true, true, true, true, true],
    [true, true, false, false, true],
    [false, true, false, false, true],
    [false, false, true, false, true],
    [false, false, false, false, true],
    [true, true, true, true, true],
    [true, true, false, false, true],
];

/// An amount of both resources, in thousandths: gpu, mem_gb.
pub(crate) type Amount = [i64; 2];

/// The names of the two resources.
pub(crate) const RESOURCES: [&str; 2] = ["gpu", "mem_gb"];

/// The amounts of the uses above.
const USED: [Amount; 6] = [[0, 0], [1_000, 0], [2_000, 0], [0, 1_500], [1_000, 2_000], [4_000, 0]];

/// The amounts of the abilities above.
const HAS: [Amount; 5] = [[0, 0], [2_000, 4_000], [0, 3_000], [0, 0], [4_000, 8_000]];

/// The resources that a job uses.
pub(crate) fn used(spec: &JobSpec) -> Amount {
    USED[USES.iter().position(|text| *text == spec.uses.as_str()).unwrap_or(0)]
}

/// The resources of a worker with these abilities.
pub(crate) fn has(skill: usize) -> Amount {
    HAS[skill]
}

pub(crate) fn sum(amounts: impl Iterator<Item = Amount>) -> Amount {
    amounts.fold([0, 0], |[gpu, mem], [more_gpu, more_mem]| [gpu + more_gpu, mem + more_mem])
}

/// Whether the used resources fit; resources that are not used are ignored.
pub(crate) fn within(used: Amount, has: Amount) -> bool {
    used.iter().zip(has).all(|(used, has)| *used <= has)
}

/// Whether a worker of this name with these abilities and this filter matches the job.
pub(crate) fn suits(worker: &WorkerName, skill: usize, accepts: usize, spec: &JobSpec) -> bool {
    let need = NEEDS.iter().position(|text| *text == spec.needs.as_str()).unwrap_or(0);
    let (queue, job_type) = (spec.queue.as_str(), spec.job_type.as_str());
    let taken = match accepts {
        1 => queue == "fast",
        2 => job_type == "mail" || job_type == "thumb",
        3 => queue != "fast" && job_type != "thumb",
        _ => true,
    };
    let named = match need {
        5 => ["w0", "w2"].contains(&worker.as_str()),
        6 => worker.as_str() != "w1",
        _ => true,
    };
    MEETS[need][skill] && named && taken && within(used(spec), has(skill))
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

pub(crate) fn uses(at: usize) -> Uses {
    Uses::parse(USES[at]).expect("constant uses")
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
