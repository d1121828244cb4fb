//! The agenda: what follows from the current step, in order.
//!
//! Nothing in the kernel calls back into the dispatch of tasks. A use case adds what follows from it to the agenda, and
//! one loop in `kernel.rs` takes the items off it. What an item adds is done before what was there already, in the
//! order it was added: the same order as if each follow-up were called at once.

use jobhall_core::{JobId, WorkerName};
use jobhall_store::{CommitError, Conflict, Done};

use super::Task;
use crate::api::effect::VacancyId;
use crate::commits::settle::Pending;
use crate::matching::board::ClassId;

/// Something to be done in the current step.
#[derive(Debug)]
pub(crate) enum AgendaItem {
    /// Run a task, immediately or once its job is no longer busy.
    Run(Task),
    /// A unit is stored.
    Stored(Pending, Done),
    /// The store rejected a unit because of these conflicts.
    Conflicted(Pending, Vec<Conflict>),
    /// A unit was not stored, or it is unknown whether it was.
    NotStored(Pending, CommitError),
    /// Place a job that is no longer busy, once the tasks that waited for it have run.
    Freed(JobId),
    /// Place a waiting job.
    Place(JobId),
    /// Offer a ready job of this class to a parked vacancy.
    Wake(ClassId),
    /// Fill a vacancy.
    Fill(VacancyId),
    /// Fill every vacancy of a worker, some of whose resources became free.
    Refill(WorkerName),
    /// Match everything that waits.
    WakeAll,
    /// Every parked vacancy has been examined by [`AgendaItem::WakeAll`].
    EndSweep,
    /// Release jobs that wait for limits and may fit now.
    RetryWaiters,
}

/// The items that are still to be done in the current step.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    /// The next item is the last one, except for those that the current item adds, which are in order.
    items: Vec<AgendaItem>,
    /// Where the items begin that the current item adds.
    added_from: usize,
}

impl Agenda {
    /// Adds what follows from the current item.
    pub fn push(&mut self, item: AgendaItem) {
        self.items.push(item);
    }

    /// Whether the current item has added something, which must be done before anything else is matched.
    pub fn grew(&self) -> bool {
        self.items.len() > self.added_from
    }

    /// Takes the next item.
    pub fn next(&mut self) -> Option<AgendaItem> {
        self.items[self.added_from..].reverse();
        let item = self.items.pop();
        self.added_from = self.items.len();
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(id: u64) -> AgendaItem {
        AgendaItem::Place(JobId::new(id).unwrap())
    }

    fn next(agenda: &mut Agenda) -> Option<u64> {
        match agenda.next()? {
            AgendaItem::Place(id) => Some(id.get()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn items_come_in_the_order_in_which_they_were_added() {
        let mut agenda = Agenda::default();
        (1..=3).for_each(|id| agenda.push(place(id)));
        let taken: Vec<_> = std::iter::from_fn(|| next(&mut agenda)).collect();
        assert_eq!(taken, [1, 2, 3]);
        assert!(!agenda.grew());
    }

    #[test]
    fn what_an_item_adds_precedes_what_was_there() {
        let mut agenda = Agenda::default();
        (1..=2).for_each(|id| agenda.push(place(id)));
        assert!(agenda.grew());
        assert_eq!(next(&mut agenda), Some(1));
        assert!(!agenda.grew(), "the next item was there before");
        (11..=12).for_each(|id| agenda.push(place(id)));
        assert!(agenda.grew());
        assert_eq!(next(&mut agenda), Some(11));
        agenda.push(place(111));
        let taken: Vec<_> = std::iter::from_fn(|| next(&mut agenda)).collect();
        assert_eq!(taken, [111, 12, 2]);
    }
}
