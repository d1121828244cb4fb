//! Changes of a job that no worker holds: its spec, its start time, and whether it is held.

use std::sync::Arc;

use jobhall_core::bounds;
use jobhall_core::needs::{Needs, Uses};
use jobhall_core::{
    Decision, Event, JobId, JobSpec, Json, Owner, RetryPolicy, Tag, Time, Timeouts, Windows, transition,
};

use crate::api::answer::{Answer, Rejected};
use crate::api::request::Request;
use crate::jobs::windows::Timed;
use crate::kernel::{Kernel, Task, TaskKind};

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
    fn now(now: Time) -> Edit {
        Edit { run_at: Some(now), windows: Some(Windows::default()), ..Edit::default() }
    }

    fn check(&self) -> Result<(), Rejected> {
        if let Some(retry) = &self.retry {
            retry.check()?;
        }
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
            retry: retry.unwrap_or(spec.retry),
            throttle_factor: self.throttle_factor.unwrap_or(spec.throttle_factor),
            timeouts: self.timeouts.unwrap_or(spec.timeouts),
            owner: self.owner.clone().unwrap_or_else(|| spec.owner.clone()),
            tags: tags.unwrap_or_else(|| spec.tags.clone()),
            ..spec.clone()
        }
    }
}

impl Kernel {
    /// Holds, releases, edits or runs an open job.
    pub(crate) fn edit(&mut self, id: JobId, task: Task) {
        let TaskKind::Request(request, ticket) = &task.what else { return };
        let ticket = *ticket;
        let edit = match request {
            Request::Edit { edit, .. } => Some((**edit).clone()),
            Request::RunNow(_) => Some(Edit::now(self.env.wall())),
            _ => None,
        };
        if let Err(refused) = edit.as_ref().map_or(Ok(()), Edit::check) {
            return self.answer(ticket, Err(refused));
        }
        let Some(entry) = self.jobs.get(id) else { return };
        let event = match (request, &edit) {
            (Request::Hold(_), _) => Event::Hold,
            (_, Some(edit)) => Event::Edit { run_at: edit.run_at },
            _ => Event::Release,
        };
        let spec = edit.and_then(|edit| entry.spec.as_ref().map(|spec| Arc::new(edit.on(spec))));
        match transition(&entry.unmoved(), &event, self.env.wall()) {
            Ok(Decision::Step(step)) => self.send_respecced(id, *step, spec, task),
            Ok(Decision::Same) => {
                let state = entry.life.name(self.env.wall());
                self.answer(ticket, Ok(Answer::State(state)));
            }
            Err(refusal) => self.answer(ticket, Err(Rejected::Event(refusal))),
        }
    }

    /// The same for a completed job, which never changes.
    pub(crate) fn edit_completed(&mut self, id: JobId, request: &Request) -> Result<Answer, Rejected> {
        let (job, _) = self.jobs.completed(id).ok_or(Rejected::NoSuchJob(id))?;
        let event = match request {
            Request::Hold(_) => Event::Hold,
            Request::Release(_) => Event::Release,
            _ => Event::Edit { run_at: None },
        };
        let decision = transition(&job.life, &event, self.env.wall());
        decision.map(|_| Answer::State(job.life.state.name())).map_err(Rejected::Event)
    }

    /// Replaces the spec by the one that was stored.
    pub(crate) fn respec(&mut self, id: JobId, spec: Arc<JobSpec>) {
        let class = spec.class();
        let Some(entry) = self.jobs.get_mut(id) else { return };
        entry.priority = spec.priority;
        entry.timed = Timed::of(&spec.windows);
        entry.spec = Some(spec);
        if self.board.class(entry.class) != Some(&class) {
            let before = entry.class;
            (entry.class, entry.queue) = self.board.enter(&class);
            self.board.leave(before);
        }
        self.find_share(id);
    }
}
