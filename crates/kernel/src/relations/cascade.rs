//! Cascades: jobs that end because a dependency failed, their group was cancelled, or another copy succeeded.
//!
//! They are ended in units of bounded size, one unit at a time, without recursion. The dependents of a job that is
//! ended here go into the same unit while there is room, so one commit ends many jobs of a chain. Anything that is not
//! stored when the server stops is found again from the rows.

use std::collections::VecDeque;

use jobhall_core::{Decision, Dependency, Event, Failure, GroupId, JobId, Step, transition};
use jobhall_store::{Change, Conflict, Unit};

use crate::commits::settle::Pending;
use crate::commits::step::Then;
use crate::commits::step::change;
use crate::jobs::entry::Busy;
use crate::jobs::ids::IdMap;
use crate::kernel::{JobTask, JobWork, Kernel, ROUNDS};

/// The reason of the end of a job that is a copy, or has copies, one of which has succeeded.
pub(crate) const COPY_WON: &str = "copy_won";

/// Jobs that are ended in one unit.
const SLICE: usize = 500;

/// Why a job is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CascadeCause {
    /// This dependency ended in this way.
    Dependency(JobId, Dependency),
    /// Its group was cancelled.
    Group(GroupId),
    /// This job, a copy of the same work, has succeeded.
    Copy(JobId),
}

/// Jobs that are to be ended.
#[derive(Debug, Default)]
pub(crate) struct Cascade {
    line: VecDeque<(JobId, CascadeCause)>,
    under_way: bool,
    rounds: u8,
    /// By job to be ended: the completed job that is the cause.
    causes: IdMap<JobId, JobId>,
    /// Completed jobs that are the cause of pending ends, with the number of those: they must not be removed yet.
    because: IdMap<JobId, u32>,
}

/// Jobs whose end is in flight.
#[derive(Debug)]
pub(crate) struct CascadePending(Vec<Move>);

#[derive(Debug)]
struct Move {
    id: JobId,
    by: CascadeCause,
    step: Step,
    /// Whether the cause is in the same unit.
    near: bool,
}

/// A unit of ends that is being built.
#[derive(Default)]
struct Slice {
    moves: Vec<Move>,
    /// The dependents of jobs of the unit.
    near: VecDeque<(JobId, CascadeCause)>,
}

impl Cascade {
    pub fn push(&mut self, id: JobId, by: CascadeCause) {
        if let CascadeCause::Dependency(before, _) = by
            && !self.causes.contains_key(&id)
        {
            self.causes.insert(id, before);
            self.because_of(before);
        }
        self.line.push_back((id, by));
    }

    /// Whether no job is to be ended.
    pub fn is_idle(&self) -> bool {
        self.line.is_empty() && !self.under_way
    }

    pub fn because_of(&mut self, id: JobId) {
        *self.because.entry(id).or_default() += 1;
    }

    pub fn no_longer(&mut self, id: JobId) {
        if let Some(count) = self.because.get_mut(&id) {
            *count -= 1;
            if *count == 0 {
                self.because.remove(&id);
            }
        }
    }

    /// Whether a completed job is still needed as the cause of pending ends.
    pub fn needs(&self, id: JobId) -> bool {
        self.because.contains_key(&id)
    }

    /// A job no longer needs to be ended.
    pub fn over(&mut self, id: JobId) {
        if let Some(before) = self.causes.remove(&id) {
            self.no_longer(before);
        }
    }

    /// Whether a unit can be sent: jobs are to be ended and none is in flight.
    fn has_next(&self) -> bool {
        !self.under_way && !self.line.is_empty()
    }

    /// Takes the next job to be ended.
    pub fn next(&mut self) -> Option<(JobId, CascadeCause)> {
        self.line.pop_front()
    }

    /// A unit of ends is in flight.
    fn sent(&mut self) {
        self.under_way = true;
    }

    /// The unit was stored.
    fn stored(&mut self) {
        (self.under_way, self.rounds) = (false, 0);
    }

    /// The unit was not stored; its jobs follow with [`Cascade::again`].
    fn undone(&mut self) {
        self.under_way = false;
    }

    /// A job of a unit that was not stored is still to be ended.
    fn again(&mut self, id: JobId, by: CascadeCause) {
        self.line.push_back((id, by));
    }

    /// A job that can now be ended in a unit goes first.
    fn push_first(&mut self, id: JobId, by: CascadeCause) {
        self.line.push_front((id, by));
    }

    /// The unit had conflicts. Returns whether there were too many in succession.
    fn conflicted(&mut self) -> bool {
        self.rounds = self.rounds.saturating_add(1);
        self.rounds > ROUNDS
    }
}

impl Kernel {
    /// Sends the next unit of a cascade, if none is in flight.
    pub(crate) fn cascade_all(&mut self) {
        if !self.relations.cascade.has_next() || !self.matches() {
            return;
        }
        let mut slice = Slice::default();
        while slice.moves.len() < SLICE {
            if let Some((id, by)) = slice.near.pop_front() {
                self.plan_near(id, by, &mut slice);
            } else if let Some((id, by)) = self.relations.cascade.next() {
                self.plan_end(id, by, &mut slice);
            } else {
                break;
            }
        }
        if slice.moves.is_empty() {
            return;
        }
        let changes = slice.moves.iter().map(|Move { id, step, .. }| {
            let expected = self.jobs.get(*id).map_or(0, |entry| entry.stored_rev);
            Change { past: step.past.clone(), ..change(*id, expected, step.status.clone()) }
        });
        let unit = Unit { changes: changes.collect(), ..Unit::default() };
        self.relations.cascade.sent();
        self.send(unit, Pending::Cascade(Box::new(CascadePending(slice.moves))));
    }

    fn plan_end(&mut self, id: JobId, by: CascadeCause, slice: &mut Slice) {
        let task = || JobWork::Cascade(by).on(id);
        match self.jobs.get(id).map(|entry| entry.busy) {
            None => self.relations.cascade.over(id),
            Some(Busy::Unit | Busy::Reading) => self.jobs.line_up(id, task()),
            Some(Busy::Free) => match self.decide_end(id, by) {
                None => self.relations.cascade.over(id),
                Some(step) if self.is_alone(id, &step) => {
                    self.plan_move(Move { id, by, step, near: false }, slice);
                }
                Some(_) => self.enqueue(task()),
            },
        }
    }

    /// Plans a dependent of a job of the same unit. If it cannot be included, the end is propagated to it later.
    fn plan_near(&mut self, id: JobId, by: CascadeCause, slice: &mut Slice) {
        let free = self.jobs.get(id).is_some_and(|entry| entry.busy == Busy::Free);
        let step = if free { self.decide_end(id, by) } else { None };
        if let Some(step) = step.filter(|step| self.is_alone(id, step)) {
            self.plan_move(Move { id, by, step, near: true }, slice);
        }
    }

    fn plan_move(&mut self, planned: Move, slice: &mut Slice) {
        let id = planned.id;
        if let Some(how) = Dependency::of(planned.step.status.state.name()) {
            let room = SLICE.saturating_sub(slice.moves.len() + slice.near.len());
            let fall = self.relations.dependencies.fall_with(id, how, room);
            slice.near.extend(fall.map(|behind| (behind, CascadeCause::Dependency(id, how))));
        }
        self.make_busy(id, Busy::Unit);
        slice.moves.push(planned);
    }

    fn decide_end(&self, id: JobId, by: CascadeCause) -> Option<Step> {
        let status = self.jobs.get(id)?.status.get();
        let decision = match by {
            CascadeCause::Dependency(before, how) => {
                let (failure, cancelled) = (how.failure(before), how == Dependency::Cancelled);
                transition(
                    &status,
                    &Event::DependencyFailed { failure: &failure, cancelled },
                    self.env.wall(),
                )
            }
            CascadeCause::Group(group) => {
                let failure = self.group_cancel(group)?;
                transition(&status, &Event::Cancel(&failure), self.env.wall())
            }
            CascadeCause::Copy(winner) => {
                let failure = Failure::new(COPY_WON, format!("job {winner}, a copy of it, has succeeded"));
                transition(&status, &Event::Cancel(&failure), self.env.wall())
            }
        };
        match decision {
            Ok(Decision::Step(step)) => Some(*step),
            Ok(Decision::Same) | Err(_) => None,
        }
    }

    /// Whether the step concerns this job only: it releases no successor and creates no follow-up.
    fn is_alone(&self, id: JobId, step: &Step) -> bool {
        step.follow_up.is_none() && self.jobs.successor(id).is_none()
    }

    /// Ends one job that was busy before, or whose end affects other jobs.
    pub(crate) fn cascade_to(&mut self, by: CascadeCause, task: JobTask) {
        let id = task.id;
        match self.decide_end(id, by) {
            None => self.relations.cascade.over(id),
            Some(step) if self.is_alone(id, &step) => self.relations.cascade.push_first(id, by),
            Some(step) => self.send_step(task, step, Then::Nothing),
        }
    }

    pub(crate) fn cascaded(&mut self, CascadePending(moves): CascadePending) {
        self.relations.cascade.stored();
        for Move { id, step, .. } in moves {
            self.moved(id, step);
        }
    }

    pub(crate) fn cascade_conflicted(&mut self, pending: CascadePending, conflicts: Vec<Conflict>) {
        self.learn_all(conflicts);
        if self.relations.cascade.conflicted() {
            self.rest();
        }
        self.cascade_undone(pending);
    }

    /// The jobs are still to be ended; if the cause was in the same unit, the end is propagated later.
    pub(crate) fn cascade_undone(&mut self, CascadePending(moves): CascadePending) {
        self.relations.cascade.undone();
        for Move { id, by, near, .. } in moves {
            if !near {
                self.relations.cascade.again(id, by);
            }
            self.make_free(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{group, id};

    fn by(before: u64) -> CascadeCause {
        CascadeCause::Dependency(id(before), Dependency::Failed)
    }

    /// The jobs to be ended, in order.
    fn line(cascade: &mut Cascade) -> Vec<JobId> {
        std::iter::from_fn(|| cascade.next()).map(|(id, _)| id).collect()
    }

    #[test]
    fn a_completed_job_is_needed_until_every_end_that_it_causes_is_over() {
        let mut cascade = Cascade::default();
        [7, 8].into_iter().for_each(|job| cascade.push(id(job), by(1)));
        cascade.over(id(7));
        assert!(cascade.needs(id(1)));
        cascade.over(id(7));
        assert!(cascade.needs(id(1)), "the same job counts once");
        cascade.over(id(8));
        assert!(!cascade.needs(id(1)));
    }

    #[test]
    fn only_the_first_cause_of_an_end_is_needed() {
        let mut cascade = Cascade::default();
        [1, 1, 2].into_iter().for_each(|before| cascade.push(id(7), by(before)));
        assert!(cascade.needs(id(1)) && !cascade.needs(id(2)));
        cascade.over(id(7));
        assert!(!cascade.needs(id(1)));
    }

    #[test]
    fn a_group_and_a_copy_need_no_completed_job() {
        let mut cascade = Cascade::default();
        cascade.push(id(7), CascadeCause::Group(group().id));
        cascade.push(id(8), CascadeCause::Copy(id(1)));
        assert!(!cascade.needs(id(1)));
        assert_eq!(line(&mut cascade), [id(7), id(8)]);
    }

    #[test]
    fn a_reason_that_ends_more_often_than_it_began_is_ignored() {
        let mut cascade = Cascade::default();
        cascade.because_of(id(1));
        cascade.no_longer(id(1));
        cascade.no_longer(id(1));
        cascade.because_of(id(1));
        assert!(cascade.needs(id(1)));
    }

    #[test]
    fn one_unit_is_in_flight_at_a_time() {
        let mut cascade = Cascade::default();
        assert!(!cascade.has_next() && cascade.is_idle());
        cascade.push(id(7), by(1));
        assert!(cascade.has_next() && !cascade.is_idle());
        cascade.next();
        cascade.sent();
        assert!(!cascade.is_idle(), "a unit is in flight");
        cascade.push(id(8), by(1));
        assert!(!cascade.has_next());
        cascade.stored();
        assert!(cascade.has_next());
        cascade.next();
        assert!(cascade.is_idle());
    }

    #[test]
    fn a_job_that_was_not_stored_goes_last_and_one_that_became_free_first() {
        let mut cascade = Cascade::default();
        cascade.push(id(7), by(1));
        cascade.again(id(8), by(1));
        cascade.push_first(id(9), by(1));
        cascade.sent();
        cascade.undone();
        assert!(cascade.has_next());
        assert_eq!(line(&mut cascade), [id(9), id(7), id(8)]);
    }

    #[test]
    fn only_conflicts_in_succession_cause_a_pause() {
        let mut cascade = Cascade::default();
        assert!((0..ROUNDS).all(|_| !cascade.conflicted()));
        cascade.undone();
        assert!(cascade.conflicted());
        cascade.stored();
        assert!(!cascade.conflicted());
    }
}
