//! Which waiting jobs have their spec in memory: the ones placed last, within a budget of bytes.

use std::collections::VecDeque;

use jobhall_core::{JobId, JobSpec};

/// Bytes of a spec besides its params, roughly.
const FIXED: usize = 300;

/// Specs of waiting jobs, in the order they were placed.
#[derive(Debug, Default)]
pub(crate) struct Specs {
    order: VecDeque<JobId>,
    bytes: usize,
    kept: usize,
}

impl Specs {
    /// A job was placed with its spec.
    pub fn keep(&mut self, id: JobId, spec: &JobSpec) {
        self.bytes += weight(spec);
        self.kept += 1;
        self.order.push_back(id);
    }

    /// A spec is kept no longer, because its job was taken or memory is short.
    pub fn drop(&mut self, spec: &JobSpec) {
        self.bytes = self.bytes.saturating_sub(weight(spec));
        self.kept = self.kept.saturating_sub(1);
        if self.kept == 0 {
            self.order.clear();
        }
    }

    /// The job whose spec goes next, while there are more bytes than the budget, or far more ids in the order than
    /// jobs it stands for. It may have been taken already.
    pub fn surplus(&mut self, budget: usize) -> Option<JobId> {
        let too_much = self.bytes > budget || self.order.len() > 2 * self.kept + 100_000;
        if too_much { self.order.pop_front() } else { None }
    }
}

fn weight(spec: &JobSpec) -> usize {
    spec.params.as_str().len() + FIXED
}
