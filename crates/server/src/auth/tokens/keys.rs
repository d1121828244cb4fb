//! The key of the hall: one file, `hall.key`, of which every node has a copy. A key for each purpose is derived from it.
//! No database has it.
//!
//! ```text
//!   5f2c…                                  the current key: 64 hex digits
//!   9a01… until 2026-11-18T09:00:00.000Z   a key before it, valid until then
//! ```
//!
//! While two keys are valid, everything that is made carries a proof of both. So a node that has only one of them
//! accepts it, and it stays valid when the older key expires.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use jobhall_core::Time;
use jobhall_protocol::Timestamp;

use super::job::JobKey;
use super::secret::{self, Hash, TokenError};
use crate::server::app::now;

/// Maximum number of keys in the file.
pub(super) const KEYS: usize = 4;

/// Contexts of the key derivation, one for each purpose.
const JOB_TOKENS: &str = "jobhall 2026 tokens of jobs";
const NODE_TOKENS: &str = "jobhall 2026 tokens of the workers of nodes";
const FORWARDING: &str = "jobhall 2026 requests that a node forwards";
const IDENTIFIER: &str = "jobhall 2026 identifier of the key of a hall";

/// The keys of a hall.
pub struct HallKeys {
    /// None for keys without a file.
    path: Option<PathBuf>,
    ring: RwLock<Arc<Ring>>,
}

impl fmt::Debug for HallKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HallKeys(…)")
    }
}

/// A key that was replaced and is still valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlierKey {
    pub id: String,
    pub until: Time,
}

/// The content of the file.
pub(super) struct Ring {
    keys: Vec<DerivedKeys>,
    /// What changes with the file: device, inode, length, time of the last change.
    stamp: (u64, u64, u64, i64, i64),
}

impl Ring {
    /// The valid keys, the current one first.
    pub(super) fn valid(&self) -> impl Iterator<Item = &DerivedKeys> {
        self.keys.iter().filter(|key| key.is_valid())
    }
}

/// The keys that are derived from one line of the file.
pub(super) struct DerivedKeys {
    pub(super) jobs: JobKey,
    pub(super) nodes: [u8; 32],
    /// The text that a node shows to another one, and its hash.
    pub(super) forwarding: (String, Hash),
    id: String,
    /// When it expires; none for the current key.
    until: Option<Time>,
}

impl DerivedKeys {
    fn new(key: &[u8; 32], until: Option<Time>) -> DerivedKeys {
        let derived = |context| blake3::derive_key(context, key);
        let forwarding = secret::hex(&derived(FORWARDING));
        DerivedKeys {
            jobs: JobKey(derived(JOB_TOKENS)),
            nodes: derived(NODE_TOKENS),
            id: secret::hex(&derived(IDENTIFIER)[..16]),
            forwarding: (forwarding.clone(), Hash::of(&forwarding)),
            until,
        }
    }

    fn is_valid(&self) -> bool {
        self.until.is_none_or(|until| until > now())
    }
}

impl HallKeys {
    /// Reads the file; none if there is no file.
    ///
    /// # Errors
    /// The file cannot be read, users other than its owner can read it, or its content is invalid.
    pub fn read(path: &Path) -> Result<Option<HallKeys>, TokenError> {
        let Some(ring) = read(path)? else { return Ok(None) };
        Ok(Some(HallKeys { path: Some(path.to_owned()), ring: RwLock::new(Arc::new(ring)) }))
    }

    /// Reads the file, and creates it with a new key if it is missing. Of several processes that create it, one does.
    ///
    /// # Errors
    /// As [`HallKeys::read`], or the file cannot be created.
    pub fn open(path: &Path) -> Result<HallKeys, TokenError> {
        if let Some(keys) = HallKeys::read(path)? {
            return Ok(keys);
        }
        let failed = |source| TokenError::File { path: path.to_owned(), source };
        match secret::create_private(path, &secret::random_hex::<32>()) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
            _ => {}
        }
        HallKeys::read(path)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
    }

    /// A key without a file.
    #[must_use]
    pub fn fixed(key: &[u8; 32]) -> HallKeys {
        let ring = Ring { keys: vec![DerivedKeys::new(key, None)], stamp: Default::default() };
        HallKeys { path: None, ring: RwLock::new(Arc::new(ring)) }
    }

    pub(super) fn ring(&self) -> Arc<Ring> {
        self.ring.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What a node shows when it forwards a request.
    pub(crate) fn forwarding(&self) -> String {
        let ring = self.ring();
        let shown: Vec<_> = ring.valid().map(|key| key.forwarding.0.as_str()).collect();
        shown.join(",")
    }

    /// Whether a node with one of these keys has shown this text.
    pub(crate) fn is_forwarding(&self, shown: &str) -> bool {
        let shown = Hash::of(shown);
        self.ring().valid().any(|key| Hash::is(shown, Some(key.forwarding.1)))
    }

    /// The identifier of the current key. It says nothing about the key.
    #[must_use]
    pub fn id(&self) -> String {
        self.ring().keys.first().map(|key| key.id.clone()).unwrap_or_default()
    }

    /// The earlier keys that are still valid.
    #[must_use]
    pub fn earlier(&self) -> Vec<EarlierKey> {
        self.replaced().into_iter().filter(|key| key.until > now()).collect()
    }

    /// The earlier keys in the file, also those that are no longer valid.
    #[must_use]
    pub fn replaced(&self) -> Vec<EarlierKey> {
        let replaced = |key: &DerivedKeys| Some(EarlierKey { id: key.id.clone(), until: key.until? });
        self.ring().keys.iter().filter_map(replaced).collect()
    }

    /// Reads the file again if it has changed; returns whether it has. If it cannot be read, the keys stay.
    ///
    /// # Errors
    /// As [`HallKeys::read`], or the file is missing.
    pub fn reload(&self) -> Result<bool, TokenError> {
        let Some(path) = &self.path else { return Ok(false) };
        if stamp(path).is_ok_and(|stamp| stamp == self.ring().stamp) {
            return Ok(false);
        }
        let missing =
            || TokenError::File { path: path.clone(), source: io::Error::from(io::ErrorKind::NotFound) };
        let ring = read(path)?.ok_or_else(missing)?;
        *self.ring.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(ring);
        Ok(true)
    }

    /// Puts a new key into the file. The current key stays valid for this time. The oldest keys are dropped if there are
    /// too many. The owner of the file does not change.
    ///
    /// # Errors
    /// As [`HallKeys::read`], or the file is missing or cannot be written.
    pub fn rotate(path: &Path, overlap_ms: u64) -> Result<HallKeys, TokenError> {
        let failed = |source| TokenError::File { path: path.to_owned(), source };
        let path = &fs::canonicalize(path).map_err(failed)?;
        let text = secret::read_private(path)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        let lines = parse(&text).ok_or_else(|| TokenError::Content(path.clone()))?;
        let moment = now();
        let end = moment.plus_ms(overlap_ms);
        let earlier = lines.into_iter().map(|(key, until)| (key, until.map_or(end, |until| until.min(end))));
        // The key before stays in the file in any case: it shows that the new one replaces it.
        let kept = earlier.enumerate().filter(|(at, (_, until))| *at == 0 || *until > moment);
        let kept = kept.map(|(_, key)| key).take(KEYS - 1);
        let kept = kept.map(|(key, until)| format!("\n{} until {}", secret::hex(&key), Timestamp(until)));
        let text = kept.fold(secret::random_hex::<32>(), |text, line| text + &line);
        let owner = fs::metadata(path).map_err(failed)?;
        secret::write_private(path, &text, |beside| {
            // Only root may give a file away; another user owns it already.
            let same = fs::metadata(beside)?.uid() == owner.uid();
            if same { Ok(()) } else { chown(beside, Some(owner.uid()), Some(owner.gid())) }
        })
        .map_err(failed)?;
        HallKeys::read(path)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
    }
}

fn read(path: &Path) -> Result<Option<Ring>, TokenError> {
    let failed = |source| TokenError::File { path: path.to_owned(), source };
    // Before the content: a change in between is found by the next look.
    let stamp = match stamp(path) {
        Ok(stamp) => stamp,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let Some(text) = secret::read_private(path)? else { return Ok(None) };
    let lines = parse(&text).ok_or_else(|| TokenError::Content(path.to_owned()))?;
    let keys = lines.iter().map(|(key, until)| DerivedKeys::new(key, *until)).collect();
    Ok(Some(Ring { keys, stamp }))
}

fn stamp(path: &Path) -> io::Result<(u64, u64, u64, i64, i64)> {
    let file = fs::metadata(path)?;
    Ok((file.dev(), file.ino(), file.len(), file.mtime(), file.mtime_nsec()))
}

/// The keys of the text, the current one first; none if the text is invalid.
fn parse(text: &str) -> Option<Vec<([u8; 32], Option<Time>)>> {
    let mut keys = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (key, until) = match line.split_once(" until ") {
            Some((key, until)) => (key, Some(until.trim().parse::<Timestamp>().ok()?.0)),
            None => (line, None),
        };
        // The first key is the current one, and there is one current key.
        if keys.is_empty() != until.is_none() {
            return None;
        }
        keys.push((secret::bytes_of(key.trim())?, until));
    }
    (1..=KEYS).contains(&keys.len()).then_some(keys)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hall.key");
        (dir, path)
    }

    #[test]
    fn a_key_file_of_0_1_0_is_read_and_a_spoilt_one_is_not() {
        let key = "0123456789abcdef".repeat(4);
        assert_eq!(parse(&format!("{key}\n")).unwrap().len(), 1);
        let earlier = format!("{key} until 2026-11-18T09:00:00Z");
        assert_eq!(parse(&format!("{key}\n{earlier}\n")).unwrap().len(), 2);
        for bad in ["", "\n", "jh_short", &earlier, &format!("{key}\n{key}"), &format!("{key} until then")] {
            assert!(parse(bad).is_none(), "{bad}");
        }
        let many = format!("{key}\n{}", format!("{earlier}\n").repeat(KEYS));
        assert!(parse(&many).is_none(), "too many");
    }

    #[test]
    fn the_file_is_private_and_of_many_that_create_it_one_does() {
        let (dir, path) = place();
        assert!(HallKeys::read(&path).unwrap().is_none());
        let open = || HallKeys::open(&path).unwrap().id();
        let ids: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(HallKeys::open(&path), Err(TokenError::Open(_))));
    }

    #[test]
    fn a_rotated_key_is_valid_until_its_end_and_the_file_is_read_again() {
        let (_dir, path) = place();
        let keys = HallKeys::open(&path).unwrap();
        let first = keys.id();
        assert!(!keys.reload().unwrap(), "it has not changed");
        let second = HallKeys::rotate(&path, 3_600_000).unwrap();
        assert!(keys.reload().unwrap());
        assert_eq!(keys.id(), second.id());
        assert_ne!(keys.id(), first);
        assert_eq!(keys.earlier().iter().map(|key| key.id.as_str()).collect::<Vec<_>>(), [first]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        HallKeys::rotate(&path, 0).unwrap();
        keys.reload().unwrap();
        assert_eq!(keys.earlier(), [], "no earlier key is valid longer than the overlap");
        assert_eq!(
            keys.replaced().iter().map(|key| &key.id).collect::<Vec<_>>(),
            [&second.id()],
            "but known"
        );
        fs::remove_file(&path).unwrap();
        assert!(keys.reload().is_err() && !keys.id().is_empty(), "the keys stay");
    }

    #[test]
    fn no_two_purposes_have_one_key_and_no_identifier_is_a_key() {
        let raw = [7; 32];
        let DerivedKeys { jobs, nodes, forwarding, id, .. } = DerivedKeys::new(&raw, None);
        let all = [secret::hex(&raw), secret::hex(&jobs.0), secret::hex(&nodes), forwarding.0];
        for (at, key) in all.iter().enumerate() {
            assert!(!all[at + 1..].contains(key) && !key.starts_with(&id), "{at}");
        }
        assert_eq!(format!("{:?}", HallKeys::fixed(&raw)), "HallKeys(…)");
    }
}
