//! Where files are kept: in a directory or in a database.
//!
//! Objects, manifests and logs are implemented once, on top of this interface: named files that can be appended to,
//! read at any offset, touched and removed. Both implementations use names of the same form. The methods describe
//! where they differ: a directory must be synced, a database is shared with other nodes.

use std::fmt;
use std::io;

use crate::BlobError;

/// The purpose of a file: the first part of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Objects,
    Artifacts,
    Logs,
    Temps,
    Quarantine,
}

impl Section {
    pub(crate) const ALL: [Section; 5] =
        [Section::Objects, Section::Artifacts, Section::Logs, Section::Temps, Section::Quarantine];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Section::Objects => "objects",
            Section::Artifacts => "artifacts",
            Section::Logs => "logs",
            Section::Temps => "tmp",
            Section::Quarantine => "quarantine",
        }
    }
}

/// A part of a section: one of its 256 shards, or all of a section that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shelf {
    pub(crate) section: Section,
    pub(crate) shard: Option<u8>,
}

impl Shelf {
    pub(crate) fn of(section: Section, shard: u8) -> Shelf {
        Shelf { section, shard: Some(shard) }
    }

    pub(crate) fn whole(section: Section) -> Shelf {
        Shelf { section, shard: None }
    }

    pub(crate) fn file(self, file: String) -> Name {
        Name { shelf: self, file }
    }
}

impl fmt::Display for Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shard {
            Some(shard) => write!(f, "{}/{shard:02x}", self.section.as_str()),
            None => f.write_str(self.section.as_str()),
        }
    }
}

/// The name of a file, such as `logs/11/17-1`. No part of it is chosen by a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) shelf: Shelf,
    pub(crate) file: String,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.shelf, self.file)
    }
}

/// Metadata of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// A plain file, not a link, directory or device.
    pub(crate) regular: bool,
    pub(crate) bytes: u64,
    pub(crate) modified_ms: u64,
}

/// A file that can be read.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) content: Box<dyn Content>,
    /// The size when it was opened.
    pub(crate) bytes: u64,
}

/// The bytes of an open file.
pub(crate) trait Content: fmt::Debug + Send + Sync {
    /// Reads from an offset; returns 0 only at the end.
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize>;
}

/// Bytes for the end of a file, which is created if missing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write<'a> {
    pub(crate) name: &'a Name,
    /// The expected length of the file.
    pub(crate) was: u64,
    /// The offset of these bytes. Bytes after it are invalid and cut off.
    pub(crate) at: u64,
    pub(crate) bytes: &'a [u8],
    /// The time that the file gets; by default the current time of the store's clock.
    pub(crate) modified_ms: Option<u64>,
}

/// A complete file.
#[derive(Clone, Debug)]
pub(crate) struct Whole<'a> {
    pub(crate) name: Name,
    pub(crate) bytes: &'a [u8],
}

/// Named files. Every method may wait for a disk or a network, unless it says otherwise.
pub(crate) trait FileStore: fmt::Debug + Send + Sync {
    /// The metadata of a file.
    fn look(&self, name: &Name) -> Result<Option<Found>, BlobError>;

    /// Whether there may be a file of this name. Answers immediately: if that is not possible, the answer is true.
    fn may_have(&self, name: &Name) -> Result<bool, BlobError>;

    fn open(&self, name: &Name) -> Result<Option<Opened>, BlobError>;

    /// Writes to files of one shelf, in this order; atomically if the store supports that.
    ///
    /// # Errors
    /// [`BlobError::Overtaken`] if a file does not have the expected length, where others may write too.
    fn write(&self, writes: &[Write<'_>]) -> Result<(), BlobError>;

    /// Makes the content of these files of one shelf durable, and with `names` their directory entries too.
    fn sync(&self, files: &[&Name], names: bool) -> Result<(), BlobError>;

    /// Sets the time of a file, never to an earlier one, if it has this size (or any size); returns whether it
    /// exists.
    fn touch(&self, name: &Name, bytes: Option<u64>, now_ms: u64) -> Result<bool, BlobError>;

    /// Removes a file unless it was touched after this time; returns whether it did.
    fn remove(&self, name: &Name, modified_ms: u64) -> Result<bool, BlobError>;

    /// Renames a file, replacing an existing one.
    fn rename(&self, name: &Name, to: &Name) -> Result<(), BlobError>;

    /// The last parts of the names in a shelf.
    fn names(&self, shelf: Shelf) -> Result<Vec<String>, BlobError>;

    /// A new temporary file.
    fn temp(&self) -> Result<Box<dyn Temp + '_>, BlobError>;

    /// Prepares complete files, of different names, to be stored together. Those that seem to exist are not prepared.
    fn batch<'a>(&'a self, files: &'a [Whole<'a>], now_ms: u64) -> Result<Box<dyn Batch + 'a>, BlobError>;

    /// Whether this process is writing this temporary file: a slow upload is not a leftover, even if it is old.
    fn is_live(&self, temp: &str) -> bool;
}

/// Complete files that are about to be stored. What was prepared is removed on drop, unless it was stored.
pub(crate) trait Batch {
    /// Gives all files their names durably; a file that exists with the right length is touched, one with another
    /// length is replaced. Returns for each whether it existed. After an error some may be stored, each completely.
    fn publish(&mut self) -> Result<Vec<bool>, BlobError>;
}

/// A file being written. It is removed on drop, unless it was given a name.
pub(crate) trait Temp {
    fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError>;

    /// Makes the content durable, with this time.
    fn settle(&mut self, now_ms: u64) -> Result<(), BlobError>;

    /// Gives the file its name durably, replacing a damaged file of that name.
    ///
    /// # Errors
    /// [`BlobError::Overtaken`] if another writer has just stored it.
    fn name(&mut self, name: &Name) -> Result<(), BlobError>;
}
