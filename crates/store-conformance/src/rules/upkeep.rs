//! Deletion by maintenance.

use jobhall_core::Time;
use jobhall_store::{Insert, Prune, Pruned, RemovedJob, ReuseRange, Store, Unit};

use crate::client::Client;
use crate::fixture::wait;

/// Only completed jobs are removed, and each is named once with its type and queue; an open job remains in every state.
pub fn a_prune_leaves_open_jobs_alone(store: &dyn Store) {
    let client = Client::new(store);
    let (queued, held) = (client.put(client.fresh(None)), client.held(Some("k")));
    let waiting = client.put(client.fresh_behind(&held));
    let (done, kept) = (client.succeeded(None), client.succeeded(None));
    let ids = [done.id, queued.id, held.id, waiting.id, done.id, client.id()];
    let (job_type, queue) = (done.spec.job_type.clone(), done.spec.queue.clone());
    let removed = RemovedJob { id: done.id, job_type, queue };
    assert_eq!(client.prune_jobs(ids), Pruned { jobs: vec![removed], ..Pruned::default() });
    assert_eq!(client.get(done.id), None);
    for job in [queued, held, waiting, kept] {
        assert_eq!(client.get(job.id), Some(job));
    }
}

/// The history of a deleted job is deleted too, and no other history.
pub fn a_prune_takes_the_attempts_along(store: &dyn Store) {
    let client = Client::new(store);
    let lost = || {
        let accepted = client.accepted(None);
        client.apply(client.lease_end(&accepted))
    };
    let (gone, kept) = (lost(), lost());
    client.apply(client.cancel(&gone));
    client.prune_jobs([gone.id, kept.id]);
    assert_eq!(wait(store.attempts(gone.id, 0, usize::MAX)), Ok(Vec::new()));
    assert_eq!(wait(store.attempts(kept.id, 0, usize::MAX)).map(|attempts| attempts.len()), Ok(1));
}

/// A removed success is not reused.
pub fn a_pruned_success_is_not_reused(store: &dyn Store) {
    let client = Client::new(store);
    let success = client.succeeded(Some("k"));
    client.prune_jobs([success.id]);
    let insert = Insert { job: client.fresh(Some("k")), reuse: Some(ReuseRange::since(Time::EPOCH)) };
    client.unit(Unit { inserts: vec![insert], ..Unit::default() }).expect("the success was removed");
    let completed = wait(store.completed(None, 10)).expect("completed jobs can be read");
    assert_eq!(completed.jobs, []);
}

/// An empty prune removes nothing.
pub fn an_empty_prune_removes_nothing(store: &dyn Store) {
    let client = Client::new(store);
    let done = client.succeeded(None);
    assert_eq!(client.prune(Prune::default()), Pruned::default());
    assert_eq!(client.get(done.id), Some(done));
    let page = wait(store.feed(0, 10)).expect("the feed can be read");
    assert_eq!((page.rows.len(), page.pruned_to), (3, 0));
}
