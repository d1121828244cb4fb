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

/// Approximate bytes of a spec.
pub(super) fn weight(spec: &JobSpec) -> usize {
    spec.params.as_str().len() + FIXED
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{self, id};
    use jobhall_core::Json;

    /// A spec with params of eleven bytes.
    fn spec() -> JobSpec {
        let params = Json::params(r#"{"v":"123"}"#).unwrap();
        JobSpec { params, ..fixtures::spec() }
    }

    const WEIGHT: usize = 11 + FIXED;

    #[test]
    fn the_specs_placed_first_are_dropped_while_they_exceed_the_budget() {
        let (mut specs, spec) = (Specs::default(), spec());
        (1..=3).for_each(|n| specs.keep(id(n), &spec));
        assert_eq!(specs.surplus(3 * WEIGHT), None, "the budget itself is allowed");
        assert_eq!(specs.surplus(3 * WEIGHT - 1), Some(id(1)));
        specs.drop(&spec);
        assert_eq!(specs.surplus(3 * WEIGHT - 1), None);
        assert_eq!(specs.surplus(WEIGHT), Some(id(2)));
    }

    #[test]
    fn a_job_that_was_taken_no_longer_counts_but_stays_in_the_order() {
        let (mut specs, spec) = (Specs::default(), spec());
        (1..=2).for_each(|n| specs.keep(id(n), &spec));
        specs.drop(&spec);
        assert_eq!((specs.bytes, specs.order.len()), (WEIGHT, 2));
        specs.drop(&spec);
        assert_eq!((specs.bytes, specs.order.len()), (0, 0), "no spec, no order");
        specs.drop(&spec);
        assert_eq!((specs.bytes, specs.kept), (0, 0));
    }

    #[test]
    fn an_order_with_far_more_ids_than_specs_is_shortened() {
        let (mut specs, spec) = (Specs::default(), spec());
        specs.keep(id(1), &spec);
        for n in 2..=100_002 {
            specs.keep(id(n), &spec);
            specs.drop(&spec);
        }
        assert_eq!(specs.surplus(usize::MAX), None);
        specs.keep(id(100_003), &spec);
        specs.drop(&spec);
        assert_eq!(specs.surplus(usize::MAX), Some(id(1)));
        assert_eq!(specs.surplus(usize::MAX), None);
    }
}
