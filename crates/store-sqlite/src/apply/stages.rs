//! The slow path of a unit: returns all conflicts of the first stage that has any, or the changes whose place on a
//! key moves.

use jobhall_core::JobId;
use jobhall_store::{Change, Conflict, KeyPlace, Unit, key_place};

use super::{key_text, placed, run};
use crate::error::{SqlError, damaged};
use crate::rows::row;
use crate::statements::Writes;

/// The fields of a stored job that the stages need.
struct Standing {
    rev: u32,
    place: KeyPlace,
    live_key: Option<String>,
    next_key: Option<String>,
    key: Option<String>,
}

/// A job whose place on its key moves.
struct Mover {
    id: JobId,
    place: KeyPlace,
    key: String,
}

impl Writes<'_> {
    /// Checks the unit stage by stage; `conflicts` are those of the second stage so far.
    pub(super) fn in_stages(
        &mut self,
        unit: &Unit,
        mut conflicts: Vec<Conflict>,
    ) -> Result<Vec<Conflict>, SqlError> {
        for change in &unit.changes {
            let id = change.id;
            if self.standing_of(id)?.is_none_or(|standing| standing.rev != change.expected) {
                conflicts.push(Conflict::Stale { id, job: self.stored_job(id)? });
            }
        }
        if conflicts.is_empty() {
            conflicts = self.change_all(unit)?;
        }
        if conflicts.is_empty() { self.insert_all(unit) } else { Ok(conflicts) }
    }

    /// Two passes, so that keys are released before they are taken.
    fn change_all(&mut self, unit: &Unit) -> Result<Vec<Conflict>, SqlError> {
        let mut movers = Vec::new();
        for change in &unit.changes {
            movers.extend(self.change(change)?);
        }
        let mut conflicts = Vec::new();
        for mover in &movers {
            let conflict = match mover.place {
                KeyPlace::Free => self.successor(mover)?,
                KeyPlace::Live | KeyPlace::Next => self.take(mover)?,
            };
            conflicts.extend(conflict);
        }
        Ok(conflicts)
    }

    /// Writes a change, without a place on the key if it moves.
    fn change(&mut self, change: &Change) -> Result<Option<Mover>, SqlError> {
        let Change { id, expected, status, .. } = change;
        let standing = self.standing_of(*id)?.ok_or_else(|| damaged("job", "it disappeared"))?;
        let place = key_place(&status.state);
        let moves = place != standing.place;
        row::bind_status(&mut self.change_any, *id, *expected, status)?;
        row::bind_end(&mut self.change_any, &status.state)?;
        let live_key = standing.live_key.as_deref().filter(|_| !moves);
        let next_key = standing.next_key.as_deref().filter(|_| !moves);
        row::bind_keys(&mut self.change_any, live_key, next_key)?;
        run(&mut self.change_any)?;
        Ok(standing.key.filter(|_| moves).map(|key| Mover { id: *id, place, key }))
    }

    fn take(&mut self, mover: &Mover) -> Result<Option<Conflict>, SqlError> {
        if let Some(holder) = self.holder(mover.place, &mover.key)? {
            return Ok(Some(Conflict::KeyHeld { id: mover.id, job: self.known_job(holder)? }));
        }
        let (live_key, next_key) = placed(mover.place, Some(&mover.key));
        self.take_key.raw_bind_parameter(1, mover.id.get().cast_signed())?;
        self.take_key.raw_bind_parameter(2, live_key)?;
        self.take_key.raw_bind_parameter(3, next_key)?;
        run(&mut self.take_key)?;
        Ok(None)
    }

    /// A job that still waits for the released key after the unit's changes are written.
    fn successor(&mut self, mover: &Mover) -> Result<Option<Conflict>, SqlError> {
        let Some(next) = self.holder(KeyPlace::Next, &mover.key)? else { return Ok(None) };
        Ok(Some(Conflict::Successor { id: mover.id, job: self.known_job(next)? }))
    }

    fn standing_of(&mut self, id: JobId) -> Result<Option<Standing>, SqlError> {
        self.standing.raw_bind_parameter(1, id.get().cast_signed())?;
        let mut rows = self.standing.raw_query();
        let Some(found) = rows.next()? else { return Ok(None) };
        let live_key: Option<String> = found.get(2)?;
        let next_key: Option<String> = found.get(3)?;
        let key = match row::text_or_null(found, 5)? {
            Some(key) => Some(key_text(row::text(found, 4)?, key)),
            None => None,
        };
        let state = row::state_name(found.get(1)?)?;
        let behind: Option<i64> = found.get(6)?;
        let place = match state {
            jobhall_core::StateName::Blocked if behind.is_some() => KeyPlace::Next,
            state if state.is_terminal() => KeyPlace::Free,
            _ => KeyPlace::Live,
        };
        Ok(Some(Standing { rev: found.get(0)?, place, live_key, next_key, key }))
    }
}
