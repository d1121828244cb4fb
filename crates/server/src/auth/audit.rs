//! The audit log: who did what, from which address, and what was changed to what. A change that the server commits itself includes its audit entry in the commit. For a
//! change made by the engine, the entry is written afterwards.

use jobhall_store::{AuditEntry, Unit};
use serde::Serialize;
use serde_json::Value;

use crate::auth::tokens::Identity;
use crate::server::app::{App, now};

/// Maximum size of the detail; longer text is truncated.
const DETAIL_BYTES: usize = 1_000;

/// An audit entry with the current time.
pub(crate) fn entry(who: &str, act: &str, subject: &str, mut detail: String) -> AuditEntry {
    while detail.len() > DETAIL_BYTES {
        detail.pop();
    }
    let (who, act, subject) = (who.to_owned(), act.to_owned(), subject.to_owned());
    AuditEntry { at: now(), who, act, subject, detail }
}

/// An audit entry of a request.
pub(crate) fn by(who: &Identity, act: &str, subject: &str, detail: &str) -> AuditEntry {
    let from = who.from.map(|from| format!("from {from}"));
    let parts: Vec<_> = from.as_deref().into_iter().chain([detail]).filter(|part| !part.is_empty()).collect();
    entry(&who.name, act, subject, parts.join("; "))
}

/// What a request sets, for the detail of an entry. Params can be secret and are left out.
pub(crate) fn change(given: &impl Serialize) -> String {
    let Ok(mut value) = serde_json::to_value(given) else { return String::new() };
    conceal(&mut value);
    value.to_string()
}

fn conceal(value: &mut Value) {
    let Value::Object(fields) = value else { return };
    fields.retain(|_, field| !field.is_null());
    for (name, field) in fields {
        if name == "params" {
            *field = Value::from("…");
        }
        conceal(field);
    }
}

impl App {
    /// Writes an audit entry for a completed action. If the store cannot write it, the error is logged.
    pub(crate) async fn acted(&self, who: &Identity, act: &str, subject: impl ToString, detail: &str) {
        self.write_down(by(who, act, &subject.to_string(), detail)).await;
    }

    pub(crate) async fn write_down(&self, entry: AuditEntry) {
        let AuditEntry { who, act, subject, .. } = &entry;
        let words = format!("{who} {act} {subject}");
        let unit = Unit { audit: vec![entry], ..Unit::default() };
        if let Err(error) = self.store.commit(vec![unit]).await {
            tracing::error!("failed to write an audit entry ({words}): {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::tokens::Role;

    #[test]
    fn audit_l9_an_entry_has_the_address_and_the_change_without_params() {
        let from = Some("10.0.0.5".parse().unwrap());
        let who = Identity { from, ..Identity::new("1", "ci", Role::Client) };
        let given = serde_json::json!({
            "cron": "0 3 * * *", "zone": null, "job": {"type": "t", "params": {"password": "x"}}, "params": 1
        });
        let entry = by(&who, "schedule_set", "nightly", &change(&given));
        let expected = r#"from 10.0.0.5; {"cron":"0 3 * * *","job":{"params":"…","type":"t"},"params":"…"}"#;
        assert_eq!((entry.who.as_str(), entry.detail.as_str()), ("ci", expected));
        assert_eq!(by(&who, "job_held", "1", "").detail, "from 10.0.0.5");
    }
}
