//! Inputs: completed jobs that open jobs come after. They are not removed, because a dependent may still read how they
//! ended and what they left.
//!
//! A dependent is registered when its submit is planned, so that no input is removed while the insert is in flight, and
//! until it has ended. Its dependencies are copied: the specs of waiting jobs are dropped from memory.

use jobhall_core::JobId;

use crate::jobs::ids::IdMap;

/// Which jobs are inputs of others.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    /// By dependent, or by job of a submit in progress: the jobs that it comes after.
    of: IdMap<JobId, Vec<JobId>>,
    /// By input: how many dependents it has.
    dependents: IdMap<JobId, u32>,
    /// Jobs whose removal is in flight, with the number of such removals.
    removals: IdMap<JobId, u32>,
}

impl Inputs {
    /// This job comes after these, besides those that it is registered with.
    pub fn add(&mut self, dependent: JobId, after: &[JobId]) {
        if after.is_empty() {
            return;
        }
        for input in after {
            *self.dependents.entry(*input).or_default() += 1;
        }
        self.of.entry(dependent).or_default().extend(after);
    }

    /// This job has ended, or was not stored.
    pub fn release(&mut self, dependent: JobId) {
        for input in self.of.remove(&dependent).unwrap_or_default() {
            decrement(&mut self.dependents, input);
        }
    }

    /// Whether an open job comes after this one.
    pub fn contains(&self, id: JobId) -> bool {
        self.dependents.contains_key(&id)
    }

    /// The removal of these jobs is in flight.
    pub fn remove(&mut self, ids: &[JobId]) {
        ids.iter().for_each(|id| *self.removals.entry(*id).or_default() += 1);
    }

    /// The removal of these jobs is over, whether they were removed or not.
    pub fn removed(&mut self, ids: &[JobId]) {
        ids.iter().for_each(|id| decrement(&mut self.removals, *id));
    }

    /// Whether a job may be gone soon, so that no job can come after it any more.
    pub fn is_leaving(&self, id: JobId) -> bool {
        self.removals.contains_key(&id)
    }
}

fn decrement(counts: &mut IdMap<JobId, u32>, id: JobId) {
    if let Some(count) = counts.get_mut(&id) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::id;

    #[test]
    fn ground_5_an_input_stays_until_its_last_dependent_is_released() {
        let mut inputs = Inputs::default();
        inputs.add(id(8), &[id(1), id(2)]);
        inputs.add(id(9), &[id(1)]);
        inputs.add(id(7), &[]);
        inputs.release(id(8));
        inputs.release(id(8));
        assert_eq!([1, 2].map(|n| inputs.contains(id(n))), [true, false]);
        inputs.release(id(9));
        assert!(!inputs.contains(id(1)) && inputs.of.is_empty() && inputs.dependents.is_empty());
    }

    #[test]
    fn ground_5_a_job_is_leaving_until_every_removal_of_it_is_over() {
        let mut inputs = Inputs::default();
        inputs.remove(&[id(1), id(2)]);
        inputs.remove(&[id(1)]);
        inputs.removed(&[id(1), id(2)]);
        assert_eq!([1, 2].map(|n| inputs.is_leaving(id(n))), [true, false]);
        inputs.removed(&[id(1)]);
        assert!(!inputs.is_leaving(id(1)) && inputs.removals.is_empty());
    }
}
