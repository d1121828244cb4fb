//! What upkeep removes.

use jobhall_core::{Event, Time};
use jobhall_store::{Insert, Prune, Pruned, Store, Unit};

use crate::desk::Desk;
use crate::fixture::wait;

/// Only completed jobs go, each counted once; an open one stays in every state.
pub fn a_prune_leaves_open_jobs_alone(store: &dyn Store) {
    let desk = Desk::new(store);
    let (queued, held) = (desk.put(desk.fresh(None)), desk.held(Some("k")));
    let waiting = desk.put(desk.fresh_behind(&held));
    let (done, kept) = (desk.succeeded(None), desk.succeeded(None));
    let ids = [done.id, queued.id, held.id, waiting.id, done.id, desk.id()];
    assert_eq!(desk.prune_jobs(ids), Pruned { jobs: 1, ..Pruned::default() });
    assert_eq!(desk.get(done.id), None);
    for job in [queued, held, waiting, kept] {
        assert_eq!(desk.get(job.id), Some(job));
    }
}

/// With a job goes its history, and nobody else's.
pub fn a_prune_takes_the_attempts_along(store: &dyn Store) {
    let desk = Desk::new(store);
    let lost = || {
        let accepted = desk.accepted(None);
        desk.apply(desk.decide(&accepted, &Event::LeaseEnd))
    };
    let (gone, kept) = (lost(), lost());
    desk.apply(desk.cancel(&gone));
    desk.prune_jobs([gone.id, kept.id]);
    assert_eq!(wait(store.attempts(gone.id)), Ok(Vec::new()));
    assert_eq!(wait(store.attempts(kept.id)).map(|attempts| attempts.len()), Ok(1));
}

/// What was removed cannot answer any more.
pub fn a_pruned_success_is_not_reused(store: &dyn Store) {
    let desk = Desk::new(store);
    let success = desk.succeeded(Some("k"));
    desk.prune_jobs([success.id]);
    let insert = Insert { job: desk.fresh(Some("k")), reuse_since: Some(Time::EPOCH) };
    desk.unit(Unit { inserts: vec![insert], ..Unit::default() }).expect("the success is gone");
    let completed = wait(store.completed(None, 10)).expect("completed jobs can be read");
    assert_eq!(completed, []);
}

/// A prune of nothing does nothing.
pub fn an_empty_prune_removes_nothing(store: &dyn Store) {
    let desk = Desk::new(store);
    let done = desk.succeeded(None);
    assert_eq!(desk.prune(Prune::default()), Pruned::default());
    assert_eq!(desk.get(done.id), Some(done));
    let page = wait(store.feed(0, 10)).expect("the feed can be read");
    assert_eq!((page.rows.len(), page.pruned_to), (3, 0));
}
