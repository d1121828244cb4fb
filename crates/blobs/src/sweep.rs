//! Garbage collection.
//!
//! An object is removed if nothing refers to it and it was not touched for an hour; the hour covers references that
//! are still being committed. Logs and a manifest are removed if their attempt no longer exists, subject to the
//! same age. Files that this code did not create are counted and left alone.
//!
//! Manifests are read before objects, so that every reference is known by then. A later reference is to an object
//! that was touched for it and is therefore too young to be removed. An unreadable manifest might refer to any
//! object: after it, no object is removed until a walk has read all manifests.
//!
//! A removal is safe against a concurrent put of the same content: it checks the age again, and whether the object is
//! pinned, under the lock that the put holds while it touches the object. The work is done in slices, so that it never blocks anything for long. If
//! it is interrupted, by a crash too, each remaining file is either intact or removed by the next walk.

use std::ops::AddAssign;

use crate::file_store::{Section, Shelf};
use crate::references::References;
use crate::{AttemptKey, BlobError, Blobs, Digest, LogKey};

/// Minimum time without a touch before an object may be removed.
pub const MIN_AGE_MS: u64 = 60 * 60 * 1_000;

/// Answers of the caller. If unknown, an object is referenced and an attempt exists. Both must be based on data
/// committed at or after the `now_ms` of the sweep.
#[derive(Clone, Copy)]
pub struct Verdicts<'a> {
    /// Whether anything except the manifest of an attempt refers to this object. It may take long.
    pub referenced: &'a dyn Fn(&Digest) -> bool,
    /// Whether this object is in use although no reference to it is stored yet. Asked last, while nobody can touch the
    /// object: it must answer immediately and must not call back into the objects. A pin that it does not see yet
    /// belongs to a caller that has not touched the object yet; that touch then finds the object removed.
    pub pinned: &'a dyn Fn(&Digest) -> bool,
    /// Whether this attempt no longer exists, so that its log and manifest can be removed.
    pub gone: &'a dyn Fn(AttemptKey) -> bool,
}

/// The numbers of removed files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    pub objects: u64,
    /// Leftovers of incomplete objects.
    pub temps: u64,
    pub logs: u64,
    pub manifests: u64,
    /// The total size.
    pub bytes: u64,
    /// Files that this code did not create. They were not removed.
    pub odd: u64,
    /// Manifests that could not be read. Because of them no object was removed.
    pub unread: u64,
}

/// One walk over all files. It holds no lock between its steps.
#[derive(Debug)]
pub struct Sweep {
    now_ms: u64,
    min_age_ms: u64,
    references: References,
    /// A manifest could not be read, so any object may be referenced.
    unsure: bool,
    part: Part,
    next: Option<Part>,
    names: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
enum Part {
    Temps,
    Manifests(u8),
    Objects(u8),
    Logs(u8),
}

impl Part {
    fn following(self) -> Option<Part> {
        match self {
            Part::Temps => Some(Part::Manifests(0)),
            Part::Manifests(u8::MAX) => Some(Part::Objects(0)),
            Part::Manifests(shard) => Some(Part::Manifests(shard + 1)),
            Part::Objects(u8::MAX) => Some(Part::Logs(0)),
            Part::Objects(shard) => Some(Part::Objects(shard + 1)),
            Part::Logs(shard) => shard.checked_add(1).map(Part::Logs),
        }
    }

    fn names(self, blobs: &Blobs) -> Result<Vec<String>, BlobError> {
        blobs.file_store.names(match self {
            Part::Temps => Shelf::whole(Section::Temps),
            Part::Manifests(shard) => Shelf::of(Section::Artifacts, shard),
            Part::Objects(shard) => Shelf::of(Section::Objects, shard),
            Part::Logs(shard) => Shelf::of(Section::Logs, shard),
        })
    }
}

impl Sweep {
    #[must_use]
    pub fn new(now_ms: u64, min_age_ms: u64) -> Sweep {
        let part = Part::Temps;
        let references = References::new(now_ms);
        Sweep { now_ms, min_age_ms, references, unsure: false, part, next: Some(part), names: Vec::new() }
    }

    /// Whether all files were processed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.next.is_none() && self.names.is_empty()
    }

    /// Processes up to `most` more files or directories.
    ///
    /// # Errors
    /// The file system failed. The next step continues after that file.
    pub fn step(
        &mut self,
        blobs: &Blobs,
        verdicts: Verdicts<'_>,
        most: usize,
    ) -> Result<Collected, BlobError> {
        let mut collected = Collected::default();
        for _ in 0..most {
            let done = match self.names.pop() {
                Some(name) => self.judge(blobs, verdicts, &name),
                None if self.next.is_some() => self.list(blobs),
                None => break,
            };
            match done {
                Ok(more) => collected += more,
                Err(BlobError::Odd { .. }) => collected.odd += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(collected)
    }

    fn list(&mut self, blobs: &Blobs) -> Result<Collected, BlobError> {
        if let Some(part) = self.next.take() {
            self.part = part;
            self.next = part.following();
            self.names = part.names(blobs).inspect_err(|_| self.doubt())?;
        }
        Ok(Collected::default())
    }

    /// The unreadable entry may have been a manifest.
    fn doubt(&mut self) {
        self.unsure |= matches!(self.part, Part::Manifests(_));
    }

    fn judge(&mut self, blobs: &Blobs, verdicts: Verdicts<'_>, name: &str) -> Result<Collected, BlobError> {
        match self.part {
            Part::Temps => self.judge_temp(blobs, name),
            Part::Manifests(shard) => {
                match name.parse().ok().filter(|key: &AttemptKey| key.shard() == shard) {
                    Some(attempt) => {
                        self.judge_manifest(blobs, verdicts, attempt).inspect_err(|_| self.doubt())
                    }
                    None => Ok(odd()),
                }
            }
            Part::Objects(shard) => match Digest::at(shard, name) {
                Some(digest) => self.judge_object(blobs, verdicts, &digest),
                None => Ok(odd()),
            },
            Part::Logs(shard) => match log_at(shard, name) {
                Some(log) => self.judge_log(blobs, verdicts, log),
                None => Ok(odd()),
            },
        }
    }

    fn judge_temp(&self, blobs: &Blobs, name: &str) -> Result<Collected, BlobError> {
        let temp = Shelf::whole(Section::Temps).file(name.to_owned());
        match blobs.file_store.look(&temp)? {
            Some(found) if !found.regular => Ok(odd()),
            Some(found) if self.is_old(found.modified_ms) && !blobs.file_store.is_live(name) => {
                let removed = blobs.file_store.remove(&temp, found.modified_ms)?;
                let gone = Collected { temps: 1, bytes: found.bytes, ..Collected::default() };
                Ok(if removed { gone } else { Collected::default() })
            }
            _ => Ok(Collected::default()),
        }
    }

    /// Removes a manifest, or adds its references.
    fn judge_manifest(
        &mut self,
        blobs: &Blobs,
        verdicts: Verdicts<'_>,
        attempt: AttemptKey,
    ) -> Result<Collected, BlobError> {
        if (verdicts.gone)(attempt)
            && let Some(bytes) = blobs.artifacts().remove(attempt, |modified_ms| self.is_old(modified_ms))?
        {
            return Ok(Collected { manifests: 1, bytes, ..Collected::default() });
        }
        match blobs.artifacts().each(attempt, &mut |digest| self.references.add(digest)) {
            Err(error) if error.is_damage() => {
                self.unsure = true;
                Ok(Collected { unread: 1, ..Collected::default() })
            }
            told => told.map(|()| Collected::default()),
        }
    }

    fn judge_object(
        &self,
        blobs: &Blobs,
        verdicts: Verdicts<'_>,
        digest: &Digest,
    ) -> Result<Collected, BlobError> {
        let objects = blobs.objects();
        let is_old =
            || Ok::<_, BlobError>(objects.look(digest)?.filter(|found| self.is_old(found.modified_ms)));
        let wanted = self.unsure || self.references.has(digest);
        if wanted || is_old()?.is_none() || (verdicts.referenced)(digest) {
            return Ok(Collected::default());
        }
        // The query above may have taken long; the same content may have been stored since.
        let _shard = objects.lock(digest);
        let Some(found) = is_old()? else { return Ok(Collected::default()) };
        if (verdicts.pinned)(digest) {
            return Ok(Collected::default());
        }
        let removed = objects.remove(digest, found.modified_ms)?;
        let gone = Collected { objects: 1, bytes: found.bytes, ..Collected::default() };
        Ok(if removed { gone } else { Collected::default() })
    }

    fn judge_log(&self, blobs: &Blobs, verdicts: Verdicts<'_>, log: LogKey) -> Result<Collected, BlobError> {
        if !(verdicts.gone)(log.attempt) {
            return Ok(Collected::default());
        }
        let removed = blobs.logs().remove(log, |modified_ms| self.is_old(modified_ms))?;
        Ok(removed.map_or_else(Collected::default, |bytes| Collected {
            logs: 1,
            bytes,
            ..Collected::default()
        }))
    }

    /// A time in the future, for example after the clock was set back, has age 0.
    fn is_old(&self, modified_ms: u64) -> bool {
        self.now_ms.saturating_sub(modified_ms) >= self.min_age_ms
    }
}

fn odd() -> Collected {
    Collected { odd: 1, ..Collected::default() }
}

/// The log that the file with this name belongs to.
fn log_at(shard: u8, name: &str) -> Option<LogKey> {
    let log: LogKey = name.strip_suffix(".idx").unwrap_or(name).parse().ok()?;
    (log.attempt.shard() == shard).then_some(log)
}

impl AddAssign for Collected {
    fn add_assign(&mut self, more: Collected) {
        self.objects += more.objects;
        self.temps += more.temps;
        self.logs += more.logs;
        self.manifests += more.manifests;
        self.bytes += more.bytes;
        self.odd += more.odd;
        self.unread += more.unread;
    }
}
