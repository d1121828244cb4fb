//! What is left: taken and given back exactly, never below zero and never above the ability.

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, proptest};
use proptest::sample::Index;

use super::super::{Left, Number, Uses};
use super::{abilities, uses};

fn used_of(left: &Left, name: &str) -> Option<String> {
    left.iter().find(|(found, ..)| *found == name).map(|(_, used, total)| format!("{used}/{total}"))
}

#[test]
fn of_a_job_that_does_not_fit_nothing_is_taken() {
    let mut left = Left::all(&abilities("gpu=2, mem_gb=8, os=linux"));
    assert!(left.take(&uses("gpu=1, mem_gb=6")));
    let before = left.clone();
    for asked in ["gpu=1, mem_gb=2.001", "gpu=2", "disk=1", "gpu=1, os=1"] {
        assert!(!left.has(&uses(asked)), "{asked}");
        assert!(!left.take(&uses(asked)), "{asked}");
        assert_eq!(left, before, "{asked}");
    }
    assert!(left.take(&uses("gpu=1, mem_gb=2")));
    assert_eq!(used_of(&left, "mem_gb").as_deref(), Some("8/8"));
    assert_eq!(used_of(&left, "os"), None);
    assert!(left.take(&uses("")), "nothing is always left");
}

#[test]
fn no_more_is_given_back_than_was_taken() {
    let mut left = Left::all(&abilities("gpu=2, mem_gb=8"));
    assert!(left.take(&uses("gpu=1, mem_gb=1")));
    let before = left.clone();
    assert!(!left.give_back(&uses("gpu=1, mem_gb=2")));
    assert_eq!(left, before);
    assert!(left.give_back(&uses("gpu=1, mem_gb=1")));
    assert!(left.is_whole());
    assert!(!left.give_back(&uses("gpu=0.001")));
}

#[test]
fn an_attempt_that_runs_already_is_counted_even_where_it_no_longer_fits() {
    let mut left = Left::all(&abilities("gpu=1"));
    left.occupy(&uses("gpu=3, disk=4"));
    assert_eq!(used_of(&left, "gpu").as_deref(), Some("3/1"));
    assert!(!left.has(&uses("gpu=0.001")));
    assert_eq!(left.missing(&uses("gpu=1"))[0].left, Number::from_thousandths(0));
    assert!(left.give_back(&uses("gpu=3, disk=4")));
    assert!(left.has(&uses("gpu=1")));
}

#[test]
fn the_largest_amounts_do_not_overflow() {
    let all = uses("gpu=9223372036854775.807");
    let mut left = Left::all(&abilities("gpu=9223372036854775.807"));
    for _ in 0..3 {
        left.occupy(&all);
    }
    assert_eq!(used_of(&left, "gpu").as_deref(), Some("9223372036854775.807/9223372036854775.807"));
    for _ in 0..3 {
        assert!(left.give_back(&all));
    }
    assert!(left.take(&all) && !left.has(&uses("gpu=0.001")));
}

#[test]
fn what_is_missing_is_said_with_what_is_left() {
    let mut left = Left::all(&abilities("gpu=2, mem_gb=8, small=-1"));
    assert!(left.take(&uses("gpu=1.5")));
    let missing = left.missing(&uses("disk=1, gpu=1, mem_gb=8, small=1"));
    let said: Vec<_> = missing.iter().map(ToString::to_string).collect();
    assert_eq!(said, ["disk=1: 0 of 0 left", "gpu=1: 0.5 of 2 left", "small=1: 0 of 0 left"]);
    assert!(left.missing(&uses("gpu=0.5")).is_empty());
}

/// Amounts of two resources, from a thousandth to more than there is.
fn job() -> impl Strategy<Value = Uses> {
    (1_i64..6_000, 1_i64..6_000).prop_map(|(gpu, mem)| {
        let (gpu, mem) = (Number::from_thousandths(gpu), Number::from_thousandths(mem));
        uses(&format!("gpu={gpu}, mem_gb={mem}"))
    })
}

fn bounded(left: &Left) -> bool {
    left.iter().all(|(_, used, total)| used.thousandths() >= 0 && used <= total)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn what_was_taken_and_given_back_ends_where_it_began(
        steps in vec((job(), any::<bool>(), any::<Index>()), 0..60),
    ) {
        let whole = Left::all(&abilities("gpu=5, mem_gb=5.5"));
        let mut left = whole.clone();
        let mut running: Vec<Uses> = Vec::new();
        for (job, gives_back, which) in steps {
            if gives_back && !running.is_empty() {
                prop_assert!(left.give_back(&running.swap_remove(which.index(running.len()))));
            } else {
                let fitted = left.missing(&job).is_empty();
                prop_assert_eq!(left.has(&job), fitted);
                prop_assert_eq!(left.take(&job), fitted);
                running.extend(fitted.then_some(job));
            }
            prop_assert!(bounded(&left));
            let mut counted = whole.clone();
            prop_assert!(running.iter().all(|uses| counted.take(uses)), "counted anew it is the same");
            prop_assert_eq!(&counted, &left);
        }
        for job in running {
            prop_assert!(left.give_back(&job));
        }
        prop_assert_eq!(left, whole);
    }
}
