//! Creates, removes and exchanges stored tokens. Each change is one guarded commit that includes its audit entry. If
//! two requests want the same name or use the same join token, the store accepts only one of them.

use std::collections::HashMap;
use std::sync::OnceLock;

use jobhall_core::{Scope, Time, TokenName};
use jobhall_protocol::{
    Code, CreateToken, CreatedToken, JOIN_MS, JOIN_USES, TOKEN_MS, Timestamp, TokenKind, TokenRole,
};
use jobhall_store::{Conflict, SettingKind, SettingWrite, StoreError, Unit};

use super::identity::Identity;
use super::secret::{Hash, fresh, random_hex, split};
use super::stored::{StoredToken, revoked_id};
use super::{Tokens, escalation};
use crate::auth::audit;
use crate::error::ApiError;
use crate::node::leader::internal_jobs::check_name;
use crate::request::params::shown;
use crate::server::app::now;

const TOKENS: usize = 10_000;
/// How often a join is tried again after another node used the same join token.
const JOIN_TRIES: u32 = 5;
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
        check_uses(wanted)?;
        let scope = Scope::new(&wanted.queues).map_err(ApiError::bad)?;
        let (secret, token) = made(by, name, wanted.role, wanted.kind, scope, moment, expires_at)?;
        let token = StoredToken { uses: wanted.uses, ..token };
        let _writing = self.writing.lock().await;
        let expected = self.free(&token.name, moment)?;
        let mut detail = format!("{} {}, id {}", word(token.kind), role(token.role), token.id);
        if !token.scope.is_all() {
            detail += &format!(", queues {}", token.scope);
        }
        if let Some(at) = token.expires_at {
            detail += &format!(", expires {}", Timestamp(at));
        }
        let unit = Unit {
            settings: vec![token.write(expected)],
            audit: vec![audit::by(by, "token_created", &token.name, &detail)],
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
        let token = {
            let entries = self.read();
            if entries.own.contains_key(id) {
                return Err(own(id));
            }
            entries.stored.get(id).cloned().ok_or_else(none)?
        };
        let unit = Unit {
            settings: token.revocation(),
            audit: vec![audit::by(by, "token_revoked", &token.name, &format!("id {id}"))],
            ..Unit::default()
        };
        let done = self.commit(unit).await?;
        self.write().revoked_ids.insert(id.to_owned());
        self.drop_stored(id);
        done.map_err(|_| none())
    }

    /// Exchanges a join token for a worker token. A use of the join token is consumed only on success.
    pub(crate) async fn join(&self, by: &Identity, name: &str) -> Result<CreatedToken, ApiError> {
        for _ in 0..JOIN_TRIES {
            if let Some(made) = self.try_join(by, name).await? {
                return Ok(made);
            }
            self.refresh().await?;
        }
        Err(ApiError::new(Code::Unavailable, "many workers join with this token at once; try again"))
    }

    /// The same; none if another node has just used the join token or stored the hall's identity.
    async fn try_join(&self, by: &Identity, name: &str) -> Result<Option<CreatedToken>, ApiError> {
        let moment = now();
        let used = || ApiError::new(Code::Unauthorized, "this join token has been used or has expired");
        let _writing = self.writing.lock().await;
        let join = self.read().stored.get(&by.id).cloned().ok_or_else(used)?;
        if join.is_expired(moment) {
            return Err(used());
        }
        let scope = join.scope.clone();
        let (secret, token) =
            made(join.identity(), name.to_owned(), TokenRole::Worker, TokenKind::Plain, scope, moment, None)?;
        let expected = self.free(&token.name, moment)?;
        let after = join.used_once();
        let hall = self.hall(moment).await?;
        let taken_use = after.as_ref().map_or_else(|| join.removal(), |after| after.write(join.rev));
        let unit = Unit {
            settings: vec![taken_use, token.write(expected)],
            records: hall.write.into_iter().collect(),
            audit: vec![audit::by(by, "worker_joined", &token.name, &format!("id {}", token.id))],
            ..Unit::default()
        };
        match self.commit(unit).await? {
            Ok(()) => {
                match after {
                    Some(after) => {
                        let after = StoredToken { rev: join.rev + 1, ..after };
                        self.write().stored.insert(join.id.clone(), after);
                    }
                    None => {
                        self.drop_stored(&join.id);
                    }
                }
                let made = self.keep(secret, StoredToken { rev: expected + 1, ..token });
                Ok(Some(CreatedToken { hall: Some(hall.id), ..made }))
            }
            Err(conflicts) if conflicts.iter().any(is_repeatable) => Ok(None),
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

    fn drop_stored(&self, id: &str) {
        let mut entries = self.write();
        if let Some(token) = entries.stored.remove(id) {
            entries.note_revoked(token.identity());
        }
        drop(entries);
        self.tell_change();
    }

    fn keep(&self, secret: String, token: StoredToken) -> CreatedToken {
        let told = token.told();
        let mut entries = self.write();
        entries.stored.retain(|_, stored| stored.name != token.name);
        entries.stored.insert(token.id.clone(), token);
        CreatedToken { secret, token: told, hall: None }
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
        let settings = self.store.settings(Some(SettingKind::Token)).await?;
        let read: Vec<StoredToken> = settings.iter().filter_map(StoredToken::read).collect();
        let moment = now();
        let (expired, good): (Vec<_>, Vec<_>) = read.into_iter().partition(|it| it.is_expired(moment));
        let good: HashMap<_, _> = good.into_iter().map(|token| (token.id.clone(), token)).collect();
        let mut entries = self.write();
        entries.revoked_ids = settings.iter().filter_map(revoked_id).map(str::to_owned).collect();
        let before = std::mem::replace(&mut entries.stored, good);
        let lost: Vec<_> = before.into_values().filter(|it| !entries.stored.contains_key(&it.id)).collect();
        for token in &lost {
            entries.note_revoked(token.identity());
        }
        drop(entries);
        if !lost.is_empty() {
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

/// Whether a join can succeed after a reload: another node changed the join token or stored the hall's identity.
fn is_repeatable(conflict: &Conflict) -> bool {
    matches!(conflict, Conflict::Setting { write: 0, .. } | Conflict::Record { .. })
}

fn sweep(removal: SettingWrite) -> Unit {
    let act = audit::entry("hall", "token_expired", &removal.name, String::new());
    Unit { settings: vec![removal], audit: vec![act], ..Unit::default() }
}

/// A token and its secret, created by this identity.
fn made(
    by: &Identity,
    name: String,
    role: TokenRole,
    kind: TokenKind,
    scope: Scope,
    created_at: Time,
    expires_at: Option<Time>,
) -> Result<(String, StoredToken), ApiError> {
    TokenName::new(&name).map_err(ApiError::bad)?;
    if role == TokenRole::Worker {
        check_name(&name)?;
    }
    escalation::check(by, role, kind, &scope)?;
    let secret = fresh();
    let parts = split(&secret).map(|(id, secret)| (id.to_owned(), Hash::of(secret)));
    let (id, hash) = parts.ok_or_else(|| ApiError::internal("a new token is malformed"))?;
    let identity = OnceLock::new();
    let token = StoredToken {
        id,
        hash,
        name,
        role,
        kind,
        scope,
        uses: None,
        created_at,
        expires_at,
        rev: 0,
        identity,
    };
    Ok((secret, token))
}

fn check_uses(wanted: &CreateToken) -> Result<(), ApiError> {
    match wanted.uses {
        Some(_) if wanted.kind != TokenKind::Join => {
            Err(ApiError::bad("uses: only a join token has a number of uses"))
        }
        Some(uses) if !(1..=JOIN_USES).contains(&uses) => {
            Err(ApiError::bad(format!("uses of {uses} is outside 1 to {JOIN_USES}")))
        }
        _ => Ok(()),
    }
}

fn expiry(wanted: &CreateToken, moment: Time) -> Result<Option<Time>, ApiError> {
    // Without a number of uses a join token is for one worker that joins now.
    let for_now = wanted.kind == TokenKind::Join && wanted.uses.is_none();
    let most = if for_now { JOIN_MS } else { TOKEN_MS };
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

/// A token that this process made or read from its file; it is not in the store.
fn own(id: &str) -> ApiError {
    let detail = format!(
        "token {id} belongs to this server and cannot be revoked here; \
         to replace the administrator's token, remove admin.token from the data directory and restart the server"
    );
    ApiError::new(Code::Conflict, detail)
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
