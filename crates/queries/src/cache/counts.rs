//! How often values were found, by command, and why they were not. Everything counts from the start of the server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use jobhall_core::query::{CommandName, Hasher, Identity, Input};
use jobhall_core::{Disposition, Job, Outcome, State, Submitted};

use super::gone::Gone;
use super::{Cache, command_of};
use crate::ask::{Planned, Warmth};
use crate::identity::Blake3;
use crate::registry::COMMANDS_MAX;

/// How often the value of a command was needed, by where it came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandCounts {
    /// It was stored.
    pub hits: u64,
    /// It was being computed for someone else.
    pub joined: u64,
    /// It was computed.
    pub computed: u64,
    /// It was taken from an earlier run on the same bytes.
    pub skipped: u64,
    /// Computing it failed.
    pub failed: u64,
}

/// Why values had to be computed, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misses {
    /// No earlier value is known.
    pub new: u64,
    /// The value of an earlier version of a command is known.
    pub version: u64,
    /// The value was removed because of the bounds of the cache.
    pub evicted: u64,
    /// The value was removed on request.
    pub dropped: u64,
    /// The stored value cannot be read.
    pub damaged: u64,
    /// The stored value has expired.
    pub expired: u64,
}

#[derive(Clone, Copy)]
enum Counted {
    Hit,
    Joined,
    Computed,
    Skipped,
    Failed,
}

type OfCommand = [AtomicU64; 5];

#[derive(Default)]
pub(crate) struct Counts {
    commands: RwLock<BTreeMap<CommandName, Arc<OfCommand>>>,
    misses: [AtomicU64; 6],
    pub evictions: AtomicU64,
}

impl Counts {
    fn count(&self, command: &CommandName, counted: Counted) {
        let known = self.commands.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(counts) = known.get(command) {
            counts[counted as usize].fetch_add(1, Ordering::Relaxed);
            return;
        }
        drop(known);
        let mut known = self.commands.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() < COMMANDS_MAX {
            known.entry(command.clone()).or_default()[counted as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A value of this command was found.
    pub fn hit(&self, command: &CommandName) {
        self.count(command, Counted::Hit);
    }

    /// A job that makes a value has ended.
    pub fn ended(&self, job: &Job) {
        let Some(command) = command_of(job) else { return };
        let counted = match &job.status.state {
            State::Succeeded(success) if success.outcome == Outcome::Skipped => Counted::Skipped,
            State::Succeeded(_) => Counted::Computed,
            State::Failed(_) | State::Crashed(_) => Counted::Failed,
            _ => return,
        };
        self.count(&command, counted);
    }

    pub fn by_command(&self) -> BTreeMap<CommandName, CommandCounts> {
        let of = |counts: &OfCommand| {
            let [hits, joined, computed, skipped, failed] =
                std::array::from_fn(|at| counts[at].load(Ordering::Relaxed));
            CommandCounts { hits, joined, computed, skipped, failed }
        };
        let known = self.commands.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().map(|(name, counts)| (name.clone(), of(counts))).collect()
    }

    pub fn misses(&self) -> Misses {
        let [new, version, evicted, dropped, damaged, expired] =
            std::array::from_fn(|at| self.misses[at].load(Ordering::Relaxed));
        Misses { new, version, evicted, dropped, damaged, expired }
    }
}

impl Cache {
    /// Counts a request that was answered by the value of its last node.
    pub fn answered(&self, planned: &Planned) {
        let last = planned.plan.nodes.last().and_then(|node| node.steps.last());
        if let Some(step) = last {
            self.counts.hit(&step.declared.declaration.name);
        }
    }

    /// Counts what a request has found, and expects the jobs of the rest to end.
    pub fn submitted(&self, planned: &Planned, submitted: &[Submitted]) {
        self.expect(submitted.iter().filter(|one| one.disposition != Disposition::Reused).map(|one| one.id));
        let versions = versions(planned);
        let mut submitted = submitted.iter();
        for ((node, warmth), versions) in planned.plan.nodes.iter().zip(&planned.warmth).zip(versions) {
            let Some(command) = node.steps.last().map(|step| &step.declared.declaration.name) else {
                continue;
            };
            match warmth {
                Warmth::Hit(..) => self.counts.hit(command),
                Warmth::NotNeeded(_) => {}
                Warmth::Missing(_) | Warmth::Expired(..) => match submitted.next().map(|one| one.disposition)
                {
                    Some(Disposition::Reused) => self.counts.hit(command),
                    Some(Disposition::Joined | Disposition::JoinedOther) => {
                        self.counts.count(command, Counted::Joined);
                    }
                    _ => {
                        let text = crate::identity_of(node.text.as_bytes());
                        let why = self.why_missing(&node.identity, warmth, text, versions);
                        self.counts.misses[why].fetch_add(1, Ordering::Relaxed);
                    }
                },
            }
        }
    }

    /// The place of the reason in [`Counts::misses`].
    fn why_missing(
        &self,
        identity: &Identity,
        warmth: &Warmth,
        text: Identity,
        versions: Option<Identity>,
    ) -> usize {
        let another = versions.is_some_and(|versions| self.gone.was_another_version(text, versions));
        match self.gone.take(identity) {
            _ if matches!(warmth, Warmth::Missing(Some(_))) => 4,
            _ if matches!(warmth, Warmth::Expired(..)) => 5,
            Some(Gone::Evicted) => 2,
            Some(Gone::Dropped) => 3,
            _ if another => 1,
            _ => 0,
        }
    }
}

/// For each node a hash of the versions of all commands that make its value; none if it begins with stored data, which
/// may have changed as well.
fn versions(planned: &Planned) -> Vec<Option<Identity>> {
    let mut all: Vec<Option<Identity>> = Vec::with_capacity(planned.plan.nodes.len());
    for node in &planned.plan.nodes {
        let mut hasher = Blake3::default();
        for step in &node.steps {
            hasher.update(step.declared.declaration.name.as_str().as_bytes());
            hasher.update(b"@");
            hasher.update(step.declared.version.as_str().as_bytes());
            hasher.update(b"\n");
        }
        let inputs = node.inputs.iter().map(|input| match input {
            Input::Node(at) => all.get(*at).copied().flatten(),
            Input::Source(..) => None,
        });
        let inputs: Option<Vec<Identity>> = inputs.collect();
        all.push(inputs.map(|inputs| {
            inputs.iter().for_each(|input| hasher.update(input.bytes()));
            hasher.identity()
        }));
    }
    all
}
