//! Documents of applications.

use jobhall_core::{GroupId, Key, RecordKind};
use jobhall_store::{Conflict, Record, RecordFilter, RecordGroup, RecordPage, RecordWrite, Unit};
use rusqlite::{Row, Statement};

use crate::apply::run;
use crate::error::{SqlError, damaged};
use crate::reads::limit;
use crate::rows::row;
use crate::statements::{Reads, Writes};

impl Writes<'_> {
    pub(crate) fn record_conflict(
        &mut self,
        write: usize,
        wanted: &RecordWrite,
    ) -> Result<Option<Conflict>, SqlError> {
        bind_name(&mut self.record_rev, &wanted.kind, &wanted.key)?;
        let mut rows = self.record_rev.raw_query();
        let rev = rows.next()?.map_or(Ok(0), |found| found.get::<_, u32>(0))?;
        drop(rows);
        if rev == wanted.expected {
            return Ok(None);
        }
        let stored = one(&mut self.record, &wanted.kind, &wanted.key)?;
        Ok(Some(Conflict::Record { write, stored: stored.map(Box::new) }))
    }

    pub(crate) fn write_records(&mut self, unit: &Unit) -> Result<(), SqlError> {
        for RecordWrite { kind, key, expected, at, group, value } in &unit.records {
            let Some(value) = value else {
                bind_name(&mut self.remove_record, kind, key)?;
                run(&mut self.remove_record)?;
                continue;
            };
            let (keep, group) = match group {
                RecordGroup::Keep => (true, None),
                RecordGroup::Set(group) => (false, *group),
            };
            let put = &mut self.put_record;
            bind_name(put, kind, key)?;
            put.raw_bind_parameter(3, expected + 1)?;
            put.raw_bind_parameter(4, at.as_ms())?;
            put.raw_bind_parameter(5, group.map(number))?;
            put.raw_bind_parameter(6, value.as_str())?;
            put.raw_bind_parameter(7, keep)?;
            run(put)?;
        }
        Ok(())
    }
}

impl Reads<'_> {
    /// The records with these names, in the requested order.
    pub(crate) fn records_of(
        &mut self,
        names: &[(RecordKind, Key)],
    ) -> Result<Vec<Option<Record>>, SqlError> {
        names.iter().map(|(kind, key)| one(&mut self.record, kind, key)).collect()
    }

    /// Records that match the filter, by key.
    pub(crate) fn records_after(
        &mut self,
        filter: &RecordFilter,
        after: Option<&Key>,
        at_most: usize,
    ) -> Result<RecordPage, SqlError> {
        let page = match filter.group {
            Some(group) => {
                self.record_page_group.raw_bind_parameter(6, number(group))?;
                &mut self.record_page_group
            }
            None => &mut self.record_page,
        };
        page.raw_bind_parameter(1, filter.kind.as_str())?;
        page.raw_bind_parameter(2, after.map_or("", Key::as_str))?;
        page.raw_bind_parameter(3, filter.prefix.as_str())?;
        page.raw_bind_parameter(4, filter.end())?;
        page.raw_bind_parameter(5, limit(at_most.saturating_add(1)))?;
        let (mut rows, mut failed) = (page.raw_query(), None);
        // The rows are read only as far as the page goes.
        let found = std::iter::from_fn(|| match rows.next() {
            Ok(found) => found.map(record).transpose().unwrap_or_else(|error| {
                failed = Some(error);
                None
            }),
            Err(error) => {
                failed = Some(error.into());
                None
            }
        });
        let page = RecordPage::cut(found, at_most);
        failed.map_or(Ok(page), Err)
    }
}

fn number(group: GroupId) -> i64 {
    group.get().cast_signed()
}

fn bind_name(to: &mut Statement<'_>, kind: &RecordKind, key: &Key) -> Result<(), SqlError> {
    to.raw_bind_parameter(1, kind.as_str())?;
    to.raw_bind_parameter(2, key.as_str())?;
    Ok(())
}

fn one(statement: &mut Statement<'_>, kind: &RecordKind, key: &Key) -> Result<Option<Record>, SqlError> {
    bind_name(statement, kind, key)?;
    let mut rows = statement.raw_query();
    rows.next()?.map(record).transpose()
}

/// A row in the order of `record.sql`.
pub(crate) fn record(found: &Row<'_>) -> Result<Record, SqlError> {
    Ok(Record {
        kind: RecordKind::new(row::text(found, 0)?).map_err(|error| damaged("record", error))?,
        key: row::key(row::text(found, 1)?)?,
        rev: found.get(2)?,
        at: row::time(found, 3)?,
        group: row::job_id_or_null(found, 4)?.map(GroupId::of),
        value: row::text(found, 5)?.to_owned(),
    })
}
