//! Random sequences of puts, removals and collections: no object that a live attempt refers to is lost, and in the
//! end nothing else is left. Time is an argument, so hours pass without waiting.

use std::collections::{BTreeMap, BTreeSet};

use crate::fixture::{FileStore, HOUR_MS, NO_LIMIT, NOW_MS};
use crate::suite::cases;
use crate::{Hall, hall};
use jobhall_blobs::{
    Artifact, ArtifactName, AttemptKey, BlobError, Collected, Digest, KeepError, MIN_AGE_MS, MediaType,
    Sweep, Verdicts,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Act {
    /// Stores content without a reference.
    Put(u8),
    /// Stores content and keeps it as an artifact of a job under a name.
    Keep {
        job: u8,
        name: u8,
        content: u8,
    },
    /// Keeps content that was stored earlier, if it still exists.
    KeepLate {
        job: u8,
        name: u8,
        content: u8,
    },
    /// Retention removes a job.
    Prune(u8),
    Wait(u64),
    /// A whole walk.
    Collect,
    /// Some steps of a walk that is then aborted, or of one that continues.
    Step(usize),
    /// The process restarts.
    Reopen,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        2 => any::<u8>().prop_map(|content| Act::Put(content % 12)),
        6 => (0..6_u8, 0..3_u8, 0..12_u8).prop_map(|(job, name, content)| Act::Keep { job, name, content }),
        4 => (0..6_u8, 0..3_u8, 0..12_u8).prop_map(|(job, name, content)| Act::KeepLate { job, name, content }),
        2 => (0..6_u8).prop_map(Act::Prune),
        3 => (0..3 * HOUR_MS).prop_map(Act::Wait),
        2 => Just(Act::Collect),
        4 => (1..400_usize).prop_map(Act::Step),
        1 => Just(Act::Reopen),
    ]
}

fn content(n: u8) -> Vec<u8> {
    format!("content {n}").into_bytes()
}

struct World {
    hall: Option<Hall>,
    now_ms: u64,
    /// Removed jobs get new numbers, because ids are never used twice.
    jobs: BTreeMap<u8, u64>,
    removed: u64,
    kept: BTreeMap<(u64, u8), u8>,
    sweep: Option<Sweep>,
    collected: Collected,
}

impl World {
    fn new() -> World {
        World {
            hall: Some(hall()),
            now_ms: NOW_MS,
            jobs: (0..6).map(|job| (job, u64::from(job) + 1)).collect(),
            removed: 0,
            kept: BTreeMap::new(),
            sweep: None,
            collected: Collected::default(),
        }
    }

    fn hall(&self) -> &Hall {
        self.hall.as_ref().unwrap()
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Put(n) => self.put(n),
            Act::Keep { job, name, content } => {
                self.put(content);
                assert!(self.keep(job, name, content), "a stored object can be kept");
            }
            Act::KeepLate { job, name, content } => {
                let there = self.hall().blobs.objects().exists(&Digest::of(&self::content(content))).unwrap();
                assert_eq!(self.keep(job, name, content), there);
            }
            Act::Prune(job) => self.prune(job),
            Act::Wait(ms) => self.now_ms += ms,
            Act::Collect => self.collect(),
            Act::Step(most) => self.step(most),
            Act::Reopen => {
                self.sweep = None;
                self.hall = self.hall.take().map(Hall::reopened);
            }
        }
        self.check();
    }

    fn put(&self, n: u8) {
        self.hall().blobs.objects().put(&mut content(n).as_slice(), NO_LIMIT, self.now_ms).unwrap();
    }

    /// Returns whether the content existed.
    fn keep(&mut self, job: u8, name: u8, n: u8) -> bool {
        let artifact = Artifact {
            name: ArtifactName::new(&format!("name-{name}")).unwrap(),
            digest: Digest::of(&content(n)),
            size: content(n).len() as u64,
            media_type: MediaType::unknown(),
            at_ms: self.now_ms,
        };
        let job = self.jobs[&job];
        match self.hall().blobs.keep(AttemptKey { job, claim: 1 }, &artifact) {
            Ok(()) => {
                self.kept.insert((job, name), n);
                true
            }
            Err(KeepError::Blob(BlobError::Missing { .. })) => false,
            Err(error) => panic!("{error}"),
        }
    }

    fn prune(&mut self, job: u8) {
        self.removed += 1;
        let before = self.jobs.insert(job, 6 * self.removed + u64::from(job) + 1).unwrap();
        self.kept.retain(|(kept, _), _| *kept != before);
    }

    fn collect(&mut self) {
        self.sweep = None;
        self.step(usize::MAX);
    }

    fn step(&mut self, most: usize) {
        let mut sweep = self.sweep.take().unwrap_or_else(|| Sweep::new(self.now_ms, MIN_AGE_MS));
        let live: BTreeSet<u64> = self.jobs.values().copied().collect();
        let gone = |attempt: AttemptKey| !live.contains(&attempt.job);
        let verdicts = Verdicts { referenced: &|_| false, pinned: &|_| false, gone: &gone };
        self.collected += sweep.step(&self.hall().blobs, verdicts, most).unwrap();
        self.sweep = (!sweep.is_over()).then_some(sweep);
    }

    /// All artifacts exist under their names, and are valid.
    fn check(&self) {
        let blobs = &self.hall().blobs;
        for ((job, name), n) in &self.kept {
            let name = ArtifactName::new(&format!("name-{name}")).unwrap();
            let found = blobs.artifacts().find(AttemptKey { job: *job, claim: 1 }, &name).unwrap();
            let digest = found.unwrap().digest;
            assert_eq!(digest, Digest::of(&content(*n)));
            blobs.objects().verify(&digest).unwrap();
        }
    }

    fn files(&self, below: &str) -> usize {
        self.hall().place.count(below)
    }
}

/// An old object gets its first reference after the walk has read all manifests.
pub fn a_reference_that_comes_in_the_middle_of_a_walk_saves_its_object() {
    let mut world = World::new();
    world.put(1);
    world.now_ms += 2 * HOUR_MS;
    world.step(1 + 256 + 1);
    assert!(world.sweep.is_some(), "objects are still to come");
    assert!(world.keep(0, 0, 1));
    world.step(usize::MAX);
    world.check();
}

pub fn no_referenced_object_is_lost_and_in_the_end_nothing_else_is_left() {
    any_acts();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(48), ..ProptestConfig::default() })]

    fn any_acts(
        acts in prop::collection::vec(act(), 1..60)
    ) {
        let mut world = World::new();
        acts.iter().for_each(|act| world.act(act));
        world.now_ms += 2 * HOUR_MS;
        world.collect();
        world.check();
        let wanted: BTreeSet<u8> = world.kept.values().copied().collect();
        let attempts: BTreeSet<u64> = world.kept.keys().map(|(job, _)| *job).collect();
        prop_assert_eq!(world.files("objects"), wanted.len());
        prop_assert_eq!(world.files("artifacts"), attempts.len());
    }
}
