//! Garbage collection: unreferenced and old files are removed, all others are kept.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::fixture::{ATTEMPT, FileStore, HOUR_MS, INDEX, LOG, NO_LIMIT, NOW_MS, chunk, object, real_now_ms};
use crate::hall;
use jobhall_blobs::{AttemptKey, Collected, Digest, MIN_AGE_MS, Sweep, Verdicts};

const NOTHING_WANTED: Verdicts<'_> = Verdicts { referenced: &|_| false, pinned: &|_| false, gone: &|_| true };

pub fn only_what_is_unreferenced_and_old_goes() {
    let hall = hall();
    let [old, wanted, young, future] = [b"old!", b"want", b"youn", b"futu"].map(|content| hall.put(content));
    hall.place.set_modified(&object(&young), NOW_MS + 1);
    hall.place.set_modified(&object(&future), NOW_MS + 99 * HOUR_MS);
    let verdicts = Verdicts { referenced: &|digest| *digest == wanted, pinned: &|_| false, gone: &|_| false };
    let at = |now_ms| hall.blobs.collect(verdicts, now_ms, MIN_AGE_MS).unwrap();
    assert_eq!(at(NOW_MS + MIN_AGE_MS - 1), Collected::default(), "a moment before");
    assert_eq!(at(NOW_MS + MIN_AGE_MS), Collected { objects: 1, bytes: 4, ..Collected::default() });
    let there = [old, wanted, young, future].map(|digest| hall.blobs.objects().exists(&digest).unwrap());
    assert_eq!(there, [false, true, true, true]);
    assert_eq!(at(0), Collected::default(), "a clock set back removes nothing");
}

pub fn putting_again_and_touching_make_an_object_young() {
    let hall = hall();
    let [put, touched] = [b"put", b"tch"].map(|content| hall.put(content));
    let later = NOW_MS + MIN_AGE_MS - 1;
    assert!(hall.blobs.objects().put(&mut &b"put"[..], NO_LIMIT, later).unwrap().reused);
    assert!(hall.blobs.objects().touch(&touched, later).unwrap());
    assert!(!hall.blobs.objects().touch(&Digest::of(b"absent"), later).unwrap());
    hall.blobs.objects().touch(&put, 5).unwrap(); // an earlier time is ignored
    let at = |now_ms| hall.blobs.collect(NOTHING_WANTED, now_ms, MIN_AGE_MS).unwrap().objects;
    assert_eq!([at(later + MIN_AGE_MS - 1), at(later + MIN_AGE_MS)], [0, 2]);
}

pub fn leftovers_go_and_an_upload_that_is_slow_stays() {
    let hall = hall();
    hall.place.write("tmp/1-0", b"half an obj");
    let (feed, fed) = mpsc::channel::<u8>();
    let (began, beginning) = mpsc::channel();
    // More than is buffered in memory.
    let first = vec![b'f'; 1 << 20];
    thread::scope(|scope| {
        let mut source = first.chain(Fed { fed, began });
        let upload = scope.spawn({
            let hall = &hall;
            move || hall.blobs.objects().put(&mut source, NO_LIMIT, NOW_MS).unwrap()
        });
        beginning.recv().unwrap();
        assert_eq!(hall.place.count("tmp"), 2);
        let collected = hall.blobs.collect(NOTHING_WANTED, real_now_ms() + 9 * HOUR_MS, HOUR_MS).unwrap();
        assert_eq!(collected, Collected { temps: 1, bytes: 11, ..Collected::default() });
        feed.send(b'x').unwrap();
        drop(feed);
        assert_eq!(upload.join().unwrap().digest, Digest::of(&[&first[..], b"x"].concat()));
    });
    assert_eq!(hall.place.count("tmp"), 0);
}

/// Returns bytes as they are sent, and signals when the first is read.
struct Fed {
    fed: mpsc::Receiver<u8>,
    began: mpsc::Sender<()>,
}

impl Read for Fed {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let _ = self.began.send(());
        Ok(self.fed.recv().map_or(0, |byte| {
            out[0] = byte;
            1
        }))
    }
}

pub fn a_young_leftover_stays() {
    let hall = hall();
    hall.place.write("tmp/1-0", b"half");
    assert_eq!(hall.blobs.collect(NOTHING_WANTED, real_now_ms(), HOUR_MS).unwrap(), Collected::default());
}

pub fn logs_go_with_their_attempts() {
    let hall = hall();
    let kept = AttemptKey { job: 18, claim: 1 };
    for attempt in [ATTEMPT, kept] {
        hall.blobs.logs().append(attempt, &chunk(0, b"output"), NO_LIMIT, false).unwrap();
        hall.blobs.logs().finish(attempt, NOW_MS).unwrap();
    }
    let verdicts =
        Verdicts { referenced: &|_| false, pinned: &|_| false, gone: &|attempt| attempt == ATTEMPT };
    let now_ms = real_now_ms();
    assert_eq!(hall.blobs.collect(verdicts, now_ms, HOUR_MS).unwrap().logs, 0, "young");
    let collected = hall.blobs.collect(verdicts, now_ms + 2 * HOUR_MS, HOUR_MS).unwrap();
    assert_eq!((collected.logs, collected.bytes), (1, 6 + 2 * 28));
    assert!(!hall.has(LOG) && !hall.has(INDEX));
    assert_eq!(hall.blobs.logs().len(ATTEMPT).unwrap(), 0);
    assert_eq!(hall.blobs.logs().len(kept).unwrap(), 6);
}

pub fn a_lone_index_goes_too() {
    let hall = hall();
    hall.say(b"output", false);
    hall.place.remove(LOG);
    let later = real_now_ms() + 2 * HOUR_MS;
    assert_eq!(hall.blobs.collect(NOTHING_WANTED, later, HOUR_MS).unwrap().logs, 1);
    assert!(!hall.has(INDEX));
}

pub fn slices_add_up_to_the_whole() {
    let hall = hall();
    for n in 0..300_u32 {
        hall.put(&n.to_le_bytes());
    }
    let mut sweep = Sweep::new(NOW_MS + MIN_AGE_MS, MIN_AGE_MS);
    let (mut all, mut steps) = (Collected::default(), 0);
    while !sweep.is_over() {
        let slice = sweep.step(&hall.blobs, NOTHING_WANTED, 10).unwrap();
        assert!(slice.objects <= 10, "a slice is bounded");
        all += slice;
        steps += 1;
    }
    assert_eq!((all.objects, all.bytes), (300, 1_200));
    assert!(steps >= (300 + 513) / 10, "directories count too: {steps}");
}

/// The query whether an object is referenced takes long; the same content is stored meanwhile.
pub fn a_put_during_the_question_saves_the_object() {
    let hall = hall();
    let digest = hall.put(b"again");
    let now_ms = NOW_MS + MIN_AGE_MS;
    let referenced = |_: &Digest| {
        hall.blobs.objects().put(&mut &b"again"[..], NO_LIMIT, now_ms).unwrap();
        false
    };
    let verdicts = Verdicts { referenced: &referenced, pinned: &|_| false, gone: &|_| false };
    assert_eq!(hall.blobs.collect(verdicts, now_ms, MIN_AGE_MS).unwrap().objects, 0);
    assert!(hall.blobs.objects().exists(&digest).unwrap());
}

pub fn a_put_that_returned_has_its_object_whatever_the_collector_does() {
    let hall = hall();
    let later = NOW_MS + MIN_AGE_MS;
    let collected = AtomicU64::new(0);
    let race = || {
        let mut round = 0;
        while round < 400 || collected.load(Ordering::Relaxed) == 0 {
            // First old, so that the collector may remove it at any time; then touched.
            hall.put(b"contended");
            let stored = hall.blobs.objects().put(&mut &b"contended"[..], NO_LIMIT, later).unwrap();
            let there = hall.blobs.objects().read_all(&stored.digest, NO_LIMIT);
            assert_eq!(there.unwrap(), b"contended", "round {round}");
            hall.place.set_modified(&object(&stored.digest), NOW_MS);
            round += 1;
        }
    };
    thread::scope(|scope| {
        let racer = scope.spawn(race);
        while !racer.is_finished() {
            let done = hall.blobs.collect(NOTHING_WANTED, later, MIN_AGE_MS).unwrap();
            collected.fetch_add(done.objects, Ordering::Relaxed);
        }
        racer.join().unwrap();
    });
}

pub fn ground_11_a_pinned_object_stays_and_goes_when_the_pin_does() {
    let hall = hall();
    let [pinned, other] = [&b"pinned"[..], b"other"].map(|content| hall.put(content));
    let pins = RefCell::new(BTreeSet::from([pinned]));
    let verdicts = Verdicts {
        referenced: &|_| false,
        pinned: &|digest| pins.borrow().contains(digest),
        gone: &|_| false,
    };
    let collect = || hall.blobs.collect(verdicts, NOW_MS + MIN_AGE_MS, MIN_AGE_MS).unwrap().objects;
    assert_eq!(collect(), 1);
    let there = [pinned, other].map(|digest| hall.blobs.objects().exists(&digest).unwrap());
    assert_eq!(there, [true, false]);
    assert_eq!(collect(), 0);
    pins.borrow_mut().clear();
    assert_eq!(collect(), 1);
    assert!(!hall.blobs.objects().exists(&pinned).unwrap());
}

/// The pin comes after the walk has found that nothing refers to the object.
pub fn ground_11_a_pin_between_the_scan_and_the_removal_saves_the_object() {
    let hall = hall();
    let digest = hall.put(b"late");
    let is_pinned = Cell::new(false);
    let referenced = |_: &Digest| {
        is_pinned.set(true);
        false
    };
    let verdicts = Verdicts { referenced: &referenced, pinned: &|_| is_pinned.get(), gone: &|_| false };
    assert_eq!(hall.blobs.collect(verdicts, NOW_MS + MIN_AGE_MS, MIN_AGE_MS).unwrap().objects, 0);
    hall.blobs.objects().verify(&digest).unwrap();
}

/// Another thread pins the object and touches it, while the walk asks whether it is pinned: the touch waits until the
/// walk has decided. So either the walk sees the pin, or the touch reports that the object is gone.
pub fn ground_11_a_pin_is_looked_at_while_the_object_cannot_be_touched() {
    let hall = hall();
    let digest = hall.put(b"contended");
    let later = NOW_MS + MIN_AGE_MS;
    let (asked, asking) = mpsc::channel();
    let (touched, touching) = mpsc::channel();
    thread::scope(|scope| {
        let touch = {
            let objects = hall.blobs.objects();
            move || {
                asking.recv().unwrap();
                let there = objects.touch(&digest, later).unwrap();
                touched.send(()).unwrap();
                there
            }
        };
        let touch = scope.spawn(touch);
        let pinned = |_: &Digest| {
            asked.send(()).unwrap();
            let waited = touching.recv_timeout(Duration::from_millis(300));
            assert!(waited.is_err(), "the object was touched while the walk decided");
            false
        };
        let verdicts = Verdicts { referenced: &|_| false, pinned: &pinned, gone: &|_| false };
        assert_eq!(hall.blobs.collect(verdicts, later, MIN_AGE_MS).unwrap().objects, 1);
        assert!(!touch.join().unwrap(), "the touch reports that the object is gone");
    });
}
