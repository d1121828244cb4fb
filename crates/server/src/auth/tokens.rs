//! Tokens: authentication and roles.
//!
//! A token has the form `jh_<id>_<secret>`. The id selects the entry. The secret has 256 random bits; its BLAKE3 hash
//! is compared in constant time. Only hashes are kept, so databases, memory dumps and logs do not expose tokens. The
//! only token on disk is the administrator's, in a file that only its owner can read.
//!
//! ```text
//!   own      made by this process, valid until it exits           (the local worker; on one node also admin)
//!   stored   settings of kind token, reloaded from the store; a revocation by another node applies within seconds
//!   node     the worker of a node, made of its name where several nodes share the tokens (shared.rs)
//!   job      made of attempt and lease, stored nowhere            (job.rs)
//!            both with keys that are derived from the key file    (keys.rs)
//!   browser  a one-time code, then a cookie, in memory            (browser.rs)
//! ```

mod browser;
mod escalation;
mod hall_identity;
mod identity;
mod issue;
mod job;
mod keys;
mod revoked;
mod secret;
mod shared;
mod shares;
mod stored;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use jobhall_core::{AttemptId, LeaseId, Scope, WorkerName};
use jobhall_engine::Engine;
use jobhall_protocol as wire;
use jobhall_store::Store;
use tokio::sync::{Mutex, watch};

use self::browser::Browsers;
use self::job::JobToken;
use self::secret::split;
use self::stored::StoredToken;
use crate::server::app::now;

pub(crate) use self::browser::SESSION_TIME;
pub use self::identity::{Bound, Identity, Role, TokenFacts};
pub use self::keys::{EarlierKey, HallKeys};
pub(crate) use self::secret::Hash;
pub use self::secret::TokenError;
pub(crate) use self::shares::{Shares, TokenShare, TokenShares};

/// File name of the administrator's token in the data directory.
const ADMIN_FILE: &str = "admin.token";

/// The valid tokens.
pub struct Tokens {
    store: Arc<dyn Store>,
    entries: RwLock<Entries>,
    /// Held during writes and reloads, so that an older read does not undo a write.
    writing: Mutex<()>,
    /// Incremented when a token is removed, to notify waiting requests.
    changed: watch::Sender<u64>,
    keys: Arc<HallKeys>,
    pub(crate) browsers: Browsers,
    /// Whether several nodes share the tokens.
    is_shared: bool,
}

/// Own and stored tokens by id.
#[derive(Default)]
struct Entries {
    own: HashMap<String, (Hash, Identity)>,
    stored: HashMap<String, StoredToken>,
    /// Ids of revoked administrators' tokens.
    revoked_ids: HashSet<String>,
    /// Workers whose tokens became invalid and whose leases are to be ended.
    revoked: Vec<WorkerName>,
    /// By id of an administrator's token: the workers that it named.
    named: HashMap<String, BTreeSet<WorkerName>>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens(…)")
    }
}

impl Tokens {
    /// Opens the tokens of a hall of one node with this data directory and store. The first start creates the
    /// administrator's token in the data directory.
    pub async fn open(data: &Path, keys: Arc<HallKeys>, store: Arc<dyn Store>) -> Result<Tokens, TokenError> {
        let admin = secret::private(data, ADMIN_FILE, secret::fresh)?;
        let tokens = Tokens::empty(store, keys);
        tokens.add(&admin, "admin", Role::Admin).ok_or_else(|| TokenError::Content(data.join(ADMIN_FILE)))?;
        tokens.refresh().await.map_err(|error| TokenError::Store(error.to_string()))?;
        tokens.warn_of_limited_admins();
        Ok(tokens)
    }

    fn empty(store: Arc<dyn Store>, keys: Arc<HallKeys>) -> Tokens {
        Tokens {
            store,
            entries: RwLock::default(),
            writing: Mutex::default(),
            changed: watch::Sender::new(0),
            keys,
            browsers: Browsers::default(),
            is_shared: false,
        }
    }

    /// Reads the key file again if it has changed.
    pub(crate) fn reload_keys(&self) {
        match self.keys.reload() {
            Ok(true) => tracing::info!("the key file has changed and was read again"),
            Ok(false) => {}
            Err(error) => tracing::error!("the key file has changed, the keys read before are used: {error}"),
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
        let gone: Vec<_> = entries.own.extract_if(|_, (_, identity)| identity.name == name).collect();
        for (_, (_, identity)) in &gone {
            entries.note_revoked(identity);
        }
        drop(entries);
        self.tell_change();
        gone.len()
    }

    /// Creates a one-time code that signs a browser in as the administrator.
    pub fn code(&self) -> String {
        self.browsers.code()
    }

    /// The token for the process of an attempt, valid as long as the lease.
    pub(crate) fn of_attempt(&self, attempt: AttemptId, lease: LeaseId) -> String {
        JobToken::make(&self.keys, attempt, lease)
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
        let own = || entries.own.get(id).map(|(hash, identity)| (*hash, identity));
        let stored = || entries.stored.get(id).filter(|stored| !stored.is_expired_now());
        let known = own().or_else(|| stored().map(|stored| (stored.hash, stored.identity())));
        let good = Hash::is(Hash::of(secret), known.map(|(hash, _)| hash));
        known.filter(|_| good).map(|(_, identity)| identity.clone())
    }

    /// The identity of a job token. The engine knows whether the attempt still holds the lease.
    pub(crate) async fn who_of_job(&self, engine: &Engine, token: &str) -> Option<Identity> {
        let opened = JobToken::open(&self.keys, token)?;
        let attempt = opened.attempt;
        let shown = engine.show(attempt.job).await.ok()?;
        let lease = &shown.job.status.state.leased()?.lease;
        let (lease, worker) = (lease.id, lease.worker.clone());
        // Another claim of the job has another lease and therefore another MAC.
        if !opened.is_for(lease) {
            return None;
        }
        let name = format!("job-{}", attempt.job);
        let scope = Scope::new(&[shown.job.spec.queue.as_str()]).ok()?;
        let bound = Bound { attempt, lease, worker };
        Some(Identity::new("", &name, Role::Job).within(scope).bound_to(bound))
    }

    /// The identity of a browser cookie: the administrator.
    pub(crate) fn who_of_cookie(&self, cookie: &str) -> Option<Identity> {
        let browser = Some(self.browsers.session(cookie)?);
        let entries = self.read();
        let own = entries.own.values().map(|(_, identity)| identity);
        let stored = entries.stored.values().map(StoredToken::identity);
        let admin = own.chain(stored).find(|who| who.name == "admin" && who.role == Role::Admin)?;
        Some(Identity { browser, ..admin.clone() })
    }

    /// Ends the browser session of an identity; returns whether it has one.
    pub(crate) fn sign_out(&self, who: &Identity) -> bool {
        if let Some(session) = &who.browser {
            self.browsers.leave(session);
            self.tell_change();
        }
        who.is_browser()
    }

    /// Waits until the token or cookie of an identity is invalid. Never returns for a job token, which ends with its
    /// attempt.
    pub(crate) async fn gone(&self, who: &Identity) {
        let mut changed = self.changed.subscribe();
        while who.bound.is_some() || self.knows(who) {
            let expired = async {
                match &who.browser {
                    Some(session) => tokio::time::sleep_until(session.end).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // The sender lives as long as the tokens do.
                _ = changed.changed() => {}
                () = expired => {}
            }
        }
    }

    /// Whether the token or cookie of an identity is valid; always false for a job token.
    pub(crate) fn knows(&self, who: &Identity) -> bool {
        let signed_in = who.browser.as_ref().is_none_or(|session| self.browsers.is_in(session));
        signed_in && self.has(&who.id)
    }

    fn has(&self, id: &str) -> bool {
        let entries = self.read();
        let good = |stored: &StoredToken| !stored.is_expired_now();
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

    /// Logs the stored tokens of administrators that are limited to queues.
    fn warn_of_limited_admins(&self) {
        for token in self.read().stored.values().filter(|token| token.is_limited_admin()) {
            tracing::warn!(
                token = token.name,
                queues = %token.scope,
                "the role admin cannot be limited to queues; this token has the role client in its queues. \
                 To replace it: jobhall token revoke {}, then jobhall token create",
                token.id,
            );
        }
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
