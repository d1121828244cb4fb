//! Tokens: who is asking, and in which role.
//!
//! A token reads `jh_<id>_<secret>`: the id finds the entry, the secret of 256 random bits is compared by its BLAKE3
//! hash in constant time. Only hashes are kept, so neither database nor memory dumps nor logs give tokens away; the
//! one token on disk is the administrator's, in a file that only its owner can read.
//!
//! ```text
//!   own      made by this process for itself, gone with it        (admin, the local worker)
//!   stored   settings of kind token, re-read from the store: what another node revokes is gone here soon after
//!   node     the worker of a node, made of its name where several nodes share the tokens (shared.rs)
//!   job      made of attempt and lease, stored nowhere            (job.rs)
//!   browser  a code for once, then a cookie, in memory            (browser.rs)
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

/// The file of the administrator's token, in the data directory.
const ADMIN_FILE: &str = "admin.token";
/// The file of the key that jobs' tokens are made with, in the data directory.
const KEY_FILE: &str = "hall.key";

/// All tokens that are good.
pub struct Tokens {
    store: Arc<dyn Store>,
    entries: RwLock<Entries>,
    /// Held by whoever writes or re-reads, so that what was just written is not undone by an older reading.
    writing: Mutex<()>,
    /// Rises when a token is gone, for those who must stop then.
    changed: watch::Sender<u64>,
    job_key: JobKey,
    pub(crate) browsers: Browsers,
    /// Whether several nodes have the same.
    is_shared: bool,
}

/// Both by id.
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
    /// The tokens of a hall with this data directory and store. On first start the administrator's is made and
    /// written there, and the key of jobs' tokens.
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

    /// A new token that lives as long as this process.
    pub fn mint(&self, name: &str, role: Role) -> String {
        let token = secret::fresh();
        self.add(&token, name, role);
        token
    }

    /// Takes away every token of this name that this process made for itself; how many there were.
    pub fn revoke(&self, name: &str) -> usize {
        let mut entries = self.write();
        let before = entries.own.len();
        entries.own.retain(|_, (_, identity)| identity.name != name);
        let gone = before - entries.own.len();
        drop(entries);
        self.tell_change();
        gone
    }

    /// A link's code that lets a browser in once, as the administrator.
    pub fn code(&self) -> String {
        self.browsers.code()
    }

    /// The token for the process of an attempt, good as long as the lease.
    pub(crate) fn of_attempt(&self, attempt: AttemptId, lease: LeaseId) -> String {
        self.job_key.token(attempt, lease)
    }

    fn add(&self, token: &str, name: &str, role: Role) -> Option<()> {
        let (id, secret) = split(token)?;
        let identity = Identity::new(id, name, role);
        self.write().own.insert(id.to_owned(), (Hash::of(secret), identity));
        Some(())
    }

    /// Whose token this is. An unknown id takes as long as a wrong secret.
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

    /// Whose token this is, of a job's process: the engine knows whether the attempt still holds the lease.
    pub(crate) async fn who_of_job(&self, engine: &Engine, token: &str) -> Option<Identity> {
        let (attempt, mac) = self.job_key.open(token)?;
        let shown = engine.show(attempt.job).await.ok()?;
        let lease = &shown.job.life.state.held()?.lease;
        let (lease, worker) = (lease.id, lease.worker.clone());
        // Another claim of the job has another lease, and so another mac.
        if !self.job_key.made(mac, attempt, lease) {
            return None;
        }
        let name = format!("job-{}", attempt.job);
        let bound = Some(Bound { attempt, lease, worker });
        Some(Identity { bound, ..Identity::new("", &name, Role::Job) })
    }

    /// Who is behind a browser's cookie: the administrator, who gave it the link.
    pub(crate) fn who_of_cookie(&self, cookie: &str) -> Option<Identity> {
        let entries = self.browsers.is_in(cookie).then(|| self.read())?;
        let own = entries.own.values().map(|(_, identity)| identity.clone());
        let stored = entries.stored.values().map(StoredToken::identity);
        own.chain(stored).find(|who| who.name == "admin" && who.role == Role::Admin)
    }

    /// Waits until this one's token is good no more. A job's own ends with its attempt, and so does all it waits for.
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

    /// The stored ones, by name.
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
