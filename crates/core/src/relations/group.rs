//! Groups: a set of jobs with one verdict.

use std::fmt;

use crate::id::GroupId;
use crate::job::outcome::Failure;
use crate::job::state::StateName;
use crate::name::{Key, Owner, Tag};
use crate::time::Time;

/// The standing of a group member, in order of precedence among the copies of one member: one success is enough, and
/// while one copy is open so is the member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// Ended with success.
    Succeeded,
    /// A worker holds it, or its attempt is suspended.
    Active,
    /// It has not started, or it waits for another attempt.
    Pending,
    /// The work reported a failure.
    Failed,
    /// The environment failed.
    Crashed,
    /// Stopped on request.
    Cancelled,
}

impl Standing {
    /// The standing of a job in this state.
    pub fn of(state: StateName) -> Standing {
        match state {
            StateName::Scheduled | StateName::Queued | StateName::Blocked | StateName::Retrying => {
                Standing::Pending
            }
            StateName::Assigned | StateName::Accepted | StateName::Running | StateName::Waiting => {
                Standing::Active
            }
            StateName::Succeeded => Standing::Succeeded,
            StateName::Failed => Standing::Failed,
            StateName::Crashed => Standing::Crashed,
            StateName::Cancelled => Standing::Cancelled,
        }
    }

    /// The combined standing of a job and its copies.
    pub fn together(copies: impl IntoIterator<Item = Standing>) -> Option<Standing> {
        copies.into_iter().min()
    }

    /// Whether the standing is final.
    pub fn is_over(self) -> bool {
        !matches!(self, Standing::Active | Standing::Pending)
    }

    /// Whether a retry of the group repeats it.
    pub fn is_retried(self) -> bool {
        matches!(self, Standing::Failed | Standing::Crashed | Standing::Cancelled)
    }
}

/// The number of members by standing. Every member is counted once, so the sum is the number of members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupCounts {
    /// They have not started, or wait for another attempt.
    pub pending: u64,
    /// A worker holds them, or their attempt is suspended.
    pub active: u64,
    /// Ended with success.
    pub succeeded: u64,
    /// The work reported a failure.
    pub failed: u64,
    /// The environment failed.
    pub crashed: u64,
    /// Stopped on request.
    pub cancelled: u64,
}

impl GroupCounts {
    /// All members.
    pub fn total(&self) -> u64 {
        self.open() + self.succeeded + self.failed + self.crashed + self.cancelled
    }

    /// Members that are not completed.
    pub fn open(&self) -> u64 {
        self.pending + self.active
    }

    /// Counts a member that is added, changes or is removed.
    pub fn step(&mut self, from: Option<Standing>, to: Option<Standing>) {
        if let Some(from) = from {
            *self.of(from) -= 1;
        }
        if let Some(to) = to {
            *self.of(to) += 1;
        }
    }

    fn of(&mut self, standing: Standing) -> &mut u64 {
        match standing {
            Standing::Succeeded => &mut self.succeeded,
            Standing::Active => &mut self.active,
            Standing::Pending => &mut self.pending,
            Standing::Failed => &mut self.failed,
            Standing::Crashed => &mut self.crashed,
            Standing::Cancelled => &mut self.cancelled,
        }
    }

    /// The verdict of the group once all members are completed. An empty group has succeeded.
    pub fn verdict(&self) -> GroupVerdict {
        match self {
            counts if counts.failed + counts.crashed > 0 => GroupVerdict::Failed,
            counts if counts.cancelled > 0 => GroupVerdict::Cancelled,
            _ => GroupVerdict::Succeeded,
        }
    }
}

/// How a group ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupVerdict {
    /// Every member succeeded.
    Succeeded,
    /// A member failed or crashed.
    Failed,
    /// It was stopped on request, or a member was and none failed.
    Cancelled,
}

impl GroupVerdict {
    /// All of them. Codes in stores are positions in this list.
    pub const ALL: [GroupVerdict; 3] =
        [GroupVerdict::Succeeded, GroupVerdict::Failed, GroupVerdict::Cancelled];
}

/// The state of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupState {
    /// No member has started.
    New,
    /// Some members have started, and not all are completed.
    Running,
    /// Every member succeeded.
    Succeeded,
    /// A member failed or crashed.
    Failed,
    /// It was stopped on request.
    Cancelled,
}

impl GroupState {
    /// The name used everywhere from SQL to dashboard.
    pub fn as_str(self) -> &'static str {
        match self {
            GroupState::New => "new",
            GroupState::Running => "running",
            GroupState::Succeeded => "succeeded",
            GroupState::Failed => "failed",
            GroupState::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for GroupState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The end of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupEnd {
    /// When it ended.
    pub at: Time,
    /// How it ended.
    pub verdict: GroupVerdict,
    /// Its members at that time: all completed.
    pub counts: GroupCounts,
}

/// A set of jobs with one verdict. Its members are the jobs that refer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its id.
    pub id: GroupId,
    /// Increases with every write, from 1.
    pub rev: u32,
    /// A name for users.
    pub name: Option<Key>,
    /// The owner.
    pub owner: Option<Owner>,
    /// Tags for filtering.
    pub tags: Box<[Tag]>,
    /// The group whose failed members it retries.
    pub retry_of: Option<GroupId>,
    /// When it was created.
    pub created_at: Time,
    /// Whether it accepts no more members. Only a closed group can end.
    pub closed: bool,
    /// Why it is being cancelled, if it is.
    pub cancel: Option<Failure>,
    /// Whether that cancel stops it as failed: it ends as failed whatever became of its members.
    pub fails: bool,
    /// Its end, if it has ended.
    pub end: Option<GroupEnd>,
}

impl Group {
    /// The state of the group with these members. An ended group keeps its verdict regardless of the counts.
    pub fn state(&self, counts: &GroupCounts) -> GroupState {
        match self.end.map(|end| end.verdict) {
            Some(GroupVerdict::Succeeded) => GroupState::Succeeded,
            Some(GroupVerdict::Failed) => GroupState::Failed,
            Some(GroupVerdict::Cancelled) => GroupState::Cancelled,
            None if counts.total() == counts.pending => GroupState::New,
            None => GroupState::Running,
        }
    }

    /// Whether clients may add jobs to it. A group that retries another is filled by the engine only.
    pub fn is_joinable(&self) -> bool {
        !self.closed && self.retry_of.is_none()
    }

    /// Whether jobs that are not members may be added to it: attached ones, and copies of its members.
    pub fn takes_helpers(&self) -> bool {
        self.end.is_none() && self.cancel.is_none()
    }

    /// Whether it ended before this time.
    pub fn ended_before(&self, moment: Time) -> bool {
        self.end.is_some_and(|end| end.at < moment)
    }

    /// The end of the group, if it accepts no more members and all are completed.
    pub fn ends(&self, counts: &GroupCounts, now: Time) -> Option<GroupEnd> {
        let over = self.end.is_none() && self.closed && counts.open() == 0;
        let verdict = match &self.cancel {
            Some(_) if self.fails => GroupVerdict::Failed,
            Some(_) if counts.failed + counts.crashed == 0 => GroupVerdict::Cancelled,
            _ => counts.verdict(),
        };
        over.then_some(GroupEnd { at: now, verdict, counts: *counts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(closed: bool) -> Group {
        Group {
            id: GroupId::new(7).unwrap(),
            rev: 1,
            name: None,
            owner: None,
            tags: Box::default(),
            retry_of: None,
            created_at: Time::EPOCH,
            closed,
            cancel: None,
            fails: false,
            end: None,
        }
    }

    fn counts(numbers: [u64; 6]) -> GroupCounts {
        let [pending, active, succeeded, failed, crashed, cancelled] = numbers;
        GroupCounts { pending, active, succeeded, failed, crashed, cancelled }
    }

    #[test]
    fn a_group_ends_once_it_is_closed_and_all_its_members_are_completed() {
        let now = Time::EPOCH.plus_ms(9);
        for (numbers, verdict) in [
            ([0, 0, 0, 0, 0, 0], GroupVerdict::Succeeded),
            ([0, 0, 3, 0, 0, 0], GroupVerdict::Succeeded),
            ([0, 0, 3, 1, 0, 1], GroupVerdict::Failed),
            ([0, 0, 3, 0, 1, 0], GroupVerdict::Failed),
            ([0, 0, 3, 0, 0, 1], GroupVerdict::Cancelled),
        ] {
            let counts = counts(numbers);
            assert_eq!(group(true).ends(&counts, now), Some(GroupEnd { at: now, verdict, counts }));
            assert_eq!(group(false).ends(&counts, now), None, "open for members");
        }
        for numbers in [[1, 0, 3, 0, 0, 0], [0, 1, 3, 1, 0, 0]] {
            assert_eq!(group(true).ends(&counts(numbers), now), None);
        }
    }

    #[test]
    fn a_cancelled_group_is_cancelled_unless_a_member_failed() {
        let now = Time::EPOCH;
        let cancelled = Group { cancel: Some(Failure::new("cancelled", "")), ..group(true) };
        let verdict = |numbers| cancelled.ends(&counts(numbers), now).unwrap().verdict;
        assert_eq!(verdict([0, 0, 3, 0, 0, 0]), GroupVerdict::Cancelled);
        assert_eq!(verdict([0, 0, 3, 1, 0, 2]), GroupVerdict::Failed);
    }

    #[test]
    fn copies_are_one_member_and_any_success_wins() {
        use Standing::{Active, Cancelled, Crashed, Failed, Pending, Succeeded};
        for (copies, together) in [
            (vec![], None),
            (vec![Failed], Some(Failed)),
            (vec![Failed, Succeeded], Some(Succeeded)),
            (vec![Succeeded, Active], Some(Succeeded)),
            (vec![Failed, Pending], Some(Pending)),
            (vec![Pending, Active], Some(Active)),
            (vec![Cancelled, Failed], Some(Failed)),
            (vec![Cancelled, Crashed], Some(Crashed)),
        ] {
            assert_eq!(Standing::together(copies), together);
        }
        let over: Vec<_> =
            StateName::ALL.into_iter().filter(|&state| Standing::of(state).is_over()).collect();
        assert_eq!(over, StateName::ALL[8..]);
        let retried = StateName::ALL.into_iter().filter(|&state| Standing::of(state).is_retried());
        assert_eq!(retried.collect::<Vec<_>>(), StateName::ALL[9..]);
    }

    #[test]
    fn counts_sum_to_the_members_whatever_moves() {
        let mut counts = GroupCounts::default();
        for state in StateName::ALL {
            counts.step(None, Some(Standing::Pending));
            counts.step(Some(Standing::Pending), Some(Standing::of(state)));
        }
        assert_eq!(counts, self::counts([4, 4, 1, 1, 1, 1]));
        assert_eq!((counts.total(), counts.open()), (12, 8));
        counts.step(Some(Standing::Failed), None);
        assert_eq!(counts.total(), 11);
    }

    #[test]
    fn a_group_is_new_until_something_has_begun() {
        let open = group(false);
        assert_eq!(open.state(&counts([0; 6])), GroupState::New);
        assert_eq!(open.state(&counts([5, 0, 0, 0, 0, 0])), GroupState::New);
        assert_eq!(open.state(&counts([5, 1, 0, 0, 0, 0])), GroupState::Running);
        assert_eq!(open.state(&counts([5, 0, 0, 0, 0, 1])), GroupState::Running);
        let counts = counts([0, 0, 1, 0, 0, 0]);
        let ended = |verdict| {
            let end = Some(GroupEnd { at: Time::EPOCH, verdict, counts });
            Group { end, ..group(true) }.state(&counts).to_string()
        };
        assert_eq!(GroupVerdict::ALL.map(ended), ["succeeded", "failed", "cancelled"]);
    }
}
