//! Tokens of a hall with several nodes. They are valid on every leader.
//!
//! Their key file is the same on every node. The administrator's token is stored as a hash like any other token, so
//! that it can be revoked. The node that creates it writes it to its own data directory. A leader that finds an unknown
//! token in `admin.token` stores that one too: an operator who lost the first token can use this to recover. The id of a
//! revoked administrator's token stays in the store, so that a file with it is not accepted again.
//!
//! The worker that a node starts uses `jh_node_<name>_<mac>`, which is made with a key of the hall and not stored.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use jobhall_core::{Scope, WorkerName};
use jobhall_protocol::{TokenKind, TokenRole};
use jobhall_store::{Store, Unit};

use super::keys::{HallKeys, KEYS};
use super::secret::{self, Hash, PREFIX, TokenError, is_hex, split};
use super::stored::StoredToken;
use super::{ADMIN_FILE, Identity, Role, Tokens};
use crate::auth::audit;
use crate::server::app::now;

/// The administrator's token is stored under this name.
const ADMIN: &str = "admin";
/// Hex digits of a MAC.
const MAC: usize = 64;

impl Tokens {
    /// Opens the tokens of a hall whose nodes share these keys, on the node with this data directory. The first node
    /// of the hall creates the administrator's token.
    ///
    /// # Errors
    /// A file cannot be read or written, or the store cannot be read or written.
    pub async fn shared(
        data: &Path,
        keys: Arc<HallKeys>,
        store: Arc<dyn Store>,
    ) -> Result<Tokens, TokenError> {
        let tokens = Tokens { is_shared: true, ..Tokens::empty(store, keys) };
        tokens.refresh().await.map_err(|error| TokenError::Store(error.to_string()))?;
        tokens.warn_of_limited_admins();
        tokens.store_file(data).await?;
        Ok(tokens)
    }

    /// Stores the token of `admin.token`, unless it is stored already or was revoked. Creates the file if the hall has no
    /// administrator.
    async fn store_file(&self, data: &Path) -> Result<(), TokenError> {
        let path = data.join(ADMIN_FILE);
        let has_admin = self.read().stored.values().any(StoredToken::is_admin);
        if has_admin && !path.exists() {
            return Ok(());
        }
        // The file is written first: a stored token without a file would be unusable.
        let admin = secret::private(data, ADMIN_FILE, secret::fresh)?;
        let (id, shown) = split(&admin).ok_or_else(|| TokenError::Content(path.clone()))?;
        let (is_stored, is_revoked) = {
            let entries = self.read();
            (entries.stored.contains_key(id), entries.revoked_ids.contains(id))
        };
        if is_revoked {
            let next =
                if has_admin { "remove it" } else { "remove it and restart this node to get a new one" };
            tracing::warn!("the token in {} was revoked and is not accepted; {next}", path.display());
        } else if !is_stored {
            self.store_admin(id, Hash::of(shown)).await?;
        }
        Ok(())
    }

    async fn store_admin(&self, id: &str, hash: Hash) -> Result<(), TokenError> {
        let is_taken = self.read().stored.values().any(|stored| stored.name == ADMIN);
        let name = if is_taken { format!("{ADMIN}-{id}") } else { ADMIN.to_owned() };
        let token = StoredToken {
            id: id.to_owned(),
            hash,
            name,
            role: TokenRole::Admin,
            kind: TokenKind::Plain,
            scope: Scope::default(),
            uses: None,
            created_at: now(),
            expires_at: None,
            rev: 0,
            identity: OnceLock::new(),
        };
        let act = audit::entry("hall", "token_created", &token.name, format!("id {id}, from {ADMIN_FILE}"));
        let unit = Unit { settings: vec![token.write(0)], audit: vec![act], ..Unit::default() };
        let committed = self.store.commit(vec![unit]).await;
        // If another node was first, its token is valid; the reload reads it.
        committed.map_err(|error| TokenError::Store(error.to_string()))?;
        self.refresh().await.map_err(|error| TokenError::Store(error.to_string()))
    }

    /// The token of the worker that the node of this name starts.
    #[must_use]
    pub fn of_node(keys: &HallKeys, name: &WorkerName) -> String {
        let macs: String = keys.ring().valid().map(|key| mac(&key.nodes, name)).collect();
        format!("{PREFIX}node_{name}_{macs}")
    }

    /// The identity of a node worker's token.
    pub(super) fn who_of_node(&self, token: &str) -> Option<Identity> {
        let (name, shown) = token.strip_prefix(PREFIX)?.strip_prefix("node_")?.rsplit_once('_')?;
        let count = shown.len() / MAC;
        let formed = self.is_shared && (1..=KEYS).contains(&count) && is_hex(shown, count * MAC);
        let name = WorkerName::new(name).ok().filter(|_| formed)?;
        let known: Vec<_> = self.keys.ring().valid().map(|key| Hash::of(&mac(&key.nodes, &name))).collect();
        let mut shown = (0..count).map(|at| Hash::of(&shown[at * MAC..(at + 1) * MAC]));
        let good = shown.any(|shown| known.iter().any(|known| Hash::is(shown, Some(*known))));
        good.then(|| Identity::new(&format!("node_{name}"), name.as_str(), Role::Worker))
    }
}

fn mac(key: &[u8; 32], name: &WorkerName) -> String {
    secret::hex(blake3::keyed_hash(key, name.as_str().as_bytes()).as_bytes())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use jobhall_store::Memory;

    use super::*;

    fn keys(n: u8) -> Arc<HallKeys> {
        Arc::new(HallKeys::fixed(&[n; 32]))
    }

    async fn node(dir: &tempfile::TempDir, store: &Arc<Memory>) -> Tokens {
        Tokens::shared(dir.path(), keys(1), store.clone()).await.unwrap()
    }

    #[tokio::test]
    async fn the_first_node_makes_the_administrators_token_and_all_believe_it() {
        let (store, first, second) =
            (Arc::new(Memory::new()), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        node(&first, &store).await;
        let token = fs::read_to_string(first.path().join(ADMIN_FILE)).unwrap().trim().to_owned();
        let other = node(&second, &store).await;
        assert_eq!(
            other.who(&token).map(|who| (who.name.clone(), who.role)),
            Some((ADMIN.to_owned(), Role::Admin))
        );
        assert!(!second.path().join(ADMIN_FILE).exists(), "one for the hall");
        assert!(node(&first, &store).await.who(&token).is_some(), "and again");
        let elsewhere = Tokens::shared(second.path(), keys(2), Arc::new(Memory::new())).await.unwrap();
        assert!(elsewhere.who(&token).is_none(), "another hall has another");
    }

    #[tokio::test]
    async fn a_token_that_an_operator_put_into_a_data_directory_is_stored_like_any_other() {
        let store = Arc::new(Memory::new());
        let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
        node(&dirs[0], &store).await;
        let helped = secret::private(dirs[1].path(), ADMIN_FILE, secret::fresh).unwrap();
        assert!(node(&dirs[2], &store).await.who(&helped).is_none());
        assert!(node(&dirs[1], &store).await.who(&helped).is_some());
        let third = node(&dirs[2], &store).await;
        assert!(third.who(&helped).is_some(), "valid whichever node leads");
        assert_eq!(third.list().len(), 2, "and listed, so that it can be revoked");
    }

    /// Revokes the token of this data directory's file at this leader.
    async fn revoke(leader: &Tokens, dir: &tempfile::TempDir) -> String {
        let token = fs::read_to_string(dir.path().join(ADMIN_FILE)).unwrap().trim().to_owned();
        let who = leader.who(&token).unwrap();
        leader.remove(&who, &who.id).await.unwrap();
        token
    }

    #[tokio::test]
    async fn audit_h4_a_revoked_administrator_stays_revoked_on_every_leader() {
        let (store, first, second) =
            (Arc::new(Memory::new()), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let leader = node(&first, &store).await;
        secret::private(second.path(), ADMIN_FILE, secret::fresh).unwrap();
        let other = node(&second, &store).await;
        let helped = fs::read_to_string(second.path().join(ADMIN_FILE)).unwrap().trim().to_owned();
        let token = revoke(&leader, &first).await;
        assert!(leader.who(&token).is_none(), "at once");
        other.refresh().await.unwrap();
        assert!(other.who(&token).is_none() && other.who(&helped).is_some());
        let again = node(&first, &store).await;
        assert!(again.who(&token).is_none(), "the file of a restarted node");
        assert_eq!(again.list().len(), 1, "no new administrator while there is one");
        let last = revoke(&again, &second).await;
        let restarted = node(&second, &store).await;
        assert!(restarted.who(&last).is_none() && restarted.list().is_empty());
        fs::remove_file(second.path().join(ADMIN_FILE)).unwrap();
        let recovered = node(&second, &store).await;
        assert_eq!(recovered.list().len(), 1, "a hall without an administrator gets one");
        assert!(recovered.who(&token).is_none() && recovered.who(&last).is_none());
    }

    #[tokio::test]
    async fn the_worker_of_a_node_is_known_by_the_secret_and_stays_known() {
        let (store, dir) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
        let tokens = node(&dir, &store).await;
        let name = WorkerName::new("box_1-7450-af").unwrap();
        let token = Tokens::of_node(&keys(1), &name);
        let who = tokens.who(&token).unwrap();
        assert_eq!((who.name.as_str(), who.role), ("box_1-7450-af", Role::Worker));
        assert!(tokens.has(&who.id));
        assert!(tokens.who(&Tokens::of_node(&keys(2), &name)).is_none());
        assert!(tokens.who(&token.replace("box_1", "box_2")).is_none());
        for bad in ["jh_node_", "jh_node_a_", "jh_node__", &token[..token.len() - 1]] {
            assert!(tokens.who(bad).is_none(), "{bad}");
        }
        let alone = Tokens::open(dir.path(), keys(1), store).await.unwrap();
        assert!(alone.who(&token).is_none(), "a hall with one node has no such workers");
    }
}
