//! Notes: the second log of an attempt, which only its worker writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::fixture::{ATTEMPT, HOUR_MS, INDEX, LOG, NO_LIMIT, NOW_MS, chunk, real_now_ms};
use crate::{Hall, hall};
use jobhall_blobs::{
    AppendError, Appended, AttemptKey, ByteRange, Chunk, Entry, LogInfo, NOTE_BYTES, NOTES_BYTES,
    PIECE_BYTES, Step, Stream, Verdicts,
};

const NOTES: &str = "logs/11/17-1.notes";
const NOTES_INDEX: &str = "logs/11/17-1.notes.idx";

fn note(hall: &Hall, offset: u64, line: &[u8]) -> Result<Appended, AppendError> {
    let chunk = Chunk { offset, at_ms: NOW_MS, stream: Stream::Note, bytes: line };
    hall.blobs.logs().append(ATTEMPT, &chunk, NO_LIMIT, false)
}

fn noted(hall: &Hall) -> Vec<u8> {
    hall.blobs.logs().read(ATTEMPT.notes(), ByteRange::All, PIECE_BYTES).unwrap().bytes
}

pub fn ground_10_notes_are_a_log_of_their_own() {
    let hall = hall();
    hall.say(b"output\n", false);
    assert_eq!(note(&hall, 0, b"{\"a\":1}\n").unwrap(), Appended { len: 8, truncated: false });
    // Output that looks like a note stays output.
    hall.say(b"{\"b\":2}\n", false);
    assert_eq!(note(&hall, 8, b"[3]\n").unwrap().len, 12);
    hall.blobs.logs().finish(ATTEMPT.notes(), NOW_MS).unwrap();
    let hall = hall.reopened();
    assert_eq!((hall.said(), noted(&hall)), (b"output\n{\"b\":2}\n".to_vec(), b"{\"a\":1}\n[3]\n".to_vec()));
    let entries = hall.blobs.logs().entries(ATTEMPT.notes(), 8, PIECE_BYTES).unwrap();
    let last = Entry { at_ms: NOW_MS, stream: Stream::Note, offset: 8, bytes: b"[3]\n".to_vec() };
    assert_eq!(entries.items, [last]);
    assert!(entries.info.finished && !hall.blobs.logs().is_finished(ATTEMPT).unwrap());
    assert!([LOG, INDEX, NOTES, NOTES_INDEX].iter().all(|name| hall.has(name)));
    let error = note(&hall, 12, b"4\n").unwrap_err();
    assert!(matches!(error, AppendError::Finished { len: 12, .. }), "{error}");
}

pub fn ground_10_a_note_is_one_line_within_its_limit() {
    let hall = hall();
    for line in [&b""[..], b"{}", b"\n\n", b"{}\n{}\n", b"{}\n{}", b"\n{}"] {
        let error = note(&hall, 0, line).unwrap_err();
        assert!(matches!(error, AppendError::NotOneLine), "{line:?}: {error}");
    }
    let long = [vec![b'1'; NOTE_BYTES], b"\n".to_vec()].concat();
    let error = note(&hall, 0, &long).unwrap_err();
    assert!(matches!(error, AppendError::NoteTooLarge { bytes } if bytes == NOTE_BYTES + 1), "{error}");
    assert_eq!(hall.blobs.logs().info(ATTEMPT.notes()).unwrap(), LogInfo::default());
    assert!(!hall.has(NOTES) && !hall.has(NOTES_INDEX), "nothing was written");
    assert_eq!(note(&hall, 0, &long[1..]).unwrap().len, NOTE_BYTES as u64);
}

pub fn ground_10_notes_beyond_their_limit_are_refused_and_never_cut() {
    let hall = hall();
    let longest = [vec![b'1'; NOTE_BYTES - 1], b"\n".to_vec()].concat();
    let count = NOTES_BYTES / NOTE_BYTES as u64;
    for n in 0..count - 1 {
        note(&hall, n * NOTE_BYTES as u64, &longest).unwrap();
    }
    let len = NOTES_BYTES - NOTE_BYTES as u64;
    note(&hall, len, b"22\n").unwrap();
    let error = note(&hall, len + 3, &longest).unwrap_err();
    assert!(matches!(error, AppendError::NotesFull { len: at } if at == len + 3), "{error}");
    let info = LogInfo { len: len + 3, truncated: false, finished: false };
    assert_eq!(hall.blobs.logs().info(ATTEMPT.notes()).unwrap(), info, "nothing was written");
    // A shorter one still fits, and fills the notes exactly.
    assert_eq!(note(&hall, len + 3, &longest[3..]).unwrap(), Appended { len: NOTES_BYTES, truncated: false });
    assert!(matches!(note(&hall, NOTES_BYTES, b"3\n"), Err(AppendError::NotesFull { .. })));
    assert_eq!(note(&hall, len, b"22\n").unwrap().len, NOTES_BYTES, "a repetition");
    let info = LogInfo { len: NOTES_BYTES, truncated: false, finished: true };
    assert_eq!(hall.blobs.logs().finish(ATTEMPT.notes(), NOW_MS).unwrap(), info);
    assert_eq!(noted(&hall.reopened()).len() as u64, NOTES_BYTES);
}

pub fn ground_10_a_repeated_note_is_stored_once_and_nothing_is_skipped() {
    let hall = hall();
    for _ in 0..2 {
        assert_eq!(note(&hall, 0, b"{\"a\":1}\n").unwrap().len, 8);
    }
    let error = note(&hall, 0, b"{\"a\":2}\n").unwrap_err();
    assert!(matches!(error, AppendError::Conflict { offset: 5, .. }), "{error}");
    let error = note(&hall, 9, b"2\n").unwrap_err();
    assert!(matches!(error, AppendError::Gap { offset: 9, len: 8, .. }), "{error}");
    // Longer output does not make room for offsets of notes.
    hall.say(&[b'x'; 100], false);
    assert!(matches!(note(&hall, 100, b"2\n"), Err(AppendError::Gap { len: 8, .. })));
    assert_eq!(noted(&hall), b"{\"a\":1}\n");
}

pub fn ground_10_a_read_returns_whole_notes() {
    let hall = hall();
    let lines: Vec<Vec<u8>> = (0..9).map(|n| [vec![b'1'; 5_000 + n], b"\n".to_vec()].concat()).collect();
    lines.iter().fold(0, |at, line| note(&hall, at, line).unwrap().len);
    for most in [1, 5_001, 20_000, PIECE_BYTES] {
        let mut tail = hall.blobs.logs().tail(ATTEMPT.notes(), 0, Arc::new(|| {})).unwrap();
        let mut seen = Vec::new();
        while let Step::News(entries) = tail.next(most).unwrap() {
            seen.extend(entries.into_iter().map(|entry| entry.bytes));
        }
        assert!(seen == lines, "at most {most} bytes at once");
    }
}

pub fn ground_10_notes_are_followed_apart_from_output() {
    let hall = hall();
    let wakes = Arc::new(AtomicUsize::new(0));
    let woken = wakes.clone();
    let wake = Arc::new(move || {
        woken.fetch_add(1, Ordering::SeqCst);
    });
    let mut tail = hall.blobs.logs().tail(ATTEMPT.notes(), 0, wake).unwrap();
    hall.say(b"output\n", false);
    hall.blobs.logs().finish(ATTEMPT, NOW_MS).unwrap();
    assert_eq!((tail.next(100).unwrap(), wakes.load(Ordering::SeqCst)), (Step::Wait, 0));
    note(&hall, 0, b"1\n").unwrap();
    assert_eq!(wakes.load(Ordering::SeqCst), 1);
    let Step::News(entries) = tail.next(100).unwrap() else { panic!("the note is news") };
    assert_eq!((entries.len(), entries[0].stream, &*entries[0].bytes), (1, Stream::Note, &b"1\n"[..]));
    assert_eq!(tail.next(100).unwrap(), Step::Wait);
    hall.blobs.logs().finish(ATTEMPT.notes(), NOW_MS).unwrap();
    assert!(matches!(tail.next(100).unwrap(), Step::End(LogInfo { len: 2, finished: true, .. })));
}

pub fn ground_10_notes_go_with_their_attempts() {
    let hall = hall();
    let kept = AttemptKey { job: 18, claim: 1 };
    note(&hall, 0, b"1\n").unwrap();
    let chunk = Chunk { stream: Stream::Note, ..chunk(0, b"2\n") };
    hall.blobs.logs().append(kept, &chunk, NO_LIMIT, false).unwrap();
    let verdicts =
        Verdicts { referenced: &|_| false, pinned: &|_| false, gone: &|attempt| attempt == ATTEMPT };
    let collect = |now_ms| hall.blobs.collect(verdicts, now_ms, HOUR_MS).unwrap();
    let now_ms = real_now_ms();
    assert_eq!(collect(now_ms).logs, 0, "young");
    let follower = hall.blobs.logs().tail(ATTEMPT.notes(), 0, Arc::new(|| {})).unwrap();
    assert_eq!(collect(now_ms + 2 * HOUR_MS).logs, 0, "someone follows them");
    drop(follower);
    let collected = collect(now_ms + 2 * HOUR_MS);
    assert_eq!((collected.logs, collected.bytes, collected.odd), (1, 2 + 28, 0));
    assert!(!hall.has(NOTES) && !hall.has(NOTES_INDEX));
    assert_eq!(hall.blobs.logs().len(kept.notes()).unwrap(), 2);
}
