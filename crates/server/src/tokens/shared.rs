//! Tokens of a hall with several nodes. They are valid on every leader.
//!
//! The key of job tokens is derived from the secret that the nodes share. The administrator's token is stored as a
//! hash like any other token. The node that creates it, once per hall, writes it to its own data directory. A node
//! that finds such a file in its data directory also accepts that token while it leads; an operator who lost the
//! first token can use this to recover.
//!
//! The worker that a node starts uses `jh_node_<name>_<mac>`, which is made with the same key and not stored.

use std::path::Path;
use std::sync::Arc;

use jobhall_core::{Scope, WorkerName};
use jobhall_protocol::{TokenKind, TokenRole};
use jobhall_store::{Store, Unit};

use super::job::JobKey;
use super::secret::{self, Hash, PREFIX, TokenError, is_hex, split};
use super::stored::StoredToken;
use super::{ADMIN_FILE, Identity, Role, Tokens};
use crate::app::now;
use crate::audit;

/// The administrator's token is stored under this name.
const ADMIN: &str = "admin";
/// Key derivation context; it separates this key from other uses of the secret.
const KEY_CONTEXT: &str = "jobhall 2026 key of the tokens of jobs and nodes";
/// Hex digits of a MAC.
const MAC: usize = 64;

impl Tokens {
    /// Opens the tokens of a hall whose nodes share this secret, on the node with this data directory. The first node
    /// of the hall creates the administrator's token.
    ///
    /// # Errors
    /// A file cannot be read or written, or the store cannot be read or written.
    pub async fn shared(data: &Path, store: Arc<dyn Store>, secret: &str) -> Result<Tokens, TokenError> {
        let tokens = Tokens { is_shared: true, ..Tokens::empty(store, key(secret)) };
        tokens.refresh().await.map_err(|error| TokenError::Store(error.to_string()))?;
        let known = tokens.read().stored.values().any(|stored| stored.name == ADMIN);
        let path = data.join(ADMIN_FILE);
        if known && !path.exists() {
            return Ok(tokens);
        }
        // The file is written first: a stored token without a file would be unusable.
        let admin = secret::private(data, ADMIN_FILE, secret::fresh)?;
        let (id, shown) = split(&admin).ok_or(TokenError::Content(path))?;
        if !known {
            tokens.store_admin(id, Hash::of(shown)).await?;
        }
        tokens.add(&admin, ADMIN, Role::Admin);
        Ok(tokens)
    }

    async fn store_admin(&self, id: &str, hash: Hash) -> Result<(), TokenError> {
        let token = StoredToken {
            id: id.to_owned(),
            hash,
            name: ADMIN.to_owned(),
            role: TokenRole::Admin,
            kind: TokenKind::Plain,
            scope: Scope::default(),
            created_at: now(),
            expires_at: None,
            rev: 0,
        };
        let act = audit::entry("hall", "token_created", ADMIN, format!("id {id}"));
        let unit = Unit { settings: vec![token.write(0)], audit: vec![act], ..Unit::default() };
        let committed = self.store.commit(vec![unit]).await;
        // If another node was first, its token is valid; the reload reads it.
        committed.map_err(|error| TokenError::Store(error.to_string()))?;
        self.refresh().await.map_err(|error| TokenError::Store(error.to_string()))
    }

    /// The token of the worker that the node of this name starts.
    #[must_use]
    pub fn of_node(secret: &str, name: &WorkerName) -> String {
        format!("{PREFIX}node_{name}_{}", mac(&key(secret), name))
    }

    /// The identity of a node worker's token.
    pub(super) fn who_of_node(&self, token: &str) -> Option<Identity> {
        let (name, shown) = token.strip_prefix(PREFIX)?.strip_prefix("node_")?.rsplit_once('_')?;
        let name = WorkerName::new(name).ok().filter(|_| self.is_shared && is_hex(shown, MAC))?;
        let good = Hash::is(Hash::of(shown), Some(Hash::of(&mac(&self.job_key, &name))));
        good.then(|| Identity::new(&format!("node_{name}"), name.as_str(), Role::Worker))
    }
}

fn key(secret: &str) -> JobKey {
    JobKey(blake3::derive_key(KEY_CONTEXT, secret.as_bytes()))
}

fn mac(key: &JobKey, name: &WorkerName) -> String {
    let mut hasher = blake3::Hasher::new_keyed(&key.0);
    hasher.update(b"node").update(name.as_str().as_bytes());
    secret::hex(hasher.finalize().as_bytes())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use jobhall_store::Memory;

    use super::*;

    async fn node(dir: &tempfile::TempDir, store: &Arc<Memory>) -> Tokens {
        Tokens::shared(dir.path(), store.clone(), "the hall's secret").await.unwrap()
    }

    #[tokio::test]
    async fn the_first_node_makes_the_administrators_token_and_all_believe_it() {
        let (store, first, second) =
            (Arc::new(Memory::new()), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        node(&first, &store).await;
        let token = fs::read_to_string(first.path().join(ADMIN_FILE)).unwrap().trim().to_owned();
        let other = node(&second, &store).await;
        assert_eq!(other.who(&token).map(|who| (who.name, who.role)), Some((ADMIN.to_owned(), Role::Admin)));
        assert!(!second.path().join(ADMIN_FILE).exists(), "one for the hall");
        assert!(node(&first, &store).await.who(&token).is_some(), "and again");
        let elsewhere = Tokens::shared(second.path(), Arc::new(Memory::new()), "x").await.unwrap();
        assert!(elsewhere.who(&token).is_none(), "another hall has another");
    }

    #[tokio::test]
    async fn a_file_that_someone_put_into_the_data_directory_is_believed_there_alone() {
        let store = Arc::new(Memory::new());
        let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
        node(&dirs[0], &store).await;
        let helped = secret::private(dirs[1].path(), ADMIN_FILE, secret::fresh).unwrap();
        assert!(node(&dirs[1], &store).await.who(&helped).is_some());
        assert!(node(&dirs[2], &store).await.who(&helped).is_none());
    }

    #[tokio::test]
    async fn the_worker_of_a_node_is_known_by_the_secret_and_stays_known() {
        let (store, dir) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
        let tokens = node(&dir, &store).await;
        let name = WorkerName::new("box_1-7450-af").unwrap();
        let token = Tokens::of_node("the hall's secret", &name);
        let who = tokens.who(&token).unwrap();
        assert_eq!((who.name.as_str(), who.role), ("box_1-7450-af", Role::Worker));
        assert!(tokens.has(&who.id));
        assert!(tokens.who(&Tokens::of_node("another secret", &name)).is_none());
        assert!(tokens.who(&token.replace("box_1", "box_2")).is_none());
        for bad in ["jh_node_", "jh_node_a_", "jh_node__", &token[..token.len() - 1]] {
            assert!(tokens.who(bad).is_none(), "{bad}");
        }
        let alone = Tokens::open(dir.path(), store).await.unwrap();
        assert!(alone.who(&token).is_none(), "a hall with one node has no such workers");
    }

    #[test]
    fn tokens_of_jobs_outlive_the_node_that_made_them() {
        let attempt = "17-2".parse().unwrap();
        let token = key("s").token(attempt, jobhall_core::LeaseId(7));
        assert!(key("s").open(&token).is_some() && key("t").open(&token).is_none());
    }
}
