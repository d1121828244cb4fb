//! `jobhall query --meta`: what is known of a query. Nothing runs.

use jobhall_protocol::QueryMetadata;

use super::tree::took;
use crate::output::human;

/// The metadata for people.
pub fn text(known: &QueryMetadata) -> String {
    let time = |at: Option<jobhall_protocol::Timestamp>| at.map(|at| at.to_string());
    let rows = [
        ("query", Some(known.query.clone())),
        ("identity", Some(known.identity.clone())),
        ("commands", Some(known.commands.join(", "))),
        ("cache", Some(known.cache.clone())),
        ("job", known.job.map(|job| job.to_string())),
        ("state", known.state.clone()),
        ("type", known.media_type.clone()),
        ("size", known.size.map(human::bytes)),
        ("created", time(known.created_at)),
        ("started", time(known.started_at)),
        ("ended", time(known.ended_at)),
        ("took", known.duration_ms.map(took)),
        ("worker", known.worker.clone()),
    ];
    let mut text = String::new();
    for (name, value) in rows {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            text += &format!("{name:<9} {value}\n");
        }
    }
    for (at, made_from) in known.dependencies.iter().enumerate() {
        let name = if at == 0 { "from" } else { "" };
        let by = made_from.command.as_deref().map_or_else(String::new, |command| format!("  ({command})"));
        text += &format!("{name:<9} {}{by}\n", made_from.query);
    }
    if let Some(preview) = &known.preview {
        let url = preview.url.as_deref().map_or_else(String::new, |url| format!(", {url}"));
        text += &format!("\npreview ({}{url}):\n", preview.media_type);
        preview.text.iter().for_each(|preview| text += &format!("{}\n", preview.trim_end()));
    }
    if let Some(log) = &known.log {
        text += &format!("\nlog:\n{}\n", log.trim_end());
    }
    text
}
