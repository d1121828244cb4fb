//! Changes of a job that no worker holds: its spec, its start time, and whether it is held.

use std::sync::Arc;

use jobhall_core::bounds;
use jobhall_core::needs::{Needs, Uses};
use jobhall_core::{
    Decision, Event, JobId, JobSpec, Json, Owner, RetryPolicy, StateName, Tag, Time, Timeouts, Windows,
    transition,
};

use crate::api::answer::Rejected;
use crate::api::request::JobRequest;
use crate::api::ticket::Ticket;
use crate::commits::step::Then;
use crate::jobs::windows::Timed;
use crate::kernel::{JobTask, JobWork, Kernel};

/// Changes of a job; a field that is none stays as it is. Type, key and queue never change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// The parameters for the worker.
    pub params: Option<Json>,
    /// Requirements that a worker must match.
    pub needs: Option<Needs>,
    /// What it uses of its worker's resources while it runs.
    pub uses: Option<Uses>,
    /// Whether retries prefer workers that did not have it before.
    pub avoid: Option<bool>,
    /// The time windows in which it may start.
    pub windows: Option<Windows>,
    /// The priority; lower values go first.
    pub priority: Option<i32>,
    /// The earliest start.
    pub run_at: Option<Time>,
    /// The retry policy.
    pub retry: Option<RetryPolicy>,
    /// Its weight against limits.
    pub throttle_factor: Option<u32>,
    /// The time limits of an attempt.
    pub timeouts: Option<Timeouts>,
    /// The owner; an inner none removes it.
    pub owner: Option<Option<Owner>>,
    /// Tags for filtering.
    pub tags: Option<Vec<Tag>>,
}

impl Edit {
    /// Start immediately: start time, backoff and windows are ignored; limits, pauses and holds are not.
    pub(crate) fn now(now: Time) -> Edit {
        Edit { run_at: Some(now), windows: Some(Windows::default()), ..Edit::default() }
    }

    fn check(&self) -> Result<(), Rejected> {
        if let Some(timeouts) = &self.timeouts {
            timeouts.check()?;
        }
        let most = [
            (
                "throttle_factor",
                u64::from(self.throttle_factor.unwrap_or(0)),
                u64::from(bounds::THROTTLE_FACTOR),
            ),
            ("tags", self.tags.as_ref().map_or(0, Vec::len) as u64, bounds::TAGS as u64),
        ];
        match most.into_iter().find(|(_, given, most)| given > most) {
            Some((field, given, most)) => Err(Rejected::Bound { field, given, least: 0, most }),
            None => Ok(()),
        }
    }

    /// Whether it changes only when the job runs, which is allowed for jobs of applications too.
    fn is_about_order(&self) -> bool {
        let Edit { priority, run_at, .. } = self;
        *self == Edit { priority: *priority, run_at: *run_at, ..Edit::default() }
    }

    fn on(&self, spec: &JobSpec) -> JobSpec {
        let Edit { params, needs, uses, avoid, windows, priority, retry, .. } = self.clone();
        let tags = self.tags.clone().map(|mut tags| {
            tags.sort_unstable();
            tags.dedup();
            tags.into_boxed_slice()
        });
        JobSpec {
            params: params.unwrap_or_else(|| spec.params.clone()),
            needs: needs.unwrap_or_else(|| spec.needs.clone()),
            uses: uses.unwrap_or_else(|| spec.uses.clone()),
            avoid: avoid.unwrap_or(spec.avoid),
            windows: windows.unwrap_or_else(|| spec.windows.clone()),
            priority: priority.unwrap_or(spec.priority),
            retry: RetryPolicy { at_most_once: spec.retry.at_most_once, ..retry.unwrap_or(spec.retry) },
            throttle_factor: self.throttle_factor.unwrap_or(spec.throttle_factor),
            timeouts: self.timeouts.unwrap_or(spec.timeouts),
            owner: self.owner.clone().unwrap_or_else(|| spec.owner.clone()),
            tags: tags.unwrap_or_else(|| spec.tags.clone()),
            ..spec.clone()
        }
    }
}

impl Kernel {
    /// Edits an open job.
    pub(crate) fn edit(&mut self, task: JobTask, edit: Edit, to: Ticket<StateName>) {
        let about_order =
            edit.is_about_order() || matches!(task.work, JobWork::Request(JobRequest::RunNow { .. }));
        let spec = self.jobs.get(task.id).and_then(|entry| entry.spec.as_ref()).filter(|_| !about_order);
        let allowed = spec.map_or(Ok(()), |spec| self.settings.check_type(None, &spec.job_type));
        match allowed.and_then(|()| edit.check()) {
            Ok(()) => self.change(task, &Event::Edit { run_at: edit.run_at }, Some(edit), to),
            Err(refused) => self.answer(to, Err(refused)),
        }
    }

    /// Rejects a spec that an edit may not make.
    fn check_spec(&self, spec: &JobSpec) -> Result<(), Rejected> {
        spec.retry.check()?;
        self.settings.check_needs(&spec.job_type, &spec.needs)
    }

    /// Holds, releases or edits an open job.
    pub(crate) fn change(
        &mut self,
        task: JobTask,
        event: &Event<'_>,
        edit: Option<Edit>,
        to: Ticket<StateName>,
    ) {
        let Some(entry) = self.jobs.get(task.id) else { return };
        let spec = edit.and_then(|edit| entry.spec.as_ref().map(|spec| Arc::new(edit.on(spec))));
        if let Some(Err(refused)) = spec.as_deref().map(|spec| self.check_spec(spec)) {
            return self.answer(to, Err(refused));
        }
        match transition(&entry.unmoved(), event, self.env.wall()) {
            Ok(Decision::Step(step)) => self.send_respecced(task, *step, spec, Then::Answer(to)),
            Ok(Decision::Same) => {
                let state = entry.status.get().name(self.env.wall());
                self.answer(to, Ok(state));
            }
            Err(refusal) => self.answer(to, Err(Rejected::Event(refusal))),
        }
    }

    /// Answers a cancel, hold, release or edit of a completed job. The job does not change: a request that repeats what
    /// ended it succeeds, any other is a conflict.
    pub(crate) fn change_completed(&mut self, id: JobId, event: &Event<'_>, to: Ticket<StateName>) {
        let state = match self.jobs.completed(id) {
            Some((job, _)) => {
                let decision = transition(&job.status, event, self.env.wall());
                decision.map(|_| job.status.state.name()).map_err(Rejected::Event)
            }
            None => Err(Rejected::NoSuchJob(id)),
        };
        self.answer(to, state);
    }

    /// Replaces the spec by the one that was stored. If the job begins to avoid the workers that had it, only the store
    /// knows them: they are read before it is assigned.
    pub(crate) fn respec(&mut self, id: JobId, spec: Arc<JobSpec>) {
        if !spec.avoid {
            self.forget_avoids(id);
        }
        let Some(entry) = self.jobs.get_mut(id) else { return };
        let avoided = entry.spec.as_ref().is_some_and(|before| before.avoid);
        if spec.avoid && !avoided && entry.status.get().past_attempts() > 0 {
            self.fleet.forget_past(id);
        }
        self.fleet.note_copy(id, &spec);
        entry.priority = spec.priority;
        entry.set_timed(Timed::of(&spec.windows));
        // A job that no longer avoids workers leaves its separate class.
        let before = entry.class;
        (entry.class, entry.queue) = self.board.enter(&spec.class());
        self.board.leave(before);
        entry.spec = Some(spec);
        self.find_share(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::spec;

    #[test]
    fn an_edit_replaces_the_fields_that_it_has_and_no_others() {
        let old = spec();
        assert_eq!(Edit::default().on(&old), old);
        let tag = |text: &str| Tag::new(text).unwrap();
        let edit = Edit {
            params: Some(Json::params("{\"a\":1}").unwrap()),
            needs: Some(Needs::parse("gpu").unwrap()),
            uses: Some(Uses::parse("gpu=1").unwrap()),
            avoid: Some(!old.avoid),
            windows: Some(Windows::parse("08:00-09:00").unwrap()),
            priority: Some(old.priority + 1),
            run_at: None,
            retry: Some(RetryPolicy { max_attempts: old.retry.max_attempts + 1, ..old.retry }),
            throttle_factor: Some(old.throttle_factor + 1),
            timeouts: Some(Timeouts { total_ms: Some(1_000), ..old.timeouts }),
            owner: Some(Some(Owner::new("ann").unwrap())),
            tags: Some(vec![tag("b"), tag("a"), tag("b")]),
        };
        let expected = JobSpec {
            params: edit.params.clone().unwrap(),
            needs: edit.needs.clone().unwrap(),
            uses: edit.uses.clone().unwrap(),
            avoid: !old.avoid,
            windows: edit.windows.clone().unwrap(),
            priority: old.priority + 1,
            retry: edit.retry.unwrap(),
            throttle_factor: old.throttle_factor + 1,
            timeouts: edit.timeouts.unwrap(),
            owner: edit.owner.clone().unwrap(),
            tags: [tag("a"), tag("b")].into(),
            ..old.clone()
        };
        assert_eq!(edit.on(&old), expected);
    }

    #[test]
    fn an_edit_of_the_retry_policy_keeps_at_most_once() {
        let old = JobSpec { retry: spec().retry.at_most_once(), ..spec() };
        let edit = Edit { retry: Some(RetryPolicy::once()), ..Edit::default() };
        assert!(edit.on(&old).retry.at_most_once);
    }
}
