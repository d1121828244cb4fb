//! Groups with their members, and links between jobs.

use jobhall_core::{Failure, Group, GroupCounts, GroupEnd, GroupId, GroupVerdict, JobId, Key, Owner, Tag};
use jobhall_store::{GroupFilter, GroupPage, Link, Member};
use tokio_postgres::Row;

use crate::connect::wire::Step;
use crate::error::{PgError, damaged};
use crate::reads::{Reads, limit};
use crate::rows::row::{self, from_json, get, number, to_json};
use crate::rows::spec;

const GROUP_ROW: &str = include_str!("sql/group_row.sql");

fn group_number(id: GroupId) -> i64 {
    id.get().cast_signed()
}

/// The step that reads these groups; [`group`] reads its rows.
pub(crate) fn reading(ids: impl IntoIterator<Item = GroupId>) -> Step {
    Step::new(GROUP_ROW).with(ids.into_iter().map(group_number).collect::<Vec<_>>())
}

pub(crate) fn writing(groups: &[&Group]) -> Result<Step, PgError> {
    let mut tags = Vec::new();
    let mut cancels = Vec::new();
    let mut counts = Vec::new();
    for group in groups {
        tags.push(to_json(&group.tags.iter().map(Tag::as_str).collect::<Vec<_>>())?);
        cancels.push(group.cancel.as_ref().map(to_json).transpose()?);
        counts.push(group.end.map(|end| to_json(&numbers(end.counts))).transpose()?);
    }
    let step = Step::new(include_str!("sql/put_group.sql"));
    let step = step.with(groups.iter().map(|group| group_number(group.id)).collect::<Vec<_>>());
    let step = step.with(groups.iter().map(|group| group.rev.cast_signed()).collect::<Vec<_>>());
    let step = step.with(groups.iter().map(|group| group.name.as_ref().map(Key::as_str)).collect::<Vec<_>>());
    let step =
        step.with(groups.iter().map(|group| group.owner.as_ref().map(Owner::as_str)).collect::<Vec<_>>());
    let step = step.with(tags);
    let step = step.with(groups.iter().map(|group| group.retry_of.map(group_number)).collect::<Vec<_>>());
    let step = step.with(groups.iter().map(|group| group.created_at.as_ms()).collect::<Vec<_>>());
    let step = step.with(groups.iter().map(|group| group.closed).collect::<Vec<_>>()).with(cancels);
    let step = step.with(groups.iter().map(|group| group.end.map(|end| end.at.as_ms())).collect::<Vec<_>>());
    let verdicts = groups.iter().map(|group| group.end.map(|end| end.verdict as i16));
    let step = step.with(verdicts.collect::<Vec<_>>()).with(counts);
    let step = step.with(groups.iter().map(|group| group.end.is_none().then_some(true)).collect::<Vec<_>>());
    Ok(step.with(groups.iter().map(|group| group.fails).collect::<Vec<_>>()))
}

fn numbers(counts: GroupCounts) -> [u64; 6] {
    let GroupCounts { pending, active, succeeded, failed, crashed, cancelled } = counts;
    [pending, active, succeeded, failed, crashed, cancelled]
}

impl Reads<'_> {
    /// The groups with these ids, in the requested order.
    pub(crate) async fn groups(&self, ids: &[GroupId]) -> Result<Vec<Option<Group>>, PgError> {
        let rows = self.0.ask(reading(ids.iter().copied())).await?;
        let found = rows.iter().map(group).collect::<Result<Vec<_>, _>>()?;
        Ok(ids.iter().map(|&id| found.iter().find(|group| group.id == id).cloned()).collect())
    }

    /// Groups that match the filter, newest first.
    pub(crate) async fn groups_below(
        &self,
        filter: &GroupFilter,
        before: Option<GroupId>,
        at_most: usize,
    ) -> Result<GroupPage, PgError> {
        let sql = match filter.open {
            true => include_str!("sql/open_groups.sql"),
            false => include_str!("sql/group_page.sql"),
        };
        let scan = filter.scan(at_most);
        let step = Step::new(sql).with(before.map_or(i64::MAX, group_number)).with(limit(scan));
        let found = self.0.ask(step).await?.iter().map(group).collect::<Result<Vec<_>, _>>()?;
        let all = found.len() < scan;
        Ok(GroupPage::cut(found, all, filter, at_most))
    }

    /// The jobs of a group.
    pub(crate) async fn members_of(
        &self,
        group: GroupId,
        after: Option<JobId>,
        at_most: usize,
    ) -> Result<Vec<Member>, PgError> {
        let step = Step::new(include_str!("sql/members.sql")).with(group_number(group));
        let rows = self.0.ask(step.with(after.map_or(0, number)).with(limit(at_most))).await?;
        rows.iter().map(member).collect()
    }

    /// Links in order.
    pub(crate) async fn links_after(
        &self,
        after: Option<&(JobId, String)>,
        at_most: usize,
    ) -> Result<Vec<Link>, PgError> {
        let (parent, call) = after.map_or((0, ""), |(parent, call)| (number(*parent), call.as_str()));
        let step = Step::new(include_str!("sql/links.sql")).with(parent).with(call).with(limit(at_most));
        self.0.ask(step).await?.iter().map(link).collect()
    }
}

fn member(found: &Row) -> Result<Member, PgError> {
    Ok(Member {
        id: row::job_id(found, 0)?,
        copy_of: row::job_id_or_null(found, 1)?,
        attached: row::flag(found, 2)?,
        state: row::state_name(found, 3)?,
    })
}

/// A row of `links.sql`.
pub(crate) fn link(found: &Row) -> Result<Link, PgError> {
    let call = row::text(found, 1)?.to_owned();
    Ok(Link { parent: row::job_id(found, 0)?, call, job: row::job_id(found, 2)? })
}

/// A row in the order of `group_row.sql`.
pub(crate) fn group(found: &Row) -> Result<Group, PgError> {
    Ok(Group {
        id: GroupId::of(row::job_id(found, 0)?),
        rev: row::bits(found, 1)?,
        name: row::text_or_null(found, 2)?.map(row::key).transpose()?,
        owner: row::text_or_null(found, 3)?.map(spec::owner).transpose()?,
        tags: spec::tags(row::text(found, 4)?)?,
        retry_of: row::job_id_or_null(found, 5)?.map(GroupId::of),
        created_at: row::time(found, 6)?,
        closed: get(found, 7)?,
        cancel: row::text_or_null(found, 8)?
            .map(|text| from_json::<Failure>("group's cancel", text))
            .transpose()?,
        fails: get(found, 12)?,
        end: end(found)?,
    })
}

fn end(found: &Row) -> Result<Option<GroupEnd>, PgError> {
    let Some(code) = get::<Option<i16>>(found, 10)? else { return Ok(None) };
    let verdict = usize::try_from(code).ok().and_then(|code| GroupVerdict::ALL.get(code).copied());
    let verdict = verdict.ok_or_else(|| damaged("verdict code", code))?;
    let [pending, active, succeeded, failed, crashed, cancelled] =
        from_json("counts", row::text(found, 11)?)?;
    let counts = GroupCounts { pending, active, succeeded, failed, crashed, cancelled };
    Ok(Some(GroupEnd { at: row::time(found, 9)?, verdict, counts }))
}
