//! Cascades: jobs that end because a dependency failed, their group was cancelled, or another copy succeeded.
//!
//! They are ended in units of bounded size, one unit at a time, without recursion. The dependents of a job that is
//! ended here go into the same unit while there is room, so one commit ends many jobs of a chain. Anything that is not
//! stored when the server stops is found again from the rows.

use std::collections::VecDeque;

use jobhall_core::{Decision, Dependency, Event, Failure, GroupId, JobId, Step, transition};
use jobhall_store::{Change, Conflict, Unit};

use crate::commits::settle::Pending;
use crate::commits::step::change;
use crate::jobs::entry::Busy;
use crate::jobs::ids::IdMap;
use crate::kernel::{Kernel, ROUNDS, Task, TaskKind};

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
}

impl Kernel {
    /// Sends the next unit of a cascade, if none is in flight.
    pub(crate) fn cascade_all(&mut self) {
        if self.relations.cascade.under_way || self.relations.cascade.line.is_empty() || !self.matches() {
            return;
        }
        let mut slice = Slice::default();
        while slice.moves.len() < SLICE {
            if let Some((id, by)) = slice.near.pop_front() {
                self.plan_near(id, by, &mut slice);
            } else if let Some((id, by)) = self.relations.cascade.line.pop_front() {
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
            Change { past: step.past.clone(), ..change(*id, expected, step.life.clone()) }
        });
        let unit = Unit { changes: changes.collect(), ..Unit::default() };
        self.relations.cascade.under_way = true;
        self.send(unit, Pending::Cascade(Box::new(CascadePending(slice.moves))));
    }

    fn plan_end(&mut self, id: JobId, by: CascadeCause, slice: &mut Slice) {
        let task = || TaskKind::Cascade(id, by).into();
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
        if let Some(how) = Dependency::of(planned.step.life.state.name()) {
            let room = SLICE.saturating_sub(slice.moves.len() + slice.near.len());
            let behind = self.relations.dependencies.behind(id).iter().take(room);
            let fall =
                behind.filter(|behind| self.relations.dependencies.allows(**behind, how) == Some(false));
            slice.near.extend(fall.map(|behind| (*behind, CascadeCause::Dependency(id, how))));
        }
        self.make_busy(id, Busy::Unit);
        slice.moves.push(planned);
    }

    fn decide_end(&self, id: JobId, by: CascadeCause) -> Option<Step> {
        let life = &self.jobs.get(id)?.life;
        let decision = match by {
            CascadeCause::Dependency(before, how) => {
                let (failure, cancelled) = (how.failure(before), how == Dependency::Cancelled);
                transition(life, &Event::DependencyFailed { failure: &failure, cancelled }, self.env.wall())
            }
            CascadeCause::Group(group) => {
                let failure = self.group_cancel(group)?;
                transition(life, &Event::Cancel(&failure), self.env.wall())
            }
            CascadeCause::Copy(winner) => {
                let failure = Failure::new("copy_won", format!("job {winner}, a copy of it, has succeeded"));
                transition(life, &Event::Cancel(&failure), self.env.wall())
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
    pub(crate) fn cascade_to(&mut self, id: JobId, by: CascadeCause, task: Task) {
        match self.decide_end(id, by) {
            None => self.relations.cascade.over(id),
            Some(step) if self.is_alone(id, &step) => self.relations.cascade.line.push_front((id, by)),
            Some(step) => self.send_step(id, step, task),
        }
    }

    pub(crate) fn cascaded(&mut self, CascadePending(moves): CascadePending) {
        (self.relations.cascade.under_way, self.relations.cascade.rounds) = (false, 0);
        for Move { id, step, .. } in moves {
            self.moved(id, step);
        }
    }

    pub(crate) fn cascade_conflicted(&mut self, pending: CascadePending, conflicts: Vec<Conflict>) {
        self.learn_all(conflicts);
        self.relations.cascade.rounds = self.relations.cascade.rounds.saturating_add(1);
        if self.relations.cascade.rounds > ROUNDS {
            self.rest();
        }
        self.cascade_undone(pending);
    }

    /// The jobs are still to be ended; if the cause was in the same unit, the end is propagated later.
    pub(crate) fn cascade_undone(&mut self, CascadePending(moves): CascadePending) {
        self.relations.cascade.under_way = false;
        for Move { id, by, near, .. } in moves {
            if !near {
                self.relations.cascade.line.push_back((id, by));
            }
            self.make_free(id);
        }
    }
}
