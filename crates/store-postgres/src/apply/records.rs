//! Documents of applications.

use jobhall_core::{GroupId, Key, RecordKind};
use jobhall_store::{RECORD_PAGE_BYTES, Record, RecordFilter, RecordPage};
use tokio_postgres::Row;

use crate::connect::wire::Step;
use crate::error::{PgError, damaged};
use crate::reads::{Reads, limit};
use crate::rows::row::{self, get};

/// The step that reads the records with these names; [`record`] reads its rows.
pub(crate) fn reading<'a>(names: impl IntoIterator<Item = (&'a RecordKind, &'a Key)>) -> Step {
    named(include_str!("../sql/record.sql"), names)
}

pub(crate) fn removing<'a>(names: impl IntoIterator<Item = (&'a RecordKind, &'a Key)>) -> Step {
    named(include_str!("../sql/remove_record.sql"), names)
}

fn named<'a>(sql: &'static str, names: impl IntoIterator<Item = (&'a RecordKind, &'a Key)>) -> Step {
    let names = names.into_iter().map(|(kind, key)| (kind.as_str(), key.as_str()));
    let (kinds, keys): (Vec<&str>, Vec<&str>) = names.unzip();
    Step::new(sql).with(kinds).with(keys)
}

pub(crate) fn writing(records: &[&Record]) -> Step {
    let step = Step::new(include_str!("../sql/put_record.sql"));
    let step = step.with(records.iter().map(|record| record.kind.as_str()).collect::<Vec<_>>());
    let step = step.with(records.iter().map(|record| record.key.as_str()).collect::<Vec<_>>());
    let step = step.with(records.iter().map(|record| record.rev.cast_signed()).collect::<Vec<_>>());
    let step = step.with(records.iter().map(|record| record.at.as_ms()).collect::<Vec<_>>());
    let step = step.with(records.iter().map(|record| record.group.map(number)).collect::<Vec<_>>());
    step.with(records.iter().map(|record| record.value.as_str()).collect::<Vec<_>>())
}

impl Reads<'_> {
    /// The records with these names, in the requested order.
    pub(crate) async fn records_of(
        &self,
        names: &[(RecordKind, Key)],
    ) -> Result<Vec<Option<Record>>, PgError> {
        let rows = self.0.ask(reading(names.iter().map(|(kind, key)| (kind, key)))).await?;
        let found = rows.iter().map(record).collect::<Result<Vec<_>, _>>()?;
        let one = |(kind, key): &(RecordKind, Key)| {
            found.iter().find(|record| record.kind == *kind && record.key == *key).cloned()
        };
        Ok(names.iter().map(one).collect())
    }

    /// Records that match the filter, by key.
    pub(crate) async fn records_after(
        &self,
        filter: &RecordFilter,
        after: Option<&Key>,
        at_most: usize,
    ) -> Result<RecordPage, PgError> {
        let step = Step::new(include_str!("../sql/record_page.sql")).with(filter.kind.as_str());
        let step = step.with(after.map_or("", Key::as_str)).with(filter.prefix.as_str()).with(filter.end());
        let step = step.with(limit(at_most.saturating_add(1))).with(filter.group.map(number));
        let rows = self.0.ask(step.with(limit(RECORD_PAGE_BYTES))).await?;
        let found = rows.iter().map(record_of_page).collect::<Result<Vec<_>, _>>()?;
        Ok(RecordPage::cut(found, at_most))
    }
}

fn number(group: GroupId) -> i64 {
    group.get().cast_signed()
}

/// A row in the order of `record.sql`.
pub(crate) fn record(found: &Row) -> Result<Record, PgError> {
    with_value(found, get(found, 5)?)
}

/// A row of `record_page.sql`. A record after the end of the page has no value.
fn record_of_page(found: &Row) -> Result<Record, PgError> {
    with_value(found, get::<Option<String>>(found, 5)?.unwrap_or_default())
}

fn with_value(found: &Row, value: String) -> Result<Record, PgError> {
    Ok(Record {
        kind: RecordKind::new(row::text(found, 0)?).map_err(|error| damaged("record", error))?,
        key: row::key(row::text(found, 1)?)?,
        rev: row::bits(found, 2)?,
        at: row::time(found, 3)?,
        group: row::job_id_or_null(found, 4)?.map(GroupId::of),
        value,
    })
}
