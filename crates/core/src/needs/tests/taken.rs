//! What is taken: given back exactly, never below zero, and never more than there is by way of asking first.

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, proptest};
use proptest::sample::Index;

use super::super::{Number, Taken, Uses};
use super::{abilities, uses};

const LARGEST: &str = "gpu=9223372036854775.807";

fn taken(text: &str) -> Taken {
    let mut taken = Taken::default();
    taken.take(&uses(text));
    taken
}

#[test]
fn what_is_left_is_what_nobody_uses() {
    let has = abilities("gpu=2, mem_gb=8, os=linux, debt=-1");
    let taken = taken("gpu=1, mem_gb=6");
    for (asked, left) in [
        ("", true),
        ("gpu=1, mem_gb=2", true),
        ("gpu=1, mem_gb=2.001", false),
        ("gpu=2", false),
        ("disk=1", false),
        ("gpu=1, os=1", false),
        ("debt=0.001", false),
    ] {
        assert_eq!(taken.leaves(&has, &uses(asked)), left, "{asked}");
        assert_eq!(taken.missing(&has, &uses(asked)).is_empty(), left, "{asked}");
    }
}

#[test]
fn no_more_is_given_back_than_was_taken() {
    let mut taken = taken("gpu=1, mem_gb=1");
    let before = taken.clone();
    for more in ["gpu=1, mem_gb=2", "disk=1", "gpu=1, disk=1"] {
        assert!(!taken.give_back(&uses(more)), "{more}");
        assert_eq!(taken, before, "{more}");
    }
    assert!(taken.give_back(&uses("gpu=1, mem_gb=0.5")));
    assert_eq!(taken.to_string(), "mem_gb=0.5");
    assert!(taken.give_back(&uses("mem_gb=0.5")));
    assert!(taken.is_empty() && taken == Taken::default());
    assert!(!taken.give_back(&uses("gpu=0.001")));
}

#[test]
fn a_worker_that_came_back_with_less_has_nothing_left() {
    let (has, mut taken) = (abilities("gpu=1"), taken("gpu=3, disk=4"));
    assert!(!taken.leaves(&has, &uses("gpu=0.001")));
    assert_eq!(taken.missing(&has, &uses("gpu=1"))[0].to_string(), "gpu=1: 0 of 1 left");
    assert!(taken.give_back(&uses("gpu=3, disk=4")));
    assert!(taken.leaves(&has, &uses("gpu=1")));
}

#[test]
fn the_largest_amounts_do_not_overflow() {
    let (has, all) = (abilities(LARGEST), uses(LARGEST));
    let mut taken = Taken::default();
    for _ in 0..3 {
        taken.take(&all);
    }
    assert_eq!(taken.to_string(), LARGEST);
    assert!(!taken.leaves(&has, &uses("gpu=0.001")));
    for _ in 0..3 {
        assert!(taken.give_back(&all));
    }
    assert!(taken.leaves(&has, &all));
    assert!(!taken.leaves_beside(&has, &all, &all));
}

#[test]
fn what_is_missing_is_said_with_what_is_left() {
    let has = abilities("gpu=2, mem_gb=8");
    let missing = taken("gpu=1.5").missing(&has, &uses("disk=1, gpu=1, mem_gb=8"));
    let said: Vec<_> = missing.iter().map(ToString::to_string).collect();
    assert_eq!(said, ["disk=1: 0 of 0 left", "gpu=1: 0.5 of 2 left"]);
}

#[test]
fn beside_a_job_that_waits_only_what_it_does_not_need_is_taken() {
    let (has, large) = (abilities("cpu=8, gpu=4, mem_gb=100"), uses("gpu=4, mem_gb=10"));
    let taken = taken("gpu=1, mem_gb=50");
    for (asked, beside) in [
        ("", true),
        ("cpu=8", true),
        ("gpu=0.001", false),
        ("mem_gb=40", true),
        ("mem_gb=40.001", false),
        ("cpu=9", false),
    ] {
        assert_eq!(taken.leaves_beside(&has, &uses(asked), &large), beside, "{asked}");
    }
}

/// Amounts of two resources, from a thousandth to more than there is.
fn job() -> impl Strategy<Value = Uses> {
    (1_i64..6_000, 1_i64..6_000).prop_map(|(gpu, mem)| {
        let (gpu, mem) = (Number::from_thousandths(gpu), Number::from_thousandths(mem));
        uses(&format!("gpu={gpu}, mem_gb={mem}"))
    })
}

fn counted(running: &[Uses]) -> Taken {
    running.iter().fold(Taken::default(), |mut taken, uses| {
        taken.take(uses);
        taken
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn what_was_taken_and_given_back_ends_where_it_began(
        steps in vec((job(), any::<bool>(), any::<Index>()), 0..60),
    ) {
        let has = abilities("gpu=5, mem_gb=5.5");
        let (mut taken, mut running) = (Taken::default(), Vec::<Uses>::new());
        for (job, gives_back, which) in steps {
            if gives_back && !running.is_empty() {
                prop_assert!(taken.give_back(&running.swap_remove(which.index(running.len()))));
            } else if taken.leaves(&has, &job) {
                taken.take(&job);
                running.push(job);
            }
            prop_assert_eq!(&counted(&running), &taken, "a recount gives the same");
            prop_assert!(taken.iter().all(|(_, amount)| (1..=5_500).contains(&amount.thousandths())));
        }
        for job in running {
            prop_assert!(taken.give_back(&job));
        }
        prop_assert_eq!(taken, Taken::default());
    }

    #[test]
    fn a_job_with_a_worker_to_itself_starts_when_those_before_it_have_ended(
        before in vec(job(), 1..8),
        later in vec((job(), any::<bool>()), 0..40),
        large in job(),
    ) {
        let has = abilities("gpu=6, mem_gb=6");
        let mut taken = Taken::default();
        let (mut first, mut others) = (Vec::new(), Vec::new());
        for job in before.into_iter().filter(|job| job.fits(&has)) {
            if taken.leaves(&has, &job) {
                taken.take(&job);
                first.push(job);
            }
        }
        for (job, one_ends) in later {
            if taken.leaves_beside(&has, &job, &large) {
                taken.take(&job);
                others.push(job);
            }
            if one_ends && let Some(ended) = first.pop() {
                prop_assert!(taken.give_back(&ended));
            }
        }
        for ended in first {
            prop_assert!(taken.give_back(&ended));
        }
        prop_assert!(taken.leaves(&has, &large), "whatever came beside it is still there: {}", others.len());
    }
}
