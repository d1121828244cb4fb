//! Sub-jobs: jobs that an attempt requests by a name it chooses. A retried parent that requests the same name joins
//! the job if it is pending or has succeeded, and submits it again if it has not.

use std::collections::BTreeSet;

use jobhall_core::bounds::{CALL_BYTES, SUB_JOBS};
use jobhall_core::{
    After, Application, AttemptId, Decision, Disposition, Event, Failure, Job, JobId, NewJob, State,
    Submitted, transition,
};
use jobhall_store::{Link, StoreError};

use crate::api::answer::{Noted, Rejected};
use crate::api::request::Submit;
use crate::api::ticket::Ticket;
use crate::commits::step::Then;
use crate::kernel::{JobTask, JobsRead, Kernel};
use crate::submit::{ReplyTo, bound};

/// A request for sub-jobs that are being created.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    pub attempt: AttemptId,
    /// The name of each job.
    names: Vec<String>,
}

impl Calls {
    /// The links to the resulting jobs.
    pub fn links(&self, jobs: impl IntoIterator<Item = JobId>) -> impl Iterator<Item = Link> {
        let parent = self.attempt.job;
        self.names.iter().zip(jobs).map(move |(name, job)| Link { parent, call: name.clone(), job })
    }
}

/// The answer for all names: new jobs take the places of those that were not known.
pub(crate) fn in_places(known: Vec<Option<Submitted>>, made: Vec<Submitted>) -> Vec<Submitted> {
    let mut made = made.into_iter();
    known.into_iter().filter_map(|known| known.or_else(|| made.next())).collect()
}

/// A job whose dependencies by position are those of the new jobs alone; known ones are named by their ids.
fn after_known(job: NewJob, known: &[Option<Submitted>]) -> NewJob {
    let place = |after: &After| match *after {
        After::Position(at) => match known.get(at).copied().flatten() {
            Some(submitted) => After::Job(submitted.id),
            None => After::Position(known.iter().take(at).filter(|known| known.is_none()).count()),
        },
        other => other,
    };
    NewJob { after: job.after.iter().map(place).collect(), ..job }
}

/// What became of a name that the parent has used before.
enum Known {
    /// The job is pending or has succeeded.
    Answer(Submitted),
    /// The job was not successful, or is gone.
    Again,
    /// It is completed and has to be read.
    Unread(JobId),
}

impl Kernel {
    /// Handles the request for sub-jobs; for an open parent that is not busy, and by its holder.
    pub(crate) fn call(
        &mut self,
        task: JobTask,
        attempt: AttemptId,
        jobs: Vec<(String, NewJob)>,
        by: Option<Application>,
        to: Ticket<Vec<Submitted>>,
    ) {
        let parent = task.id;
        let (names, jobs): (Vec<_>, Vec<_>) = jobs.into_iter().unzip();
        let submit = Submit { jobs, by, ..Submit::default() };
        if let Err(refused) = self.check_calls(parent, &names, &submit) {
            return self.answer(to, Err(refused));
        }
        if names.iter().any(|name| self.relations.links.is_giving(parent, name)) {
            return self.relations.links.wait(task.into());
        }
        let (mut known, mut unread) = (Vec::with_capacity(names.len()), Vec::new());
        for (name, job) in names.iter().zip(&submit.jobs) {
            match self.relations.links.get(parent, name).map_or(Known::Again, |id| self.known(id, job, &task))
            {
                Known::Answer(submitted) => known.push(Some(submitted)),
                Known::Again => known.push(None),
                Known::Unread(id) => unread.push(id),
            }
        }
        if !unread.is_empty() {
            let number = self.env.number();
            return self.commits.read_jobs(number, unread.clone(), JobsRead::Calls(Box::new(task), unread));
        }
        if known.iter().all(Option::is_some) {
            return self.answer(to, Ok(in_places(known, Vec::new())));
        }
        let is_new = |(at, _): &(usize, _)| known[*at].is_none();
        let names =
            names.into_iter().enumerate().filter(|item| known[item.0].is_none()).map(|(_, name)| name);
        let calls = Calls { attempt, names: names.collect() };
        let jobs =
            submit.jobs.into_iter().enumerate().filter(is_new).map(|(_, job)| after_known(job, &known));
        let submit = Submit { jobs: jobs.collect(), by, ..Submit::default() };
        self.make_sub_jobs(submit, calls, ReplyTo::Calls(known, to), task);
    }

    /// Answers whether a job is a sub-job of this parent.
    pub(crate) fn check_sub_job(&mut self, parent: JobId, job: JobId, to: Ticket<Noted>) {
        let is_sub_job = self.relations.links.is_sub_job(parent, job);
        self.answer(to, is_sub_job.then_some(Noted).ok_or(Rejected::NotSubJob { parent, job }));
    }

    fn known(&self, id: JobId, job: &NewJob, task: &JobTask) -> Known {
        let answer = |disposition| Known::Answer(Submitted { id, disposition });
        if let Some(entry) = self.jobs.get(id) {
            let differs = entry.spec.as_ref().is_some_and(|spec| !spec.params.same_value(&job.params));
            return answer(if differs { Disposition::JoinedOther } else { Disposition::Joined });
        }
        let read = task.read.as_ref().and_then(|read| read.sub_jobs.iter().find(|(read, _)| *read == id));
        let succeeded = match (self.jobs.peek_completed(id), read) {
            (Some((job, _)), _) => matches!(job.status.state, State::Succeeded(_)),
            (None, Some((_, succeeded))) => *succeeded,
            (None, None) => return Known::Unread(id),
        };
        if succeeded { answer(Disposition::Reused) } else { Known::Again }
    }

    /// The completed sub-jobs of a request were read.
    pub(crate) fn calls_read(
        &mut self,
        task: JobTask,
        ids: &[JobId],
        found: Result<Vec<Option<Job>>, StoreError>,
    ) {
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                let refused = Rejected::Storage { full: false, message: error.to_string() };
                return self.give_up(task, refused);
            }
        };
        let succeeded =
            |job: Option<Job>| job.is_some_and(|job| matches!(job.status.state, State::Succeeded(_)));
        let mut read = task.read.clone().unwrap_or_default();
        // The parent was open when they were read.
        read.found = true;
        read.sub_jobs.extend(ids.iter().copied().zip(found.into_iter().map(succeeded)));
        self.enqueue(JobTask { read: Some(read), ..task });
    }

    fn check_calls(&self, parent: JobId, names: &[String], submit: &Submit) -> Result<(), Rejected> {
        self.check_types(submit)?;
        self.check_submit(submit, 1)?;
        let (mut seen, mut new) = (BTreeSet::new(), 0);
        for name in names {
            bound("call length", name.len(), 1, CALL_BYTES)?;
            if !seen.insert(name) {
                return Err(Rejected::CallTwice(name.clone()));
            }
            new += usize::from(self.relations.links.get(parent, name).is_none());
        }
        bound("sub-jobs", self.relations.links.count(parent) + new, 0, SUB_JOBS)?;
        self.check_called_after(parent, submit)?;
        let held = self.jobs.get(parent).and_then(|entry| entry.status.state().leased());
        if held.is_some_and(|held| held.stop.is_some()) {
            return Err(Rejected::Event(jobhall_core::IllegalTransition::Stopping));
        }
        Ok(())
    }

    /// A sub-job that is held to a scope comes after others of its call, after sub-jobs of its parent, and after what the
    /// parent came after: it can read the results of these jobs.
    fn check_called_after(&self, parent: JobId, submit: &Submit) -> Result<(), Rejected> {
        let limited = submit.jobs.iter().filter(|job| !job.scope.is_all());
        let mut named = limited.flat_map(|job| &job.after).filter_map(|after| match after {
            After::Job(id) => Some(*id),
            After::Position(_) => None,
        });
        let spec = self.jobs.get(parent).and_then(|entry| entry.spec.as_ref());
        let inputs = spec.map_or(&[][..], |spec| &spec.after);
        let is_own =
            |id: &JobId| inputs.contains(id) || self.relations.links.of(parent).any(|job| job == *id);
        named.find(|id| !is_own(id)).map_or(Ok(()), |id| Err(Rejected::NoSuchDependency(id)))
    }

    fn make_sub_jobs(&mut self, submit: Submit, calls: Calls, reply_to: ReplyTo, task: JobTask) {
        let n = submit.jobs.len();
        let Some(ids) = self.take_ids(n) else {
            self.ids.wait(task.into());
            return self.ask_for_ids(n);
        };
        self.ask_for_ids(0);
        for name in &calls.names {
            self.relations.links.give(calls.attempt.job, name);
        }
        self.submit_with(submit, ids, Some(calls), reply_to);
    }

    /// A request for sub-jobs is finished: it resulted in these jobs, or in none if it failed.
    pub(crate) fn call_settled(&mut self, calls: &Calls, jobs: &[JobId]) {
        let parent = calls.attempt.job;
        for name in &calls.names {
            self.relations.links.given(parent, name);
        }
        for link in calls.links(jobs.iter().copied()) {
            self.relations.links.add(link);
        }
        if !jobs.is_empty() && !self.jobs.contains(parent) {
            self.unlink(parent);
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
