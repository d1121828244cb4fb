//! Dependencies between jobs: the effect of a job's end on its dependents, and the detection of cycles.

use crate::id::JobId;
use crate::job::outcome::Failure;
use crate::job::state::StateName;
use crate::json::Json;

/// The effect of a job's end on its dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dependency {
    /// It succeeded: they need not wait for it any more.
    Met,
    /// It failed or crashed: they fail, unless they accept any end.
    Failed,
    /// It was cancelled: so are they, unless they accept any end.
    Cancelled,
    /// It is no longer stored, so how it ended is unknown: they fail, unless they accept any end.
    Removed,
}

impl Dependency {
    /// The effect of this state; none while the job is open.
    pub fn of(state: StateName) -> Option<Dependency> {
        match state {
            StateName::Succeeded => Some(Dependency::Met),
            StateName::Failed | StateName::Crashed => Some(Dependency::Failed),
            StateName::Cancelled => Some(Dependency::Cancelled),
            _ => None,
        }
    }

    /// Whether a dependent may still run.
    pub fn allows(self, after_any: bool) -> bool {
        after_any || self == Dependency::Met
    }

    /// The error of a job that ends because its dependency `id` did.
    pub fn failure(self, id: JobId) -> Failure {
        let (reason, how) = match self {
            Dependency::Met => ("dependency_met", "has succeeded"),
            Dependency::Failed => ("dependency_failed", "has failed"),
            Dependency::Cancelled => ("dependency_cancelled", "was cancelled"),
            Dependency::Removed => ("dependency_removed", "was removed"),
        };
        let explanation = format!("it depends on job {id}, which {how}");
        let data = Json::parse("data", &format!("{{\"job\":{id}}}"), usize::MAX).ok();
        Failure { data, ..Failure::new(reason, explanation) }
    }

    /// The dependency in an error of [`Dependency::failure`].
    pub fn cause(failure: &Failure) -> Option<JobId> {
        let ids = failure.data.as_ref()?.as_str().strip_prefix("{\"job\":")?;
        let id = JobId::new(ids.strip_suffix('}')?.parse().ok()?).ok()?;
        let ended = [Dependency::Failed, Dependency::Cancelled, Dependency::Removed];
        ended.iter().any(|ended| ended.failure(id) == *failure).then_some(id)
    }
}

/// Returns a cycle, if there is one: each depends on the next, the last on the first. `after` lists the dependencies
/// of each. Memory is linear in the number of entries, regardless of the length of the chains.
pub fn circle<T: AsRef<[usize]>>(after: &[T]) -> Option<Vec<usize>> {
    const NEW: usize = 0;
    const SEEN: usize = usize::MAX;
    // 0: not visited; a number: in progress, with this many of its dependencies visited; the maximum: in no cycle.
    let mut looked = vec![NEW; after.len()];
    for start in 0..after.len() {
        let mut way = Vec::new();
        let mut next = Some(start).filter(|&at| looked[at] == NEW);
        while let Some(at) = next.or_else(|| way.pop()) {
            let own = after[at].as_ref();
            let from = looked[at];
            let Some(&target) = own.get(from) else {
                looked[at] = SEEN;
                next = None;
                continue;
            };
            looked[at] = from + 1;
            way.push(at);
            next = match looked.get(target) {
                Some(&NEW) => Some(target),
                Some(&SEEN) | None => None,
                Some(_) => {
                    let first = way.iter().position(|&on_the_way| on_the_way == target)?;
                    return Some(way.split_off(first));
                }
            };
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_end_meets_a_dependency_or_takes_along_what_comes_after() {
        let ends: Vec<_> = StateName::ALL.into_iter().filter_map(Dependency::of).collect();
        let [met, failed, cancelled] = [Dependency::Met, Dependency::Failed, Dependency::Cancelled];
        assert_eq!(ends, [met, failed, failed, cancelled]);
        assert_eq!([met, failed, cancelled].map(|end| end.allows(false)), [true, false, false]);
        assert_eq!([met, failed, cancelled].map(|end| end.allows(true)), [true; 3]);
        let failure = cancelled.failure(JobId::new(17).unwrap());
        assert_eq!(failure.reason, "dependency_cancelled");
        assert_eq!(failure.explanation, "it depends on job 17, which was cancelled");
        assert_eq!(Dependency::cause(&failure), JobId::new(17).ok());
        assert_eq!(Dependency::cause(&Failure { reason: "other".to_owned(), ..failure.clone() }), None);
        assert_eq!(failure.data.unwrap().as_str(), "{\"job\":17}");
    }

    #[test]
    fn ground_5_a_removed_dependency_is_no_success() {
        let removed = Dependency::Removed;
        assert_eq!([false, true].map(|after_any| removed.allows(after_any)), [false, true]);
        let failure = removed.failure(JobId::new(17).unwrap());
        assert_eq!(failure.reason, "dependency_removed");
        assert_eq!(failure.explanation, "it depends on job 17, which was removed");
        assert_eq!(Dependency::cause(&failure), JobId::new(17).ok());
    }

    #[test]
    fn a_circle_is_found_and_named() {
        let check = |after: &[&[usize]]| circle(after);
        assert_eq!(check(&[]), None);
        assert_eq!(check(&[&[], &[0], &[0, 1]]), None);
        assert_eq!(check(&[&[0]]), Some(vec![0]));
        assert_eq!(check(&[&[1], &[0]]), Some(vec![0, 1]));
        assert_eq!(check(&[&[], &[0, 3], &[1], &[2]]), Some(vec![1, 3, 2]));
        assert_eq!(check(&[&[1, 2], &[3], &[3], &[]]), None, "two ways to the same are no circle");
    }

    #[test]
    fn a_long_chain_needs_no_deep_stack() {
        let mut chain: Vec<Vec<usize>> = (0..200_000usize).map(|at| vec![at + 1]).collect();
        chain.push(Vec::new());
        assert_eq!(circle(&chain), None);
        chain[200_000] = vec![0];
        assert_eq!(circle(&chain).map(|circle| circle.len()), Some(200_001));
    }

    proptest! {
        /// There is no cycle exactly if all entries can be ordered, each after its dependencies.
        #[test]
        fn a_circle_is_found_exactly_where_no_order_exists(
            after in prop::collection::vec(prop::collection::vec(0usize..8, 0..3), 8),
        ) {
            let mut row = [false; 8];
            for _ in 0..8 {
                for at in 0..8 {
                    row[at] |= after[at].iter().all(|&before| row[before]);
                }
            }
            let found = circle(&after);
            prop_assert_eq!(found.is_some(), row.contains(&false));
            for (at, &one) in found.iter().flatten().enumerate() {
                let circle = found.as_ref().unwrap();
                prop_assert!(after[one].contains(&circle[(at + 1) % circle.len()]));
            }
        }
    }
}
