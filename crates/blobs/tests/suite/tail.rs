//! A tail returns every byte once: existing bytes, then new ones.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use crate::fixture::{ATTEMPT, HOUR_MS, NO_LIMIT, NOW_MS, chunk, real_now_ms};
use crate::{EVERY, Hall, hall};
use jobhall_blobs::{BlobError, LogInfo, Step, Tail, Verdicts, WATCHERS, Wake};

/// A signal that is kept until it is waited for.
#[derive(Default)]
struct Signal {
    left: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    fn leave(&self) {
        *self.left.lock().unwrap() = true;
        self.changed.notify_one();
    }

    fn wait(&self) {
        let left = self.left.lock().unwrap();
        *self.changed.wait_while(left, |left| !*left).unwrap() = false;
    }
}

fn follow(hall: &Hall, from: u64) -> (Tail, Arc<Signal>) {
    let signal = Arc::new(Signal::default());
    let left = signal.clone();
    let wake: Wake = Arc::new(move || left.leave());
    (hall.blobs.logs().tail(ATTEMPT, from, wake).unwrap(), signal)
}

/// Everything from the offset to the end of the log, waiting for signals only.
fn followed(hall: &Hall, from: u64, most: usize) -> Vec<u8> {
    let (mut tail, signal) = follow(hall, from);
    let mut bytes = Vec::new();
    loop {
        match tail.next(most).unwrap() {
            Step::News(entries) => {
                for entry in entries {
                    assert_eq!(entry.offset, from + bytes.len() as u64, "no gap, no repetition");
                    bytes.extend(entry.bytes);
                }
            }
            Step::Wait => signal.wait(),
            Step::End(info) => {
                assert_eq!(info.len, from + bytes.len() as u64);
                return bytes;
            }
        }
    }
}

pub fn tails_that_begin_at_any_time_see_the_same_log() {
    let hall = hall();
    let lines: Vec<Vec<u8>> =
        (0..2_000 / EVERY).map(|n| format!("line {n} {}\n", "x".repeat(n % 97)).into()).collect();
    let all = lines.concat();
    let half = lines[..lines.len() / 2].concat();
    half.chunks(1_000).for_each(|bytes| hall.say(bytes, false));
    thread::scope(|scope| {
        let tails: Vec<_> =
            [(0, 1), (0, 100_000), (77, 500), (half.len() as u64, 4_000), (half.len() as u64 + 9, 64)]
                .into_iter()
                .map(|(from, most)| {
                    (
                        from,
                        scope.spawn({
                            let hall = &hall;
                            move || followed(hall, from, most.max(64))
                        }),
                    )
                })
                .collect();
        for (n, line) in lines[lines.len() / 2..].iter().enumerate() {
            hall.say(line, n % 100 == 0);
        }
        hall.blobs.logs().finish(ATTEMPT, NOW_MS).unwrap();
        for (from, tail) in tails {
            let from = usize::try_from(from).unwrap();
            assert!(tail.join().unwrap() == all[from..], "from {from}");
        }
    });
    assert!(followed(&hall, 0, 1 << 20) == all, "after the end");
}

pub fn a_tail_waits_then_gives_news_then_ends() {
    let hall = hall();
    let (mut tail, _) = follow(&hall, 0);
    assert_eq!(tail.next(100).unwrap(), Step::Wait, "a log that was never written");
    hall.say(b"abc", false);
    assert_eq!((tail.poll_len().unwrap(), tail.offset()), (3, 0));
    let Step::News(entries) = tail.next(2).unwrap() else { panic!("news") };
    assert_eq!((entries[0].bytes.as_slice(), tail.offset()), (&b"ab"[..], 2));
    hall.blobs.logs().finish(ATTEMPT, NOW_MS).unwrap();
    let Step::News(entries) = tail.next(2).unwrap() else { panic!("the rest comes before the end") };
    assert_eq!(entries[0].bytes, b"c");
    let end = Step::End(LogInfo { len: 3, truncated: false, finished: true });
    assert_eq!([tail.next(2).unwrap(), tail.next(2).unwrap()], [end.clone(), end]);
}

pub fn every_change_wakes_and_nothing_else_does() {
    let hall = hall();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let wake: Wake = Arc::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let tail = hall.blobs.logs().tail(ATTEMPT, 0, wake).unwrap();
    let woken = |by: &str, times| assert_eq!(count.swap(0, Ordering::SeqCst), times, "{by}");
    let append =
        |offset, bytes, limit| hall.blobs.logs().append(ATTEMPT, &chunk(offset, bytes), limit, false);
    append(0, b"abc", NO_LIMIT).unwrap();
    woken("an append", 1);
    append(0, b"abc", NO_LIMIT).unwrap();
    append(9, b"abc", NO_LIMIT).unwrap_err();
    woken("a repetition or a refusal", 0);
    append(3, b"def", 4).unwrap();
    woken("the cut", 1);
    append(6, b"ghi", 4).unwrap();
    woken("what is dropped", 0);
    hall.blobs.logs().finish(ATTEMPT, NOW_MS).unwrap();
    woken("the end", 1);
    drop(tail);
    hall.blobs.logs().finish(ATTEMPT, NOW_MS).unwrap();
    woken("after the drop", 0);
}

pub fn tails_on_one_log_are_bounded() {
    let hall = hall();
    let nothing: Wake = Arc::new(|| {});
    let mut tails: Vec<Tail> =
        (0..WATCHERS).map(|_| hall.blobs.logs().tail(ATTEMPT, 0, nothing.clone()).unwrap()).collect();
    let error = hall.blobs.logs().tail(ATTEMPT, 0, nothing.clone()).unwrap_err();
    assert!(matches!(error, BlobError::TooManyWatchers { limit: WATCHERS, .. }), "{error}");
    tails.pop();
    hall.blobs.logs().tail(ATTEMPT, 0, nothing).unwrap();
}

pub fn a_log_that_someone_follows_is_not_collected() {
    let hall = hall();
    hall.say(b"abc", false);
    let verdicts = Verdicts { referenced: &|_| false, pinned: &|_| false, gone: &|_| true };
    let later = real_now_ms() + 2 * HOUR_MS;
    let (tail, _) = follow(&hall, 0);
    assert_eq!(hall.blobs.collect(verdicts, later, HOUR_MS).unwrap().logs, 0);
    drop(tail);
    assert_eq!(hall.blobs.collect(verdicts, later, HOUR_MS).unwrap().logs, 1);
    assert_eq!(hall.said(), b"");
}
