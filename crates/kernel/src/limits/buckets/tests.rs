//! What the buckets promise by themselves: lending, forgetting, and changes of what is configured.

use jobhall_core::limits::{KeyExpression, Limit, Rate};
use jobhall_core::{JobSpec, Json, QueueName, Time, TypeName};

use super::{BucketId, Hindrance, LimitOf, Limits, SPARES, Share};
use crate::api::time::Mono;
use crate::matching::board::{Board, ClassId, Rank};
use jobhall_core::JobId;

fn id(number: u64) -> JobId {
    JobId::new(number).unwrap()
}

fn rank(number: u64) -> Rank {
    Rank { priority: 100, run_at: Time::EPOCH, id: id(number) }
}

fn class() -> ClassId {
    Board::default().class_of(&spec("x", 1))
}

fn spec(value: &str, throttle_factor: u32) -> JobSpec {
    let (job_type, queue) = (TypeName::new("t").unwrap(), QueueName::new("q").unwrap());
    let params = Json::params(&format!("{{\"v\":\"{value}\"}}")).unwrap();
    JobSpec { params, throttle_factor, ..JobSpec::plain(job_type, queue, Time::EPOCH) }
}

fn of() -> LimitOf {
    LimitOf::Queue(QueueName::new("q").unwrap())
}

fn limit(concurrency: Option<u32>, rate: Option<Rate>) -> Limit {
    Limit { by: Some(KeyExpression::parse("params.v").unwrap()), concurrency, rate }
}

fn limits(limit: Limit) -> Limits {
    let mut limits = Limits::default();
    limits.configure(&of(), &[limit], false, Mono(0));
    limits
}

fn share(limits: &mut Limits, value: &str) -> Share {
    limits.share(&spec(value, 1), Mono(0)).unwrap()
}

/// A job takes its share, or waits in the bucket that it does not get into.
fn take(limits: &mut Limits, number: u64, share: &Share) -> Result<(), (BucketId, Hindrance)> {
    let lenders = limits.lenders(id(number));
    limits.take(rank(number), share, &lenders, Mono(0))
}

#[test]
fn a_place_is_lent_to_one_at_a_time_down_a_chain_of_any_depth() {
    let mut limits = limits(limit(Some(1), None));
    let share = share(&mut limits, "a");
    take(&mut limits, 1, &share).unwrap();
    for child in 2..=51 {
        assert_eq!(take(&mut limits, child, &share), Err((share.buckets[0], Hindrance::Places)));
        limits.lend(id(child - 1), &[id(child), id(child + 100)]);
        take(&mut limits, child, &share).unwrap();
        let other = take(&mut limits, child + 100, &share);
        assert_eq!(other, Err((share.buckets[0], Hindrance::Places)), "one at a time");
    }
    assert_eq!(limits.lent_to(id(1), &share), Some(id(2)));
    for child in (2..=51).rev() {
        limits.leave(id(child), &share);
        assert_eq!(limits.lent_to(id(child - 1), &share), None);
    }
    assert!(limits.has_free_place(share.buckets[0], id(1)));
    take(&mut limits, 102, &share).unwrap();
    limits.end_lending(id(1));
    limits.leave(id(102), &share);
    assert!(take(&mut limits, 102, &share).is_err(), "it lends nothing any more");
}

#[test]
fn a_borrower_waits_behind_nobody() {
    let mut limits = limits(limit(Some(2), None));
    let light = share(&mut limits, "a");
    let heavy = Share { weight: 2, ..light.clone() };
    take(&mut limits, 1, &light).unwrap();
    let (at, why) = take(&mut limits, 2, &heavy).unwrap_err();
    limits.wait(at, class(), rank(2), 2, why);
    assert_eq!(take(&mut limits, 3, &light), Err((at, Hindrance::Behind(id(2)))));
    limits.lend(id(1), &[id(3)]);
    take(&mut limits, 3, &light).unwrap();
}

#[test]
fn a_job_that_is_gone_neither_lends_nor_borrows() {
    let mut limits = limits(limit(Some(1), None));
    limits.lend(id(1), &[id(2), id(3)]);
    limits.lend(id(9), &[id(2)]);
    limits.forget(id(2));
    assert_eq!(
        (limits.lenders(id(2)), limits.borrowers(id(1)), limits.borrowers(id(9))),
        (vec![], &[id(3)][..], &[][..])
    );
    limits.forget(id(1));
    assert_eq!(limits.lenders(id(3)), []);
}

#[test]
fn a_bucket_is_forgotten_when_it_has_nothing_to_remember() {
    let rate = Rate { count: 1, per_ms: 1_000, burst: Some(2) };
    let mut limits = limits(limit(Some(5), Some(rate)));
    let a = share(&mut limits, "a");
    take(&mut limits, 1, &a).unwrap();
    limits.drop_share(Some(id(1)), &a, &[], Mono(0));
    assert_eq!((limits.buckets.len(), limits.idle.len()), (1, 1), "its rate remembers the token");
    let b = share(&mut limits, "b");
    limits.drop_share(Some(id(2)), &b, &[], Mono(0));
    assert_eq!(limits.buckets.len(), 1, "nothing was taken of this one");
    let again = share(&mut limits, "a");
    assert_eq!((&again, limits.idle.len()), (&a, 0));
    limits.drop_share(Some(id(1)), &a, &[], Mono(999));
    limits.share(&spec("c", 1), Mono(1_000)).unwrap();
    assert_eq!((limits.buckets.len(), limits.idle.len()), (1, 0), "the token has come back");
}

#[test]
fn a_bucket_that_was_forgotten_lets_no_heavy_job_through_too_early() {
    let rate = Rate { count: 1, per_ms: 1_000, burst: Some(1) };
    let mut limits = limits(limit(None, Some(rate)));
    let heavy = limits.share(&spec("a", 3), Mono(5_000)).unwrap();
    limits.take(rank(1), &heavy, &[], Mono(7_000)).unwrap();
    limits.drop_share(Some(id(1)), &heavy, &[], Mono(8_000));
    assert_eq!(limits.buckets.len(), 0, "full again");
    let again = limits.share(&spec("a", 3), Mono(8_000)).unwrap();
    let (_, why) = limits.take(rank(2), &again, &[], Mono(8_000)).unwrap_err();
    assert_eq!(why, Hindrance::Tokens(Mono(10_000)), "three seconds after the first");
}

#[test]
fn a_token_that_comes_back_late_is_not_added_to_what_came_meanwhile() {
    let rate = Rate { count: 1, per_ms: 1_000, burst: Some(1) };
    let mut limits = limits(limit(None, Some(rate)));
    let share = share(&mut limits, "a");
    limits.take(rank(1), &share, &[], Mono(0)).unwrap();
    limits.take(rank(2), &share, &[], Mono(1_000)).unwrap();
    limits.give_back(id(1), &share, limits.version(), Mono(1_010));
    assert!(limits.take(rank(3), &share, &[], Mono(1_010)).is_err(), "the second began a moment ago");
    limits.take(rank(3), &share, &[], Mono(2_000)).unwrap();
    limits.give_back(id(3), &share, limits.version(), Mono(2_010));
    limits.take(rank(4), &share, &[], Mono(2_010)).unwrap();
}

#[test]
fn a_changed_limit_keeps_what_its_buckets_know_and_a_removed_one_takes_them_along() {
    let mut limits = limits(limit(Some(1), None));
    let a = share(&mut limits, "a");
    take(&mut limits, 1, &a).unwrap();
    limits.configure(&of(), &[limit(Some(2), None)], false, Mono(0));
    assert_eq!(share(&mut limits, "a").buckets, a.buckets);
    take(&mut limits, 2, &a).unwrap();
    assert!(take(&mut limits, 3, &a).is_err());
    assert!(limits.has(&of(), &[limit(Some(2), None)]) && !limits.has(&of(), &[limit(Some(1), None)]));
    limits.configure(&of(), &[], false, Mono(0));
    assert_eq!(
        (limits.buckets.len(), limits.rules.len(), limits.share(&spec("a", 1), Mono(0))),
        (0, 0, None)
    );
    take(&mut limits, 3, &a).unwrap();
    limits.drop_share(Some(id(3)), &a, &[], Mono(0));
}

#[test]
fn of_buckets_without_jobs_and_rate_the_latest_are_kept() {
    let mut limits = limits(limit(Some(1), None));
    let first = share(&mut limits, "first");
    limits.drop_share(Some(id(1)), &first, &[], Mono(0));
    assert_eq!(share(&mut limits, "first"), first, "the same bucket again");
    for n in 0..2 * SPARES {
        let other = share(&mut limits, &n.to_string());
        limits.drop_share(Some(id(2)), &other, &[], Mono(0));
    }
    assert_eq!((limits.buckets.len(), limits.spares.len()), (SPARES + 1, SPARES), "one has a job");
    limits.drop_share(Some(id(1)), &first, &[], Mono(0));
    assert_eq!(limits.buckets.len(), SPARES);
}

#[test]
fn weight_0_has_no_share() {
    let mut limits = limits(limit(Some(1), None));
    assert_eq!(limits.share(&spec("a", 0), Mono(0)), None);
}

#[test]
fn values_of_every_length_are_told_apart() {
    let texts: Vec<String> = (0..60).map(|length| "x".repeat(length)).collect();
    let mut seen = std::collections::HashSet::from([super::rules::Value::of(None)]);
    for text in &texts {
        assert!(seen.insert(super::rules::Value::of(Some(text))), "{text}");
        assert!(seen.contains(&super::rules::Value::of(Some(text))));
    }
    assert!(seen.insert(super::rules::Value::of(Some("x\0"))), "not the same as without what follows");
}
