//! Reads an object and checks its hash.
//!
//! The hash is known only at the end, so the last chunk is held back until the hash matches: a reader of a damaged
//! object gets an error, and never as many bytes as announced.

use std::io::{self, Read};
use std::mem;

use crate::file_store::{Content, Opened};
use crate::{BlobError, Digest};

const CHUNK_BYTES: usize = 64 << 10;

/// An object being read. A mismatch is an [`io::ErrorKind::InvalidData`] that holds a [`BlobError::Damaged`]; every
/// further read returns it again.
#[derive(Debug)]
pub struct ObjectReader {
    content: Box<dyn Content>,
    digest: Digest,
    len: u64,
    /// The offset of the next chunk.
    offset: u64,
    hasher: blake3::Hasher,
    /// The bytes to return next.
    ready: Vec<u8>,
    at: usize,
    /// Held back until the next chunk was read, or the hash matches.
    ahead: Vec<u8>,
    /// Whether the end was reached and the hash matches.
    right: bool,
}

impl ObjectReader {
    pub(crate) fn new(opened: Opened, digest: Digest) -> ObjectReader {
        ObjectReader {
            content: opened.content,
            digest,
            len: opened.bytes,
            offset: 0,
            hasher: blake3::Hasher::new(),
            ready: Vec::new(),
            at: 0,
            ahead: Vec::new(),
            right: false,
        }
    }

    /// The size of the file; it is that of the object if the object is not damaged.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the file is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Reads one more chunk; returns whether there may be more. Every error here also invalidates the hash, so a
    /// reader that failed once never succeeds.
    fn advance(&mut self) -> io::Result<bool> {
        if self.right {
            return Ok(false);
        }
        let mut next = mem::take(&mut self.ready);
        next.resize(CHUNK_BYTES, 0);
        self.at = 0;
        let count = read_full(self.content.as_ref(), &mut next, self.offset)?;
        next.truncate(count);
        self.offset += count as u64;
        self.hasher.update(&next);
        if next.is_empty() {
            self.right = Digest::from_hasher(&self.hasher) == self.digest;
            if !self.right {
                return Err(damaged(self.digest));
            }
        }
        self.ready = mem::replace(&mut self.ahead, next);
        Ok(true)
    }
}

impl Read for ObjectReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        while self.at == self.ready.len() {
            if !self.advance()? {
                return Ok(0);
            }
        }
        let count = out.len().min(self.ready.len() - self.at);
        out[..count].copy_from_slice(&self.ready[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// Reads until the buffer is full or the input ends.
pub(crate) fn read_full(content: &dyn Content, out: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < out.len() {
        match content.read_at(&mut out[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// An object that was read completely and verified, to be read again in parts. Its content is never changed in place,
/// so it stays valid.
#[derive(Debug)]
pub struct SoundObject {
    content: Box<dyn Content>,
    digest: Digest,
    len: u64,
}

impl SoundObject {
    /// An object that was verified before.
    pub(crate) fn verified(reader: ObjectReader) -> SoundObject {
        SoundObject { content: reader.content, digest: reader.digest, len: reader.len }
    }

    /// Reads and verifies the object.
    pub(crate) fn check(mut reader: ObjectReader) -> io::Result<SoundObject> {
        let len = io::copy(&mut reader, &mut io::sink())?;
        Ok(SoundObject { content: reader.content, digest: reader.digest, len })
    }

    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes from an offset, up to a limit; fewer only at the end.
    ///
    /// # Errors
    /// The file system failed.
    pub fn read_at(&self, offset: u64, most: usize) -> Result<Vec<u8>, BlobError> {
        let there = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; most.min(there)];
        let what = || format!("object {}", self.digest);
        match read_full(self.content.as_ref(), &mut bytes, offset) {
            Ok(count) if count == bytes.len() => Ok(bytes),
            // In a database, an open file disappears when it is removed.
            Ok(_) => Err(BlobError::Missing { what: what() }),
            Err(error) => Err(BlobError::io("read", what(), error)),
        }
    }
}

fn damaged(digest: Digest) -> io::Error {
    let why = "its content does not have the hash in its name".to_owned();
    io::Error::new(io::ErrorKind::InvalidData, BlobError::Damaged { what: format!("object {digest}"), why })
}
