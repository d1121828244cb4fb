//! Loading open jobs into the kernel's memory and removing them.

use jobhall_core::{Dependency, Job, JobId, JobStatus, PastAttempt, State};
use jobhall_store::{Block, CommitError, Setting, SettingKind, StoreError};

use crate::api::answer::Rejected;
use crate::jobs::entry::{Busy, Entry, Placed, Shared};
use crate::kernel::{AgendaItem, JobTask, Kernel, Read, StoreRequest, Task};
use crate::matching::board::{ClassId, Rank};
use crate::stats::queues::{QueueId, ready_since};
use crate::upkeep::Deadline;

impl Kernel {
    /// At start: restores the settings.
    pub fn restore_settings(&mut self, settings: Vec<Setting>) -> Result<(), StoreError> {
        for setting in settings {
            match setting.kind {
                SettingKind::Type => self.learn_type(&setting, true)?,
                SettingKind::Queue => self.learn_queue(&setting, true)?,
                SettingKind::Retention => self.learn_retention(&setting)?,
                SettingKind::Schedule => self.learn_schedule(&setting)?,
                SettingKind::Worker => self.learn_worker(&setting)?,
                SettingKind::Operation | SettingKind::Token => {}
            }
        }
        self.drain();
        Ok(())
    }

    /// At start: restores the blocks that may have open jobs. Their unused ids are not used again.
    pub fn restore_blocks(&mut self, blocks: &[Block]) {
        for block in blocks {
            self.ids.add(block);
        }
    }

    /// At start: restores an open job. A leased one keeps its lease for one full term, so that its worker can
    /// reconnect.
    pub fn restore(&mut self, job: Job) {
        let held = job.status.state.leased().map(|held| held.lease.worker.clone());
        let id = job.id;
        if matches!(job.status.state, State::Blocked(blocked) if blocked.dependencies) {
            self.found_blocked(id);
        }
        self.ids.opened(id);
        self.settings.used(&job.spec.job_type);
        if job.spec.parent.is_some() {
            self.relations.found_sub_job(id);
        }
        let had = job.spec.avoid && job.status.past_attempts() > 0;
        self.admit(job);
        if let Some(worker) = held {
            self.orphan(id, worker);
            self.restore_clock(id);
        }
        self.await_external(id);
        if had {
            self.read_past(id);
        }
        self.drain();
    }

    /// At start, after everything is restored: begins work.
    pub fn begin(&mut self) {
        self.ids.begin(self.env.config().block);
        self.ask_for_ids(1);
        self.restored_links();
        self.drain();
        self.begin_dependencies();
        self.drain();
        self.begin_groups();
        self.finish_step();
    }

    pub(crate) fn ask_for_ids(&mut self, wanted: usize) {
        if let Some(size) = self.ids.ask(wanted as u64) {
            self.want(StoreRequest::TakeBlock(size));
        }
    }

    /// Takes ids for new jobs. Each counts as open in its block until its job has ended or was not stored, so that no
    /// block is closed while one of its jobs is in flight.
    pub(crate) fn take_ids(&mut self, n: usize) -> Option<Vec<JobId>> {
        self.ids.take(n)
    }

    /// Handles a new block of ids, or the failure to get one.
    pub(crate) fn lent(&mut self, result: Result<Block, CommitError>) {
        match result {
            Ok(block) => {
                self.commits.succeeded();
                self.ids.lend(&block, self.env.mono());
                self.begin_counting();
            }
            Err(error) => {
                self.ids.lending_failed();
                self.storage_failed(&error);
                let refused = Rejected::from(&error);
                for task in self.ids.take_waiting() {
                    self.give_up(task, refused.clone());
                }
            }
        }
        for task in self.ids.take_waiting() {
            self.enqueue(task);
        }
    }

    /// Adds an open job.
    pub(crate) fn admit(&mut self, job: Job) {
        let share = self.share_of(&job);
        self.admit_sharing(job, share, false);
    }

    /// Adds an open job whose share is known; `taken` is whether it has taken the share.
    pub(crate) fn admit_sharing(&mut self, job: Job, share: Shared, taken: bool) {
        let id = job.id;
        let (class, queue) = self.board.enter_job(&job.spec);
        self.fleet.note_copy(id, &job.spec);
        self.relations.inputs.add(id, &job.spec.after);
        let counted = job.status.name(self.env.wall());
        self.board.queues_mut().step(queue, None, Some(counted));
        if let Some(holder) = behind(&job.status.state) {
            self.jobs.set_successor(holder, id);
        }
        let entry = Entry::new(job, (class, queue), counted, (share, taken));
        if let Some(part) = entry.member() {
            self.join_group(part, counted);
        }
        self.jobs.open.insert(id, entry);
        self.follow_limits(id);
        self.place(id);
    }

    /// Places a queued job among the ready jobs or under its due time, and wakes a vacancy for it, after what is on the
    /// agenda.
    pub(crate) fn place(&mut self, id: JobId) {
        if self.agenda.grew() {
            return self.agenda.push(AgendaItem::Place(id));
        }
        if let Some(class) = self.put(id) {
            self.offer(class);
        }
        self.forget_specs();
    }

    /// Makes a job ready, and wakes a vacancy for it.
    pub(crate) fn place_ready(&mut self, id: JobId) {
        if let Some(class) = self.make_ready(id) {
            self.offer(class);
        }
    }

    /// Offers a class that has a new ready job.
    fn offer(&mut self, class: ClassId) {
        self.wake(class);
        self.age_head(class);
    }

    /// Places a queued job among the ready jobs or under its due time. Returns its class if it is ready.
    pub(crate) fn put(&mut self, id: JobId) -> Option<ClassId> {
        let entry = self.jobs.open.get_mut(id)?;
        let waits = matches!(entry.status.state(), State::Queued(_));
        if !waits || entry.busy != Busy::Free || entry.placed() != Placed::Nowhere {
            return None;
        }
        if let Some(spec) = &entry.spec {
            self.jobs.specs.keep(id, spec);
        }
        entry.keep_to_windows(self.env.wall());
        if entry.status.run_at() > self.env.wall() {
            self.make_due(id);
            return None;
        }
        self.make_ready(id)
    }

    /// Places a waiting job under its due time.
    pub(crate) fn make_due(&mut self, id: JobId) {
        self.end_patience(id);
        let Some(entry) = self.jobs.get_mut(id) else { return };
        entry.set_placed(Placed::Due);
        entry.recount(&mut self.board, &mut self.groups, self.env.wall());
        self.deadlines.set(Deadline::Due(entry.status.run_at(), id));
    }

    /// Places a waiting job among the ready jobs, and returns its class. A held job, and a job whose limits or ended
    /// attempts are unknown, are set aside.
    fn make_ready(&mut self, id: JobId) -> Option<ClassId> {
        let past_unread = self.fleet.is_past_unread(id);
        self.stand_apart(id);
        if self.jobs.get(id).is_some_and(|entry| *entry.share() == Shared::Unread) {
            self.find_share(id);
        }
        self.watch_closing(id);
        let entry = self.jobs.get_mut(id)?;
        let placed = match entry.share() {
            _ if entry.status.get().hold => Placed::OnHold,
            Shared::Unread => Placed::Unread,
            _ if past_unread => Placed::Unread,
            Shared::Free | Shared::Of(_) => Placed::Ready,
        };
        entry.set_placed(placed);
        entry.recount(&mut self.board, &mut self.groups, self.env.wall());
        match placed {
            Placed::Ready => {}
            Placed::Unread => {
                self.read_share(id);
                return None;
            }
            _ => {
                self.end_patience(id);
                return None;
            }
        }
        let (class, queue, since) = (entry.class, entry.queue, ready_since(&entry.status.get()));
        self.board.ready(class, rank(id, entry));
        self.board.queues_mut().ready(queue, since);
        self.begin_patience(id);
        Some(class)
    }

    /// Removes a job from the open jobs and from everything that counts it.
    pub(crate) fn take_out(&mut self, id: JobId) -> Option<Entry> {
        self.unplace(id);
        let mut entry = self.jobs.open.remove(id)?;
        self.forget_avoids(id);
        self.relations.inputs.release(id);
        self.forget_limits(id, entry.set_share(Shared::Free), entry.taken);
        self.board.queues_mut().step(entry.queue, Some(entry.counted), None);
        if let Some(part) = entry.member() {
            let end = Some(entry.status.state().name()).filter(|name| name.is_terminal());
            self.groups.step(part, Some(entry.counted), end);
        }
        self.board.leave(entry.class);
        Some(entry)
    }

    /// Drops the specs of waiting jobs that exceed their memory; the claim returns them from the store.
    pub(crate) fn forget_specs(&mut self) {
        self.jobs.forget_specs(self.env.config().spec_bytes);
    }

    /// Removes a queued job from its place.
    pub(crate) fn unplace(&mut self, id: JobId) {
        self.unwatch_closing(id);
        let Some(entry) = self.jobs.open.get_mut(id) else { return };
        let placed = entry.placed();
        entry.set_placed(Placed::Nowhere);
        if let Some(spec) = entry.spec.as_ref().filter(|_| placed != Placed::Nowhere) {
            self.jobs.specs.drop(spec);
        }
        match placed {
            Placed::Nowhere | Placed::OnHold | Placed::Unread => {}
            Placed::Limited(at) => {
                self.admission.wait_no_more(at, entry.class, rank(id, entry));
            }
            Placed::Due => {
                self.deadlines.clear(Deadline::Due(entry.status.run_at(), id));
            }
            Placed::Ready => {
                let (class, queue, rank) = (entry.class, entry.queue, rank(id, entry));
                if let Some(share) = entry.share().get() {
                    self.admission.mark_all_dirty(share);
                }
                self.unready(class, queue, rank);
            }
        }
    }

    /// Removes a job from the ready jobs.
    pub(crate) fn unready(&mut self, class: ClassId, queue: QueueId, rank: Rank) {
        self.board.unready(class, rank);
        if let Some(entry) = self.jobs.get(rank.id) {
            self.board.queues_mut().unready(queue, ready_since(&entry.status.get()));
        }
        self.unreserve(rank.id);
    }

    /// Marks a job as busy: a unit or read that touches it is in flight.
    pub(crate) fn make_busy(&mut self, id: JobId, busy: Busy) {
        self.unplace(id);
        if let Some(entry) = self.jobs.get_mut(id) {
            entry.busy = busy;
        }
    }

    /// Marks a job as no longer busy. Tasks that waited for it run before any vacancy is filled: a waiting cancel must
    /// not lose against a claim.
    pub(crate) fn make_free(&mut self, id: JobId) {
        if let Some(entry) = self.jobs.get_mut(id) {
            entry.busy = Busy::Free;
        }
        for task in self.jobs.take_line(id) {
            self.enqueue(task);
        }
        if self.agenda.grew() {
            return self.agenda.push(AgendaItem::Freed(id));
        }
        self.place(id);
        self.help(id);
    }

    /// Applies the new state of a job, which is stored.
    pub(crate) fn stored(&mut self, id: JobId, status: JobStatus) {
        let Some(entry) = self.jobs.open.get_mut(id) else { return };
        entry.stored_rev = status.rev;
        let before = entry.status.replace(status);
        entry.time_is_stored();
        if matches!(before.state, State::Queued(_)) {
            self.jobs.totals.assigned(ready_since(&before), &entry.status.get());
        }
        entry.recount(&mut self.board, &mut self.groups, self.env.wall());
        if let Some(holder) = behind(&before.state)
            && behind(entry.status.state()).is_none()
            && self.jobs.successors.get(&holder) == Some(&id)
        {
            self.jobs.successors.remove(&holder);
        }
        self.balance(id);
        self.follow_limits(id);
    }

    /// Moves a completed job from the open jobs to the cache, if its whole record is in memory (ended attempts of a
    /// retried job are only in the store).
    pub(crate) fn finish(&mut self, id: JobId) {
        self.count_end(id);
        let Some(entry) = self.take_out(id) else { return };
        if let Some(outcome) = entry.status.state().outcome() {
            self.jobs.totals.completed(self.env.now(), outcome);
        }
        self.ids.ended(id);
        self.relations.cascade_over(id);
        self.dependency_ended(id, Dependency::of(entry.status.state().name()));
        self.jobs.forget_progress(id);
        self.let_go(id);
        self.wait_lost(id, entry.status.claim());
        self.jobs.successors.remove(&id);
        let linked = self.relations.has_links(id);
        if let Some(spec) = entry.spec.filter(|_| entry.status.get().past_attempts() == 0) {
            self.jobs.cached.put(id, (Job { id, spec, status: entry.status.into() }, Vec::new()));
        }
        self.awaited_ended(id);
        if linked {
            self.unlink(id);
        }
        for task in self.jobs.take_line(id) {
            self.enqueue(task);
        }
    }

    /// Reads the spec of an open job; tasks for the job wait for it.
    pub(crate) fn read_spec(&mut self, id: JobId, task: JobTask) {
        self.make_busy(id, Busy::Reading);
        self.jobs.line_up(id, task.into());
        self.want(StoreRequest::Job(id));
    }

    /// Reads the ended attempts of an open job that avoids their workers.
    fn read_past(&mut self, id: JobId) {
        self.fleet.forget_past(id);
        self.make_busy(id, Busy::Reading);
        self.want(StoreRequest::Job(id));
    }

    /// Reads a completed job, or the ended attempts of an open one, for a task.
    pub(crate) fn read_job(&mut self, id: JobId, task: JobTask) {
        if self.jobs.read_for(id, task) {
            self.want(StoreRequest::Job(id));
        }
    }

    /// Returns the tasks that a read was made for, and requests the next read if others arrived meanwhile.
    fn readers(&mut self, id: JobId) -> Vec<JobTask> {
        let (now, again) = self.jobs.readers(id);
        if again {
            self.want(StoreRequest::Job(id));
        }
        now
    }

    pub(crate) fn loaded(&mut self, id: JobId, result: Result<(Option<Job>, Vec<PastAttempt>), StoreError>) {
        self.share_read(id);
        let spec_only = self.jobs.get(id).is_some_and(|entry| entry.busy == Busy::Reading);
        let readers = if spec_only { Vec::new() } else { self.readers(id) };
        let (job, past) = match result {
            Ok(found) => found,
            Err(error) => return self.read_failed(id, readers, &error),
        };
        let read = Box::new(Read { found: job.is_some(), past, ..Read::default() });
        let reading = match self.jobs.get_mut(id) {
            Some(entry) if entry.busy == Busy::Reading => {
                entry.spec = job.map(|job| job.spec);
                for past in &read.past {
                    self.note_had(id, &past.worker);
                }
                self.fleet.past_read(id);
                true
            }
            Some(_) => false,
            None => {
                match job.filter(|job| job.status.state.is_terminal()) {
                    Some(job) => self.jobs.cached.put(id, (job, read.past.clone())),
                    None => self.jobs.cached.remove(id),
                }
                false
            }
        };
        for task in readers {
            self.enqueue(JobTask { read: Some(read.clone()), ..task });
        }
        if reading {
            self.make_free(id);
        }
    }

    /// A read failed. A job whose ended attempts are still unknown is read again when matching resumes.
    fn read_failed(&mut self, id: JobId, readers: Vec<JobTask>, error: &StoreError) {
        let refused = Rejected::Storage { full: false, message: error.to_string() };
        let in_line = self.jobs.take_line(id);
        for task in readers.into_iter().map(Task::from).chain(in_line) {
            self.give_up(task, refused.clone());
        }
        self.rest();
        if self.jobs.get(id).is_some_and(|entry| entry.busy == Busy::Reading) {
            self.make_free(id);
        }
    }
}

/// The job that holds the key this one waits for.
fn behind(state: &State) -> Option<JobId> {
    match state {
        State::Blocked(blocked) => blocked.holder,
        _ => None,
    }
}

pub(crate) fn rank(id: JobId, entry: &Entry) -> Rank {
    Rank { priority: entry.priority, run_at: entry.status.run_at(), id }
}

impl From<&CommitError> for Rejected {
    fn from(error: &CommitError) -> Rejected {
        match error {
            CommitError::NotCommitted { full, message } => {
                Rejected::Storage { full: *full, message: message.clone() }
            }
            CommitError::Unknown { message } => Rejected::Unknown(message.clone()),
            CommitError::Stopped { message } => Rejected::Stopped(message.clone()),
        }
    }
}
