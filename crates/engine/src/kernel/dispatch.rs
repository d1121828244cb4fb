//! Who deals with what: a task goes to the use case it is for, now or when its job is free again.

use jobhall_core::JobId;

use super::{Kernel, ROUNDS, Task, What};
use crate::answer::{Answer, Rejected};
use crate::entry::Busy;
use crate::request::Request;

impl Kernel {
    /// Runs a task, now or when the job is free again.
    pub(crate) fn run(&mut self, task: Task) {
        if let Some(why) = &self.stopped {
            let refused = Rejected::Stopped(why.clone());
            return self.answer_task(&task, Err(refused));
        }
        match task.what.job() {
            Some(id) => self.run_on(id, task),
            None => self.run_free(task),
        }
    }

    /// A task about one job.
    fn run_on(&mut self, id: JobId, task: Task) {
        match self.open.get(&id.get()) {
            Some(entry) if entry.busy != Busy::Free => self.in_line.entry(id.get()).or_default().push(task),
            Some(entry) if entry.spec.is_none() => self.read_spec(id, task),
            Some(_) => self.run_open(id, task),
            None => self.run_closed(id, task),
        }
    }

    fn run_open(&mut self, id: JobId, task: Task) {
        match &task.what {
            What::Request(Request::Show(_), _) => self.show(id, task),
            What::Request(Request::Explain(_), ticket) => {
                let explanation = self.explain(id);
                self.answer(*ticket, explanation);
            }
            What::Request(Request::Retry { .. }, ticket) => self.answer(*ticket, self.retry_refused(id)),
            What::Request(Request::Cancel { .. }, _) => self.cancel(id, task),
            What::Request(
                Request::Edit { .. } | Request::RunNow(_) | Request::Hold(_) | Request::Release(_),
                _,
            ) => self.edit(id, task),
            What::Request(Request::Finish { .. }, _) => self.finish_outside(id, task),
            What::Request(..) => self.worker_event(id, task),
            What::TakeBack(_, claim) => self.take_back(id, *claim, task),
            What::LeaseEnd(_, claim, session) => self.lease_end(id, *claim, *session, task),
            What::Keep(attempt, lease) => self.keep(*attempt, *lease),
            What::Save(_, claim) => self.save(id, *claim),
            What::Released(_) => self.released(id),
            What::TakeAlong(_, by) => self.take_one_along(id, *by, task),
            What::TimeOut(_, claim) => self.time_out(id, *claim, task),
            What::OutsideOver(_, claim) => self.outside_over(id, *claim, task),
            What::Resume(_, claim) => self.resume(id, *claim),
            What::Cycle(_, claim, failure) => {
                let (claim, failure) = (*claim, failure.clone());
                self.fail_for_cycle(id, claim, &failure, task);
            }
            What::Orphan(_) => self.orphan_of(id, task),
            What::Submit(_)
            | What::Tick(_)
            | What::ReadEnds(_)
            | What::LookAtGroup(_)
            | What::Fill(_)
            | What::ResumeFill(..) => {}
        }
    }

    /// A task about a job that is completed, or that does not exist: it is in the cache, or read into it.
    fn run_closed(&mut self, id: JobId, task: Task) {
        if !matches!(task.what, What::Request(..)) {
            return;
        }
        if self.cached.contains(&id) {
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
        let What::Request(request, ticket) = &task.what else { return };
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
            Request::Finish { attempt, report, .. } => {
                let answer = self.finish_completed(id, *attempt, report);
                self.answer(*ticket, answer);
            }
            _ => self.late_report(id, task),
        }
    }

    /// A task about no single job.
    fn run_free(&mut self, task: Task) {
        let (request, ticket) = match task.what {
            What::Request(request, ticket) => (request, ticket),
            What::Submit(plan) => return self.send_plan(*plan),
            What::Tick(name) => return self.tick_of(&name),
            What::ReadEnds(ids) => return self.read_ends(ids),
            What::LookAtGroup(group) => return self.groups_mut().quiet.push(group),
            What::Fill(group) => return self.fill_on(group),
            What::ResumeFill(group, from) => return self.resume_fill(group, from),
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
                let counts = self.counts(self.now);
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
            // The others are about one job and never come here.
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
            | Request::Finish { .. }
            | Request::Report { .. } => {}
        }
    }
}

impl What {
    /// The one job it is about.
    pub fn job(&self) -> Option<JobId> {
        match self {
            What::Request(request, _) => match request {
                Request::Cancel { id, .. }
                | Request::Edit { id, .. }
                | Request::RunNow(id)
                | Request::Hold(id)
                | Request::Release(id)
                | Request::Retry { id, .. }
                | Request::Finish { id, .. }
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
            What::Submit(_)
            | What::Tick(_)
            | What::ReadEnds(_)
            | What::LookAtGroup(_)
            | What::Fill(_)
            | What::ResumeFill(..) => None,
            What::Keep(attempt, _) => Some(attempt.job),
            What::TakeBack(id, _)
            | What::LeaseEnd(id, ..)
            | What::Save(id, _)
            | What::TimeOut(id, _)
            | What::OutsideOver(id, _)
            | What::Resume(id, _)
            | What::Cycle(id, ..)
            | What::Orphan(id)
            | What::Released(id)
            | What::TakeAlong(id, _) => Some(*id),
        }
    }
}
