//! Stored tokens: settings of kind `token`, keyed by name, so the store keeps names unique.

use jobhall_core::{Scope, Time};
use jobhall_protocol as wire;
use jobhall_protocol::Timestamp;
use jobhall_store::{Setting, SettingKind, SettingWrite};
use serde::{Deserialize, Serialize};

use super::identity::{Identity, Role};
use super::secret::Hash;

/// The stored form of a token.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Content {
    id: String,
    hash: String,
    role: wire::TokenRole,
    kind: wire::TokenKind,
    queues: Vec<String>,
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
    pub created_at: Time,
    pub expires_at: Option<Time>,
    /// The rev of its setting.
    pub rev: u32,
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
            created_at: Time::from_ms(content.created_at).ok()?,
            expires_at: content.expires_at.map(Time::from_ms).transpose().ok()?,
            rev: setting.rev,
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

    pub(super) fn is_expired(&self, now: Time) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    pub(super) fn identity(&self) -> Identity {
        let role = match (self.kind, self.role) {
            (wire::TokenKind::Join, _) => Role::Join,
            (_, wire::TokenRole::Viewer) => Role::Viewer,
            (_, wire::TokenRole::Client) => Role::Client,
            (_, wire::TokenRole::Worker) => Role::Worker,
            (_, wire::TokenRole::Admin) => Role::Admin,
        };
        Identity { scope: self.scope.clone(), ..Identity::new(&self.id, &self.name, role) }
    }

    /// The wire form: everything but the hash.
    pub(crate) fn told(&self) -> wire::Token {
        wire::Token {
            id: self.id.clone(),
            name: self.name.clone(),
            role: self.role,
            kind: self.kind,
            queues: self.scope.entries().map(str::to_owned).collect(),
            created_at: Timestamp(self.created_at),
            expires_at: self.expires_at.map(Timestamp),
        }
    }
}
