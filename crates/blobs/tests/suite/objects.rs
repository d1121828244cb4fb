//! Objects are read as they were stored, or not at all.

use std::io::{self, Read};
use std::sync::Barrier;
use std::thread;

use crate::fixture::{FileStore, NO_LIMIT, NOW_MS, object};
use crate::suite::cases;
use crate::{EVERY, Hall, hall};
use jobhall_blobs::{BlobError, Digest, PutError, ReadAllError};
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, proptest};

/// Lengths around the chunk size of the reader.
const AROUND: [usize; 8] = [0, 1, 65_535, 65_536, 65_537, 131_071, 131_072, 200_001];

pub fn what_is_stored_is_read_back() {
    read_back();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(64)))]

    fn read_back(content in vec(any::<u8>(), 0..5_000), step in 1_usize..700) {
        let hall = hall();
        let stored = hall.blobs.objects().put(&mut Dribble { rest: &content, step }, NO_LIMIT, NOW_MS).unwrap();
        assert_eq!((stored.digest, stored.bytes), (Digest::of(&content), content.len() as u64));
        assert_eq!(hall.blobs.objects().read_all(&stored.digest, NO_LIMIT).unwrap(), content);
    }
}

/// Returns a few bytes at a time, with interruptions.
struct Dribble<'a> {
    rest: &'a [u8],
    step: usize,
}

impl Read for Dribble<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.step.is_multiple_of(2) {
            self.step += 1;
            return Err(io::ErrorKind::Interrupted.into());
        }
        let step = self.step.min(out.len());
        (&mut self.rest).take(step as u64).read(out)
    }
}

pub fn every_length_around_the_chunk_is_read_back_in_any_steps() {
    let hall = hall();
    for len in AROUND {
        let content: Vec<u8> = (0..=250).cycle().take(len).collect();
        let digest = hall.put(&content);
        for step in [1_000, 65_536, 1 << 20] {
            let mut reader = hall.blobs.objects().open(&digest).unwrap();
            assert_eq!((reader.len(), reader.is_empty()), (len as u64, len == 0));
            let (mut read, mut buffer) = (Vec::new(), vec![0; step]);
            loop {
                match reader.read(&mut buffer).unwrap() {
                    0 => break,
                    count => read.extend_from_slice(&buffer[..count]),
                }
            }
            assert!(read == content, "{len} bytes by {step}");
        }
    }
}

pub fn the_limit_is_exact_and_leaves_nothing() {
    let hall = hall();
    let objects = hall.blobs.objects();
    assert_eq!(objects.put(&mut &b"12345"[..], 5, NOW_MS).unwrap().bytes, 5);
    let error = objects.put(&mut &b"123456"[..], 5, NOW_MS).unwrap_err();
    assert!(matches!(error, PutError::TooLarge { limit: 5 }), "{error}");
    let endless = objects.put(&mut io::repeat(7), 1 << 20, NOW_MS).unwrap_err();
    assert!(matches!(endless, PutError::TooLarge { .. }), "{endless}");
    assert_eq!(hall.place.count("tmp"), 0);

    let error = objects.read_all(&Digest::of(b"12345"), 4).unwrap_err();
    assert!(matches!(error, ReadAllError::TooLarge { bytes: 5, limit: 4, .. }), "{error}");
}

pub fn a_source_that_fails_leaves_nothing() {
    let hall = hall();
    let mut source = b"some".chain(Failing);
    let error = hall.blobs.objects().put(&mut source, NO_LIMIT, NOW_MS).unwrap_err();
    assert!(matches!(error, PutError::Source(_)), "{error}");
    assert_eq!(hall.place.count("tmp"), 0);
    assert_eq!(hall.place.count("objects"), 0);
}

struct Failing;

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the line dropped"))
    }
}

pub fn the_same_content_is_stored_once() {
    let hall = hall();
    let objects = hall.blobs.objects();
    let put = || objects.put(&mut &b"same"[..], NO_LIMIT, NOW_MS).unwrap();
    assert_eq!([put().reused, put().reused], [false, true]);
    let digest = Digest::of(b"same");
    assert_eq!(objects.len(&digest).unwrap(), Some(4));
    assert!(objects.exists(&digest).unwrap());
    assert!(!objects.exists(&Digest::of(b"other")).unwrap());
    let error = objects.open(&Digest::of(b"other")).unwrap_err();
    assert!(matches!(error, BlobError::Missing { .. }), "{error}");
}

/// How far a reader gets, and whether it succeeds.
fn read(hall: &Hall, digest: &Digest) -> (u64, io::Result<u64>) {
    let mut read = Vec::new();
    let result = io::copy(&mut hall.blobs.objects().open(digest).unwrap(), &mut read);
    (read.len() as u64, result)
}

fn assert_damaged(hall: &Hall, digest: &Digest, original: u64, how: &str) {
    let (count, result) = read(hall, digest);
    let error = result.expect_err(how);
    assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{how}");
    assert!(error.to_string().contains(&digest.hex()), "{how}: it names the object: {error}");
    assert!(count < original.max(1), "{how}: {count} bytes seem complete");
    let error = hall.blobs.objects().read_all(digest, NO_LIMIT).unwrap_err();
    assert!(matches!(error, ReadAllError::Blob(BlobError::Damaged { .. })), "{how}: {error}");
}

pub fn a_flipped_bit_anywhere_is_found() {
    let hall = hall();
    let digest = hall.put(b"forty-two bytes of a small result, or so..");
    let name = object(&digest);
    for bit in (0..42 * 8).step_by(EVERY) {
        hall.flip(&name, bit);
        assert_damaged(&hall, &digest, 42, &format!("bit {bit}"));
        hall.flip(&name, bit);
    }
    assert_eq!(read(&hall, &digest).0, 42, "sound again");
}

pub fn a_cut_or_longer_object_is_found() {
    let hall = hall();
    for len in AROUND.into_iter().filter(|len| *len > 0) {
        let content = vec![b'z'; len];
        let digest = hall.put(&content);
        let name = object(&digest);
        for left in [0, 1, len / 2, len - 1].into_iter().filter(|left| *left < len) {
            hall.cut(&name, left as u64);
            assert_damaged(&hall, &digest, len as u64, &format!("{left} of {len}"));
            hall.place.write(&name, &content);
        }
        hall.place.write(&name, &[&content[..], b"z"].concat());
        assert_damaged(&hall, &digest, len as u64 + 1, "one more");
    }
}

pub fn a_reader_repeats_its_verdict() {
    let hall = hall();
    let digest = hall.put(b"content");
    hall.flip(&object(&digest), 3);
    let mut reader = hall.blobs.objects().open(&digest).unwrap();
    for _ in 0..3 {
        assert!(reader.read(&mut [0; 4]).is_err());
    }
}

pub fn a_damaged_object_is_moved_aside_and_stored_again() {
    let hall = hall();
    let objects = hall.blobs.objects();
    let digest = hall.put(b"content");
    assert!(!objects.quarantine(&digest).unwrap(), "a valid one is kept");
    hall.flip(&object(&digest), 3);
    assert!(objects.quarantine(&digest).unwrap());
    assert!(!objects.exists(&digest).unwrap());
    assert!(!objects.quarantine(&digest).unwrap(), "nothing there");
    assert!(hall.has(&format!("quarantine/{digest}")));
    assert_eq!(hall.put(b"content"), digest);
    assert_eq!(objects.read_all(&digest, NO_LIMIT).unwrap(), b"content");
}

pub fn a_put_heals_an_object_that_was_cut() {
    let hall = hall();
    let digest = hall.put(b"content");
    hall.cut(&object(&digest), 3);
    assert_eq!(hall.put(b"content"), digest);
    assert_eq!(hall.blobs.objects().read_all(&digest, NO_LIMIT).unwrap(), b"content");
}

pub fn eight_threads_put_the_same_content() {
    let hall = hall();
    let content: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    let barrier = Barrier::new(8);
    let stored = thread::scope(|scope| {
        let put = || {
            barrier.wait();
            hall.blobs.objects().put(&mut content.as_slice(), NO_LIMIT, NOW_MS).unwrap()
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(put)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(stored.iter().filter(|stored| !stored.reused).count(), 1, "one of them stored it");
    assert!(stored.iter().all(|other| other.digest == stored[0].digest));
    assert!(hall.blobs.objects().read_all(&stored[0].digest, NO_LIMIT).unwrap() == content);
    assert_eq!(hall.place.count("tmp"), 0);
}

pub fn a_sound_object_is_read_in_parts_and_a_damaged_one_not_at_all() {
    let hall = hall();
    let content: Vec<u8> = (0..=255).cycle().take(200_000).collect();
    let digest = hall.put(&content);
    let sound = hall.blobs.objects().open_sound(&digest).unwrap();
    assert_eq!(sound.len(), 200_000);
    assert_eq!(sound.read_at(70_001, 10).unwrap(), content[70_001..70_011]);
    assert_eq!(sound.read_at(199_995, 10).unwrap(), content[199_995..]);
    assert!(
        sound.read_at(200_000, 10).unwrap().is_empty() && sound.read_at(u64::MAX, 10).unwrap().is_empty()
    );
    hall.flip(&object(&digest), 8 * 100_000);
    assert!(hall.blobs.objects().open_sound(&digest).unwrap_err().is_damage());
}
