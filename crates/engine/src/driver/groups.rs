//! Group methods of the engine: open groups are requested from the kernel, ended ones are read from the store.

use jobhall_core::{Failure, Group, GroupCounts, GroupId, GroupVerdict, JobId, Time};
use jobhall_store::{GroupFilter, Member, Store, StoreError};

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
    pub async fn create_group(&self, group: NewGroup, submit: Submit) -> Result<GroupCreated, Rejected> {
        self.ask(|to| TypedRequest::Hall(HallRequest::CreateGroup { group, submit, to })).await
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

    /// Cancels all jobs of a group; it ends as failed if `fails`. A group that was stopped in this way stays so.
    pub async fn cancel_group(
        &self,
        id: GroupId,
        failure: Failure,
        fails: bool,
    ) -> Result<ShownGroup, Rejected> {
        match self.ask_group(move |to| HallRequest::CancelGroup { id, failure, fails, to }).await {
            Err(Rejected::NoSuchGroup(_)) => {
                let shown = self.ended_group(id).await?;
                let wanted = if fails { GroupVerdict::Failed } else { GroupVerdict::Cancelled };
                let stopped = shown.group.end.is_some_and(|end| end.verdict == wanted);
                if stopped { Ok(shown) } else { Err(Rejected::GroupEnded(id)) }
            }
            answer => answer,
        }
    }

    /// Creates a new group from the failed members of an ended one; answered when all its jobs have been created.
    pub async fn retry_group(
        &self,
        id: GroupId,
        name: Option<IdempotencyKey>,
    ) -> Result<GroupCreated, Rejected> {
        self.ask(move |to| TypedRequest::Hall(HallRequest::RetryGroup { id, name, to })).await
    }

    /// Groups that match the filter, newest first, below this one, and where the list continues.
    pub async fn group_page(
        &self,
        filter: GroupFilter,
        before: Option<GroupId>,
        limit: usize,
    ) -> Result<(Vec<ShownGroup>, Option<GroupId>), Rejected> {
        let page = self.store.group_page(filter, before, limit).await.map_err(|error| unreadable(&error))?;
        let mut shown = Vec::with_capacity(page.groups.len());
        for group in page.groups {
            shown.push(match group.end {
                Some(_) => ShownGroup::new(group, GroupCounts::default()),
                None => self.group(group.id).await?,
            });
        }
        Ok((shown, page.next))
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
        let page = store.group_page(GroupFilter::all(true), before, GROUPS).await?;
        for group in page.groups {
            let members = members(store, group.id).await?;
            kernel.restore_group(group, &members);
        }
        if page.next.is_none() {
            return Ok(());
        }
        before = page.next;
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

/// Of a page of groups: those that ended before this time and have no job left, and where the list continues.
pub(super) async fn emptied(
    store: &dyn Store,
    before: Option<GroupId>,
    ended_before: Time,
    limit: usize,
) -> Result<(Vec<GroupId>, Option<GroupId>), StoreError> {
    let page = store.group_page(GroupFilter::default(), before, limit).await?;
    let mut empty = Vec::new();
    for group in page.groups.into_iter().filter(|group| group.ended_before(ended_before)) {
        if store.members(group.id, None, 1).await?.is_empty() {
            empty.push(group.id);
        }
    }
    Ok((empty, page.next))
}
