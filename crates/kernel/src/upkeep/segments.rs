//! Ranges of ids that retention has read and left. While nothing in a range can be removed, a pass does not read it
//! again.

use std::collections::BTreeMap;

use jobhall_core::Time;

/// Maximum number of ranges; more are joined in pairs.
const MOST: usize = 1_024;

/// A range of ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    last: u64,
    /// Until then nothing in it is removed.
    until: Time,
}

/// The ranges by their first ids. They do not overlap.
#[derive(Debug, Default)]
pub(super) struct Segments(BTreeMap<u64, Segment>);

impl Segments {
    /// The last id of the range with this id, if nothing in it can be removed now.
    pub fn skip(&self, id: u64, now: Time) -> Option<u64> {
        let (_, segment) = self.0.range(..=id).next_back()?;
        (segment.last >= id && segment.until >= now).then_some(segment.last)
    }

    /// The ids from `first` to `last` were read. What was known about them before is replaced.
    pub fn put(&mut self, first: u64, last: u64, until: Time) {
        self.cut(first, last);
        let before = self.0.range_mut(..first).next_back();
        match before {
            Some((_, before)) if before.last + 1 == first && before.until == until => before.last = last,
            _ => {
                self.0.insert(first, Segment { last, until });
            }
        }
        if self.0.len() > MOST {
            self.join();
        }
    }

    /// Removes the ids from `first` to `last` from all ranges.
    fn cut(&mut self, first: u64, last: u64) {
        let from = self.0.range(..first).next_back().map(|(&from, _)| from);
        let within = self.0.range(first..=last).map(|(&from, _)| from);
        for from in from.into_iter().chain(within).collect::<Vec<_>>() {
            let Some(old) = self.0.remove(&from) else { continue };
            if from < first {
                self.0.insert(from, Segment { last: old.last.min(first - 1), ..old });
            }
            if old.last > last {
                self.0.insert(last + 1, old);
            }
        }
    }

    /// Halves the number of ranges: of two neighbours the earlier time counts. Ids between ranges were not read, so
    /// these ranges are dropped instead.
    fn join(&mut self) {
        let all: Vec<_> = std::mem::take(&mut self.0).into_iter().collect();
        for pair in all.chunks(2) {
            let [(first, one), rest @ ..] = pair else { continue };
            let joined = match rest {
                [(next, other)] if one.last + 1 == *next => {
                    Segment { last: other.last, until: one.until.min(other.until) }
                }
                [_] => continue,
                _ => *one,
            };
            self.0.insert(*first, joined);
        }
    }

    /// A job with this id has ended; it may be removed after this time.
    pub fn ended(&mut self, id: u64, until: Time) {
        if let Some((_, segment)) = self.0.range_mut(..=id).next_back()
            && segment.last >= id
        {
            segment.until = segment.until.min(until);
        }
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::time;
    use proptest::prelude::*;

    #[test]
    fn a_range_is_skipped_until_its_time() {
        let mut segments = Segments::default();
        segments.put(1, 10, time(50));
        segments.put(11, 20, time(70));
        let skips = |at| [1, 10, 11, 20, 21].map(|id| segments.skip(id, time(at)));
        assert_eq!(skips(50), [Some(10), Some(10), Some(20), Some(20), None]);
        assert_eq!(skips(51), [None, None, Some(20), Some(20), None]);
        assert_eq!(skips(71), [None; 5]);
    }

    #[test]
    fn an_end_in_a_range_shortens_its_time() {
        let mut segments = Segments::default();
        segments.put(1, 10, time(50));
        segments.ended(11, time(5));
        segments.ended(4, time(60));
        assert_eq!(segments.skip(1, time(50)), Some(10));
        segments.ended(4, time(20));
        assert_eq!((segments.skip(1, time(20)), segments.skip(1, time(21))), (Some(10), None));
    }

    #[test]
    fn the_number_of_ranges_is_bounded_and_the_earliest_time_counts() {
        let mut segments = Segments::default();
        for n in 0..100_000 {
            segments.put(10 * n + 1, 10 * n + 10, time(1_000 + n % 7));
        }
        assert!(segments.0.len() <= MOST);
        assert_eq!(segments.skip(1, time(1_001)), None);
        let first = segments.skip(1, time(1_000)).unwrap();
        assert!(first > 20, "{first}");
    }

    #[test]
    fn equal_neighbours_are_one_range() {
        let mut segments = Segments::default();
        (0..9).for_each(|n| segments.put(n * 5 + 1, n * 5 + 5, time(7)));
        assert_eq!((segments.0.len(), segments.skip(1, time(7))), (1, Some(45)));
    }

    proptest! {
        /// The ranges agree with one time per id, as long as none are joined.
        #[test]
        fn the_last_read_of_an_id_counts(
            reads in proptest::collection::vec((1..60u64, 0..20u64, 1..9u64), 0..30),
            ends in proptest::collection::vec((1..80u64, 1..9u64), 0..9),
        ) {
            let (mut segments, mut expected) = (Segments::default(), BTreeMap::new());
            for (first, more, until) in reads {
                segments.put(first, first + more, time(until));
                (first..=first + more).for_each(|id| { expected.insert(id, until); });
            }
            for now in 1..9 {
                for id in 1..80 {
                    let skipped = segments.skip(id, time(now));
                    prop_assert_eq!(skipped.is_some(), expected.get(&id).is_some_and(|until| *until >= now));
                    let covers = |last| (id..=last).all(|id| expected.get(&id).is_some_and(|until| *until >= now));
                    prop_assert!(skipped.is_none_or(covers));
                }
            }
            for (id, until) in ends {
                segments.ended(id, time(until));
                prop_assert!(segments.skip(id, time(until + 1)).is_none());
            }
        }
    }
}
