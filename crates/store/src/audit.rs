//! The audit log. Entries are added in the unit of the action and never changed. They are removed only by age.

use jobhall_core::Time;

/// One act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// When.
    pub at: Time,
    /// By whom: the name of a token, or an address for one who had none.
    pub who: String,
    /// What was done, such as `token_created`.
    pub act: String,
    /// To what: the id or name of a thing.
    pub subject: String,
    /// More about it, for people; never a secret.
    pub detail: String,
}

/// An act with its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    /// Rises from 1 in the order of the commits; never given twice.
    pub n: u64,
    /// The act.
    pub entry: AuditEntry,
}
