//! Scripts as JSON files. A seed yields another script when the generator changes; a file stays the same.

use jobhall_core::Reserved;
use jobhall_kernel::Config;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Script;

/// Maximum line width for a list or object on one line.
const WIDTH: usize = 120;

/// The fields of [`Config`]; a missing field has its default.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Config", default = "Config::default")]
pub(super) struct StoredConfig {
    lease_ms: u64,
    accept_ms: u64,
    save_ms: u64,
    force_ms: u64,
    aging_ms: u64,
    avoid_ms: u64,
    idempotency_key_ms: u64,
    feed_ms: u64,
    audit_ms: u64,
    retention_ms: u64,
    retention_step: usize,
    cached: usize,
    spec_bytes: usize,
    open_jobs: usize,
    open_jobs_per_queue: usize,
    open_groups: usize,
    storage_rest_ms: u64,
    block: u64,
    /// No script has applications.
    #[serde(skip)]
    reserved: Reserved,
}

impl Script {
    /// The script as the text of a file.
    pub fn to_json(&self) -> String {
        fold(&serde_json::to_string_pretty(self).expect("a script has no map with other keys than text"))
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// The text is not JSON, a field is missing or invalid, or a field is unknown.
    pub fn from_json(text: &str) -> Result<Script, String> {
        let script: Script = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let given = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let known = serde_json::to_value(&script).map_err(|error| error.to_string())?;
        match unknown(&given, &known) {
            Some(path) => Err(format!("unknown field {}", path.trim_start_matches('.'))),
            None => Ok(script),
        }
    }

    pub fn actions(&self) -> usize {
        self.actions.len()
    }
}

/// Pretty JSON with each list and object on one line where it fits.
fn fold(pretty: &str) -> String {
    let (mut lines, mut open) = (Vec::<String>::new(), Vec::new());
    for line in pretty.lines() {
        if line.ends_with(['{', '[']) {
            open.push(lines.len());
        }
        lines.push(line.to_owned());
        if line.trim_start().starts_with(['}', ']'])
            && let Some(start) = open.pop()
        {
            let inner: Vec<&str> = lines[start + 1..].iter().map(|line| line.trim_start()).collect();
            let folded = format!("{} {}", lines[start], inner.join(" "));
            if folded.len() <= WIDTH {
                lines.truncate(start);
                lines.push(folded);
            }
        }
    }
    lines.join("\n") + "\n"
}

/// The path of the first unknown field, at any depth.
fn unknown(given: &Value, known: &Value) -> Option<String> {
    match (given, known) {
        (Value::Object(given), Value::Object(known)) => given.iter().find_map(|(name, value)| {
            let inner = known.get(name).map_or(Some(String::new()), |known| unknown(value, known));
            inner.map(|path| format!(".{name}{path}"))
        }),
        (Value::Array(given), Value::Array(known)) => given
            .iter()
            .zip(known)
            .enumerate()
            .find_map(|(at, (given, known))| unknown(given, known).map(|path| format!("[{at}]{path}"))),
        _ => None,
    }
}
