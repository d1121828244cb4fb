//! Bugs planted around the engine, to prove that each checker catches its kind of bug.

use crate::check::Invariant;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plant {
    /// The store acknowledges a unit and drops it.
    DroppedUnit,
    /// The store acknowledges a commit that failed.
    FalseAcknowledgement,
    /// A crash of the store loses an acknowledged job.
    LostAtCrash,
    /// The store writes an old state to a completed job, regardless of its rev.
    TerminalRewritten,
    /// The store puts a leased job back in the queue, as a stale write would.
    StaleWrite,
    /// The store releases a key that is still held.
    KeyReleasedEarly,
    /// The store forgets idempotency keys.
    NameForgotten,
    /// The feed has a hole.
    FeedHole,
    /// A block is closed while a job in it is open.
    BlockClosedEarly,
    /// A cancel is acknowledged and not executed.
    CancelSwallowed,
    /// An assignment is sent to two workers.
    AssignedTwice,
    /// The leases of two assignments are swapped.
    LeasesSwapped,
    /// A stale report is sent as the current holder's.
    ForgedReport,
    /// An assignment is sent to the first worker, matching or not.
    WrongWorker,
    /// An answer is sent twice.
    AnsweredTwice,
    /// An answer is never sent.
    NeverAnswered,
    /// Leases use the wall clock.
    LeaseOnWallClock,
    /// The kernel's wall clock is two minutes ahead.
    ClockAhead,
    /// The kernel receives other priorities than the clients requested.
    PriorityIgnored,
    /// The kernel's wall clock stops at the start of the calm phase.
    ClockStuck,
    /// The kernel reports its previous counts again.
    CountsOld,
    /// The kernel receives larger resources than the workers have.
    WorkersLarger,
    /// The kernel receives more credit than a session with waiting attempts was given.
    CreditRaised,
    /// A restart forgets the ticks of the last ten minutes.
    TicksForgotten,
    /// A restart loses the settings of queues.
    LimitsForgotten,
    /// A restart loses the limits of types.
    TypeLimitsForgotten,
    /// After a restart queued sub-jobs of a waiting parent have weight zero, so that several use the place it lends.
    LentTwice,
    /// After a restart blocked jobs depend on other jobs than before.
    AfterForgotten,
    /// After a restart jobs that are not blocked come after nothing.
    InputsForgotten,
    /// The store loses a completed job that an open job comes after.
    InputLost,
    /// After a restart blocked jobs also depend on themselves.
    NeverReleased,
    /// A restart does not read the first completed member of each group.
    MemberForgotten,
    /// Retention receives groups as empty although they have jobs.
    GroupsPruned,
    /// External outcomes are changed before they arrive.
    OutcomeForged,
    /// Attempts that time out have no grace period.
    NoGrace,
    /// No waiting attempt is notified that its wait is over.
    NeverResumed,
    /// Workers start jobs that run at most once before their accept is answered.
    StartedEarly,
    /// After a restart no job runs at most once.
    OnceForgotten,
    /// Jobs that avoid workers wait for others without end.
    NeverPatient,
    /// The kernel receives no lease of a session.
    LeaseIgnored,
    /// The kernel does not receive that the process of a worker began anew.
    FreshIgnored,
    /// The kernel receives every wait as one for all sub-jobs.
    WaitWidened,
    /// The kernel receives only the first job that a wait names.
    WaitNarrowed,
}

impl Plant {
    pub const ALL: [Plant; 43] = [
        Plant::DroppedUnit,
        Plant::FalseAcknowledgement,
        Plant::LostAtCrash,
        Plant::TerminalRewritten,
        Plant::StaleWrite,
        Plant::KeyReleasedEarly,
        Plant::NameForgotten,
        Plant::FeedHole,
        Plant::BlockClosedEarly,
        Plant::CancelSwallowed,
        Plant::AssignedTwice,
        Plant::LeasesSwapped,
        Plant::ForgedReport,
        Plant::WrongWorker,
        Plant::AnsweredTwice,
        Plant::NeverAnswered,
        Plant::LeaseOnWallClock,
        Plant::ClockAhead,
        Plant::PriorityIgnored,
        Plant::ClockStuck,
        Plant::CountsOld,
        Plant::WorkersLarger,
        Plant::CreditRaised,
        Plant::TicksForgotten,
        Plant::LimitsForgotten,
        Plant::TypeLimitsForgotten,
        Plant::LentTwice,
        Plant::AfterForgotten,
        Plant::InputsForgotten,
        Plant::InputLost,
        Plant::NeverReleased,
        Plant::MemberForgotten,
        Plant::GroupsPruned,
        Plant::OutcomeForged,
        Plant::NoGrace,
        Plant::NeverResumed,
        Plant::StartedEarly,
        Plant::OnceForgotten,
        Plant::NeverPatient,
        Plant::LeaseIgnored,
        Plant::FreshIgnored,
        Plant::WaitWidened,
        Plant::WaitNarrowed,
    ];

    /// The invariant that must catch it.
    pub fn caught_by(self) -> Invariant {
        match self {
            Plant::DroppedUnit | Plant::FalseAcknowledgement | Plant::LostAtCrash => Invariant::Stored,
            Plant::TerminalRewritten => Invariant::Final,
            Plant::StaleWrite | Plant::AssignedTwice | Plant::LeasesSwapped | Plant::ForgedReport => {
                Invariant::Lease
            }
            Plant::KeyReleasedEarly | Plant::NameForgotten => Invariant::Key,
            Plant::FeedHole | Plant::BlockClosedEarly => Invariant::Sound,
            Plant::CancelSwallowed => Invariant::Cancel,
            Plant::WrongWorker => Invariant::Suits,
            Plant::AnsweredTwice | Plant::NeverAnswered => Invariant::Answer,
            Plant::LeaseOnWallClock | Plant::LeaseIgnored => Invariant::Renewed,
            Plant::NeverPatient => Invariant::Slots,
            Plant::FreshIgnored => Invariant::Fresh,
            Plant::WaitWidened | Plant::WaitNarrowed => Invariant::Waits,
            Plant::ClockAhead | Plant::ClockStuck | Plant::NoGrace => Invariant::Early,
            Plant::PriorityIgnored => Invariant::Order,
            Plant::NeverResumed | Plant::NeverReleased => Invariant::Drained,
            Plant::AfterForgotten | Plant::InputsForgotten | Plant::InputLost => Invariant::Dependency,
            Plant::MemberForgotten | Plant::GroupsPruned => Invariant::Group,
            Plant::OutcomeForged => Invariant::External,
            Plant::StartedEarly | Plant::OnceForgotten => Invariant::Once,
            Plant::CountsOld => Invariant::Counted,
            Plant::WorkersLarger => Invariant::Used,
            Plant::CreditRaised => Invariant::Credit,
            Plant::TicksForgotten => Invariant::Tick,
            Plant::LimitsForgotten | Plant::TypeLimitsForgotten | Plant::LentTwice => Invariant::Limit,
        }
    }
}
