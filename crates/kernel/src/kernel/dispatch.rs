//! Dispatch: passes each task to its use case, immediately or once its job is no longer busy.

use jobhall_core::JobId;

use super::{AgendaItem, Kernel, ROUNDS, Task, TaskKind};
use crate::api::answer::{Answer, Rejected};
use crate::api::request::Request;
use crate::jobs::entry::Busy;

impl Kernel {
    /// Adds a task to the agenda, or to those that wait for its busy job.
    pub(crate) fn enqueue(&mut self, task: Task) {
        let busy = |id: &JobId| self.jobs.get(*id).is_some_and(|entry| entry.busy != Busy::Free);
        match task.what.job().filter(busy).filter(|_| self.commits.stopped().is_none()) {
            Some(id) => self.jobs.line_up(id, task),
            None => self.agenda.push(AgendaItem::Run(task)),
        }
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
            return self.answer_task(&task, Err(refused));
        }
        match task.what.job() {
            Some(id) => self.run_on(id, task),
            None => self.run_free(task),
        }
    }

    /// A task about one job.
    fn run_on(&mut self, id: JobId, task: Task) {
        match self.jobs.get(id) {
            Some(entry) if entry.busy != Busy::Free => self.jobs.line_up(id, task),
            Some(entry) if entry.spec.is_none() => self.read_spec(id, task),
            Some(_) => self.run_open(id, task),
            None => self.run_closed(id, task),
        }
    }

    fn run_open(&mut self, id: JobId, task: Task) {
        match &task.what {
            TaskKind::Request(Request::Show(_), _) => self.show(id, task),
            TaskKind::Request(Request::Explain(_), ticket) => {
                let explanation = self.explain(id);
                self.answer(*ticket, explanation);
            }
            TaskKind::Request(Request::Retry { .. }, ticket) => {
                self.answer(*ticket, self.retry_rejected(id));
            }
            TaskKind::Request(Request::Cancel { .. }, _) => self.cancel(id, task),
            TaskKind::Request(
                Request::Edit { .. } | Request::RunNow(_) | Request::Hold(_) | Request::Release(_),
                _,
            ) => self.edit(id, task),
            TaskKind::Request(Request::Complete { .. }, _) => self.complete(id, task),
            TaskKind::Request(..) => self.worker_event(id, task),
            TaskKind::TakeBack(_, claim) => self.take_back(id, *claim, task),
            TaskKind::LeaseEnd(_, claim, session) => self.lease_end(id, *claim, *session, task),
            TaskKind::Keep(attempt, lease) => self.keep(*attempt, *lease),
            TaskKind::Save(_, claim) => self.save(id, *claim),
            TaskKind::DependenciesMet(_) => self.dependencies_met(id),
            TaskKind::Cascade(_, by) => self.cascade_to(id, *by, task),
            TaskKind::TimeOut(_, claim) => self.time_out(id, *claim, task),
            TaskKind::ExternalOver(_, claim) => self.external_over(id, *claim, task),
            TaskKind::Resume(_, claim) => self.resume(id, *claim),
            TaskKind::Cycle(_, claim, failure) => {
                let (claim, failure) = (*claim, failure.clone());
                self.fail_for_cycle(id, claim, &failure, task);
            }
            TaskKind::Orphan(_) => self.orphan_of(id, task),
            TaskKind::Submit(_)
            | TaskKind::Tick(_)
            | TaskKind::ReadEnds(_)
            | TaskKind::LookAtGroup(_)
            | TaskKind::Fill(_)
            | TaskKind::ResumeFill(..) => {}
        }
    }

    /// Runs a task on a completed or unknown job; the job is taken from the cache or read into it.
    fn run_closed(&mut self, id: JobId, task: Task) {
        if !matches!(task.what, TaskKind::Request(..)) {
            return;
        }
        if self.jobs.peek_completed(id).is_some() {
            return self.run_completed(id, task);
        }
        if task.read.as_ref().is_some_and(|read| !read.found) {
            return self.answer_task(&task, Err(Rejected::NoSuchJob(id)));
        }
        if task.rounds >= ROUNDS {
            return self.answer_task(&task, Err(Rejected::Contended));
        }
        self.read_job(id, Task { rounds: task.rounds + 1, read: None, ..task });
    }

    fn run_completed(&mut self, id: JobId, task: Task) {
        let TaskKind::Request(request, ticket) = &task.what else { return };
        match request {
            Request::Show(_) => self.show(id, task),
            Request::Explain(_) => {
                let explanation = self.explain_completed(id);
                self.answer(*ticket, explanation);
            }
            Request::Retry { name, .. } => self.retry(id, name.clone(), *ticket),
            Request::Cancel { failure, .. } => {
                let answer = self.cancel_completed(id, failure);
                self.answer(*ticket, answer);
            }
            Request::Edit { .. } | Request::RunNow(_) | Request::Hold(_) | Request::Release(_) => {
                let answer = self.edit_completed(id, request);
                self.answer(*ticket, answer);
            }
            Request::Complete { attempt, report, .. } => {
                let answer = self.finish_completed(id, *attempt, report);
                self.answer(*ticket, answer);
            }
            _ => self.late_report(id, task),
        }
    }

    /// Runs a task that does not concern a single job.
    fn run_free(&mut self, task: Task) {
        let (request, ticket) = match task.what {
            TaskKind::Request(request, ticket) => (request, ticket),
            TaskKind::Submit(plan) => return self.send_plan(*plan),
            TaskKind::Tick(name) => return self.tick_of(&name),
            TaskKind::ReadEnds(ids) => return self.read_ends(ids),
            TaskKind::LookAtGroup(group) => return self.groups.look_at(group),
            TaskKind::Fill(group) => return self.fill_on(group),
            TaskKind::ResumeFill(group, from) => return self.resume_fill(group, from),
            _ => return,
        };
        match request {
            Request::Submit(submit) => self.submit(submit, ticket),
            Request::CreateGroup { group, submit } => self.create_group(group, submit, ticket),
            Request::CloseGroup(_) | Request::CancelGroup { .. } => self.change_group(request, ticket),
            Request::RetryGroup { id, name } => self.retry_group(id, name, ticket),
            Request::ShowGroup(id) => {
                let answer = self.show_group(id);
                self.answer(ticket, answer);
            }
            Request::SetType { job_type, config, expected } => {
                self.set_type(job_type, config, expected, ticket, task.rounds);
            }
            Request::Types => {
                let types = self.all_types();
                self.answer(ticket, Ok(types));
            }
            Request::Schedules => {
                let schedules = self.all_schedules();
                self.answer(ticket, Ok(schedules));
            }
            Request::SetSchedule { name, config, expected } => {
                self.set_schedule(name, config, expected, ticket, task.rounds);
            }
            Request::RunSchedule(name) => self.run_schedule(&name, ticket),
            Request::SetQueue { queue, config, expected } => {
                self.set_queue(queue, config, expected, ticket, task.rounds);
            }
            Request::QueueConfigs => {
                let configs = self.all_queue_configs();
                self.answer(ticket, Ok(configs));
            }
            Request::Remove(ids) => self.remove(ids, ticket),
            Request::Vacancy { session, slots, wait_ms } => self.vacancy(session, slots, wait_ms, ticket),
            Request::OpenSession { worker, abilities, accepts, attempts } => {
                self.open_session(&worker, abilities, accepts, &attempts, ticket);
            }
            Request::EndVacancy { session, vacancy } => {
                let answer = self.withdraw(session, vacancy);
                self.answer(ticket, answer);
            }
            Request::Credit { session, total } => self.credit(session, total, ticket),
            Request::Counts => {
                let counts = self.counts(self.env.now());
                self.answer(ticket, Ok(Answer::Counts(Box::new(counts))));
            }
            Request::Workers => {
                let workers = self.workers_in_use();
                self.answer(ticket, Ok(Answer::Workers(workers)));
            }
            Request::Queue(name) => {
                let answer = self.queue(&name);
                self.answer(ticket, Ok(answer));
            }
            Request::Queues { after, limit } => {
                let answer = self.queue_page(after.as_ref(), limit);
                self.answer(ticket, Ok(answer));
            }
            Request::Renew(session) => {
                let answer = self.renew(session);
                self.answer(ticket, answer);
            }
            Request::Disconnect(session) => {
                let answer = self.disconnect(session);
                self.answer(ticket, answer);
            }
            Request::CloseSession(session) => {
                let answer = self.close_session(session);
                self.answer(ticket, answer);
            }
            // The other items concern one job and never reach this function.
            Request::Cancel { .. }
            | Request::Edit { .. }
            | Request::RunNow(_)
            | Request::Hold(_)
            | Request::Release(_)
            | Request::Retry { .. }
            | Request::Show(_)
            | Request::Explain(_)
            | Request::Accept { .. }
            | Request::Progress { .. }
            | Request::Call { .. }
            | Request::Wait { .. }
            | Request::Started { .. }
            | Request::Complete { .. }
            | Request::Report { .. } => {}
        }
    }
}

impl TaskKind {
    /// Returns the one job that the item concerns.
    pub fn job(&self) -> Option<JobId> {
        match self {
            TaskKind::Request(request, _) => match request {
                Request::Cancel { id, .. }
                | Request::Edit { id, .. }
                | Request::RunNow(id)
                | Request::Hold(id)
                | Request::Release(id)
                | Request::Retry { id, .. }
                | Request::Complete { id, .. }
                | Request::Show(id)
                | Request::Explain(id) => Some(*id),
                Request::Accept { attempt, .. }
                | Request::Progress { attempt, .. }
                | Request::Call { attempt, .. }
                | Request::Wait { attempt, .. }
                | Request::Started { attempt, .. }
                | Request::Report { attempt, .. } => Some(attempt.job),
                _ => None,
            },
            TaskKind::Submit(_)
            | TaskKind::Tick(_)
            | TaskKind::ReadEnds(_)
            | TaskKind::LookAtGroup(_)
            | TaskKind::Fill(_)
            | TaskKind::ResumeFill(..) => None,
            TaskKind::Keep(attempt, _) => Some(attempt.job),
            TaskKind::TakeBack(id, _)
            | TaskKind::LeaseEnd(id, ..)
            | TaskKind::Save(id, _)
            | TaskKind::TimeOut(id, _)
            | TaskKind::ExternalOver(id, _)
            | TaskKind::Resume(id, _)
            | TaskKind::Cycle(id, ..)
            | TaskKind::Orphan(id)
            | TaskKind::DependenciesMet(id)
            | TaskKind::Cascade(id, _) => Some(*id),
        }
    }
}
