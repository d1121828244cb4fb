//! Creates, removes and exchanges stored tokens. Each change is one guarded commit that includes its audit entry. If
//! two requests want the same name or use the same join token, the store accepts only one of them.

use std::collections::HashMap;

use jobhall_core::{Scope, Time, TokenName};
use jobhall_protocol::{Code, CreateToken, CreatedToken, TokenKind, TokenRole};
use jobhall_store::{Conflict, SettingKind, SettingWrite, StoreError, Unit};

use super::identity::Identity;
use super::secret::{Hash, fresh, random_hex, split};
use super::stored::StoredToken;
use super::{Entries, Tokens};
use crate::app::now;
use crate::audit;
use crate::error::ApiError;
use crate::params::shown;

/// Maximum lifetime of a join token.
const JOIN_MS: u64 = 3_600_000;
/// Maximum lifetime of any other token.
const EXPIRY_MS: u64 = 3_650 * 24 * 3_600_000;
const TOKENS: usize = 10_000;
/// Maximum number of expired tokens removed by one reload.
const SWEPT: usize = 100;

impl Tokens {
    /// Creates a token. Only the answer contains its secret.
    pub(crate) async fn create(&self, by: &Identity, wanted: &CreateToken) -> Result<CreatedToken, ApiError> {
        let moment = now();
        let expires_at = expiry(wanted, moment)?;
        let name = match &wanted.name {
            Some(name) => name.clone(),
            None if wanted.kind == TokenKind::Join => format!("join-{}", random_hex::<4>()),
            None => return Err(ApiError::bad("name is missing")),
        };
        if wanted.kind == TokenKind::Join && wanted.role != TokenRole::Worker {
            return Err(ApiError::bad("a join token must have the role worker"));
        }
        let scope = Scope::new(&wanted.queues).map_err(ApiError::bad)?;
        let (secret, token) = made(name, wanted.role, wanted.kind, scope, moment, expires_at)?;
        let _writing = self.writing.lock().await;
        let expected = self.free(&token.name, moment)?;
        let detail = format!("{} {}, id {}", word(token.kind), role(token.role), token.id);
        let unit = Unit {
            settings: vec![token.write(expected)],
            audit: vec![audit::entry(&by.name, "token_created", &token.name, detail)],
            ..Unit::default()
        };
        match self.commit(unit).await? {
            Ok(()) => Ok(self.keep(secret, StoredToken { rev: expected + 1, ..token })),
            Err(_) => Err(taken(&token.name)),
        }
    }

    /// Revokes a token and ends the requests and sessions that use it.
    pub(crate) async fn remove(&self, by: &Identity, id: &str) -> Result<(), ApiError> {
        let _writing = self.writing.lock().await;
        let none = || ApiError::new(Code::NotFound, format!("there is no token {}", shown(id)));
        let token = self.read().stored.get(id).cloned().ok_or_else(none)?;
        let unit = Unit {
            settings: vec![token.removal()],
            audit: vec![audit::entry(&by.name, "token_revoked", &token.name, format!("id {id}"))],
            ..Unit::default()
        };
        let done = self.commit(unit).await?;
        self.write().stored.remove(id);
        self.tell_change();
        done.map_err(|_| none())
    }

    /// Exchanges a join token for a worker token. The join token is consumed only on success.
    pub(crate) async fn join(&self, by: &Identity, name: &str) -> Result<CreatedToken, ApiError> {
        let moment = now();
        let used = || ApiError::new(Code::Unauthorized, "this join token has been used or has expired");
        let _writing = self.writing.lock().await;
        let join = self.read().stored.get(&by.id).cloned().ok_or_else(used)?;
        let scope = join.scope.clone();
        let (secret, token) =
            made(name.to_owned(), TokenRole::Worker, TokenKind::Plain, scope, moment, None)?;
        let expected = self.free(&token.name, moment)?;
        let unit = Unit {
            settings: vec![join.removal(), token.write(expected)],
            audit: vec![audit::entry(&join.name, "worker_joined", &token.name, format!("id {}", token.id))],
            ..Unit::default()
        };
        match self.commit(unit).await? {
            Ok(()) => {
                self.write().stored.remove(&join.id);
                self.tell_change();
                Ok(self.keep(secret, StoredToken { rev: expected + 1, ..token }))
            }
            Err(conflicts) if conflicts.iter().any(|it| matches!(it, Conflict::Setting { write: 0, .. })) => {
                Err(used())
            }
            Err(_) => Err(taken(&token.name)),
        }
    }

    /// The rev that a new token of this name replaces: 0, or the rev of an expired token.
    fn free(&self, name: &str, moment: Time) -> Result<u32, ApiError> {
        let entries = self.read();
        if entries.own.values().any(|(_, identity)| identity.name == name) {
            return Err(taken(name));
        }
        if entries.stored.len() >= TOKENS {
            return Err(ApiError::new(
                Code::Conflict,
                format!("there are {TOKENS} tokens, which is the limit"),
            ));
        }
        match entries.stored.values().find(|stored| stored.name == name) {
            Some(stored) if stored.is_expired(moment) => Ok(stored.rev),
            Some(_) => Err(taken(name)),
            None => Ok(0),
        }
    }

    fn keep(&self, secret: String, token: StoredToken) -> CreatedToken {
        let told = token.told();
        let mut entries = self.write();
        entries.stored.retain(|_, stored| stored.name != token.name);
        entries.stored.insert(token.id.clone(), token);
        CreatedToken { secret, token: told }
    }

    async fn commit(&self, unit: Unit) -> Result<Result<(), Vec<Conflict>>, ApiError> {
        let committed = self.store.commit(vec![unit]).await?;
        let result = committed.results.into_iter().next();
        let result = result.ok_or_else(|| ApiError::internal("a commit without a result"))?;
        Ok(result.map(drop))
    }

    /// Reloads the stored tokens, which applies revocations by other nodes, and removes expired tokens.
    pub(crate) async fn refresh(&self) -> Result<(), StoreError> {
        let _writing = self.writing.lock().await;
        let settings = self.store.settings().await?;
        let of_tokens = settings.iter().filter(|setting| setting.kind == SettingKind::Token);
        let read: Vec<StoredToken> = of_tokens.filter_map(StoredToken::read).collect();
        let moment = now();
        let (expired, good): (Vec<_>, Vec<_>) = read.into_iter().partition(|it| it.is_expired(moment));
        let good: HashMap<_, _> = good.into_iter().map(|token| (token.id.clone(), token)).collect();
        let Entries { stored, .. } = &mut *self.write();
        let lost = stored.keys().any(|id| !good.contains_key(id));
        *stored = good;
        if lost {
            self.tell_change();
        }
        let swept: Vec<_> = expired.iter().take(SWEPT).map(|token| sweep(token.removal())).collect();
        if !swept.is_empty() {
            // Another node may have removed a token first; that is no error.
            let removed = self.store.commit(swept);
            tokio::spawn(async move {
                if let Err(error) = removed.await {
                    tracing::warn!("failed to remove expired tokens: {error}");
                }
            });
        }
        Ok(())
    }
}

fn sweep(removal: SettingWrite) -> Unit {
    let act = audit::entry("hall", "token_expired", &removal.name, String::new());
    Unit { settings: vec![removal], audit: vec![act], ..Unit::default() }
}

/// A token and its secret.
fn made(
    name: String,
    role: TokenRole,
    kind: TokenKind,
    scope: Scope,
    created_at: Time,
    expires_at: Option<Time>,
) -> Result<(String, StoredToken), ApiError> {
    TokenName::new(&name).map_err(ApiError::bad)?;
    let secret = fresh();
    let parts = split(&secret).map(|(id, secret)| (id.to_owned(), Hash::of(secret)));
    let (id, hash) = parts.ok_or_else(|| ApiError::internal("a new token is malformed"))?;
    Ok((secret, StoredToken { id, hash, name, role, kind, scope, created_at, expires_at, rev: 0 }))
}

fn expiry(wanted: &CreateToken, moment: Time) -> Result<Option<Time>, ApiError> {
    let most = if wanted.kind == TokenKind::Join { JOIN_MS } else { EXPIRY_MS };
    let given = match (wanted.expires_in, wanted.kind) {
        (Some(span), _) => span.0,
        (None, TokenKind::Join) => JOIN_MS,
        (None, TokenKind::Plain) => return Ok(None),
    };
    if !(1_000..=most).contains(&given) {
        let most = jobhall_protocol::Span(most);
        return Err(ApiError::bad(format!("expires_in is outside 1s to {most}")));
    }
    Ok(Some(moment.plus_ms(given)))
}

fn taken(name: &str) -> ApiError {
    ApiError::new(Code::Conflict, format!("the name {name:?} is used by another token"))
}

fn word(kind: TokenKind) -> &'static str {
    match kind {
        TokenKind::Plain => "plain",
        TokenKind::Join => "join",
    }
}

fn role(role: TokenRole) -> &'static str {
    match role {
        TokenRole::Viewer => "viewer",
        TokenRole::Client => "client",
        TokenRole::Worker => "worker",
        TokenRole::Admin => "admin",
    }
}
