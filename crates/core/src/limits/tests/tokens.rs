//! Tokens against a naive count of everything that was taken.

use proptest::collection::vec;
use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest,
};

use super::super::{PER_MS_MAX, Rate, TOKENS_MAX, Tokens};

fn rate(count: u32, per_ms: u64, burst: u32) -> Rate {
    Rate { count, per_ms, burst: Some(burst) }
}

fn rates() -> impl Strategy<Value = Rate> {
    let small = (1_u32..8, 1_u64..40, 1_u32..6).prop_map(|(count, per_ms, burst)| rate(count, per_ms, burst));
    let any_size = (1..=TOKENS_MAX, 1..=PER_MS_MAX, 1..=TOKENS_MAX);
    prop_oneof![4 => small, 1 => any_size.prop_map(|(count, per_ms, burst)| rate(count, per_ms, burst))]
}

#[test]
fn a_bucket_fills_at_its_rate_and_holds_its_burst() {
    let mut tokens = Tokens::full(rate(2, 1_000, 3), 0);
    for _ in 0..3 {
        assert!(tokens.fits(1, 0));
        tokens.take(1, 0);
    }
    assert_eq!((tokens.fits(1, 0), tokens.ready_at(1, 0), tokens.left(0)), (false, 500, 0));
    assert_eq!((tokens.fits(1, 499), tokens.fits(1, 500), tokens.left(1_499)), (false, true, 2));
    assert_eq!((tokens.left(1_500), tokens.left(u64::MAX), tokens.is_full(1_500)), (3, 3, true));
    assert_eq!((tokens.ready_at(3, 0), tokens.is_full(1_499)), (1_500, false));
}

#[test]
fn an_empty_bucket_lets_nothing_through_before_its_time() {
    let tokens = Tokens::empty(rate(1, 1_000, 10), 7);
    assert_eq!((tokens.ready_at(1, 7), tokens.ready_at(2, 7), tokens.ready_at(0, 7)), (1_007, 2_007, 7));
}

#[test]
fn a_job_heavier_than_the_burst_waits_until_its_own_weight_is_saved_up() {
    let mut tokens = Tokens::empty(rate(1, 10, 2), 0);
    assert_eq!((tokens.ready_at(5, 0), tokens.left(40), tokens.fits(5, 49)), (50, 2, false));
    tokens.take(5, 60);
    assert_eq!((tokens.left(60), tokens.ready_at(1, 60), tokens.ready_at(5, 60)), (0, 70, 110));
    let mut light = Tokens::empty(rate(1, 10, 2), 0);
    light.take(1, 1_000);
    assert_eq!(light.ready_at(5, 1_000), 1_040, "others are held to the burst");
    let begun = Tokens::empty(rate(1, 10, 2), 0).begin(1_000);
    assert_eq!((begun.left(1_000), begun.ready_at(5, 1_000)), (2, 1_030), "and so is a bucket that begins");
}

#[test]
fn weight_0_never_waits_and_takes_nothing() {
    let mut tokens = Tokens::empty(rate(1, 1_000, 1), 0);
    assert!(tokens.fits(0, 0));
    tokens.take(0, 0);
    assert_eq!(tokens, Tokens::empty(rate(1, 1_000, 1), 0));
}

#[test]
fn what_came_to_nothing_is_given_back_up_to_the_burst() {
    let mut tokens = Tokens::full(rate(1, 100, 2), 0);
    tokens.take(2, 0);
    tokens.give_back(1, 0);
    assert_eq!(tokens.left(0), 1);
    tokens.give_back(2, 0);
    assert_eq!(tokens, Tokens::full(rate(1, 100, 2), 0));
}

#[test]
fn another_rate_keeps_what_was_saved_up() {
    let mut tokens = Tokens::full(rate(10, 1_000, 10), 0);
    tokens.take(4, 0);
    tokens.change(rate(10, 60_000, 8), 0);
    assert_eq!((tokens.left(0), tokens.rate().per_ms), (6, 60_000));
    tokens.change(rate(10, 1_000, 5), 0);
    assert_eq!(tokens.left(0), 5);
}

#[test]
fn a_clock_that_goes_back_brings_nothing() {
    let mut tokens = Tokens::empty(rate(1, 10, 5), 100);
    tokens.take(0, 110);
    assert_eq!((tokens.left(110), tokens.left(50)), (1, 1));
    tokens.take(1, 50);
    assert_eq!((tokens.left(110), tokens.left(120)), (0, 1));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn tokens_come_as_the_naive_count_says(
        rate in (1_u32..50, 1_u64..100, 1_u32..10).prop_map(|(count, per_ms, burst)| rate(count, per_ms, burst)),
        steps in vec((0_u64..60, 0_u32..12), 1..40),
    ) {
        let (mut now, mut shares, per_ms) = (0, 0_u128, u128::from(rate.per_ms));
        let mut tokens = Tokens::empty(rate, 0);
        for (wait, weight) in steps {
            // Millisecond by millisecond, without an end; the burst counts when something is taken.
            shares += (0..wait).map(|_| u128::from(rate.count)).sum::<u128>();
            now += wait;
            let (wanted, burst) = (u128::from(weight) * per_ms, u128::from(rate.most()) * per_ms);
            prop_assert_eq!(tokens.fits(weight, now), shares >= wanted);
            if tokens.fits(weight, now) {
                tokens.take(weight, now);
                shares = shares.min(burst.max(wanted)) - wanted;
            }
            prop_assert_eq!(u128::from(tokens.left(now)), shares.min(burst) / per_ms);
        }
    }

    #[test]
    fn no_time_sees_more_than_the_burst_and_what_comes_meanwhile(
        rate in rates(),
        steps in vec((prop_oneof![Just(0), 0_u64..20, 0..PER_MS_MAX], any::<u16>(), any::<u8>()), 1..40),
    ) {
        let (mut now, mut taken) = (0_u64, Vec::new());
        let mut tokens = Tokens::full(rate, 0);
        for (wait, weight, restart) in steps {
            now += wait;
            if restart < 20 {
                // What was taken before is unknown.
                tokens = Tokens::empty(rate, now);
            }
            // Some are heavier than the burst.
            let weight = u32::from(weight) % rate.most().saturating_add(3);
            if tokens.fits(weight, now) {
                tokens.take(weight, now);
                taken.push((now, weight));
            }
        }
        for (first, &(from, _)) in taken.iter().enumerate() {
            let (mut sum, mut heaviest) = (0_u128, rate.most());
            for &(to, weight) in &taken[first..] {
                sum += u128::from(weight) * u128::from(rate.per_ms);
                heaviest = heaviest.max(weight);
                let most = u128::from(heaviest) * u128::from(rate.per_ms);
                prop_assert!(sum <= most + u128::from(rate.count) * u128::from(to - from));
            }
        }
    }

    #[test]
    fn the_moment_named_is_the_first_that_fits(
        rate in rates(),
        taken in any::<u32>(),
        wait in 0_u64..1_000,
        weight in 1_u32..=TOKENS_MAX,
    ) {
        let mut tokens = Tokens::full(rate, 0);
        tokens.take(taken % TOKENS_MAX, 0);
        let at = tokens.ready_at(weight, wait);
        prop_assert!(tokens.fits(weight, at));
        prop_assert!(at == wait || !tokens.fits(weight, at - 1));
    }

    #[test]
    fn no_change_of_rate_makes_tokens(
        from in rates(), to in rates(), taken in 0..TOKENS_MAX, now in 0..PER_MS_MAX,
    ) {
        let mut tokens = Tokens::full(from, 0);
        tokens.take(taken, 0);
        let before = tokens.left(now);
        tokens.change(to, now);
        prop_assert!(tokens.left(now) <= before);
        prop_assert!(tokens.left(now) <= u64::from(to.most()));
    }
}
