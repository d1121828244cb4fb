//! Group methods of the engine: open groups are requested from the kernel, ended ones are read from the store.

use jobhall_core::{Failure, Group, GroupCounts, GroupId, GroupVerdict, JobId, Submitted, Time};
use jobhall_store::{Member, Store, StoreError};

use super::Engine;
use jobhall_kernel::{
    GroupCreated, HallRequest, IdempotencyKey, Kernel, Rejected, Submit, Ticket, TypedRequest,
};
use jobhall_kernel::{NewGroup, ShownGroup};

/// Members read at once.
const PAGE: usize = 5_000;
/// Open groups read at once.
const GROUPS: usize = 1_000;

impl Engine {
    /// Creates a group with these jobs, all or nothing.
    pub async fn create_group(
        &self,
        group: NewGroup,
        submit: Submit,
    ) -> Result<(GroupId, Vec<Submitted>), Rejected> {
        let GroupCreated { id, jobs } =
            self.ask(|to| TypedRequest::Hall(HallRequest::CreateGroup { group, submit, to })).await?;
        Ok((id, jobs))
    }

    /// Returns a group.
    pub async fn group(&self, id: GroupId) -> Result<ShownGroup, Rejected> {
        match self.ask_group(move |to| HallRequest::ShowGroup { id, to }).await {
            Err(Rejected::NoSuchGroup(_)) => self.ended_group(id).await,
            answer => answer,
        }
    }

    /// Closes a group for new members. A group that has ended is not changed.
    pub async fn close_group(&self, id: GroupId) -> Result<ShownGroup, Rejected> {
        match self.ask_group(move |to| HallRequest::CloseGroup { id, to }).await {
            Err(Rejected::NoSuchGroup(_)) => self.ended_group(id).await,
            answer => answer,
        }
    }

    /// Cancels all jobs of a group. A group that was cancelled stays so.
    pub async fn cancel_group(&self, id: GroupId, failure: Failure) -> Result<ShownGroup, Rejected> {
        match self.ask_group(move |to| HallRequest::CancelGroup { id, failure, to }).await {
            Err(Rejected::NoSuchGroup(_)) => {
                let shown = self.ended_group(id).await?;
                let cancelled = shown.group.end.is_some_and(|end| end.verdict == GroupVerdict::Cancelled);
                if cancelled { Ok(shown) } else { Err(Rejected::GroupEnded(id)) }
            }
            answer => answer,
        }
    }

    /// Creates a new group from the failed members of an ended one; answered when all its jobs have been created.
    pub async fn retry_group(&self, id: GroupId, name: Option<IdempotencyKey>) -> Result<GroupId, Rejected> {
        let created =
            self.ask(move |to| TypedRequest::Hall(HallRequest::RetryGroup { id, name, to })).await?;
        Ok(created.id)
    }

    /// Groups, newest first, below this one.
    pub async fn group_page(
        &self,
        before: Option<GroupId>,
        limit: usize,
    ) -> Result<Vec<ShownGroup>, Rejected> {
        let page = self.store.group_page(before, limit, false).await.map_err(|error| unreadable(&error))?;
        let mut shown = Vec::with_capacity(page.len());
        for group in page {
            shown.push(match group.end {
                Some(_) => ShownGroup::new(group, GroupCounts::default()),
                None => self.group(group.id).await?,
            });
        }
        Ok(shown)
    }

    /// The kernel knows only open groups; a group that has ended is closed to new jobs, not unknown.
    pub(super) async fn ended_or_none(&self, refused: Rejected) -> Rejected {
        match refused {
            Rejected::NoSuchGroup(id) if self.ended_group(id).await.is_ok() => Rejected::GroupClosed(id),
            refused => refused,
        }
    }

    async fn ask_group(
        &self,
        request: impl FnOnce(Ticket<Box<ShownGroup>>) -> HallRequest + Send + 'static,
    ) -> Result<ShownGroup, Rejected> {
        Ok(*self.ask(|to| TypedRequest::Hall(request(to))).await?)
    }

    /// A group that the kernel does not know: it has ended, or does not exist.
    async fn ended_group(&self, id: GroupId) -> Result<ShownGroup, Rejected> {
        let found = self.store.groups(vec![id]).await.map_err(|error| unreadable(&error))?;
        let group = found.into_iter().next().flatten().filter(|group| group.end.is_some());
        group.map(|group| ShownGroup::new(group, GroupCounts::default())).ok_or(Rejected::NoSuchGroup(id))
    }
}

fn unreadable(error: &StoreError) -> Rejected {
    Rejected::Storage { full: false, message: error.to_string() }
}

/// At start: gives the kernel all groups that have not ended.
pub(super) async fn restore(store: &dyn Store, kernel: &mut Kernel) -> Result<(), StoreError> {
    let mut before = None;
    loop {
        let page = store.group_page(before, GROUPS, true).await?;
        let Some(last) = page.last() else { return Ok(()) };
        before = Some(last.id);
        for group in page {
            let members = members(store, group.id).await?;
            kernel.restore_group(group, &members);
        }
    }
}

/// A group and all its members.
pub(super) async fn read(store: &dyn Store, id: GroupId) -> Result<Option<(Group, Vec<Member>)>, StoreError> {
    match store.groups(vec![id]).await?.into_iter().next().flatten() {
        Some(group) => Ok(Some((group, members(store, id).await?))),
        None => Ok(None),
    }
}

async fn members(store: &dyn Store, id: GroupId) -> Result<Vec<Member>, StoreError> {
    let mut all: Vec<Member> = Vec::new();
    loop {
        let after: Option<JobId> = all.last().map(|member| member.id);
        let page = store.members(id, after, PAGE).await?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}

/// Of a page of groups: those that ended before this time and have no job left, and the last of the page.
pub(super) async fn emptied(
    store: &dyn Store,
    before: Option<GroupId>,
    ended_before: Time,
    limit: usize,
) -> Result<(Vec<GroupId>, Option<GroupId>), StoreError> {
    let page = store.group_page(before, limit, false).await?;
    let (mut empty, last) = (Vec::new(), page.last().map(|group| group.id));
    for group in page.into_iter().filter(|group| group.ended_before(ended_before)) {
        if store.members(group.id, None, 1).await?.is_empty() {
            empty.push(group.id);
        }
    }
    Ok((empty, last))
}
