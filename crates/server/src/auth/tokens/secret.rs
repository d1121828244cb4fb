//! Secrets: creation, hashing, comparison, and storage in files that only their owner can read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rand::Rng;
use thiserror::Error;

/// The prefix of every token, so that scanners for leaked secrets find it.
pub(super) const PREFIX: &str = "jh_";

/// An error with a secret file.
#[derive(Debug, Error)]
pub enum TokenError {
    /// The file cannot be read or created.
    #[error("failed to use {path}: {source}")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Other users can read the file.
    #[error("failed to use {0}: users other than its owner can read it; set mode 600")]
    Open(PathBuf),
    /// The content of the file is invalid.
    #[error("failed to use {0}: its content is invalid; remove it to create a new one")]
    Content(PathBuf),
    /// The store could not read the tokens.
    #[error("failed to read the tokens: {0}")]
    Store(String),
}

/// The hash of a token's secret. It is compared in constant time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hash(blake3::Hash);

impl Hash {
    pub(crate) fn of(secret: &str) -> Hash {
        Hash(blake3::hash(secret.as_bytes()))
    }

    /// Compares in constant time. A missing hash is replaced by a dummy, so that the comparison takes as long.
    pub(crate) fn is(given: Hash, known: Option<Hash>) -> bool {
        let other = known.unwrap_or(Hash([0; 32].into()));
        given == other && known.is_some()
    }

    pub(super) fn to_hex(self) -> String {
        hex(self.0.as_bytes())
    }

    pub(super) fn from_hex(text: &str) -> Option<Hash> {
        bytes_of(text).map(|bytes| Hash(bytes.into()))
    }
}

/// Random bytes as hex digits.
pub(crate) fn random_hex<const BYTES: usize>() -> String {
    let mut random = [0u8; BYTES];
    rand::rng().fill_bytes(&mut random);
    hex(&random)
}

/// A new token: an id of 64 bits, which selects the entry, and a secret of 256 bits.
pub(super) fn fresh() -> String {
    format!("{PREFIX}{}_{}", random_hex::<8>(), random_hex::<32>())
}

/// Splits a token into id and secret, if it is well-formed.
pub(super) fn split(token: &str) -> Option<(&str, &str)> {
    let (id, rest) = token.strip_prefix(PREFIX)?.split_at_checked(16)?;
    let secret = rest.strip_prefix('_')?;
    (is_hex(id, 16) && is_hex(secret, 64)).then_some((id, secret))
}

pub(super) fn is_hex(text: &str, len: usize) -> bool {
    // Without an early end, which lets the compiler look at several bytes at once.
    text.len() == len && text.bytes().fold(true, |good, byte| good & byte.is_ascii_hexdigit())
}

pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

pub(super) fn bytes_of(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if !is_hex(text, 64) {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

/// The text of a private file in this directory; a missing file is created.
pub(super) fn private(data: &Path, name: &str, make: fn() -> String) -> Result<String, TokenError> {
    let path = data.join(name);
    if let Some(text) = read_private(&path)? {
        return Ok(text);
    }
    let text = make();
    write_private(&path, &text, |_| Ok(())).map_err(|source| TokenError::File { path, source })?;
    Ok(text)
}

/// The text of a private file; none if there is no file.
pub(super) fn read_private(path: &Path) -> Result<Option<String>, TokenError> {
    let failed = |source| TokenError::File { path: path.to_owned(), source };
    let text = match fs::read_to_string(path) {
        Ok(text) => text.trim().to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    if fs::metadata(path).map_err(failed)?.permissions().mode() & 0o077 != 0 {
        return Err(TokenError::Open(path.to_owned()));
    }
    Ok(Some(text))
}

/// Writes to a temporary file and renames it, so that a crash leaves no partial secret.
pub(super) fn write_private(
    path: &Path,
    text: &str,
    prepare: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let beside = write_beside(path, text)?;
    prepare(&beside)
        .and_then(|()| fs::rename(&beside, path))
        .inspect_err(|_| drop(fs::remove_file(&beside)))?;
    sync_directory(path)
}

/// The same, but an existing file is not replaced.
pub(super) fn create_private(path: &Path, text: &str) -> io::Result<()> {
    let beside = write_beside(path, text)?;
    let linked = fs::hard_link(&beside, path);
    fs::remove_file(&beside)?;
    linked?;
    sync_directory(path)
}

/// Writes a private temporary file in the directory of this path.
fn write_beside(path: &Path, text: &str) -> io::Result<PathBuf> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.new", random_hex::<4>()));
    let beside = PathBuf::from(beside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    Ok(beside)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_an_id_and_a_secret_of_hex_digits_and_nothing_else() {
        let (id, secret) = ("0123456789abcdef", "0aF9".repeat(16));
        assert_eq!(split(&format!("jh_{id}_{secret}")), Some((id, secret.as_str())));
        for bad in [
            String::new(),
            "jh_".to_owned(),
            format!("jh_{id}"),
            format!("{id}_{secret}"),
            format!("jh_{id}{secret}"),
            format!("jh_{id}_{secret}0"),
            format!("jh_{id}0_{secret}"),
            format!("jh_{}_{secret}", &id[1..]),
            format!("jh_{id}_{}g", &secret[1..]),
            format!("jh_{}g_{secret}", &id[1..]),
            format!("jh_{}é_{secret}", &id[1..]),
            format!("jh_{id}_{}é", &secret[2..]),
        ] {
            assert_eq!(split(&bad), None, "{bad}");
        }
    }

    #[test]
    fn a_hash_is_that_of_its_secret_alone() {
        let (one, other) = (Hash::of("a"), Hash::of("b"));
        assert!(Hash::is(one, Some(one)) && !Hash::is(one, Some(other)) && !Hash::is(one, None));
        assert!(!Hash::is(Hash([0; 32].into()), None), "the dummy is no hash of a token");
        assert!(Hash::from_hex(&one.to_hex()) == Some(one));
    }
}
