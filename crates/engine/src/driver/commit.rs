//! Commits: when one is sent to the store, and how its result is processed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;
use std::vec;

use jobhall_store::{CommitError, Committed, Conflict, Done, FeedRow, Later, News, Unit};

use super::{Driver, SLICE};
use crate::watch::Published;
use jobhall_kernel::Now;
use jobhall_kernel::StoreReply;

/// A commit in progress, with its changes if there are watchers.
pub(super) struct UnderWay {
    number: u64,
    /// Approximate number of rows it writes.
    rows: usize,
    sent: Instant,
    news: Vec<News>,
    later: Later<Result<Committed, CommitError>>,
}

/// A reply of the store that the kernel has not fully processed.
pub(super) struct Heard {
    number: u64,
    feed: Option<u64>,
    results: Result<vec::IntoIter<Result<Done, Vec<Conflict>>>, CommitError>,
}

impl Driver {
    /// Sends the waiting units, if it is time.
    pub(super) fn commit(&mut self) {
        while self.is_time_to_commit()
            && let Some((number, units)) = self.kernel.take_commit()
        {
            let watched = self.published.receiver_count() > 0;
            let news = if watched { units.iter().map(News::of).collect() } else { Vec::new() };
            let rows = units.iter().map(Unit::rows).sum();
            self.last_rows = rows;
            let later = self.store.commit(units);
            self.under_way.push_back(UnderWay { number, rows, sent: Instant::now(), news, later });
        }
    }

    fn is_time_to_commit(&self) -> bool {
        match (self.under_way.front(), self.under_way.get(1)) {
            (None, _) => !self.more || self.stopping || self.kernel.waiting_rows() * 2 >= self.last_rows,
            (Some(first), None) => self.kernel.waiting_rows() * 2 >= first.rows,
            (Some(_), Some(_)) => false,
        }
    }

    pub(super) fn committed(&mut self, result: Result<Committed, CommitError>) {
        let Some(under_way) = self.under_way.pop_front() else { return };
        // Before anything else: the store is idle.
        self.commit();
        let took = under_way.sent.elapsed();
        self.kernel.note_commit(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        if let Ok(Committed { feed: Some(n), results }) = &result
            && !under_way.news.is_empty()
        {
            let done = under_way.news.into_iter().zip(results).filter(|(_, result)| result.is_ok());
            let News { at, entries } = done.map(|(news, _)| news).fold(News::default(), News::join);
            let row = FeedRow { n: *n, at, entries };
            let _ = self.published.send(Published::Row(Arc::new(row)));
        }
        let number = under_way.number;
        self.heard.push_back(match result {
            Ok(Committed { feed, results }) => Heard { number, feed, results: Ok(results.into_iter()) },
            Err(error) => Heard { number, feed: None, results: Err(error) },
        });
    }

    /// Passes all pending replies of the store to the kernel.
    pub(super) fn pass_on_all(&mut self, now: Now) {
        while !self.heard.is_empty() {
            self.pass_on(now);
        }
    }

    /// Passes a slice of a reply of the store to the kernel.
    pub(super) fn pass_on(&mut self, now: Now) {
        let Some(mut heard) = self.heard.pop_front() else { return };
        let (number, feed) = (heard.number, heard.feed);
        let result = match &mut heard.results {
            Ok(results) => Ok(Committed { feed, results: results.take(SLICE).collect() }),
            Err(error) => Err(error.clone()),
        };
        if heard.results.as_ref().is_ok_and(|left| left.len() > 0) {
            self.heard.push_front(heard);
        }
        self.kernel.store_replied(now, StoreReply::Committed(number, result));
    }
}

/// The result of the oldest commit in progress.
pub(super) async fn first(under_way: &mut VecDeque<UnderWay>) -> Result<Committed, CommitError> {
    match under_way.front_mut() {
        Some(first) => first.later.as_mut().await,
        None => std::future::pending().await,
    }
}
