//! Settling a commit: each unit is applied, decided again on what the store returned, or reverted in memory.

use jobhall_store::{CommitError, Committed, Conflict, Done};

use crate::api::answer::Rejected;
use crate::api::effect::Effect;
use crate::commits::records::record_conflict;
use crate::commits::step::StepPending;
use crate::groups::GroupPending;
use crate::kernel::{AgendaItem, HallTask, JobTask, JobWork, JobsRead, Kernel, MembersRead, ROUNDS, Task};
use crate::matching::pause::WorkerPending;
use crate::matching::vacancy::ClaimPending;
use crate::relations::cascade::CascadePending;
use crate::settings::queues::QueuePending;
use crate::settings::retention::RetentionPending;
use crate::settings::schedules::{SchedulePending, Tick};
use crate::settings::types::SettingPending;
use crate::submit::Plan;

/// A unit in flight.
#[derive(Debug)]
pub(crate) enum Pending {
    Step(Box<StepPending>),
    Claim(Box<ClaimPending>),
    Submit(Box<Plan>),
    Save(jobhall_core::JobId, u32),
    Setting(Box<SettingPending>),
    DependenciesMet(Vec<jobhall_core::JobId>),
    Cascade(Box<CascadePending>),
    Group(Box<GroupPending>),
    /// The removal of links of parents that have ended.
    Unlinked,
    Schedule(Box<SchedulePending>),
    Ticks(Box<Tick>),
    Queue(Box<QueuePending>),
    Worker(Box<WorkerPending>),
    Retention(Box<RetentionPending>),
}

impl Kernel {
    pub(crate) fn settle(&mut self, pending: Vec<Pending>, result: Result<Committed, CommitError>) {
        match result {
            Ok(committed) => {
                self.commits.succeeded();
                for (pending, result) in pending.into_iter().zip(committed.results) {
                    self.agenda.push(match result {
                        Ok(done) => AgendaItem::Stored(pending, done),
                        Err(conflicts) => AgendaItem::Conflicted(pending, conflicts),
                    });
                }
            }
            Err(error) => {
                self.storage_failed(&error);
                for pending in pending {
                    self.agenda.push(AgendaItem::NotStored(pending, error.clone()));
                }
            }
        }
    }

    pub(crate) fn done(&mut self, pending: Pending, done: Done) {
        match pending {
            Pending::Step(pending) => self.step_stored(*pending),
            Pending::Claim(pending) => self.claimed(*pending, done.specs.into_iter().next()),
            Pending::Submit(plan) => self.submitted(*plan),
            Pending::Save(id, _) => self.saved(id),
            Pending::Setting(pending) => self.setting_stored(*pending),
            Pending::DependenciesMet(ids) => self.dependencies_met_stored(ids),
            Pending::Cascade(pending) => self.cascaded(*pending),
            Pending::Group(pending) => self.group_stored(*pending),
            Pending::Unlinked => {}
            Pending::Schedule(pending) => self.schedule_stored(*pending),
            Pending::Ticks(tick) => self.ticks_passed(&tick),
            Pending::Queue(pending) => self.queue_stored(*pending),
            Pending::Worker(pending) => self.worker_stored(*pending),
            Pending::Retention(pending) => self.retention_stored(&pending),
        }
    }

    pub(crate) fn conflicted(&mut self, pending: Pending, conflicts: Vec<Conflict>) {
        match pending {
            Pending::Step(pending) => self.step_conflicted(*pending, conflicts),
            Pending::Claim(pending) => self.claim_conflicted(*pending, conflicts),
            Pending::Submit(plan) => self.submit_conflicted(*plan, conflicts),
            Pending::Save(id, _) => {
                self.learn_all(conflicts);
                self.make_free(id);
            }
            Pending::Setting(pending) => self.setting_conflicted(*pending, conflicts),
            Pending::DependenciesMet(ids) => {
                self.learn_all(conflicts);
                self.dependencies_met_not_stored(ids);
            }
            Pending::Cascade(pending) => self.cascade_conflicted(*pending, conflicts),
            Pending::Group(pending) => self.group_conflicted(*pending, conflicts),
            Pending::Unlinked => {}
            Pending::Schedule(pending) => self.schedule_conflicted(*pending, conflicts),
            Pending::Ticks(tick) => self.ticks_conflicted(&tick, conflicts),
            Pending::Queue(pending) => self.queue_conflicted(*pending, conflicts),
            Pending::Worker(pending) => self.worker_conflicted(*pending, conflicts),
            Pending::Retention(pending) => self.retention_conflicted(&pending, conflicts),
        }
    }

    /// Applies what the store returned about jobs in conflict.
    pub(crate) fn learn_all(&mut self, conflicts: Vec<Conflict>) {
        for conflict in conflicts {
            match conflict {
                Conflict::Stale { id, job } => self.learn(id, job),
                Conflict::Successor { id, job } => self.learn_successor(id, job),
                _ => {}
            }
        }
    }

    fn step_conflicted(&mut self, pending: StepPending, conflicts: Vec<Conflict>) {
        let StepPending { task, released, follow_up, .. } = pending;
        let id = task.id;
        if let Some(job) = follow_up {
            self.ids.ended(job.id);
        }
        // A record is decided by the caller, a job again by the kernel; the caller repeats a report whose job changed too.
        let changed = record_conflict(task.records(), &conflicts);
        self.learn_all(conflicts);
        if let Some((next, _)) = released {
            self.make_free(next);
        }
        match changed {
            Some(refused) => self.give_up(task, refused),
            None => self.again(task),
        }
        self.make_free(id);
    }

    fn step_undone(&mut self, pending: StepPending, refused: Rejected) {
        let StepPending { task, released, follow_up, .. } = pending;
        let id = task.id;
        if let Some(job) = follow_up {
            self.ids.ended(job.id);
        }
        self.give_up(task, refused);
        self.make_free(id);
        if let Some((next, _)) = released {
            self.make_free(next);
        }
    }

    /// Decides a task again, a limited number of times. It precedes tasks that wait for the job.
    fn again(&mut self, task: JobTask) {
        if task.rounds >= ROUNDS {
            return self.give_up(task, Rejected::Contended);
        }
        let task = JobTask { rounds: task.rounds + 1, ..task };
        if self.jobs.contains(task.id) {
            self.jobs.line_up_first(task.id, task.into());
        } else {
            self.enqueue(task);
        }
    }

    /// Answers a request with the rejection; a task of the kernel itself is tried again later.
    pub(crate) fn give_up(&mut self, task: impl Into<Task>, refused: Rejected) {
        match self.reject(task.into(), refused) {
            None => {}
            Some(Task::Hall(HallTask::Tick(name))) => self.look_later(&name),
            Some(task) => {
                self.commits.postpone(task.afresh());
                self.rest();
            }
        }
    }

    /// Nothing was written (or the result is unknown): memory keeps its state.
    pub(crate) fn undone(&mut self, pending: Pending, error: &CommitError) {
        let refused = Rejected::from(error);
        match pending {
            Pending::Step(pending) => self.step_undone(*pending, refused),
            Pending::Claim(pending) => self.claim_undone(*pending),
            Pending::Submit(plan) => self.submit_undone(*plan, refused),
            Pending::Save(id, claim) => {
                self.commits.postpone(JobWork::Save(claim).on(id));
                self.make_free(id);
            }
            Pending::Setting(pending) => self.answer(pending.ticket, Err(refused)),
            Pending::DependenciesMet(ids) => self.dependencies_met_not_stored(ids),
            Pending::Cascade(pending) => self.cascade_undone(*pending),
            Pending::Group(pending) => self.group_undone(&pending, refused),
            // They are found again at the next start.
            Pending::Unlinked => {}
            Pending::Schedule(pending) => self.answer(pending.ticket, Err(refused)),
            Pending::Ticks(tick) => self.ticks_undone(&tick.name),
            Pending::Queue(pending) => self.answer(pending.ticket, Err(refused)),
            Pending::Worker(pending) => self.answer(pending.ticket, Err(refused)),
            Pending::Retention(pending) => self.answer(pending.ticket, Err(refused)),
        }
    }

    /// The store could not write: matching pauses, or the kernel stops if the store has stopped.
    pub(crate) fn storage_failed(&mut self, error: &CommitError) {
        self.commits.failed(self.env.mono(), error.to_string());
        self.env.observer().write_failed(error);
        match error {
            CommitError::NotCommitted { .. } => self.rest(),
            CommitError::Unknown { message } | CommitError::Stopped { message } => self.stop(message),
        }
    }

    pub(crate) fn rest(&mut self) {
        self.commits.rest(self.env.mono().plus_ms(self.env.config().storage_rest_ms));
    }

    /// Memory can no longer be trusted: every pending request is rejected, and only a restart continues.
    pub(crate) fn stop(&mut self, message: &str) {
        if !self.commits.stop(message) {
            return;
        }
        self.effect(Effect::Stop(message.to_owned()));
        let mut waiting = self.jobs.take_waiting();
        waiting.extend(self.groups.take_waiting());
        waiting.extend(self.ids.take_waiting());
        waiting.extend(self.relations.take_waiting());
        for task in waiting {
            // The kernel's own tasks end with it.
            let _ = self.reject(task, Rejected::Stopped(message.to_owned()));
        }
        self.refuse_pending_reads(message);
        let error = CommitError::Stopped { message: message.to_owned() };
        for pending in self.commits.take_unsent() {
            self.agenda.push(AgendaItem::NotStored(pending, error.clone()));
        }
    }

    /// Stops because another node may lead. The results of the units in flight are unknown.
    pub fn lose_leadership(&mut self, message: &str) {
        self.stop(message);
        let error = CommitError::Unknown { message: message.to_owned() };
        for pending in self.commits.take_in_flight() {
            self.agenda.push(AgendaItem::NotStored(pending, error.clone()));
        }
        self.drain();
    }

    /// Rejects requests that wait for a read, or for a group to be filled.
    fn refuse_pending_reads(&mut self, message: &str) {
        let stopped = || Rejected::Stopped(message.to_owned());
        for ticket in self.groups.take_fills() {
            self.answer(ticket, Err(stopped()));
        }
        let (jobs, members) = self.commits.take_reads();
        for read in jobs {
            match read {
                JobsRead::Plan(plan, _) | JobsRead::Joined(plan, _) => {
                    self.reply(plan.reply_to, Err(stopped()));
                }
                JobsRead::Calls(task, _) => {
                    // A request is rejected; nothing else reads for sub-jobs.
                    let _ = self.reject((*task).into(), stopped());
                }
                JobsRead::Retry(retry) => self.answer(retry.ticket, Err(stopped())),
                JobsRead::Ends(_) | JobsRead::Fill(..) | JobsRead::FillInputs(..) | JobsRead::Made(..) => {}
            }
        }
        for read in members {
            match read {
                MembersRead::Retry(_, _, ticket) => self.answer(ticket, Err(stopped())),
                MembersRead::Resume(..) => {}
            }
        }
    }
}
