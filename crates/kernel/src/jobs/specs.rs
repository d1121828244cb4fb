//! The specs of waiting jobs in memory: those placed last, within a budget of bytes.

use std::collections::VecDeque;

use jobhall_core::{JobId, JobSpec};

/// Approximate bytes of a spec without its params.
const FIXED: usize = 400;

/// Specs of waiting jobs, in the order they were placed.
#[derive(Debug, Default)]
pub(crate) struct Specs {
    order: VecDeque<JobId>,
    bytes: usize,
    kept: usize,
}

impl Specs {
    /// Adds the spec of a job that was placed.
    pub fn keep(&mut self, id: JobId, spec: &JobSpec) {
        self.bytes += weight(spec);
        self.kept += 1;
        self.order.push_back(id);
    }

    /// Removes a spec, because its job was taken or memory is short.
    pub fn drop(&mut self, spec: &JobSpec) {
        self.bytes = self.bytes.saturating_sub(weight(spec));
        self.kept = self.kept.saturating_sub(1);
        if self.kept == 0 {
            self.order.clear();
        }
    }

    /// Returns the job whose spec is dropped next, while there are more bytes than the budget, or far more ids in the
    /// order than specs. The job may have been taken already.
    pub fn surplus(&mut self, budget: usize) -> Option<JobId> {
        let too_much = self.bytes > budget || self.order.len() > 2 * self.kept + 100_000;
        if too_much { self.order.pop_front() } else { None }
    }
}

fn weight(spec: &JobSpec) -> usize {
    spec.params.as_str().len() + FIXED
}
