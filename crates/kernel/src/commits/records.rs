//! Records that are written together with a request: checks, writes and conflicts.

use std::collections::BTreeSet;

use jobhall_core::bounds::{RECORD_BYTES, RECORDS};
use jobhall_core::{GroupId, Time};
use jobhall_store::{Conflict, RecordGroup, RecordWrite};
use serde::de::IgnoredAny;

use crate::api::answer::{RecordConflict, Rejected};
use crate::api::request::{NewRecord, NewRecordGroup};
use crate::submit::bound;

/// Checks the records of a request. `makes_group` says whether the request creates a group.
pub fn check_records(records: &[NewRecord], makes_group: bool) -> Result<(), Rejected> {
    bound("records", records.len(), 0, RECORDS)?;
    let mut seen = BTreeSet::new();
    for record in records {
        let NewRecord { kind, key, group, value, .. } = record;
        let bad = |why| Rejected::BadRecord { kind: kind.clone(), key: key.clone(), why };
        bound("record value length", value.as_ref().map_or(0, String::len), 0, RECORD_BYTES)?;
        if value.as_ref().is_some_and(|value| serde_json::from_str::<IgnoredAny>(value).is_err()) {
            return Err(bad("its value is not JSON"));
        }
        if *group == NewRecordGroup::Made && !makes_group {
            return Err(bad("it belongs to a new group, and the request creates none"));
        }
        if !seen.insert((kind, key)) {
            return Err(bad("it is written twice in this request"));
        }
    }
    Ok(())
}

/// The writes of a request that creates this group, or none.
pub fn record_writes(records: &[NewRecord], made: Option<GroupId>, at: Time) -> Vec<RecordWrite> {
    let write = |record: &NewRecord| {
        let NewRecord { kind, key, expected, group, value } = record.clone();
        let group = match group {
            NewRecordGroup::Keep => RecordGroup::Keep,
            NewRecordGroup::Made => RecordGroup::Set(made),
            NewRecordGroup::None => RecordGroup::Set(None),
        };
        RecordWrite { kind, key, expected, at, group, value }
    };
    records.iter().map(write).collect()
}

/// The rejection of a request because of the first record that was changed meanwhile.
pub fn record_conflict(records: &[NewRecord], conflicts: &[Conflict]) -> Option<Rejected> {
    conflicts.iter().find_map(|conflict| match conflict {
        Conflict::Record { write, stored } => {
            let NewRecord { kind, key, .. } = records.get(*write)?.clone();
            Some(Rejected::RecordChanged(Box::new(RecordConflict { kind, key, stored: stored.clone() })))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use jobhall_core::{Key, RecordKind};

    use super::*;

    fn record(key: &str, value: Option<&str>) -> NewRecord {
        NewRecord {
            kind: RecordKind::new("app.doc").unwrap(),
            key: Key::new(key).unwrap(),
            expected: 3,
            group: NewRecordGroup::Keep,
            value: value.map(str::to_owned),
        }
    }

    fn why(records: &[NewRecord], makes_group: bool) -> String {
        check_records(records, makes_group).map_or_else(|refused| refused.to_string(), |()| String::new())
    }

    #[test]
    fn ground_1_a_record_that_cannot_be_written_is_named() {
        assert_eq!(why(&[record("a", Some("{}")), record("b", None)], false), "");
        assert_eq!(why(&[record("a", Some("{"))], false), "record app.doc \"a\": its value is not JSON");
        let twice = [record("a", Some("1")), record("a", Some("2"))];
        assert!(why(&twice, false).ends_with("it is written twice in this request"));
        let made = NewRecord { group: NewRecordGroup::Made, ..record("a", Some("1")) };
        assert!(why(std::slice::from_ref(&made), false).ends_with("the request creates none"));
        assert_eq!(why(&[made], true), "");
        let large = format!("\"{}\"", "x".repeat(RECORD_BYTES - 1));
        assert!(
            why(&[record("a", Some(&large))], false).contains("record value length of 8388609 is outside")
        );
        let many: Vec<_> = (0..=RECORDS).map(|n| record(&n.to_string(), None)).collect();
        assert!(why(&many, false).contains("records of"));
    }

    #[test]
    fn ground_1_a_write_names_the_group_that_is_made() {
        let made = NewRecord { group: NewRecordGroup::Made, ..record("a", Some("1")) };
        let none = NewRecord { group: NewRecordGroup::None, ..record("b", None) };
        let group = GroupId::new(7).unwrap();
        let writes = record_writes(&[made, none, record("c", None)], Some(group), Time::EPOCH);
        let groups: Vec<_> = writes.iter().map(|write| write.group).collect();
        assert_eq!(groups, [RecordGroup::Set(Some(group)), RecordGroup::Set(None), RecordGroup::Keep]);
        assert!(writes.iter().all(|write| write.expected == 3 && write.at == Time::EPOCH));
    }
}
