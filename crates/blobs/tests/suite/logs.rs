//! Logs: appended once, read by ranges, correct after a crash.

use crate::fixture::{ATTEMPT, FileStore, INDEX, LOG, NO_LIMIT, NOW_MS, chunk};
use crate::suite::cases;
use crate::{EVERY, Hall, hall};
use jobhall_blobs::{
    AppendError, Appended, AttemptKey, BlobError, ByteRange, Chunk, Lines, LogInfo, PIECE_BYTES, RangeError,
    ReadError, Stream,
};
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, proptest};

const RECORD_BYTES: u64 = 28;

pub fn any_chunks_give_the_same_bytes_times_and_lines() {
    any_chunks();
}

pub fn any_range_is_what_a_slice_is() {
    any_range();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(48)))]

    fn any_chunks(
        chunks in vec((vec(any::<u8>(), 0..300), any::<bool>(), 0_u64..1_000, 0_usize..40), 1..40),
        reopen in any::<bool>(),
        most in 1_usize..2_000,
    ) {
        let mut hall = hall();
        let mut all = Vec::new();
        let mut expected = Vec::new();
        for (bytes, is_error, at_ms, back) in &chunks {
            // Begins some bytes before the end, like a worker that lost a reply.
            let from = all.len() - back.min(&all.len());
            let repeated = [&all[from..], bytes].concat();
            let stream = if *is_error { Stream::Stderr } else { Stream::Stdout };
            let chunk = Chunk { offset: from as u64, at_ms: *at_ms, stream, bytes: &repeated };
            let sync = at_ms % 7 == 0;
            let appended = hall.blobs.logs().append(ATTEMPT, &chunk, NO_LIMIT, sync).unwrap();
            expected.extend((!bytes.is_empty()).then(|| (*at_ms, stream, all.len() as u64, bytes.clone())));
            all.extend_from_slice(bytes);
            assert_eq!(appended, Appended { len: all.len() as u64, truncated: false });
        }
        if reopen {
            hall = hall.reopened();
        }
        assert_eq!(hall.said(), all);

        let (mut found, mut from) = (Vec::new(), 0);
        let mut lines = Lines::default();
        let mut by_stream = [Vec::new(), Vec::new()];
        let mut write = |line: jobhall_blobs::Line| {
            let out = &mut by_stream[usize::from(line.stream == Stream::Stderr)];
            out.extend(line.bytes);
            out.extend(line.ended.then_some(b'\n'));
        };
        while from < all.len() as u64 {
            let entries = hall.blobs.logs().entries(ATTEMPT, from, most).unwrap();
            for entry in entries.items {
                assert_eq!(entry.offset, from, "no gap, no repetition");
                from += entry.bytes.len() as u64;
                lines.push(&entry).into_iter().for_each(&mut write);
                found.push((entry.at_ms, entry.stream, entry.offset, entry.bytes));
            }
            assert_eq!(entries.next, from);
        }
        lines.end().into_iter().for_each(&mut write);
        for (stream, written) in [Stream::Stdout, Stream::Stderr].into_iter().zip(by_stream) {
            let of_stream: Vec<u8> =
                expected.iter().filter(|chunk| chunk.1 == stream).flat_map(|chunk| chunk.3.clone()).collect();
            assert_eq!(written, of_stream);
        }
        if most >= 300 * 40 {
            assert_eq!(found, expected);
        }
    }

    fn any_range(from in 0_u64..130, to in 0_u64..130, suffix in 0_u64..130, most in 1_usize..200) {
        let hall = hall();
        let all: Vec<u8> = (0..100).collect();
        all.chunks(7).for_each(|bytes| hall.say(bytes, false));
        for range in [ByteRange::FromTo(from, to), ByteRange::From(from), ByteRange::Suffix(suffix), ByteRange::All] {
            match (hall.blobs.logs().read(ATTEMPT, range, most), range.resolve(100)) {
                (Ok(piece), Ok(meant)) => {
                    let meant: Vec<u8> = meant.map(|offset| u8::try_from(offset).unwrap()).collect();
                    assert_eq!(piece.bytes, &meant[..meant.len().min(most)]);
                    assert_eq!(piece.info, LogInfo { len: 100, truncated: false, finished: false });
                }
                (Err(ReadError::Range(error)), Err(meant)) => assert_eq!(error, meant),
                (read, meant) => panic!("{range:?}: {read:?}, {meant:?}"),
            }
        }
    }
}

pub fn a_repetition_is_fine_and_other_bytes_are_not() {
    let hall = hall();
    let logs = hall.blobs.logs();
    let append = |offset, bytes| logs.append(ATTEMPT, &chunk(offset, bytes), NO_LIMIT, false);
    append(0, b"hello").unwrap();
    assert_eq!(append(0, b"hello").unwrap().len, 5);
    assert_eq!(append(1, b"ello world").unwrap().len, 11);
    assert!(matches!(append(3, b"lo Xorld"), Err(AppendError::Conflict { offset: 6, .. })));
    assert!(matches!(append(10, b"D and more"), Err(AppendError::Conflict { offset: 10, .. })));
    assert!(matches!(append(12, b"!"), Err(AppendError::Gap { offset: 12, len: 11, .. })));
    assert_eq!(hall.said(), b"hello world", "a refused chunk changes nothing");
    assert_eq!(hall.place.read(LOG).unwrap(), b"hello world", "the file is the log");
}

pub fn a_log_is_cut_at_its_limit_with_one_mark() {
    let mut hall = hall();
    let append = |hall: &Hall, offset, bytes: &[u8]| {
        hall.blobs.logs().append(ATTEMPT, &chunk(offset, bytes), 8, false).unwrap()
    };
    assert_eq!(append(&hall, 0, b"12345678"), Appended { len: 8, truncated: false });
    assert_eq!(append(&hall, 8, b"9"), Appended { len: 8, truncated: true });
    for offset in [8, 9, 9_000_000] {
        assert_eq!(append(&hall, offset, b"more"), Appended { len: 8, truncated: true });
    }
    for _ in 0..2 {
        assert_eq!(hall.said(), b"12345678");
        assert!(hall.blobs.logs().info(ATTEMPT).unwrap().truncated);
        hall = hall.reopened();
    }
    assert_eq!(hall.len(INDEX), 2 * RECORD_BYTES, "one chunk, one mark");
    let info = hall.blobs.logs().finish(ATTEMPT, NOW_MS).unwrap();
    assert_eq!(info, LogInfo { len: 8, truncated: true, finished: true });
    let hall = hall.reopened();
    assert_eq!(hall.blobs.logs().info(ATTEMPT).unwrap(), info);
    assert_eq!(append(&hall, 99, b"more"), Appended { len: 8, truncated: true });
}

pub fn a_complete_log_takes_nothing_new() {
    let mut hall = hall();
    hall.say(b"all there is", false);
    let info = LogInfo { len: 12, truncated: false, finished: true };
    for _ in 0..2 {
        assert_eq!(hall.blobs.logs().finish(ATTEMPT, NOW_MS).unwrap(), info, "a repetition changes nothing");
        assert!(hall.blobs.logs().is_finished(ATTEMPT).unwrap());
        let append = |offset, bytes| hall.blobs.logs().append(ATTEMPT, &chunk(offset, bytes), NO_LIMIT, true);
        assert_eq!(append(4, b"there is").unwrap().len, 12, "a repetition");
        assert!(matches!(append(12, b"more"), Err(AppendError::Finished { len: 12, .. })));
        hall = hall.reopened();
    }
}

pub fn a_log_never_written_reads_as_empty() {
    let hall = hall();
    let logs = hall.blobs.logs();
    assert_eq!(logs.info(ATTEMPT).unwrap(), LogInfo::default());
    assert_eq!(logs.read(ATTEMPT, ByteRange::All, 10).unwrap().bytes, b"");
    let error = logs.read(ATTEMPT, ByteRange::From(0), 10).unwrap_err();
    assert!(matches!(error, ReadError::Range(RangeError::Unsatisfiable { total: 0 })), "{error}");
    assert_eq!(hall.place.count("logs"), 0, "reading created nothing");
    assert!(logs.finish(ATTEMPT, NOW_MS).unwrap().finished);
}

pub fn attempts_have_logs_of_their_own() {
    let hall = hall();
    let other = AttemptKey { job: 17, claim: 2 };
    hall.say(b"first", false);
    assert_eq!(hall.blobs.logs().len(other).unwrap(), 0);
    hall.blobs.logs().append(other, &chunk(0, b"second"), NO_LIMIT, false).unwrap();
    assert_eq!(hall.said(), b"first");
}

pub fn a_flood_comes_out_in_bounded_pieces() {
    let hall = hall();
    let bytes: Vec<u8> = (0..1_u32 << 18).flat_map(u32::to_le_bytes).collect();
    (0..6).for_each(|_| hall.say(&bytes, false));
    let piece = hall.blobs.logs().read(ATTEMPT, ByteRange::All, usize::MAX).unwrap();
    assert_eq!(piece.bytes.len(), PIECE_BYTES);
    assert!(hall.said() == bytes.repeat(6));
}

type Tear<'a> = &'a dyn Fn(&Hall);

/// Every state that a crash can leave after three synced chunks and a fourth that was not acknowledged.
pub fn what_was_synced_survives_every_torn_end() {
    let synced = b"one.two.three.";
    let prepare = || {
        let hall = hall();
        for bytes in [&b"one."[..], b"two.", b"three."] {
            hall.say(bytes, true);
        }
        hall.say(b"four.", false);
        hall
    };
    let torn: [(&str, Tear<'_>); 8] = [
        ("index without data", &|hall| hall.cut(LOG, 14)),
        ("index with half the data", &|hall| hall.cut(LOG, 16)),
        ("data without index", &|hall| hall.cut(INDEX, 3 * RECORD_BYTES)),
        ("half a record", &|hall| hall.cut(INDEX, 3 * RECORD_BYTES + 11)),
        ("a record of zeros", &|hall| {
            hall.cut(INDEX, 3 * RECORD_BYTES);
            hall.cut(INDEX, 4 * RECORD_BYTES);
        }),
        ("many records of zeros", &|hall| {
            hall.cut(INDEX, 3 * RECORD_BYTES);
            hall.cut(INDEX, 400 * RECORD_BYTES);
        }),
        ("data of zeros", &|hall| {
            hall.cut(LOG, 14);
            hall.cut(LOG, 19);
        }),
        ("neither", &|hall| {
            hall.cut(LOG, 14);
            hall.cut(INDEX, 3 * RECORD_BYTES);
        }),
    ];
    for (how, tear) in torn {
        let hall = prepare();
        tear(&hall);
        let hall = hall.reopened();
        assert_eq!(hall.said(), synced, "{how}");
        // The worker sends again, in other chunks: an old record after the end must not become valid.
        hall.say(b"fo", true);
        hall.say(b"ur.five.", false);
        let hall = hall.reopened();
        assert_eq!(hall.said(), b"one.two.three.four.five.", "{how}");
        assert_eq!(hall.len(INDEX), 5 * RECORD_BYTES, "{how}");
        hall.blobs.logs().finish(ATTEMPT, NOW_MS).unwrap();
        assert_eq!(hall.reopened().said(), b"one.two.three.four.five.", "{how}");
    }
}

pub fn one_file_without_the_other_is_an_empty_log_that_can_be_written() {
    for lost in [LOG, INDEX] {
        let hall = hall();
        hall.say(b"unsynced and long", false);
        hall.place.remove(lost);
        let hall = hall.reopened();
        assert_eq!(hall.said(), b"", "{lost}");
        hall.say(b"again", true);
        assert_eq!(hall.reopened().said(), b"again", "{lost}");
    }
}

/// Flips every bit of both files of a complete log: bytes that can still be read are correct.
pub fn a_flipped_bit_never_gives_wrong_bytes() {
    let mut hall = hall();
    for bytes in [&b"first "[..], b"second ", b"third"] {
        hall.say(bytes, false);
    }
    hall.blobs.logs().finish(ATTEMPT, NOW_MS).unwrap();
    for name in [LOG, INDEX] {
        let bits = usize::try_from(hall.len(name) * 8).unwrap();
        for bit in (0..bits).step_by(EVERY) {
            hall.flip(name, bit);
            hall = hall.reopened();
            let mut damaged = 0;
            for at in 0..18_usize {
                match hall.blobs.logs().read(ATTEMPT, ByteRange::From(at as u64), 18) {
                    Ok(piece) => assert!(b"first second third"[at..].starts_with(&piece.bytes)),
                    Err(ReadError::Blob(error @ BlobError::Damaged { .. })) => {
                        assert!(error.to_string().contains("17-1"), "it names the log: {error}");
                        damaged += 1;
                    }
                    Err(other) => panic!("bit {bit} of {name}: {other}"),
                }
            }
            let finished = hall.blobs.logs().is_finished(ATTEMPT).unwrap();
            assert!(damaged > 0 || !finished, "bit {bit} of {name} is not detected");
            hall.flip(name, bit);
        }
    }
    assert_eq!(hall.reopened().said(), b"first second third");
}

pub fn a_complete_log_that_lost_its_end_is_refused_by_name() {
    let hall = hall();
    hall.say(b"complete", false);
    hall.blobs.logs().finish(ATTEMPT, NOW_MS).unwrap();
    for left in [0, 3, 7] {
        hall.cut(LOG, left);
    }
    let hall = hall.reopened();
    let error = hall.blobs.logs().info(ATTEMPT).unwrap_err();
    assert!(error.is_damage() && error.to_string().contains("log 17-1"), "{error}");
}

pub fn damage_in_the_middle_does_not_hide_what_comes_after() {
    let hall = hall();
    for bytes in [&b"first "[..], b"second ", b"third"] {
        hall.say(bytes, true);
    }
    hall.flip(LOG, 8 * 8);
    let hall = hall.reopened();
    let read = |range| hall.blobs.logs().read(ATTEMPT, range, 100);
    assert_eq!(read(ByteRange::All).unwrap().bytes, b"first ", "the valid bytes before it");
    assert!(matches!(read(ByteRange::From(6)), Err(ReadError::Blob(BlobError::Damaged { .. }))));
    assert_eq!(read(ByteRange::From(13)).unwrap().bytes, b"third");
    hall.say(b"!", false);
    assert_eq!(read(ByteRange::Suffix(6)).unwrap().bytes, b"third!");
}
