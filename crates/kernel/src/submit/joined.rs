//! The params of the jobs that a submit joins, so that its answer can say that they differ from the submitted ones.

use jobhall_core::{Disposition, Job, JobId, Submitted};
use jobhall_store::StoreError;

use super::{ItemAction, Plan};
use crate::api::answer::Rejected;
use crate::kernel::{JobsRead, Kernel};

impl Plan {
    /// The answer for the job at this position, which joins another one: `first` of the same submit, or an existing job.
    pub(super) fn joining(&self, at: usize, made: Submitted, first: Option<usize>) -> Submitted {
        if made.disposition != Disposition::Joined {
            return made;
        }
        let jobs = &self.submit.jobs;
        let params = match (self.joined.get(&made.id), first) {
            (Some(params), _) => params.as_ref(),
            (None, first) => first.map(|first| &jobs[first].params),
        };
        let differs = params.is_some_and(|params| !params.same_value(&jobs[at].params));
        let disposition = if differs { Disposition::JoinedOther } else { made.disposition };
        Submitted { disposition, ..made }
    }

    /// The jobs that it joins and whose params are not known.
    fn unread(&self) -> Vec<JobId> {
        let joined = self.items.iter().filter_map(|item| match item.how {
            ItemAction::Answered(made) if made.disposition == Disposition::Joined => Some(made.id),
            _ => None,
        });
        let mut unread: Vec<_> = joined.filter(|id| !self.joined.contains_key(id)).collect();
        unread.sort_unstable();
        unread.dedup();
        unread
    }
}

impl Kernel {
    /// Notes the params of the job that a plan joins, if they are in memory: `held_by` or the job that waits behind it.
    pub(super) fn note_joined(&self, plan: &mut Plan, held_by: &Job, joined: JobId) {
        let spec = match held_by.id == joined {
            true => Some(&held_by.spec),
            false => self.jobs.get(joined).and_then(|entry| entry.spec.as_ref()),
        };
        match spec {
            Some(spec) => plan.joined.insert(joined, Some(spec.params.clone())),
            None => plan.joined.remove(&joined),
        };
    }

    /// Returns the plan, unless the params of a job that it joins must be read first.
    pub(super) fn read_joined(&mut self, plan: Plan) -> Option<Plan> {
        let unread = plan.unread();
        if unread.is_empty() {
            return Some(plan);
        }
        let number = self.env.number();
        self.commits.read_jobs(number, unread.clone(), JobsRead::Joined(Box::new(plan), unread));
        None
    }

    /// Continues a plan with the jobs that it joins.
    pub(crate) fn joined_read(
        &mut self,
        mut plan: Plan,
        ids: Vec<JobId>,
        found: Result<Vec<Option<Job>>, StoreError>,
    ) {
        match found {
            Err(error) => {
                let refused = Rejected::Storage { full: false, message: error.to_string() };
                self.end_plan(plan, Err(refused));
            }
            Ok(found) => {
                let params = found.into_iter().map(|job| job.map(|job| job.spec.params.clone()));
                plan.joined.extend(ids.into_iter().zip(params));
                self.send_plan(plan);
            }
        }
    }
}
