//! The operations of the port as values, so that two stores can run the same call and the answers can be compared.

use jobhall_core::{Group, GroupId, Job, JobId, Key, PastAttempt, RecordKind, TypeName};
use jobhall_store::{
    Block, BlockChange, Committed, CompletedPage, FeedPage, GroupFilter, JobCounts, JobFilter, Link, Member,
    Prune, Pruned, Record, RecordFilter, RecordPage, Setting, Store, Unit,
};

use crate::fixture::wait;
use crate::rules::records::kind;
use crate::samples::id;

/// A call of one operation. Each variant is named after the method of [`Store`] that it calls.
#[derive(Clone, Debug)]
pub enum Call {
    Commit(Vec<Unit>),
    TakeBlock(u64),
    SettleBlocks(Vec<BlockChange>),
    Prune(Prune),
    Jobs(Vec<JobId>),
    Attempts(JobId),
    AttemptsOfJobs(Vec<JobId>, usize),
    Successes(Vec<(TypeName, Key)>),
    OpenJobs(Option<JobId>, usize),
    Blocks,
    Completed(Option<JobId>, usize),
    CountCompleted(Option<JobId>, JobId, Vec<JobId>),
    List(JobFilter, Option<JobId>, usize),
    Groups(Vec<GroupId>),
    GroupPage(GroupFilter, Option<GroupId>, usize),
    Members(GroupId, Option<JobId>, usize),
    Links(Option<(JobId, String)>, usize),
    Settings,
    Records(Vec<(RecordKind, Key)>),
    RecordPage(RecordFilter, Option<Key>, usize),
    Feed(u64, usize),
    FeedEnd,
    /// Not an operation of the port: the store is dropped and opened again, if it is durable.
    Reopen,
}

impl Call {
    /// The name of the operation.
    pub fn verb(&self) -> &'static str {
        match self {
            Call::Commit(_) => "commit",
            Call::TakeBlock(_) => "take_block",
            Call::SettleBlocks(_) => "settle_blocks",
            Call::Prune(_) => "prune",
            Call::Jobs(_) => "jobs",
            Call::Attempts(_) => "attempts",
            Call::AttemptsOfJobs(..) => "attempts_of_jobs",
            Call::Successes(_) => "successes",
            Call::OpenJobs(..) => "open_jobs",
            Call::Blocks => "blocks",
            Call::Completed(..) => "completed",
            Call::CountCompleted(..) => "count_completed",
            Call::List(..) => "list",
            Call::Groups(_) => "groups",
            Call::GroupPage(..) => "group_page",
            Call::Members(..) => "members",
            Call::Links(..) => "links",
            Call::Settings => "settings",
            Call::Records(_) => "records",
            Call::RecordPage(..) => "record_page",
            Call::Feed(..) => "feed",
            Call::FeedEnd => "feed_end",
            Call::Reopen => "reopen",
        }
    }

    /// Whether the call can change the store.
    pub fn writes(&self) -> bool {
        matches!(self, Call::Commit(_) | Call::TakeBlock(_) | Call::SettleBlocks(_) | Call::Prune(_))
    }
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Committed(Committed),
    Block(Block),
    /// Of calls without a result.
    Nothing,
    Pruned(Pruned),
    Jobs(Vec<Option<Job>>),
    Attempts(Vec<PastAttempt>),
    AttemptsOfJobs(Vec<Vec<PastAttempt>>),
    OpenJobs(Vec<Job>),
    Blocks(Vec<Block>),
    Completed(CompletedPage),
    CountCompleted(JobCounts),
    /// The jobs of a list. The position at which the list continues is not compared: it depends on the store.
    List(Vec<Job>),
    Groups(Vec<Option<Group>>),
    /// Where the list continues is not compared either.
    GroupPage(Vec<Group>),
    Members(Vec<Member>),
    Links(Vec<Link>),
    Settings(Vec<Setting>),
    Records(Vec<Option<Record>>),
    RecordPage(RecordPage),
    Feed(FeedPage),
    FeedEnd(u64),
}

impl Answer {
    /// Whether the call had an effect: a row written, removed or found.
    pub fn succeeded(&self) -> bool {
        match self {
            Answer::Committed(committed) => committed.results.iter().any(Result::is_ok),
            Answer::Block(_) | Answer::Nothing => true,
            Answer::Pruned(pruned) => *pruned != Pruned::default(),
            Answer::Jobs(jobs) => jobs.iter().any(Option::is_some),
            Answer::Attempts(attempts) => !attempts.is_empty(),
            Answer::AttemptsOfJobs(jobs) => jobs.iter().any(|attempts| !attempts.is_empty()),
            Answer::FeedEnd(last) => *last > 0,
            Answer::OpenJobs(jobs) => !jobs.is_empty(),
            Answer::Blocks(blocks) => !blocks.is_empty(),
            Answer::Completed(page) => !page.jobs.is_empty(),
            Answer::CountCompleted(counts) => !counts.counts.is_empty(),
            Answer::List(jobs) => !jobs.is_empty(),
            Answer::Groups(groups) => groups.iter().any(Option::is_some),
            Answer::GroupPage(groups) => !groups.is_empty(),
            Answer::Members(members) => !members.is_empty(),
            Answer::Links(links) => !links.is_empty(),
            Answer::Settings(settings) => !settings.is_empty(),
            Answer::Records(records) => records.iter().any(Option::is_some),
            Answer::RecordPage(page) => !page.records.is_empty(),
            Answer::Feed(page) => !page.rows.is_empty(),
        }
    }
}

/// Makes the call. An error of a store is a failure of the test.
pub fn ask(store: &dyn Store, call: Call) -> Answer {
    match call {
        Call::Commit(units) => Answer::Committed(worked(wait(store.commit(units)))),
        Call::TakeBlock(size) => Answer::Block(worked(wait(store.take_block(size)))),
        Call::SettleBlocks(changes) => {
            worked(wait(store.settle_blocks(changes)));
            Answer::Nothing
        }
        Call::Prune(prune) => Answer::Pruned(worked(wait(store.prune(prune)))),
        Call::Jobs(ids) => Answer::Jobs(worked(wait(store.jobs(ids)))),
        Call::Attempts(id) => Answer::Attempts(worked(wait(store.attempts(id, 0, usize::MAX)))),
        Call::AttemptsOfJobs(ids, limit) => {
            Answer::AttemptsOfJobs(worked(wait(store.attempts_of_jobs(ids, limit))))
        }
        Call::Successes(keys) => Answer::Jobs(worked(wait(store.successes(keys)))),
        Call::OpenJobs(after, limit) => Answer::OpenJobs(worked(wait(store.open_jobs(after, limit)))),
        Call::Blocks => Answer::Blocks(worked(wait(store.blocks()))),
        Call::Completed(after, limit) => Answer::Completed(worked(wait(store.completed(after, limit)))),
        Call::CountCompleted(after, last, except) => {
            Answer::CountCompleted(worked(wait(store.count_completed(after, last, except))))
        }
        Call::List(filter, before, limit) => {
            Answer::List(worked(wait(store.list(filter, before, limit))).jobs)
        }
        Call::Groups(ids) => Answer::Groups(worked(wait(store.groups(ids)))),
        Call::GroupPage(filter, before, limit) => {
            Answer::GroupPage(worked(wait(store.group_page(filter, before, limit))).groups)
        }
        Call::Members(group, after, limit) => {
            Answer::Members(worked(wait(store.members(group, after, limit))))
        }
        Call::Links(after, limit) => Answer::Links(worked(wait(store.links(after, limit)))),
        Call::Settings => Answer::Settings(worked(wait(store.settings(None)))),
        Call::Records(names) => Answer::Records(worked(wait(store.records(names)))),
        Call::RecordPage(filter, after, limit) => {
            Answer::RecordPage(worked(wait(store.record_page(filter, after, limit))))
        }
        Call::Feed(after, limit) => Answer::Feed(worked(wait(store.feed(after, limit)))),
        Call::FeedEnd => Answer::FeedEnd(worked(wait(store.feed_end()))),
        Call::Reopen => Answer::Nothing,
    }
}

fn worked<T, E: std::error::Error>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("the store failed: {error}"))
}

/// Everything that the reads of a store return.
#[derive(Debug, PartialEq, Eq)]
pub struct Picture(Vec<(String, Answer)>);

impl Picture {
    /// The difference between two pictures.
    pub fn difference(&self, other: &Picture) -> Option<String> {
        let pair = self.0.iter().zip(&other.0).find(|(one, another)| one != another)?;
        Some(format!("{}: {:?}\nnot {:?}", pair.0.0, pair.0.1, pair.1.1))
    }
}

/// The kinds of records that tests write.
pub(super) const KINDS: [&str; 2] = ["q.pin", "q.source"];

/// More rows than a test creates.
const ALL: usize = 1_000_000;

/// Reads everything, for ids up to `last`.
pub fn picture(store: &dyn Store, last: u64) -> Picture {
    let ids: Vec<JobId> = (1..=last).map(id).collect();
    let mut calls: Vec<Call> = ids.iter().copied().map(Call::Attempts).collect();
    calls.extend([Call::Jobs(ids), Call::Blocks, Call::Settings]);
    let groups = worked(wait(store.group_page(GroupFilter::default(), None, ALL))).groups;
    calls.extend(groups.iter().map(|group| Call::Members(group.id, None, ALL)));
    calls.extend([Call::GroupPage(GroupFilter::default(), None, ALL), Call::Links(None, ALL), Call::FeedEnd]);
    calls.extend([Call::OpenJobs(None, ALL), Call::Completed(None, ALL), Call::Feed(0, ALL)]);
    let kinds = KINDS.map(|name| RecordFilter::of(kind(name)));
    calls.extend(kinds.map(|filter| Call::RecordPage(filter, None, ALL)));
    let look = |call: Call| match call {
        Call::Attempts(id) => (format!("attempts of {id}"), ask(store, call)),
        _ => (call.verb().to_owned(), ask(store, call)),
    };
    Picture(calls.into_iter().map(look).collect())
}
