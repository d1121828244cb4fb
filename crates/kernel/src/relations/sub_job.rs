//! Sub-jobs: jobs that an attempt requests by a name it chooses. A retried parent that requests the same name joins
//! the job if it is pending or has succeeded, and submits it again if it has not.

use jobhall_core::bounds::{CALL_BYTES, SUB_JOBS};
use jobhall_core::{
    AttemptId, Decision, Disposition, Event, Failure, JobId, NewJob, State, Submitted, transition,
};
use jobhall_store::Link;

use crate::api::answer::Rejected;
use crate::api::request::Submit;
use crate::api::ticket::Ticket;
use crate::commits::step::Then;
use crate::kernel::{JobTask, Kernel, ROUNDS};
use crate::submit::ReplyTo;

/// A call whose job is being created.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub attempt: AttemptId,
    pub call: String,
}

impl Call {
    /// The link to the resulting job.
    pub fn to(&self, job: JobId) -> Link {
        Link { parent: self.attempt.job, call: self.call.clone(), job }
    }
}

impl Kernel {
    /// Handles the request for a sub-job; for an open parent that is not busy, and by its holder.
    pub(crate) fn call(
        &mut self,
        task: JobTask,
        attempt: AttemptId,
        call: String,
        job: NewJob,
        to: Ticket<Vec<Submitted>>,
    ) {
        let parent = task.id;
        if let Err(refused) = self.check_call(parent, &call) {
            return self.answer(to, Err(refused));
        }
        if self.relations.links.is_giving(parent, &call) {
            return self.relations.links.wait(task.into());
        }
        let submitted = |id, disposition| Ok(vec![Submitted { id, disposition }]);
        if let Some(known) = self.relations.links.get(parent, &call) {
            if self.jobs.contains(known) {
                return self.answer(to, submitted(known, self.joined_by_name(known, &job)));
            }
            match self.jobs.completed(known) {
                Some((job, _)) if matches!(job.status.state, State::Succeeded(_)) => {
                    return self.answer(to, submitted(known, Disposition::Reused));
                }
                None if task.read.as_ref().is_none_or(|read| read.found) && task.rounds < ROUNDS => {
                    return self.read_job(known, JobTask { rounds: task.rounds + 1, ..task });
                }
                Some(_) | None => {}
            }
        }
        let submit = Submit { jobs: vec![job], name: None };
        self.make_sub_job(submit, Call { attempt, call }, to, task);
    }

    /// How an open job answers a repeated call.
    fn joined_by_name(&self, known: JobId, job: &NewJob) -> Disposition {
        let spec = self.jobs.get(known).and_then(|entry| entry.spec.as_ref());
        match spec.is_some_and(|spec| !spec.params.same_value(&job.params)) {
            true => Disposition::JoinedOther,
            false => Disposition::Joined,
        }
    }

    fn check_call(&self, parent: JobId, call: &str) -> Result<(), Rejected> {
        let bound = |field, given: usize, least, most: usize| {
            let fits = (least..=most).contains(&given);
            let [given, least, most] = [given, least, most].map(|n| n as u64);
            if fits { Ok(()) } else { Err(Rejected::Bound { field, given, least, most }) }
        };
        bound("call length", call.len(), 1, CALL_BYTES)?;
        let new = usize::from(self.relations.links.get(parent, call).is_none());
        bound("sub-jobs", self.relations.links.count(parent) + new, 0, SUB_JOBS)?;
        let held = self.jobs.get(parent).and_then(|entry| entry.status.state().leased());
        if held.is_some_and(|held| held.stop.is_some()) {
            return Err(Rejected::Event(jobhall_core::IllegalTransition::Stopping));
        }
        Ok(())
    }

    fn make_sub_job(&mut self, submit: Submit, call: Call, to: Ticket<Vec<Submitted>>, task: JobTask) {
        let Some(ids) = self.take_ids(1) else {
            self.ids.wait(task.into());
            return self.ask_for_ids(1);
        };
        self.ask_for_ids(0);
        self.relations.links.give(call.attempt.job, &call.call);
        self.submit_with(submit, ids, Some(call), ReplyTo::Ticket(to));
    }

    /// A call is finished: it resulted in this job, or failed.
    pub(crate) fn call_settled(&mut self, call: &Call, job: Option<JobId>) {
        let parent = call.attempt.job;
        self.relations.links.given(parent, &call.call);
        if let Some(job) = job {
            self.relations.links.add(call.to(job));
            if !self.jobs.contains(parent) {
                self.unlink(parent);
            }
        }
        for task in self.relations.links.take_waiting() {
            self.enqueue(task);
        }
    }

    /// Cancels a sub-job that no job wants any more, because its parents have ended.
    pub(crate) fn orphan_of(&mut self, task: JobTask) {
        let id = task.id;
        let Some(entry) = self.jobs.get(id) else { return };
        let Some(parent) = entry.spec.as_ref().and_then(|spec| spec.parent) else { return };
        if self.relations.links.is_wanted(id) || self.jobs.contains(parent) {
            return;
        }
        let failure = Failure::new("parent_ended", format!("job {parent}, which requested it, has ended"));
        if let Ok(Decision::Step(step)) =
            transition(&entry.status.get(), &Event::Cancel(&failure), self.env.wall())
        {
            self.send_step(task, *step, Then::Nothing);
        }
    }
}
