//! Many objects in one call.

use std::sync::Barrier;
use std::thread;

use crate::fixture::{FileStore, NO_LIMIT, NOW_MS, object};
use crate::{EVERY, hall};
use jobhall_blobs::{Digest, MANY_BYTES, MANY_OBJECTS, MIN_AGE_MS, PutManyError, Verdicts};

/// Contents of all lengths that are stored differently: none, small, and around the chunk of a database.
fn contents() -> Vec<Vec<u8>> {
    let around = [0, 1, 262_143, 262_144, 262_145, 600_000];
    let long = around.into_iter().map(|len| (0..=250).cycle().take(len).collect());
    long.chain((0..300_u32).map(|n| n.to_le_bytes().to_vec())).collect()
}

fn slices(contents: &[Vec<u8>]) -> Vec<&[u8]> {
    contents.iter().map(Vec::as_slice).collect()
}

pub fn ground_11_many_objects_are_stored_at_once_and_read_back() {
    let hall = hall();
    let contents = contents();
    let stored = hall.blobs.objects().put_many(&slices(&contents), NOW_MS).unwrap();
    assert_eq!(stored.len(), contents.len());
    for (stored, content) in stored.iter().zip(&contents) {
        assert_eq!((stored.digest, stored.bytes), (Digest::of(content), content.len() as u64));
        assert!(!stored.reused);
    }
    assert_eq!(hall.place.count("tmp"), 0);
    let hall = hall.reopened();
    for content in contents.iter().step_by(EVERY) {
        assert!(hall.blobs.objects().read_all(&Digest::of(content), NO_LIMIT).unwrap() == *content);
    }
    assert_eq!(hall.place.count("objects"), contents.len());
}

pub fn ground_11_an_empty_list_stores_nothing() {
    let hall = hall();
    assert!(hall.blobs.objects().put_many(&[], NOW_MS).unwrap().is_empty());
    assert_eq!((hall.place.count("objects"), hall.place.count("tmp")), (0, 0));
}

pub fn ground_11_content_that_occurs_twice_is_stored_once() {
    let hall = hall();
    let given: [&[u8]; 5] = [b"same", b"other", b"same", b"", b"same"];
    let stored = hall.blobs.objects().put_many(&given, NOW_MS).unwrap();
    let reused: Vec<bool> = stored.iter().map(|stored| stored.reused).collect();
    assert_eq!(reused, [false, false, true, false, true]);
    assert!(stored.iter().zip(given).all(|(stored, content)| stored.digest == Digest::of(content)));
    assert_eq!(hall.place.count("objects"), 3);
}

pub fn ground_11_existing_objects_are_reused_and_touched() {
    let hall = hall();
    hall.put(b"before");
    let later = NOW_MS + MIN_AGE_MS;
    let given: [&[u8]; 2] = [b"before", b"new"];
    let reused = |now_ms| {
        let stored = hall.blobs.objects().put_many(&given, now_ms).unwrap();
        stored.iter().map(|stored| stored.reused).collect::<Vec<_>>()
    };
    assert_eq!(reused(later), [true, false]);
    assert_eq!(reused(5), [true, true], "an earlier time is ignored");
    let verdicts = Verdicts { referenced: &|_| false, pinned: &|_| false, gone: &|_| false };
    let collect = |now_ms| hall.blobs.collect(verdicts, now_ms, MIN_AGE_MS).unwrap().objects;
    assert_eq!([collect(later + MIN_AGE_MS - 1), collect(later + MIN_AGE_MS)], [0, 2]);
}

pub fn ground_11_a_cut_object_is_replaced() {
    let hall = hall();
    let digest = hall.put(b"content");
    hall.cut(&object(&digest), 3);
    let stored = hall.blobs.objects().put_many(&[b"content", b"other"], NOW_MS).unwrap();
    assert_eq!(stored.iter().map(|stored| stored.reused).collect::<Vec<_>>(), [false, false]);
    assert_eq!(hall.blobs.objects().read_all(&digest, NO_LIMIT).unwrap(), b"content");
}

pub fn ground_11_too_many_objects_or_bytes_store_nothing() {
    let hall = hall();
    let objects = hall.blobs.objects();
    let error = objects.put_many(&vec![&b"x"[..]; MANY_OBJECTS + 1], NOW_MS).unwrap_err();
    assert!(matches!(error, PutManyError::TooMany { count } if count == MANY_OBJECTS + 1), "{error}");
    let half = vec![0; usize::try_from(MANY_BYTES / 2).unwrap()];
    let error = objects.put_many(&[half.as_slice(), half.as_slice(), b"x"], NOW_MS).unwrap_err();
    assert!(matches!(error, PutManyError::TooLarge { bytes } if bytes == MANY_BYTES + 1), "{error}");
    assert_eq!((hall.place.count("objects"), hall.place.count("tmp")), (0, 0));
    let most: Vec<Vec<u8>> = (0..MANY_OBJECTS).map(|n| n.to_le_bytes().to_vec()).collect();
    assert_eq!(objects.put_many(&slices(&most), NOW_MS).unwrap().len(), MANY_OBJECTS);
    assert_eq!(hall.place.count("objects"), MANY_OBJECTS);
}

/// Calls with the same objects in different orders, while old objects are removed: every object of a call that
/// returned is there, and each was stored by one call.
pub fn ground_11_calls_that_overlap_and_the_collector_do_not_disturb_each_other() {
    let hall = hall();
    let later = NOW_MS + MIN_AGE_MS;
    let objects = hall.blobs.objects();
    let verdicts = Verdicts { referenced: &|_| false, pinned: &|_| false, gone: &|_| false };
    for round in 0..8_u32.div_ceil(u32::try_from(EVERY).unwrap()) {
        let contents: Vec<Vec<u8>> = (0..40_u32).map(|n| [round, n].map(u32::to_le_bytes).concat()).collect();
        // Some exist and are old, so that the collector may remove them before they are touched.
        for content in contents.iter().step_by(3) {
            hall.put(content);
        }
        let barrier = Barrier::new(5);
        thread::scope(|scope| {
            for turn in 0..4 {
                let (barrier, contents) = (&barrier, &contents);
                scope.spawn(move || {
                    let mut given = slices(contents);
                    given.rotate_left(turn * 10);
                    barrier.wait();
                    for stored in objects.put_many(&given, later).unwrap() {
                        objects.verify(&stored.digest).unwrap();
                    }
                });
            }
            barrier.wait();
            hall.blobs.collect(verdicts, later, MIN_AGE_MS).unwrap();
        });
        contents.iter().for_each(|content| objects.verify(&Digest::of(content)).unwrap());
        assert_eq!(hall.place.count("tmp"), 0);
    }
}
