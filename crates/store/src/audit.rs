//! The audit log. Entries are added in the unit of the action and never changed. They are removed only by age.

use jobhall_core::Time;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    pub at: Time,
    /// The name of the token, or the address of a client without one.
    pub who: String,
    /// The action, such as `token_created`.
    pub act: String,
    /// The id or name of the changed thing.
    pub subject: String,
    /// Further text for people; never a secret.
    pub detail: String,
}

/// An audit entry with its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    /// Increases from 1 in the order of the commits; never used twice.
    pub n: u64,
    pub entry: AuditEntry,
}
