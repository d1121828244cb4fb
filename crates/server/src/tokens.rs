//! Tokens: who is asking, and in which role.
//!
//! A token reads `jh_<id>_<secret>`: the id finds the entry, the secret of 256 random bits is compared by its BLAKE3
//! hash in constant time. Only hashes are kept, so neither memory dumps nor logs give tokens away; the one token on
//! disk is the administrator's, in a file that only its owner can read.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use rand::Rng;
use subtle::ConstantTimeEq;
use thiserror::Error;

/// Every token begins with this, so that scanners for leaked secrets find it.
const PREFIX: &str = "jh_";
/// The file of the administrator's token, in the data directory.
const ADMIN_FILE: &str = "admin.token";

/// What a token may do; `access` says what that means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Looks.
    Viewer,
    /// Submits, cancels and retries too.
    Client,
    /// Takes jobs and reports on its own attempts, nothing else.
    Worker,
    /// May do everything.
    Admin,
}

/// Who is asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The name of its token; for a worker, the worker's.
    pub name: String,
    /// What it may do.
    pub role: Role,
}

/// Why the administrator's token could not be had.
#[derive(Debug, Error)]
pub enum TokenError {
    /// The file cannot be read or made.
    #[error("failed to use {path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others can read it.
    #[error("failed to use {0}: others than its owner can read it; make it mode 600")]
    Open(PathBuf),
    /// It holds something else.
    #[error("failed to use {0}: it does not hold a token; remove it to get a new one")]
    Content(PathBuf),
}

struct Entry {
    hash: [u8; 32],
    identity: Identity,
}

/// All tokens that are good.
#[derive(Default)]
pub struct Tokens {
    entries: RwLock<HashMap<String, Entry>>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens(…)")
    }
}

impl Tokens {
    /// The tokens of a hall with this data directory. On first start the administrator's is made and written there.
    pub fn open(data: &Path) -> Result<Tokens, TokenError> {
        let path = data.join(ADMIN_FILE);
        let failed = |source| TokenError::File { path: path.clone(), source };
        let token = match fs::read_to_string(&path) {
            Ok(text) => text.trim().to_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let token = fresh();
                write_private(data, &path, &token).map_err(failed)?;
                token
            }
            Err(error) => return Err(failed(error)),
        };
        if fs::metadata(&path).map_err(failed)?.permissions().mode() & 0o077 != 0 {
            return Err(TokenError::Open(path));
        }
        let tokens = Tokens::default();
        match tokens.add(&token, Identity { name: "admin".to_owned(), role: Role::Admin }) {
            Some(()) => Ok(tokens),
            None => Err(TokenError::Content(path)),
        }
    }

    /// A new token that lives as long as this process.
    pub fn mint(&self, name: &str, role: Role) -> String {
        let token = fresh();
        self.add(&token, Identity { name: name.to_owned(), role });
        token
    }

    /// Takes away every token of this name; how many there were.
    pub fn revoke(&self, name: &str) -> usize {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let before = entries.len();
        entries.retain(|_, entry| entry.identity.name != name);
        before - entries.len()
    }

    fn add(&self, token: &str, identity: Identity) -> Option<()> {
        let (id, secret) = split(token)?;
        let entry = Entry { hash: hash(secret), identity };
        self.entries.write().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), entry);
        Some(())
    }

    /// Whose token this is. An unknown id takes as long as a wrong secret.
    pub(crate) fn who(&self, token: &str) -> Option<Identity> {
        let (id, secret) = split(token)?;
        let given = hash(secret);
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.get(id);
        let known = entry.map_or([0; 32], |entry| entry.hash);
        let same = bool::from(given.ct_eq(&known));
        entry.filter(|_| same).map(|entry| entry.identity.clone())
    }
}

fn fresh() -> String {
    let mut random = [0u8; 40];
    rand::rng().fill_bytes(&mut random);
    let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let (id, secret) = hex.split_at(16);
    format!("{PREFIX}{id}_{secret}")
}

fn split(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.strip_prefix(PREFIX)?.split_once('_')?;
    let hex = |text: &str, len| text.len() == len && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    (hex(id, 16) && hex(secret, 64)).then_some((id, secret))
}

fn hash(secret: &str) -> [u8; 32] {
    *blake3::hash(secret.as_bytes()).as_bytes()
}

/// Written beside its place and moved there, so that a crash leaves no half token.
fn write_private(data: &Path, path: &Path, token: &str) -> io::Result<()> {
    let beside = path.with_extension("token.new");
    let _ = fs::remove_file(&beside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    writeln!(file, "{token}")?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    File::open(data)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_start_writes_a_private_token_that_the_next_one_reads() {
        let dir = tempfile::tempdir().unwrap();
        let first = Tokens::open(dir.path()).unwrap();
        let path = dir.path().join(ADMIN_FILE);
        let token = fs::read_to_string(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let admin = Some(Identity { name: "admin".to_owned(), role: Role::Admin });
        assert_eq!(first.who(token.trim()), admin);
        assert_eq!(Tokens::open(dir.path()).unwrap().who(token.trim()), admin);
        let other = tempfile::tempdir().unwrap();
        assert_eq!(Tokens::open(other.path()).unwrap().who(token.trim()), None, "two halls, two tokens");
    }

    #[test]
    fn a_token_file_that_is_open_or_spoilt_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        Tokens::open(dir.path()).unwrap();
        let path = dir.path().join(ADMIN_FILE);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(Tokens::open(dir.path()), Err(TokenError::Open(_))));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "jh_short").unwrap();
        assert!(matches!(Tokens::open(dir.path()), Err(TokenError::Content(_))));
    }

    #[test]
    fn only_the_whole_token_is_good_and_only_until_it_is_revoked() {
        let tokens = Tokens::default();
        let token = tokens.mint("w", Role::Worker);
        assert!(token.starts_with(PREFIX) && token.len() == 3 + 16 + 1 + 64);
        assert_eq!(tokens.who(&token).unwrap().role, Role::Worker);
        let mut wrong = token.clone();
        let last = if wrong.pop() == Some('0') { '1' } else { '0' };
        wrong.push(last);
        for bad in [wrong.as_str(), "", "jh_", "jh__", &token[3..], &token[..20], &tokens_of_another()] {
            assert_eq!(tokens.who(bad), None, "{bad}");
        }
        assert_eq!((tokens.revoke("w"), tokens.revoke("w")), (1, 0));
        assert_eq!(tokens.who(&token), None);
        assert_eq!(format!("{tokens:?}"), "Tokens(…)");
    }

    fn tokens_of_another() -> String {
        Tokens::default().mint("w", Role::Worker)
    }
}
