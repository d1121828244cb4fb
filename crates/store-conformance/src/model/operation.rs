//! Random operations, drawn without knowledge of the state: numbers that the model turns into real calls on the
//! current jobs. Any subsequence is therefore still valid, and proptest can drop operations when it shrinks.

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::strategy::BoxedStrategy;

/// The subject of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shape {
    /// One new job, with or without a key.
    Submit,
    /// Several new jobs, all or nothing.
    SubmitMany,
    /// A new job that is inserted as assigned.
    HandOver,
    /// A new job, unless a recent success can be reused.
    Reuse,
    /// A new job in the next place of a key, whichever job holds the live place.
    Behind,
    /// A new job that replaces the live one of its key.
    Supersede,
    /// A worker claims a job.
    Claim,
    /// A worker claims several jobs.
    ClaimMany,
    Accept,
    Progress,
    Pass,
    /// A worker reports another outcome.
    Fail,
    /// The claim was not accepted.
    TakeBack,
    /// The session ended.
    LeaseEnd,
    Cancel,
    /// A client requests a follow-up.
    Again,
    /// A waiting job is released.
    Release,
    /// A new job with dependencies.
    After,
    /// Dependencies have ended.
    Met,
    /// A dependency did not succeed.
    Cascaded,
    /// An attempt waits for jobs.
    Wait,
    /// The attempt continues.
    Resume,
    /// A worker has started external work.
    Start,
    /// An external outcome is reported.
    Tell,
    TimeOut,
    /// An operator holds or releases a job.
    Hold,
    /// A client changes when a job is due.
    Edit,
    /// A new group, with or without a job.
    Group,
    /// A group is closed, cancelled or ended.
    MoveGroup,
    /// A new job in a group.
    Join,
    /// A parent requests a sub-job by name, or ends.
    Link,
    /// A client changes the spec of a job.
    Respec,
    /// Settings only.
    Configure,
    /// Records only.
    Record,
    /// Only checks and other optional parts.
    Bare,
}

/// A variation of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twist {
    Plain,
    /// A wrong rev, or an id that is in use.
    Stale,
    /// Decided on an older copy.
    Outdated,
    StoredIdempotencyKey,
    Check,
    Setting,
    Record,
    /// An ended job does not release its successor.
    Abandon,
}

/// A unit without knowledge of the state.
#[derive(Clone, Debug)]
pub struct Sketch {
    pub shape: Shape,
    /// Selects a job among those that fit.
    pub pick: u16,
    /// Small choices.
    pub dice: u32,
    pub twists: [Twist; 2],
}

/// An operation without knowledge of the state. Picks are positions among the existing items, ages are in ticks of 10
/// ms.
#[derive(Clone, Debug)]
pub enum Operation {
    /// A commit of these units, with a clock that may have been set back.
    Commit(Vec<Sketch>, u8),
    TakeBlock(u8),
    /// Closes (true) or shrinks blocks.
    SettleBlocks(Vec<(u16, bool, u64)>),
    /// Removes jobs and groups, feed rows, and idempotency keys with records.
    Prune(Vec<u16>, Option<u16>, Option<u16>),
    Jobs(Vec<u16>),
    Attempts(u16),
    /// Reads the newest attempts of several jobs: limit of each.
    AttemptsOfJobs(Vec<u16>, u8),
    Successes(Vec<u16>),
    OpenJobs(Option<u16>, u8),
    Blocks,
    Completed(Option<u16>, u8),
    CountCompleted(Option<u16>, u16, Vec<u16>),
    /// Lists jobs: states (as bits), below an id, limit.
    List(u16, Option<u16>, u8),
    Groups(Vec<u16>),
    /// Reads groups in pages: below one, limit, filter (as bits).
    GroupPage(Option<u16>, u8, u8),
    /// Reads members of a group: after one, limit.
    Members(u16, Option<u16>, u8),
    /// Reads links: after one, limit.
    Links(Option<u8>, u8),
    Settings,
    Records(Vec<u16>),
    /// Reads records in pages: of a kind, prefix and group, after one, limit.
    RecordPage(u16, Option<u16>, u8),
    Feed(u16, u8),
    FeedEnd,
    Reopen,
}

const SHAPES: [Shape; 55] = {
    use Shape::{
        Accept, After, Again, Bare, Behind, Cancel, Cascaded, Claim, ClaimMany, Configure, Edit, Fail, Group,
        HandOver, Hold, Join, LeaseEnd, Link, Met, MoveGroup, Pass, Progress, Record, Release, Respec,
        Resume, Reuse, Start, Submit, SubmitMany, Supersede, TakeBack, Tell, TimeOut, Wait,
    };
    [
        Submit, Submit, Submit, SubmitMany, HandOver, HandOver, Reuse, Reuse, Behind, Supersede, Supersede,
        Claim, Claim, Claim, ClaimMany, Accept, Accept, Progress, Pass, Pass, Pass, Pass, Fail, Fail,
        TakeBack, LeaseEnd, Cancel, Again, Again, Release, Configure, Bare, After, After, Met, Cascaded,
        Wait, Resume, Start, Start, Tell, TimeOut, Hold, Edit, Group, Group, MoveGroup, Join, Join, Join,
        Link, Link, Respec, Record, Record,
    ]
};

const TWISTS: [Twist; 17] = {
    use Twist::{Abandon, Check, Outdated, Plain, Record, Setting, Stale, StoredIdempotencyKey};
    [
        Plain,
        Plain,
        Plain,
        Plain,
        Plain,
        Plain,
        Plain,
        Plain,
        Plain,
        Plain,
        Stale,
        Outdated,
        StoredIdempotencyKey,
        Check,
        Setting,
        Record,
        Abandon,
    ]
};

fn sketch() -> impl Strategy<Value = Sketch> {
    (0..SHAPES.len(), any::<u16>(), any::<u32>(), 0..TWISTS.len(), 0..TWISTS.len()).prop_map(
        |(shape, pick, dice, one, two)| Sketch {
            shape: SHAPES[shape],
            pick,
            dice,
            twists: [TWISTS[one], TWISTS[two]],
        },
    )
}

/// Mostly commits of several units, so that a durable store does not need a sync per operation.
pub fn operation() -> BoxedStrategy<Operation> {
    let age = || weighted(0.5, any::<u16>());
    let settling = || (any::<u16>(), proptest::bool::weighted(0.3), any::<u64>());
    prop_oneof![
        78 => (vec(sketch(), 1..=6), any::<u8>()).prop_map(|(units, skew)| Operation::Commit(units, skew)),
        2 => (1u8..40).prop_map(Operation::TakeBlock),
        2 => vec(settling(), 1..=3).prop_map(Operation::SettleBlocks),
        3 => (vec(any::<u16>(), 0..=6), age(), age()).prop_map(|(jobs, feed, keys)| Operation::Prune(jobs, feed, keys)),
        3 => vec(any::<u16>(), 0..=5).prop_map(Operation::Jobs),
        3 => any::<u16>().prop_map(Operation::Attempts),
        2 => (vec(any::<u16>(), 0..=5), 0u8..4).prop_map(|(jobs, limit)| Operation::AttemptsOfJobs(jobs, limit)),
        1 => vec(any::<u16>(), 0..=5).prop_map(Operation::Successes),
        2 => (weighted(0.7, any::<u16>()), 0u8..20).prop_map(|(after, limit)| Operation::OpenJobs(after, limit)),
        1 => Just(Operation::Blocks),
        2 => (weighted(0.7, any::<u16>()), 0u8..20).prop_map(|(after, limit)| Operation::Completed(after, limit)),
        2 => (weighted(0.7, any::<u16>()), any::<u16>(), vec(any::<u16>(), 0..=4))
            .prop_map(|(after, last, except)| Operation::CountCompleted(after, last, except)),
        2 => (any::<u16>(), weighted(0.7, any::<u16>()), 1u8..20)
            .prop_map(|(states, before, limit)| Operation::List(states, before, limit)),
        2 => vec(any::<u16>(), 0..=4).prop_map(Operation::Groups),
        1 => (weighted(0.5, any::<u16>()), 0u8..20, any::<u8>())
            .prop_map(|(before, limit, filter)| Operation::GroupPage(before, limit, filter)),
        2 => (any::<u16>(), weighted(0.3, any::<u16>()), 1u8..20)
            .prop_map(|(group, after, limit)| Operation::Members(group, after, limit)),
        1 => (weighted(0.5, any::<u8>()), 0u8..20).prop_map(|(after, limit)| Operation::Links(after, limit)),
        1 => Just(Operation::Settings),
        1 => vec(any::<u16>(), 0..=4).prop_map(Operation::Records),
        1 => (any::<u16>(), weighted(0.3, any::<u16>()), 0u8..8)
            .prop_map(|(of, after, limit)| Operation::RecordPage(of, after, limit)),
        2 => (any::<u16>(), 0u8..20).prop_map(|(after, limit)| Operation::Feed(after, limit)),
        1 => Just(Operation::FeedEnd),
        1 => Just(Operation::Reopen),
    ]
    .boxed()
}
