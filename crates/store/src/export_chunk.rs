//! The content of a store in chunks, so that another store can import all of it.

use std::fmt;

use jobhall_core::{Group, Job, PastAttempt};

use crate::Block;
use crate::audit::AuditRow;
use crate::unit::{Link, Setting, StoredIdempotencyKey};

/// A chunk of a store's content. The feed is not included: its readers read the jobs again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportChunk {
    /// Configuration, tokens, schedules and operations.
    Settings(Vec<Setting>),
    /// Ranges of ids that are lent.
    Blocks(Vec<Block>),
    /// Groups.
    Groups(Vec<Group>),
    /// Jobs with their ended attempts, oldest first.
    Jobs(Vec<(Job, Vec<PastAttempt>)>),
    /// Sub-jobs by the names that their parents gave them.
    Links(Vec<Link>),
    /// Idempotency keys; each counts as forgotten before the moment it was stored.
    IdempotencyKeys(Vec<StoredIdempotencyKey>),
    /// Who did what.
    Acts(Vec<AuditRow>),
}

/// Numbers that a store gives once and never again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The highest id ever lent.
    pub last_id: u64,
    /// The highest feed number ever given.
    pub last_feed: u64,
    /// The highest number of an act ever given.
    pub last_act: u64,
}

/// How much a store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Jobs.
    pub jobs: u64,
    /// Ended attempts of jobs that went on.
    pub attempts: u64,
    /// Groups.
    pub groups: u64,
    /// Sub-jobs by name.
    pub links: u64,
    /// Settings of every kind.
    pub settings: u64,
    /// Idempotency keys.
    pub idempotency_keys: u64,
    /// Acts.
    pub acts: u64,
    /// Ranges of ids.
    pub blocks: u64,
}

impl Holdings {
    /// Each with its name, for people.
    pub fn named(&self) -> [(&'static str, u64); 8] {
        let Holdings { jobs, attempts, groups, links, settings, idempotency_keys, acts, blocks } = *self;
        [
            ("jobs", jobs),
            ("past attempts", attempts),
            ("groups", groups),
            ("links", links),
            ("settings", settings),
            ("idempotency keys", idempotency_keys),
            ("acts", acts),
            ("blocks of ids", blocks),
        ]
    }

    /// Whether it is nothing.
    pub fn is_empty(&self) -> bool {
        *self == Holdings::default()
    }

    /// All rows together.
    pub fn total(&self) -> u64 {
        self.named().iter().map(|(_, count)| count).sum()
    }

    /// Adds what a portion has.
    pub fn add(&mut self, portion: &ExportChunk) {
        match portion {
            ExportChunk::Settings(all) => self.settings += all.len() as u64,
            ExportChunk::Blocks(all) => self.blocks += all.len() as u64,
            ExportChunk::Groups(all) => self.groups += all.len() as u64,
            ExportChunk::Jobs(all) => {
                self.jobs += all.len() as u64;
                self.attempts += all.iter().map(|(_, past)| past.len() as u64).sum::<u64>();
            }
            ExportChunk::Links(all) => self.links += all.len() as u64,
            ExportChunk::IdempotencyKeys(all) => self.idempotency_keys += all.len() as u64,
            ExportChunk::Acts(all) => self.acts += all.len() as u64,
        }
    }
}

/// What is there, such as `3 jobs, 1 settings`; what there is none of is left out.
impl fmt::Display for Holdings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let there: Vec<_> = self.named().into_iter().filter(|(_, count)| *count > 0).collect();
        if there.is_empty() {
            return f.write_str("nothing");
        }
        for (at, (name, count)) in there.into_iter().enumerate() {
            write!(f, "{}{count} {name}", if at > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}
