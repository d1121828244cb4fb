//! Tokens: authentication and roles.
//!
//! A token has the form `jh_<id>_<secret>`. The id selects the entry. The secret has 256 random bits; its BLAKE3 hash
//! is compared in constant time. Only hashes are kept, so databases, memory dumps and logs do not expose tokens. The
//! only token on disk is the administrator's, in a file that only its owner can read.
//!
//! ```text
//!   own      made by this process, valid until it exits           (admin, the local worker)
//!   stored   settings of kind token, reloaded from the store; a revocation by another node applies within seconds
//!   node     the worker of a node, made of its name where several nodes share the tokens (shared.rs)
//!   job      made of attempt and lease, stored nowhere            (job.rs)
//!   browser  a one-time code, then a cookie, in memory            (browser.rs)
//! ```

mod browser;
mod identity;
mod issue;
mod job;
mod secret;
mod shared;
mod stored;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use jobhall_core::{AttemptId, LeaseId};
use jobhall_engine::Engine;
use jobhall_protocol as wire;
use jobhall_store::Store;
use tokio::sync::{Mutex, watch};

use self::browser::Browsers;
use self::job::JobKey;
use self::secret::split;
use self::stored::StoredToken;
use crate::app::now;

pub(crate) use self::browser::SESSION_TIME;
pub use self::identity::{Bound, Identity, Role};
pub(crate) use self::secret::Hash;
pub use self::secret::TokenError;

/// File name of the administrator's token in the data directory.
const ADMIN_FILE: &str = "admin.token";
/// File name of the key for job tokens in the data directory.
const KEY_FILE: &str = "hall.key";

/// The valid tokens.
pub struct Tokens {
    store: Arc<dyn Store>,
    entries: RwLock<Entries>,
    /// Held during writes and reloads, so that an older read does not undo a write.
    writing: Mutex<()>,
    /// Incremented when a token is removed, to notify waiting requests.
    changed: watch::Sender<u64>,
    job_key: JobKey,
    pub(crate) browsers: Browsers,
    /// Whether several nodes share the tokens.
    is_shared: bool,
}

/// Own and stored tokens by id.
#[derive(Default)]
struct Entries {
    own: HashMap<String, (Hash, Identity)>,
    stored: HashMap<String, StoredToken>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens(…)")
    }
}

impl Tokens {
    /// Opens the tokens of a hall with this data directory and store. The first start creates the administrator's token
    /// and the key for job tokens in the data directory.
    pub async fn open(data: &Path, store: Arc<dyn Store>) -> Result<Tokens, TokenError> {
        let key = secret::private(data, KEY_FILE, secret::random_hex::<32>)?;
        let key = secret::bytes_of(&key).ok_or_else(|| TokenError::Content(data.join(KEY_FILE)))?;
        let admin = secret::private(data, ADMIN_FILE, secret::fresh)?;
        let tokens = Tokens::empty(store, JobKey(key));
        tokens.add(&admin, "admin", Role::Admin).ok_or_else(|| TokenError::Content(data.join(ADMIN_FILE)))?;
        tokens.refresh().await.map_err(|error| TokenError::Store(error.to_string()))?;
        Ok(tokens)
    }

    fn empty(store: Arc<dyn Store>, job_key: JobKey) -> Tokens {
        Tokens {
            store,
            entries: RwLock::default(),
            writing: Mutex::default(),
            changed: watch::Sender::new(0),
            job_key,
            browsers: Browsers::default(),
            is_shared: false,
        }
    }

    /// Creates a token that is valid until this process exits.
    pub fn mint(&self, name: &str, role: Role) -> String {
        let token = secret::fresh();
        self.add(&token, name, role);
        token
    }

    /// Revokes every token of this name that this process made; returns their number.
    pub fn revoke(&self, name: &str) -> usize {
        let mut entries = self.write();
        let before = entries.own.len();
        entries.own.retain(|_, (_, identity)| identity.name != name);
        let gone = before - entries.own.len();
        drop(entries);
        self.tell_change();
        gone
    }

    /// Creates a one-time code that signs a browser in as the administrator.
    pub fn code(&self) -> String {
        self.browsers.code()
    }

    /// The token for the process of an attempt, valid as long as the lease.
    pub(crate) fn of_attempt(&self, attempt: AttemptId, lease: LeaseId) -> String {
        self.job_key.token(attempt, lease)
    }

    fn add(&self, token: &str, name: &str, role: Role) -> Option<()> {
        let (id, secret) = split(token)?;
        let identity = Identity::new(id, name, role);
        self.write().own.insert(id.to_owned(), (Hash::of(secret), identity));
        Some(())
    }

    /// The identity of a token. An unknown id takes as long as a wrong secret.
    pub(crate) fn who(&self, token: &str) -> Option<Identity> {
        let Some((id, secret)) = split(token) else { return self.who_of_node(token) };
        let entries = self.read();
        let known = match (entries.own.get(id), entries.stored.get(id)) {
            (Some((hash, identity)), _) => Some((*hash, identity.clone())),
            (None, Some(stored)) if !stored.is_expired(now()) => Some((stored.hash, stored.identity())),
            _ => None,
        };
        let good = Hash::is(Hash::of(secret), known.as_ref().map(|(hash, _)| *hash));
        known.filter(|_| good).map(|(_, identity)| identity)
    }

    /// The identity of a job token. The engine knows whether the attempt still holds the lease.
    pub(crate) async fn who_of_job(&self, engine: &Engine, token: &str) -> Option<Identity> {
        let (attempt, mac) = self.job_key.open(token)?;
        let shown = engine.show(attempt.job).await.ok()?;
        let lease = &shown.job.status.state.leased()?.lease;
        let (lease, worker) = (lease.id, lease.worker.clone());
        // Another claim of the job has another lease and therefore another MAC.
        if !self.job_key.made(mac, attempt, lease) {
            return None;
        }
        let name = format!("job-{}", attempt.job);
        let bound = Some(Bound { attempt, lease, worker });
        Some(Identity { bound, ..Identity::new("", &name, Role::Job) })
    }

    /// The identity of a browser cookie: the administrator.
    pub(crate) fn who_of_cookie(&self, cookie: &str) -> Option<Identity> {
        let entries = self.browsers.is_in(cookie).then(|| self.read())?;
        let own = entries.own.values().map(|(_, identity)| identity.clone());
        let stored = entries.stored.values().map(StoredToken::identity);
        own.chain(stored).find(|who| who.name == "admin" && who.role == Role::Admin)
    }

    /// Waits until the token of an identity is invalid. Never returns for a job token, which ends with its attempt.
    pub(crate) async fn gone(&self, who: &Identity) {
        let mut changed = self.changed.subscribe();
        while who.bound.is_some() || self.has(&who.id) {
            // The sender lives as long as the tokens do.
            let _ = changed.changed().await;
        }
    }

    fn has(&self, id: &str) -> bool {
        let entries = self.read();
        let good = |stored: &StoredToken| !stored.is_expired(now());
        let of_node = self.is_shared && id.starts_with("node_");
        of_node || entries.own.contains_key(id) || entries.stored.get(id).is_some_and(good)
    }

    /// The stored tokens, by name.
    pub(crate) fn list(&self) -> Vec<wire::Token> {
        let moment = now();
        let entries = self.read();
        let good = entries.stored.values().filter(|stored| !stored.is_expired(moment));
        let mut tokens: Vec<_> = good.map(StoredToken::told).collect();
        tokens.sort_by(|a, b| a.name.cmp(&b.name));
        tokens
    }

    fn tell_change(&self) {
        self.changed.send_modify(|changes| *changes += 1);
    }

    fn read(&self) -> RwLockReadGuard<'_, Entries> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Entries> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }
}
