//! Admission without a kernel.

use jobhall_core::limits::Rate;
use jobhall_core::{JobStatus, TypeName};

use super::*;
use crate::fixtures::{id, rank, spec, time};
use crate::limits::Hindrance;
use crate::matching::board::Board;

fn of() -> LimitOf {
    LimitOf::Type(TypeName::new("t").unwrap())
}

/// Admission with this limit on the type of all jobs.
fn admission(concurrency: Option<u32>, rate: Option<Rate>) -> Admission {
    let mut admission = Admission::default();
    admission.limits.configure(&of(), &[Limit { by: None, concurrency, rate }], false, Mono(0));
    admission
}

fn job(n: u64) -> Job {
    Job { id: id(n), spec: Arc::new(spec()), status: JobStatus::queued(time(0), time(0)) }
}

fn share(admission: &mut Admission) -> Share {
    admission.limits.share(&spec(), Mono(0)).unwrap()
}

/// Whether this job gets its share.
fn takes(admission: &mut Admission, n: u64, share: &Share, now: u64) -> bool {
    admission.take(rank(n), share, &[], Mono(now)).is_some()
}

fn classes() -> [ClassId; 2] {
    let mut board = Board::default();
    let other = JobSpec { job_type: TypeName::new("other").unwrap(), ..spec() };
    [spec(), other].map(|spec| board.enter_job(&spec).0)
}

#[test]
fn classes_that_become_ready_during_a_sweep_wait_for_its_end() {
    let (mut admission, [one, other]) = (Admission::default(), classes());
    assert!(!admission.wakes_later(one), "there is no sweep");
    assert!(admission.begin_sweep() && admission.is_sweeping());
    assert!(admission.wakes_later(other) && admission.wakes_later(one) && admission.wakes_later(one));
    assert!(!admission.begin_sweep(), "a sweep inside of another is part of it");
    assert_eq!(admission.end_sweep(), BTreeSet::from([one, other]));
    assert!(!admission.is_sweeping() && admission.end_sweep().is_empty());
}

#[test]
fn a_vacancy_that_is_not_filled_yet_is_due_before_any_token() {
    let rate = Rate { count: 1, per_ms: 1_000, burst: Some(1) };
    let mut admission = admission(None, Some(rate));
    assert_eq!(admission.next_due(), None);
    let share = share(&mut admission);
    assert!(takes(&mut admission, 1, &share, 0));
    let (at, why) = admission.limits.take(rank(2), &share, &[], Mono(0)).unwrap_err();
    assert_eq!(why, Hindrance::Tokens(Mono(1_000)));
    admission.limits.wait(at, classes()[0], rank(2), 1, why);
    assert_eq!(admission.next_due(), Some(Mono(1_000)));
    [4, 3, 4].into_iter().for_each(|n| admission.fill_later(VacancyId(n)));
    assert_eq!(admission.next_due(), Some(Mono(0)));
    assert_eq!(admission.take_unfilled(), BTreeSet::from([VacancyId(3), VacancyId(4)]));
    assert_eq!(admission.next_due(), Some(Mono(1_000)));
    admission.mark_due_dirty(Mono(999));
    assert_eq!(admission.next_due(), Some(Mono(1_000)));
    admission.mark_due_dirty(Mono(1_000));
    assert_eq!(admission.next_due(), None);
}

#[test]
fn a_new_job_is_tracked_if_it_is_assigned_or_has_a_share() {
    let mut admission = admission(Some(1), None);
    let share = share(&mut admission);
    admission.track_pending(&job(1), Shared::Free, false);
    admission.track_pending(&job(2), Shared::Free, true);
    admission.track_pending(&job(3), Shared::of(share.clone()), false);
    assert_eq!(admission.take_pending(id(1)), None);
    assert_eq!(admission.take_pending(id(2)), Some((Shared::Free, true)));
    assert_eq!(admission.take_pending(id(3)), Some((Shared::of(share), false)));
    assert_eq!(admission.take_pending(id(3)), None, "it is taken once");
}

#[test]
fn a_tracked_job_that_was_not_stored_returns_its_place_only_if_it_took_one() {
    let mut admission = admission(Some(1), None);
    let [one, two, three] = [1, 2, 3].map(|_| share(&mut admission));
    let version = admission.version();
    assert!(takes(&mut admission, 1, &one, 0));
    admission.track_pending(&job(1), Shared::of(one), true);
    admission.track_pending(&job(2), Shared::of(two), false);
    admission.drop_pending(id(2), version, Mono(0));
    assert!(!takes(&mut admission, 3, &three, 0));
    admission.drop_pending(id(1), version, Mono(0));
    assert!(takes(&mut admission, 3, &three, 0));
    assert!(admission.pending.is_empty());
}

#[test]
fn a_token_is_returned_only_under_the_limits_it_was_taken_from() {
    let rate = Rate { count: 1, per_ms: 1_000, burst: Some(1) };
    for (stale, returned) in [(false, true), (true, false)] {
        let mut admission = admission(None, Some(rate));
        let [one, two] = [1, 2].map(|_| share(&mut admission));
        assert!(takes(&mut admission, 1, &one, 0));
        admission.track_pending(&job(1), Shared::of(one), true);
        let version = admission.version().wrapping_sub(u64::from(stale));
        admission.drop_pending(id(1), version, Mono(0));
        assert_eq!(takes(&mut admission, 2, &two, 0), returned);
    }
}

#[test]
fn a_bucket_whose_only_job_was_not_stored_is_removed() {
    let rate = Rate { count: 1, per_ms: 1_000, burst: Some(1) };
    let mut admission = admission(None, Some(rate));
    let share = share(&mut admission);
    let at = share.buckets[0];
    admission.track_pending(&job(1), Shared::of(share), false);
    assert!(admission.limits().look(at).is_some());
    admission.drop_pending(id(1), admission.version(), Mono(0));
    assert!(admission.limits().look(at).is_none());
}

#[test]
fn limits_that_are_set_meanwhile_apply_to_tracked_jobs() {
    let mut admission = Admission::default();
    admission.track_pending(&job(1), Shared::Free, true);
    let limit = Limit { by: None, concurrency: Some(1), rate: None };
    admission.limits.configure(&of(), &[limit], false, Mono(0));
    admission.reshare_pending(Mono(0));
    let other = share(&mut admission);
    assert!(!takes(&mut admission, 2, &other, 0), "the job in flight has the place");
    admission.drop_pending(id(1), admission.version(), Mono(0));
    assert!(takes(&mut admission, 2, &other, 0));
}

#[test]
fn a_share_whose_spec_is_not_in_memory_is_unknown_and_leaves_its_place() {
    let mut admission = admission(Some(1), None);
    let [one, two] = [1, 2].map(|_| share(&mut admission));
    assert!(takes(&mut admission, 1, &one, 0));
    let mut shared = Shared::of(one);
    admission.limits.reshare(id(1), Some(&spec()), &mut shared, true, Mono(0));
    assert!(shared.get().is_some() && !takes(&mut admission, 2, &two, 0), "it keeps its place");
    admission.limits.reshare(id(1), None, &mut shared, true, Mono(0));
    assert_eq!(shared, Shared::Unread);
    assert!(takes(&mut admission, 2, &two, 0));
}

#[test]
fn a_job_that_has_not_taken_its_share_gets_no_place_by_a_change_of_limits() {
    let mut admission = admission(Some(1), None);
    let mut shared = Shared::Free;
    admission.limits.reshare(id(1), Some(&spec()), &mut shared, false, Mono(0));
    let other = share(&mut admission);
    assert_eq!(shared, Shared::of(other.clone()));
    assert!(takes(&mut admission, 2, &other, 0));
}

#[test]
fn jobs_are_read_up_to_a_bound_and_not_while_a_share_is_unknown() {
    let mut admission = Admission::default();
    admission.reading.extend((1..READS as u64).map(id));
    assert!(admission.can_read());
    admission.unknown.insert(id(500));
    assert!(!admission.can_read());
    admission.unknown.clear();
    admission.reading.insert(id(600));
    assert!(!admission.can_read());
}
