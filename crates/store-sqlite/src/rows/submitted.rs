//! The stored answer of an idempotency key as text: JSON `[[job, disposition code], …]`.

use jobhall_core::{Disposition, JobId, Submitted};

use crate::error::{SqlError, damaged};
use crate::rows::row::{from_json, to_json};

pub(crate) fn to_text(answer: &[Submitted]) -> Result<String, SqlError> {
    let pairs: Vec<(u64, u8)> = answer.iter().map(|one| (one.id.get(), one.disposition as u8)).collect();
    to_json(&pairs)
}

/// Reads the answer from its text.
pub(crate) fn from_text(text: &str) -> Result<Vec<Submitted>, SqlError> {
    let pairs: Vec<(u64, u8)> = from_json("answer", text)?;
    pairs.into_iter().map(|(id, code)| one(id, code)).collect()
}

fn one(id: u64, code: u8) -> Result<Submitted, SqlError> {
    let id = JobId::new(id).map_err(|error| damaged("answer", error))?;
    let disposition = Disposition::ALL.get(usize::from(code)).copied();
    Ok(Submitted { id, disposition: disposition.ok_or_else(|| damaged("disposition code", code))? })
}
