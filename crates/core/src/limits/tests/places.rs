//! Places against a naive sum.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};

use super::super::Places;
use crate::JobId;

fn id(number: u64) -> JobId {
    JobId::new(number).unwrap()
}

#[test]
fn jobs_take_their_weight_and_leave_it() {
    let mut places = Places::default();
    places.take(id(1), 2);
    places.take(id(2), 1);
    assert_eq!((places.taken(), places.fits(1, 4), places.fits(2, 4)), (3, true, false));
    assert_eq!(places.holders(), [(id(1), 2), (id(2), 1)]);
    places.take(id(2), 1);
    assert_eq!(places.taken(), 3);
    places.leave(id(1));
    places.leave(id(1));
    assert_eq!((places.taken(), places.is_empty()), (1, false));
    places.leave(id(2));
    assert_eq!((places.taken(), places.is_empty()), (0, true));
}

#[test]
fn critical_jobs_weigh_nothing() {
    let mut places = Places::default();
    places.take(id(1), 5);
    assert!(places.fits(0, 5));
    places.take(id(2), 0);
    assert_eq!((places.taken(), places.holders().len()), (5, 1));
}

#[test]
fn a_job_heavier_than_the_limit_runs_alone() {
    let mut places = Places::default();
    assert!(places.fits(9, 4));
    places.take(id(1), 9);
    assert!(!places.fits(1, 4) && !places.fits(9, 4) && places.fits(0, 4));
    places.leave(id(1));
    places.take(id(2), 1);
    assert!(!places.fits(9, 4));
}

#[test]
fn one_place_carries_fifty_that_wait_for_each_other() {
    let mut places = Places::default();
    places.take(id(1), 1);
    for child in 2..=51 {
        assert!(!places.fits(1, 1));
        assert!(places.fits_on(id(child - 1), 1, 1));
        places.take_on(id(child - 1), id(child), 1);
        assert_eq!((places.taken(), places.lent_to(id(child - 1))), (1, Some(id(child))));
    }
    for child in (2..=51).rev() {
        places.leave(id(child));
        assert_eq!((places.taken(), places.lent_to(id(child - 1))), (1, None));
    }
    places.leave(id(1));
    assert!(places.is_empty());
}

#[test]
fn a_lent_place_has_one_user_at_a_time() {
    let mut places = Places::default();
    places.take(id(1), 1);
    places.take_on(id(1), id(2), 1);
    assert!(!places.fits_on(id(1), 1, 1));
    assert!(!places.fits_on(id(9), 1, 1));
    places.leave(id(2));
    assert!(places.fits_on(id(1), 1, 1));
}

#[test]
fn on_a_lent_place_only_what_is_heavier_takes_more() {
    let mut places = Places::default();
    places.take(id(1), 2);
    places.take(id(2), 1);
    assert!(places.fits_on(id(1), 3, 4) && !places.fits_on(id(1), 4, 4));
    assert!(places.fits_on(id(1), 2, 1), "nothing grows, although the limit was lowered");
    places.take_on(id(1), id(3), 3);
    assert_eq!(places.taken(), 4);
    places.leave(id(3));
    assert_eq!(places.taken(), 3);
    places.leave(id(2));
    assert!(places.fits_on(id(1), 9, 4), "alone in its bucket");
}

#[test]
fn whoever_stands_on_a_place_has_it_when_the_lender_leaves() {
    let mut places = Places::default();
    places.take(id(1), 3);
    places.take_on(id(1), id(2), 1);
    places.take_on(id(2), id(3), 2);
    places.leave(id(2));
    assert_eq!((places.taken(), places.lent_to(id(1))), (3, Some(id(3))));
    places.leave(id(1));
    assert_eq!((places.taken(), places.fits_on(id(3), 1, 2)), (2, true));
    places.leave(id(3));
    assert_eq!((places.taken(), places.is_empty()), (0, true));
}

#[test]
fn borrowers_that_are_set_later_count_as_if_they_had_borrowed() {
    let mut places = Places::default();
    for (job, weight) in [(1, 1), (2, 3), (3, 2), (4, 1)] {
        places.take(id(job), weight);
    }
    let chain = BTreeMap::from([(id(2), id(1)), (id(3), id(2))]);
    places.set_borrowed(&chain);
    assert_eq!((places.taken(), places.borrowed()), (4, chain));
    assert_eq!([1, 2, 3, 4].map(|job| places.lent_to(id(job))), [Some(id(2)), Some(id(3)), None, None]);
    places.set_borrowed(&BTreeMap::from([(id(4), id(1))]));
    assert_eq!((places.taken(), places.lent_to(id(2))), (6, None));
}

#[test]
fn a_job_has_one_place_also_after_others_left_theirs() {
    let mut places = Places::default();
    places.take(id(1), 1);
    places.take(id(2), 2);
    places.leave(id(1));
    places.set_borrowed(&BTreeMap::new());
    assert_eq!((places.holders(), places.taken()), (vec![(id(2), 2)], 2));
    places.leave(id(2));
    assert_eq!((places.is_empty(), places.taken()), (true, 0));
}

#[test]
fn a_place_is_free_when_the_last_job_of_its_chain_leaves() {
    let mut places = Places::default();
    places.take(id(1), 1);
    places.take_on(id(1), id(2), 1);
    places.take_on(id(2), id(3), 1);
    assert_eq!(places.leave(id(2)), None, "job 3 keeps the place");
    assert_eq!((places.leave(id(3)), places.leave(id(3))), (Some(id(1)), None));
    assert_eq!(places.leave(id(1)), None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    /// The jobs whose places are not lent run: their weights must fit, unless only one runs.
    #[test]
    fn what_runs_never_exceeds_the_limit(
        limit in 1_u32..8,
        steps in vec((0_u8..3, 1_u64..12, 1_u64..12, 0_u32..5), 1..80),
    ) {
        let mut places = Places::default();
        let mut has: BTreeMap<JobId, u32> = BTreeMap::new();
        for (what, job, lender, weight) in steps {
            let (job, lender) = (id(job), id(lender));
            match what {
                0 if !has.contains_key(&job) && places.fits(weight, limit) => {
                    places.take(job, weight);
                    has.insert(job, weight);
                }
                1 if !has.contains_key(&job) && weight > 0 && places.fits_on(lender, weight, limit) => {
                    places.take_on(lender, job, weight);
                    has.insert(job, weight);
                }
                2 => {
                    places.leave(job);
                    has.remove(&job);
                }
                _ => {}
            }
            let running = has.iter().filter(|(id, weight)| **weight > 0 && places.lent_to(**id).is_none());
            let running: Vec<u64> = running.map(|(_, weight)| u64::from(*weight)).collect();
            let sum: u64 = running.iter().sum();
            prop_assert!(sum <= places.taken());
            prop_assert!(sum <= u64::from(limit) || running.len() == 1, "{running:?}");
        }
        for job in 1..12 {
            places.leave(id(job));
        }
        prop_assert_eq!((places.taken(), places.is_empty()), (0, true));
    }
}
