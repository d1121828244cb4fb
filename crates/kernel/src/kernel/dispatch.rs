//! Dispatch: passes each task to its use case, immediately or once its job is no longer busy.

use jobhall_core::{Event, JobId};

use super::task::{HallTask, JobTask, JobWork, Task};
use super::{AgendaItem, Kernel, ROUNDS};
use crate::api::answer::Rejected;
use crate::api::effect::{Effect, SessionId};
use crate::api::request::{HallRequest, JobRequest, SessionRequest};
use crate::groups::GroupChange;
use crate::jobs::edit::Edit;
use crate::jobs::entry::Busy;
use crate::matching::session::Opening;

impl Kernel {
    /// Adds a task to the agenda, or to those that wait for its busy job.
    pub(crate) fn enqueue(&mut self, task: impl Into<Task>) {
        let task = task.into();
        match &task {
            Task::Job(JobTask { id, .. }) if self.is_busy(*id) && self.commits.stopped().is_none() => {
                self.jobs.line_up(*id, task);
            }
            _ => self.agenda.push(AgendaItem::Run(task)),
        }
    }

    fn is_busy(&self, id: JobId) -> bool {
        self.jobs.get(id).is_some_and(|entry| entry.busy != Busy::Free)
    }

    /// Does one item of the agenda.
    pub(super) fn handle(&mut self, item: AgendaItem) {
        match item {
            AgendaItem::Run(task) => self.run(task),
            AgendaItem::Stored(pending, done) => self.done(pending, done),
            AgendaItem::Conflicted(pending, conflicts) => self.conflicted(pending, conflicts),
            AgendaItem::NotStored(pending, error) => self.undone(pending, &error),
            AgendaItem::Freed(id) => {
                self.place(id);
                self.help(id);
            }
            AgendaItem::Place(id) => self.place(id),
            AgendaItem::Wake(class) => self.wake(class),
            AgendaItem::Fill(vacancy) => self.fill(vacancy),
            AgendaItem::Refill(worker) => self.refill(&worker),
            AgendaItem::WakeAll => self.wake_all(),
            AgendaItem::EndSweep => self.end_sweep(),
            AgendaItem::RetryWaiters => self.retry_waiters(),
        }
    }

    /// Runs a task, immediately or once its job is no longer busy.
    fn run(&mut self, task: Task) {
        if let Some(why) = self.commits.stopped() {
            let refused = Rejected::Stopped(why.to_owned());
            // The kernel's own tasks end with it.
            let _ = self.reject(task, refused);
            return;
        }
        match task {
            Task::Job(task) => match self.jobs.get(task.id) {
                Some(entry) if entry.busy != Busy::Free => self.jobs.line_up(task.id, task.into()),
                Some(entry) if entry.spec.is_none() => self.read_spec(task.id, task),
                Some(_) => self.run_open(task),
                None => self.run_closed(task),
            },
            Task::Hall(task) => self.run_hall(task),
        }
    }

    /// Rejects the request behind a task; returns the task if it is the kernel's own.
    pub(crate) fn reject(&mut self, task: Task, why: Rejected) -> Option<Task> {
        let answer = match &task {
            Task::Hall(HallTask::Submit(plan)) => {
                let plan = (**plan).clone();
                self.end_plan(plan, Err(why));
                return None;
            }
            Task::Job(JobTask { work: JobWork::Request(request), .. }) => request.rejected(why),
            Task::Job(JobTask { work: JobWork::Attempt(_, request), .. }) => request.rejected(why),
            Task::Hall(HallTask::Request(request)) => request.rejected(why),
            Task::Hall(HallTask::Session(_, request)) => request.rejected(why),
            Task::Hall(HallTask::ChangeGroup(change)) => change.rejected(why),
            _ => return Some(task),
        };
        self.effect(Effect::Answer(answer));
        None
    }

    /// A task about an open job that is not busy.
    fn run_open(&mut self, task: JobTask) {
        let id = task.id;
        match &task.work {
            JobWork::Request(request) => {
                let request = request.clone();
                self.request_on_open(task, request);
            }
            JobWork::Attempt(of, request) => {
                let (of, request) = (of.clone(), request.clone());
                self.worker_event(task, &of, request);
            }
            &JobWork::TakeBack(claim) => self.take_back(claim, task),
            &JobWork::LeaseEnd(claim, session) => self.lease_end(claim, session, task),
            &JobWork::Keep(claim, lease) => self.keep(id, claim, lease),
            &JobWork::Save(claim) => self.save(id, claim),
            JobWork::DependenciesMet => self.dependencies_met(id),
            &JobWork::Cascade(by) => self.cascade_to(by, task),
            &JobWork::TimeOut(claim) => self.time_out(claim, task),
            &JobWork::ExternalOver(claim) => self.external_over(claim, task),
            &JobWork::Resume(claim) => self.resume(id, claim),
            JobWork::Cycle(claim, failure) => {
                let (claim, failure) = (*claim, failure.clone());
                self.fail_for_cycle(claim, &failure, task);
            }
            JobWork::Orphan => self.orphan_of(task),
        }
    }

    fn request_on_open(&mut self, task: JobTask, request: JobRequest) {
        match request {
            JobRequest::Show { to } => self.show(&task, to),
            JobRequest::Explain { to } => {
                let explanation = self.explain(task.id);
                self.answer(to, explanation);
            }
            JobRequest::Retry { to, .. } => self.answer(to, Err(self.retry_rejected(task.id))),
            JobRequest::Cancel { failure, to } => self.cancel(task, &failure, to),
            JobRequest::Edit { edit, to } => self.edit(task, *edit, to),
            JobRequest::RunNow { to } => self.edit(task, Edit::now(self.env.wall()), to),
            JobRequest::Hold { to } => self.change(task, &Event::Hold, None, to),
            JobRequest::Release { to } => self.change(task, &Event::Release, None, to),
            JobRequest::Complete { attempt, report, to } => self.complete(task, attempt, &report, to),
        }
    }

    /// A task about a completed or unknown job. The kernel's own tasks are over with their job.
    fn run_closed(&mut self, task: JobTask) {
        match &task.work {
            JobWork::Request(request) => {
                let request = request.clone();
                if let Some(task) = self.find_completed(task) {
                    self.request_on_completed(&task, request);
                }
            }
            JobWork::Attempt(of, request) => {
                let (of, request) = (of.clone(), request.clone());
                if let Some(task) = self.find_completed(task) {
                    self.late_report(task, &of, &request);
                }
            }
            JobWork::TakeBack(_)
            | JobWork::LeaseEnd(..)
            | JobWork::Keep(..)
            | JobWork::Save(_)
            | JobWork::DependenciesMet
            | JobWork::Cascade(_)
            | JobWork::TimeOut(_)
            | JobWork::ExternalOver(_)
            | JobWork::Resume(_)
            | JobWork::Cycle(..)
            | JobWork::Orphan => {}
        }
    }

    /// Returns the task if its job is in the cache of completed ones; otherwise the job is read into it.
    fn find_completed(&mut self, task: JobTask) -> Option<JobTask> {
        let id = task.id;
        if self.jobs.peek_completed(id).is_some() {
            return Some(task);
        }
        if task.read.as_ref().is_some_and(|read| !read.found) {
            let _ = self.reject(task.into(), Rejected::NoSuchJob(id));
        } else if task.rounds >= ROUNDS {
            let _ = self.reject(task.into(), Rejected::Contended);
        } else {
            self.read_job(id, JobTask { rounds: task.rounds + 1, read: None, ..task });
        }
        None
    }

    fn request_on_completed(&mut self, task: &JobTask, request: JobRequest) {
        let id = task.id;
        match request {
            JobRequest::Show { to } => self.show(task, to),
            JobRequest::Explain { to } => {
                let explanation = self.explain_completed(id);
                self.answer(to, explanation);
            }
            JobRequest::Retry { name, to } => self.retry(id, name, to),
            JobRequest::Cancel { failure, to } => self.change_completed(id, &Event::Cancel(&failure), to),
            JobRequest::Edit { to, .. } | JobRequest::RunNow { to } => {
                self.change_completed(id, &Event::Edit { run_at: None }, to);
            }
            JobRequest::Hold { to } => self.change_completed(id, &Event::Hold, to),
            JobRequest::Release { to } => self.change_completed(id, &Event::Release, to),
            JobRequest::Complete { attempt, report, to } => {
                let state = self.complete_completed(id, attempt, &report);
                self.answer(to, state);
            }
        }
    }

    /// A task that does not concern a single job.
    fn run_hall(&mut self, task: HallTask) {
        match task {
            HallTask::Request(request) => self.hall_request(request),
            HallTask::Session(session, request) => self.session_request(session, request),
            HallTask::ChangeGroup(change) => self.change_group(*change),
            HallTask::Submit(plan) => self.send_plan(*plan),
            HallTask::Tick(name) => self.tick_of(&name),
            HallTask::ReadEnds(ids) => self.read_ends(ids),
            HallTask::LookAtGroup(group) => self.groups.look_at(group),
            HallTask::Fill(group) => self.fill_on(group),
            HallTask::ResumeFill(group, from) => self.resume_fill(group, from),
        }
    }

    fn hall_request(&mut self, request: HallRequest) {
        match request {
            HallRequest::Submit { submit, to } => self.submit(submit, to),
            HallRequest::CreateGroup { group, submit, to } => self.create_group(group, submit, to),
            HallRequest::CloseGroup { id, to } => {
                self.change_group(GroupChange { id, cancel: None, fails: false, to });
            }
            HallRequest::CancelGroup { id, failure, fails, to } => {
                self.change_group(GroupChange { id, cancel: Some(failure), fails, to });
            }
            HallRequest::RetryGroup { id, name, to } => self.retry_group(id, name, to),
            HallRequest::ShowGroup { id, to } => {
                let shown = self.show_group(id);
                self.answer(to, shown);
            }
            HallRequest::SetType { job_type, config, expected, to } => {
                self.set_type(job_type, config, expected, to, 0);
            }
            HallRequest::Types { after, limit, to } => {
                let types = self.types(after.as_ref(), limit);
                self.answer(to, Ok(types));
            }
            HallRequest::TypesByName { names, to } => {
                let types = self.types_by_name(&names);
                self.answer(to, Ok(types));
            }
            HallRequest::Schedules { after, limit, to } => {
                let schedules = self.schedules(after.as_ref(), limit);
                self.answer(to, Ok(schedules));
            }
            HallRequest::Schedule { name, to } => {
                let schedule = self.schedule(&name);
                self.answer(to, Ok(schedule));
            }
            HallRequest::SetSchedule { name, config, expected, by, to } => {
                self.set_schedule(name, config, expected, by, to, 0);
            }
            HallRequest::RunSchedule { name, key, to } => self.run_schedule(&name, key, to),
            HallRequest::SetQueue { queue, config, expected, to } => {
                self.set_queue(queue, config, expected, to, 0);
            }
            HallRequest::QueueConfigs { to } => {
                let configs = self.all_queue_configs();
                self.answer(to, Ok(configs));
            }
            HallRequest::Retention { to } => self.answer(to, Ok(self.retention())),
            HallRequest::SetRetention { rule, expected, to } => self.set_retention(rule, expected, to, 0),
            HallRequest::Remove { ids, to } => self.remove(ids, to),
            HallRequest::OpenSession { worker, abilities, accepts, attempts, lease_ms, fresh, to } => {
                let opening = Opening { worker, abilities, accepts, attempts, lease_ms, fresh };
                self.open_session(opening, to);
            }
            HallRequest::Counts { to } => {
                let counts = self.counts(self.env.now());
                self.answer(to, Ok(Box::new(counts)));
            }
            HallRequest::Workers { to } => {
                let workers = self.workers_in_use();
                self.answer(to, Ok(workers));
            }
            HallRequest::EndWorker { worker, to } => {
                let ended = self.end_worker(&worker);
                self.answer(to, Ok(ended));
            }
            HallRequest::WorkerConfigs { worker, to } => {
                let configs = self.worker_configs(worker.as_ref());
                self.answer(to, Ok(configs));
            }
            HallRequest::ChangeWorker { worker, change, to } => self.change_worker(worker, change, to, 0),
            HallRequest::Queue { name, to } => {
                let queue = self.queue(&name);
                self.answer(to, Ok(queue));
            }
            HallRequest::Queues { after, scope, limit, to } => {
                let queues = self.queue_page(after.as_ref(), &scope, limit);
                self.answer(to, Ok(queues));
            }
        }
    }

    fn session_request(&mut self, session: SessionId, request: SessionRequest) {
        let (to, result) = match request {
            SessionRequest::Vacancy { slots, wait_ms, to } => {
                return self.vacancy(session, slots, wait_ms, to);
            }
            SessionRequest::Credit { total, to } => return self.credit(session, total, to),
            SessionRequest::EndVacancy { vacancy, to } => (to, self.withdraw(session, vacancy)),
            SessionRequest::Renew { to } => (to, self.renew(session)),
            SessionRequest::Disconnect { to } => (to, self.disconnect(session)),
            SessionRequest::CloseSession { to } => (to, self.close_session(session)),
            SessionRequest::SetAbilities { abilities, accepts, to } => {
                return self.set_abilities(session, abilities, accepts, to);
            }
        };
        self.answer(to, result);
    }
}
