//! The content of a store in chunks, so that another store can import all of it.

use std::fmt;

use jobhall_core::{Group, Job, PastAttempt};

use crate::Block;
use crate::audit::AuditRow;
use crate::record::Record;
use crate::unit::{Link, Setting, StoredIdempotencyKey};

/// A chunk of a store's content. The feed is not included: its readers read the jobs again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportChunk {
    /// Configuration, tokens, schedules and operations.
    Settings(Vec<Setting>),
    Blocks(Vec<Block>),
    Groups(Vec<Group>),
    /// Jobs with their ended attempts, oldest first.
    Jobs(Vec<(Job, Vec<PastAttempt>)>),
    /// Sub-jobs by the names that their parents use.
    Links(Vec<Link>),
    /// Idempotency keys; `forget_before` of each is the time it was stored.
    IdempotencyKeys(Vec<StoredIdempotencyKey>),
    Acts(Vec<AuditRow>),
    /// Documents of applications.
    Records(Vec<Record>),
}

/// Counters of numbers that are never used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The highest id handed out.
    pub last_id: u64,
    /// The highest feed number used.
    pub last_feed: u64,
    /// The highest number of an audit entry used.
    pub last_act: u64,
}

/// The number of rows in a store, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    pub jobs: u64,
    /// Ended attempts of jobs that continued.
    pub attempts: u64,
    pub groups: u64,
    /// Sub-jobs by name.
    pub links: u64,
    pub settings: u64,
    pub idempotency_keys: u64,
    pub acts: u64,
    pub blocks: u64,
    pub records: u64,
}

impl Holdings {
    /// Each count with its name for people.
    pub fn named(&self) -> [(&'static str, u64); 9] {
        let Holdings { jobs, attempts, groups, links, settings, idempotency_keys, acts, blocks, records } =
            *self;
        [
            ("jobs", jobs),
            ("past attempts", attempts),
            ("groups", groups),
            ("links", links),
            ("settings", settings),
            ("idempotency keys", idempotency_keys),
            ("acts", acts),
            ("blocks of ids", blocks),
            ("records", records),
        ]
    }

    /// Whether all counts are zero.
    pub fn is_empty(&self) -> bool {
        *self == Holdings::default()
    }

    /// The sum of all counts.
    pub fn total(&self) -> u64 {
        self.named().iter().map(|(_, count)| count).sum()
    }

    /// Adds the rows of a chunk.
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
            ExportChunk::Records(all) => self.records += all.len() as u64,
        }
    }
}

/// The counts, such as `3 jobs, 1 settings`; zero counts are omitted.
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
