//! Groups with their members, and links between jobs.

use jobhall_core::{Failure, Group, GroupCounts, GroupEnd, GroupId, GroupVerdict, JobId, Key, Owner, Tag};
use jobhall_store::{Conflict, GroupFilter, GroupPage, GroupWrite, Link, Member, Unit};
use rusqlite::{Row, Statement};

use crate::apply::run;
use crate::error::{SqlError, damaged};
use crate::reads::limit;
use crate::rows::row::{self, from_json, to_json};
use crate::rows::spec;
use crate::statements::{Reads, Writes};

/// What the checks of a unit ask about a group.
struct GroupStanding {
    rev: u32,
    closed: bool,
    /// It has not ended and is not being cancelled.
    open: bool,
}

impl Writes<'_> {
    /// Whether a group exists and accepts members.
    pub(crate) fn is_joinable(&mut self, id: GroupId) -> Result<bool, SqlError> {
        Ok(self.group_standing(id)?.is_some_and(|standing| !standing.closed))
    }

    /// Whether a group exists, has not ended and is not being cancelled.
    pub(crate) fn is_group_open(&mut self, id: GroupId) -> Result<bool, SqlError> {
        Ok(self.group_standing(id)?.is_some_and(|standing| standing.open))
    }

    fn group_standing(&mut self, id: GroupId) -> Result<Option<GroupStanding>, SqlError> {
        self.group_rev.raw_bind_parameter(1, id.get().cast_signed())?;
        let mut rows = self.group_rev.raw_query();
        let Some(found) = rows.next()? else { return Ok(None) };
        Ok(Some(GroupStanding { rev: found.get(0)?, closed: found.get(1)?, open: found.get(2)? }))
    }

    /// The stored group, if its rev is not the expected one.
    pub(crate) fn group_conflict(
        &mut self,
        write: usize,
        wanted: &GroupWrite,
    ) -> Result<Option<Conflict>, SqlError> {
        let rev = self.group_standing(wanted.group.id)?.map_or(0, |standing| standing.rev);
        if rev == wanted.expected {
            return Ok(None);
        }
        let stored = one(&mut self.group_row, wanted.group.id)?.map(Box::new);
        Ok(Some(Conflict::Group { write, stored }))
    }

    /// Writes the groups and links of an applied unit.
    pub(crate) fn write_groups(&mut self, unit: &Unit) -> Result<(), SqlError> {
        for write in &unit.groups {
            bind(&mut self.put_group, &write.group)?;
            run(&mut self.put_group)?;
        }
        for Link { parent, call, job } in &unit.links {
            self.put_link.raw_bind_parameter(1, parent.get().cast_signed())?;
            self.put_link.raw_bind_parameter(2, call.as_str())?;
            self.put_link.raw_bind_parameter(3, job.get().cast_signed())?;
            run(&mut self.put_link)?;
        }
        for parent in &unit.unlinked {
            self.remove_links.raw_bind_parameter(1, parent.get().cast_signed())?;
            run(&mut self.remove_links)?;
        }
        Ok(())
    }
}

impl Reads<'_> {
    /// The groups with these ids, in the requested order.
    pub(crate) fn groups(&mut self, ids: &[GroupId]) -> Result<Vec<Option<Group>>, SqlError> {
        ids.iter().map(|&id| one(&mut self.group_row, id)).collect()
    }

    /// Groups that match the filter, newest first.
    pub(crate) fn groups_below(
        &mut self,
        filter: &GroupFilter,
        before: Option<GroupId>,
        at_most: usize,
    ) -> Result<GroupPage, SqlError> {
        let scan = filter.scan(at_most);
        let statement = if filter.open { &mut self.open_groups } else { &mut self.group_page };
        statement.raw_bind_parameter(1, before.map_or(i64::MAX, |before| before.get().cast_signed()))?;
        statement.raw_bind_parameter(2, limit(scan))?;
        let mut rows = statement.raw_query();
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(group(row)?);
        }
        let all = found.len() < scan;
        Ok(GroupPage::cut(found, all, filter, at_most))
    }

    /// The jobs of a group.
    pub(crate) fn members_of(
        &mut self,
        group: GroupId,
        after: Option<JobId>,
        at_most: usize,
    ) -> Result<Vec<Member>, SqlError> {
        self.members.raw_bind_parameter(1, group.get().cast_signed())?;
        self.members.raw_bind_parameter(2, after.map_or(0, |after| after.get().cast_signed()))?;
        self.members.raw_bind_parameter(3, limit(at_most))?;
        let mut rows = self.members.raw_query();
        let mut found = Vec::new();
        while let Some(member) = rows.next()? {
            found.push(Member {
                id: row::job_id(member, 0)?,
                copy_of: row::job_id_or_null(member, 1)?,
                attached: row::flag(member, 2)?,
                state: row::state_name(member.get(3)?)?,
            });
        }
        Ok(found)
    }

    /// Links in order.
    pub(crate) fn links_after(
        &mut self,
        after: Option<&(JobId, String)>,
        at_most: usize,
    ) -> Result<Vec<Link>, SqlError> {
        let (parent, call) = after.map_or((0, ""), |(parent, call)| (parent.get().cast_signed(), call));
        self.links.raw_bind_parameter(1, parent)?;
        self.links.raw_bind_parameter(2, call)?;
        self.links.raw_bind_parameter(3, limit(at_most))?;
        let mut rows = self.links.raw_query();
        let mut found = Vec::new();
        while let Some(link) = rows.next()? {
            let call = row::text(link, 1)?.to_owned();
            found.push(Link { parent: row::job_id(link, 0)?, call, job: row::job_id(link, 2)? });
        }
        Ok(found)
    }
}

fn one(statement: &mut Statement<'_>, id: GroupId) -> Result<Option<Group>, SqlError> {
    statement.raw_bind_parameter(1, id.get().cast_signed())?;
    let mut rows = statement.raw_query();
    rows.next()?.map(group).transpose()
}

/// Binds a group to `put_group`.
fn bind(to: &mut Statement<'_>, group: &Group) -> Result<(), SqlError> {
    let tags: Vec<&str> = group.tags.iter().map(Tag::as_str).collect();
    to.raw_bind_parameter(1, group.id.get().cast_signed())?;
    to.raw_bind_parameter(2, group.rev)?;
    to.raw_bind_parameter(3, group.name.as_ref().map(Key::as_str))?;
    to.raw_bind_parameter(4, group.owner.as_ref().map(Owner::as_str))?;
    to.raw_bind_parameter(5, to_json(&tags)?)?;
    to.raw_bind_parameter(6, group.retry_of.map(|id| id.get().cast_signed()))?;
    to.raw_bind_parameter(7, group.created_at.as_ms())?;
    to.raw_bind_parameter(8, group.closed)?;
    to.raw_bind_parameter(9, group.cancel.as_ref().map(to_json).transpose()?)?;
    to.raw_bind_parameter(10, group.end.map(|end| end.at.as_ms()))?;
    to.raw_bind_parameter(11, group.end.map(|end| end.verdict as u8))?;
    to.raw_bind_parameter(12, group.end.map(|end| to_json(&numbers(end.counts))).transpose()?)?;
    to.raw_bind_parameter(13, group.end.is_none().then_some(1))?;
    to.raw_bind_parameter(14, group.fails)?;
    Ok(())
}

fn numbers(counts: GroupCounts) -> [u64; 6] {
    let GroupCounts { pending, active, succeeded, failed, crashed, cancelled } = counts;
    [pending, active, succeeded, failed, crashed, cancelled]
}

/// A row in the order of `group_row.sql`.
fn group(found: &Row<'_>) -> Result<Group, SqlError> {
    Ok(Group {
        id: GroupId::of(row::job_id(found, 0)?),
        rev: found.get(1)?,
        name: row::text_or_null(found, 2)?.map(row::key).transpose()?,
        owner: row::text_or_null(found, 3)?.map(spec::owner).transpose()?,
        tags: spec::tags(row::text(found, 4)?)?,
        retry_of: row::job_id_or_null(found, 5)?.map(GroupId::of),
        created_at: row::time(found, 6)?,
        closed: found.get::<_, i64>(7)? != 0,
        cancel: row::text_or_null(found, 8)?
            .map(|text| from_json::<Failure>("group's cancel", text))
            .transpose()?,
        fails: found.get(12)?,
        end: end(found)?,
    })
}

fn end(found: &Row<'_>) -> Result<Option<GroupEnd>, SqlError> {
    let Some(code) = found.get::<_, Option<u8>>(10)? else { return Ok(None) };
    let verdict = GroupVerdict::ALL.get(usize::from(code)).copied();
    let verdict = verdict.ok_or_else(|| damaged("verdict code", code))?;
    let [pending, active, succeeded, failed, crashed, cancelled] =
        from_json("counts", row::text(found, 11)?)?;
    let counts = GroupCounts { pending, active, succeeded, failed, crashed, cancelled };
    Ok(Some(GroupEnd { at: row::time(found, 9)?, verdict, counts }))
}
