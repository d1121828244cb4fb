//! Stored tokens: settings of kind `token`, keyed by name, so the store keeps names unique.

use std::sync::OnceLock;

use jobhall_core::{Scope, Time};
use jobhall_protocol as wire;
use jobhall_protocol::Timestamp;
use jobhall_store::{Setting, SettingKind, SettingWrite};
use serde::{Deserialize, Serialize};

use super::identity::{Identity, Role};
use super::secret::Hash;
use crate::server::app::now;

/// The setting that keeps the id of a revoked token. No token has such a name.
const REVOKED: &str = "revoked:";

/// The id of a revoked administrator's token, if the setting is the record of one.
pub(super) fn revoked_id(setting: &Setting) -> Option<&str> {
    setting.name.strip_prefix(REVOKED)
}

/// The stored form of a token.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Content {
    id: String,
    hash: String,
    role: wire::TokenRole,
    kind: wire::TokenKind,
    queues: Vec<String>,
    /// Absent in tokens of earlier versions, whose join tokens work once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uses: Option<u32>,
    created_at: i64,
    expires_at: Option<i64>,
}

#[derive(Clone)]
pub(crate) struct StoredToken {
    pub id: String,
    pub hash: Hash,
    pub name: String,
    pub role: wire::TokenRole,
    pub kind: wire::TokenKind,
    pub scope: Scope,
    /// How many more workers can join with a join token; once if none.
    pub uses: Option<u32>,
    pub created_at: Time,
    pub expires_at: Option<Time>,
    /// The rev of its setting.
    pub rev: u32,
    /// Made by the first request; later requests share it.
    pub identity: OnceLock<Identity>,
}

impl StoredToken {
    /// Reads a token from its setting; none if the setting is invalid.
    pub(super) fn read(setting: &Setting) -> Option<StoredToken> {
        let content: Content = serde_json::from_str(&setting.value).ok()?;
        Some(StoredToken {
            hash: Hash::from_hex(&content.hash)?,
            id: content.id,
            name: setting.name.clone(),
            role: content.role,
            kind: content.kind,
            scope: Scope::new(&content.queues).ok()?,
            uses: content.uses,
            created_at: Time::from_ms(content.created_at).ok()?,
            expires_at: content.expires_at.map(Time::from_ms).transpose().ok()?,
            rev: setting.rev,
            identity: OnceLock::new(),
        })
    }

    /// The write that stores the token if the setting has this rev.
    pub(super) fn write(&self, expected: u32) -> SettingWrite {
        let content = Content {
            id: self.id.clone(),
            hash: self.hash.to_hex(),
            role: self.role,
            kind: self.kind,
            queues: self.scope.entries().map(str::to_owned).collect(),
            uses: self.uses,
            created_at: self.created_at.as_ms(),
            expires_at: self.expires_at.map(Time::as_ms),
        };
        let value = serde_json::to_string(&content).expect("a token's content is plain data");
        SettingWrite { kind: SettingKind::Token, name: self.name.clone(), expected, value: Some(value) }
    }

    /// The write that removes the token.
    pub(super) fn removal(&self) -> SettingWrite {
        SettingWrite { kind: SettingKind::Token, name: self.name.clone(), expected: self.rev, value: None }
    }

    /// What revoking the token writes. The id of an administrator's token is kept: a node may have it in a file.
    pub(super) fn revocation(&self) -> Vec<SettingWrite> {
        let is_admin = self.role == wire::TokenRole::Admin;
        let record = is_admin.then(|| SettingWrite {
            kind: SettingKind::Token,
            name: format!("{REVOKED}{}", self.id),
            expected: 0,
            value: Some("{}".to_owned()),
        });
        [self.removal()].into_iter().chain(record).collect()
    }

    /// Whether it has all rights now.
    pub(super) fn is_admin(&self) -> bool {
        self.effective_role() == wire::TokenRole::Admin && !self.is_expired_now()
    }

    /// How many more workers can join with it.
    pub(super) fn left(&self) -> u32 {
        self.uses.unwrap_or(1)
    }

    /// The same token after one more worker joined; none if that was the last one.
    pub(super) fn used_once(&self) -> Option<StoredToken> {
        let left = self.left().checked_sub(1).filter(|left| *left > 0)?;
        Some(StoredToken { uses: Some(left), ..self.clone() })
    }

    pub(super) fn is_expired(&self, now: Time) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// The same for now; the clock is read only if the token expires.
    pub(super) fn is_expired_now(&self) -> bool {
        self.expires_at.is_some_and(|at| at <= now())
    }

    /// Whether it is an administrator's token limited to queues. Such tokens could be created once.
    pub(super) fn is_limited_admin(&self) -> bool {
        self.role == wire::TokenRole::Admin && !self.scope.is_all()
    }

    /// The role that the token has: a limited administrator is a client of its queues.
    fn effective_role(&self) -> wire::TokenRole {
        if self.is_limited_admin() { wire::TokenRole::Client } else { self.role }
    }

    pub(super) fn identity(&self) -> &Identity {
        self.identity.get_or_init(|| self.new_identity())
    }

    fn new_identity(&self) -> Identity {
        let role = match (self.kind, self.effective_role()) {
            (wire::TokenKind::Join, _) => Role::Join,
            (_, wire::TokenRole::Viewer) => Role::Viewer,
            (_, wire::TokenRole::Client) => Role::Client,
            (_, wire::TokenRole::Worker) => Role::Worker,
            (_, wire::TokenRole::Admin) => Role::Admin,
        };
        Identity::new(&self.id, &self.name, role).within(self.scope.clone())
    }

    /// The wire form: everything but the hash.
    pub(crate) fn told(&self) -> wire::Token {
        wire::Token {
            id: self.id.clone(),
            name: self.name.clone(),
            role: self.effective_role(),
            kind: self.kind,
            queues: self.scope.entries().map(str::to_owned).collect(),
            uses: (self.kind == wire::TokenKind::Join).then(|| self.left()),
            created_at: Timestamp(self.created_at),
            expires_at: self.expires_at.map(Timestamp),
        }
    }
}
