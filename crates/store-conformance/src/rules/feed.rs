//! The feed: one packed row per commit, numbered without gaps.

use jobhall_core::{Job, StateName};
use jobhall_store::{FeedEntry, FeedPage, FeedRow, Prune, Store, Unit};

use crate::client::Client;
use crate::fixture::wait;
use crate::samples::{at, changing, id, insert, inserting, passed, queued, spec};

fn entry(job: &Job, rev: u32, state: StateName) -> FeedEntry {
    FeedEntry { id: job.id, rev, state }
}

fn page(store: &dyn Store, after: u64, limit: usize) -> FeedPage {
    wait(store.feed(after, limit)).expect("the feed can be read")
}

fn numbers(page: &FeedPage) -> Vec<u64> {
    page.rows.iter().map(|row| row.n).collect()
}

/// Stores one job per time, each in a separate commit; the feed has a row for each.
fn rows_at(store: &dyn Store, moments: &[u64]) {
    let client = Client::new(store);
    for &ms in moments {
        client.put(queued(client.id(), spec("t", None, at(ms))));
    }
}

/// A commit of many units leaves one row: per unit its changes, then its inserts, with rev and state after them.
pub fn one_row_per_commit_with_its_changes_in_order(store: &dyn Store) {
    let client = Client::new(store);
    let (held, waiting) = (client.held(None), client.put(client.fresh(None)));
    let (new, other) = (client.fresh(None), client.fresh(None));
    let changes = vec![client.claim(&waiting, "w"), client.report(&held, &passed("1"))];
    let first = Unit { changes, ..inserting(new.clone()) };
    let committed = client.commit([first, inserting(other.clone())]);
    let entries = vec![
        entry(&waiting, 2, StateName::Assigned),
        entry(&held, 3, StateName::Succeeded),
        entry(&new, 1, StateName::Queued),
        entry(&other, 1, StateName::Queued),
    ];
    let row = page(store, 3, 10).rows;
    assert_eq!(committed.feed, Some(4));
    assert_eq!(row.iter().map(|row| (row.n, &row.entries)).collect::<Vec<_>>(), [(4, &entries)]);
}

/// The time of a row is the latest time among its changes, wherever in the commit that change is.
pub fn the_moment_of_a_row_is_its_latest_change(store: &dyn Store) {
    let client = Client::new(store);
    let jobs = [300, 900, 600].map(|ms| queued(client.id(), spec("t", None, at(ms))));
    client.commit(jobs.map(inserting));
    let moments: Vec<_> = page(store, 0, 10).rows.iter().map(|row| row.at).collect();
    assert_eq!(moments, [at(900)]);
}

/// Numbers start at 1 and have no gaps; the commit returns its number.
pub fn numbers_are_dense_from_one(store: &dyn Store) {
    let client = Client::new(store);
    for n in 1..=5 {
        assert_eq!(client.commit([inserting(client.fresh(None))]).feed, Some(n));
        assert_eq!(client.commit([Unit::default()]).feed, None);
    }
    assert_eq!(numbers(&page(store, 0, 10)), [1, 2, 3, 4, 5]);
}

/// A refused unit is not in the feed, and a commit without applied units has neither row nor number.
pub fn refused_units_leave_no_entry(store: &dyn Store) {
    let client = Client::new(store);
    let holder = client.put(client.fresh(Some("k")));
    let refused = || Unit {
        inserts: vec![insert(client.fresh(None)), insert(client.fresh(Some("k")))],
        ..Unit::default()
    };
    assert_eq!(client.commit([refused(), refused()]).feed, None);
    let committed = client.commit([refused(), changing([client.claim(&holder, "w")]), refused()]);
    assert_eq!(committed.feed, Some(2));
    let rows: Vec<_> = page(store, 1, 10).rows.into_iter().map(|row| (row.n, row.entries)).collect();
    assert_eq!(rows, [(2, vec![entry(&holder, 2, StateName::Assigned)])]);
}

/// A page has the rows after a number, up to a limit, and is empty at the end.
pub fn a_page_begins_after_a_number_and_has_a_limit(store: &dyn Store) {
    rows_at(store, &[10, 20, 30, 40, 50]);
    assert_eq!(numbers(&page(store, 0, 2)), [1, 2]);
    assert_eq!(numbers(&page(store, 2, 2)), [3, 4]);
    assert_eq!(numbers(&page(store, 4, 2)), [5]);
    assert_eq!(numbers(&page(store, 5, 2)), [0; 0]);
    assert_eq!(numbers(&page(store, 9, 2)), [0; 0]);
    assert_eq!(numbers(&page(store, 1, 0)), [0; 0]);
    assert_eq!(page(store, 0, 9).pruned_to, 0);
}

/// Rows older than the given time are removed; a reader receives up to which number, and new numbers follow the old
/// ones.
pub fn a_pruned_feed_goes_on_where_it_was(store: &dyn Store) {
    rows_at(store, &[10, 20, 30]);
    let client = Client::new(store);
    let before = |ms| Prune { feed_before: Some(at(ms)), ..Prune::default() };
    assert_eq!(client.prune(before(10)).feed, 0);
    assert_eq!(client.prune(before(30)).feed, 2);
    assert_eq!((numbers(&page(store, 0, 10)), page(store, 0, 10).pruned_to), (vec![3], 2));
    assert_eq!(client.prune(before(31)).feed, 1);
    assert_eq!((numbers(&page(store, 0, 10)), page(store, 0, 10).pruned_to), (vec![], 3));
    let committed = client.commit([inserting(queued(client.id(), spec("t", None, at(40))))]);
    assert_eq!(committed.feed, Some(4));
    assert_eq!((numbers(&page(store, 0, 10)), page(store, 3, 0).pruned_to), (vec![4], 3));
}

/// A clock that was set back leaves no gaps: rows are removed from the front, up to the first that is recent enough.
pub fn a_prune_of_the_feed_leaves_no_hole(store: &dyn Store) {
    rows_at(store, &[10, 50, 20, 60]);
    let client = Client::new(store);
    let pruned = client.prune(Prune { feed_before: Some(at(40)), ..Prune::default() });
    let left = page(store, 0, 10);
    assert_eq!((pruned.feed, numbers(&left), left.pruned_to), (1, vec![2, 3, 4], 1));
    let second = FeedRow {
        n: 2,
        at: at(50),
        entries: vec![FeedEntry { id: id(2), rev: 1, state: StateName::Queued }],
    };
    assert_eq!(left.rows[0], second);
}

/// The end of the feed is the number of the last row ever written, also after it was pruned.
pub fn ground_13_the_end_of_the_feed_is_known_after_a_prune(store: &dyn Store) {
    let end = || wait(store.feed_end()).expect("the end");
    assert_eq!(end(), 0);
    rows_at(store, &[10, 20, 30]);
    assert_eq!(end(), 3);
    let client = Client::new(store);
    client.prune(Prune { feed_before: Some(at(25)), ..Prune::default() });
    assert_eq!(end(), 3);
    client.prune(Prune { feed_before: Some(at(99)), ..Prune::default() });
    assert_eq!((numbers(&page(store, 0, 10)), end()), (vec![], 3));
}
