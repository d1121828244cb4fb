//! The key file of a node, and the record of the hall's key in the shared database.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jobhall_core::Time;
use jobhall_protocol::Timestamp;
use jobhall_server::{EarlierKey, HallKeys, TokenError};
use jobhall_store::StoreError;
use jobhall_store_postgres::{Database, KeyRecord, NewKey};

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::settings::{Origin, Setting, Settings};

/// The name of the key file in a data directory.
pub const FILE: &str = "hall.key";

/// The key file that a flag or the settings name; none for the one in the data directory.
pub fn named(flag: Option<&Path>, settings: &Settings) -> Outcome<Option<PathBuf>> {
    match (flag, &settings.key_file) {
        (Some(path), _) => Ok(Some(path.to_owned())),
        // A checked-out file is not trusted: it could name a key that someone else knows.
        (None, Some(Setting { origin: Origin::Project(path), .. })) => {
            Err(Failure::usage(format!("the key_file in {} is not trusted", path.display()))
                .why("that file may come from someone else")
                .fix("give it with --key-file FILE or JOBHALL_KEY_FILE, or in your own configuration file"))
        }
        (None, setting) => Ok(setting.as_ref().map(|found| PathBuf::from(&found.value))),
    }
}

/// Opens the key of a hall of one node; the first start creates it.
pub fn open_alone(path: &Path) -> Outcome<Arc<HallKeys>> {
    HallKeys::open(path).map(Arc::new).map_err(unusable)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub fn unusable(error: TokenError) -> Failure {
    let what = "failed to use the key file of the hall";
    let fix = match &error {
        TokenError::Open(path) => format!("chmod 600 {}", path.display()),
        TokenError::Content(path) => {
            format!("copy it again from another node, or restore {}", path.display())
        }
        _ => return Failure::new(Exit::Unexpected, what).why(error.to_string()),
    };
    Failure::new(Exit::Unexpected, what).why(error.to_string()).fix(fix)
}

/// Opens the key of a node. The first node of a hall creates it; a node with another key than the hall's is refused.
pub async fn open(database: &Database, path: &Path) -> Outcome<Arc<HallKeys>> {
    let failed = |error: StoreError| {
        Failure::new(Exit::Unexpected, "failed to read the key record of the hall").why(error.message)
    };
    let recorded = database.key().await.map_err(failed)?;
    let existing = HallKeys::read(path).map_err(unusable)?;
    let is_new = existing.is_none();
    let keys = match (existing, &recorded) {
        (Some(keys), _) => keys,
        (None, Some(record)) => return Err(missing(record, path)),
        (None, None) => HallKeys::open(path).map_err(unusable)?,
    };
    match compare(database, &keys, path).await.map_err(failed)? {
        Verdict::Same => Ok(Arc::new(keys)),
        Verdict::Earlier(record) => {
            tracing::warn!("{}", earlier(&record, path));
            Ok(Arc::new(keys))
        }
        // Another node was the first at the same moment.
        Verdict::Other(record) if is_new && recorded.is_none() => {
            let _ = std::fs::remove_file(path);
            Err(missing(&record, path))
        }
        Verdict::Other(record) => Err(other(&record, path)),
    }
}

/// How the key of a node relates to the recorded one.
pub enum Verdict {
    Same,
    /// The hall has a newer key; this node's is still valid.
    Earlier(KeyRecord),
    /// The hall has another key.
    Other(KeyRecord),
}

/// Compares the keys with the record. The first key of a hall is recorded, and so is a newer key of this node.
pub async fn compare(database: &Database, keys: &HallKeys, path: &Path) -> Result<Verdict, StoreError> {
    let id = keys.id();
    let mut recorded = database.key().await?;
    if recorded.as_ref().is_none_or(|record| record.id != id) {
        let known = recorded.as_ref().map(|record| record.id.as_str());
        let replaces = keys.replaced().into_iter().find(|key| Some(key.id.as_str()) == known);
        if known.is_none() || replaces.is_some() {
            database.record_key(new_key(&id, path, replaces)).await?;
            recorded = database.key().await?;
        }
    }
    Ok(match recorded {
        None => Verdict::Same,
        Some(record) if record.id == id => Verdict::Same,
        Some(record) if record.earlier.as_ref() == Some(&id) => Verdict::Earlier(record),
        Some(record) => Verdict::Other(record),
    })
}

fn new_key(id: &str, path: &Path, replaces: Option<EarlierKey>) -> NewKey {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    NewKey {
        id: id.to_owned(),
        host: jobhall_worker::host_name(),
        path: path.display().to_string(),
        replaces: replaces.map(|key| (key.id, key.until.as_ms())),
    }
}

/// Where the hall's key is.
fn origin(record: &KeyRecord) -> String {
    let at = Time::from_ms(record.written_ms).map_or_else(|_| String::new(), |at| Timestamp(at).to_string());
    format!("the key of this hall is in {} on {} (recorded at {at})", record.path, record.host)
}

fn copy(record: &KeyRecord, path: &Path) -> String {
    let (from, to) = (&record.path, path.display());
    format!("copy it, readable by its owner only: scp -p {}:{from} {to}", record.host)
}

fn missing(record: &KeyRecord, path: &Path) -> Failure {
    Failure::new(Exit::Unexpected, format!("this node has no key of the hall: {} is missing", path.display()))
        .why(origin(record))
        .fix(copy(record, path))
}

fn other(record: &KeyRecord, path: &Path) -> Failure {
    Failure::new(Exit::Unexpected, format!("{} is not the key of this hall", path.display()))
        .why(origin(record))
        .fix(copy(record, path))
}

/// What is to be done while this node's key is still valid.
pub fn earlier(record: &KeyRecord, path: &Path) -> String {
    format!("the hall has a newer key than this node; {}", copy(record, path))
}

/// Why a running node stops to serve.
pub fn replaced(record: &KeyRecord, path: &Path) -> String {
    format!("{} is no longer the key of this hall; {}", path.display(), copy(record, path))
}
