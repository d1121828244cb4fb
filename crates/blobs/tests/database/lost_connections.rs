//! Connections that end during a call: acknowledged data is stored, partial data is never visible, and the next call
//! uses another connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use jobhall_blobs::{AppendError, BlobError, Digest, PutError, Verdicts};

use crate::fixture::{ATTEMPT, HOUR_MS, NO_LIMIT, NOW_MS, chunk, real_now_ms};
use crate::tables::Tables;
use crate::{Hall, hall};

/// Enough losses at many different points.
pub const LOSSES: usize = 30;
/// Maximum number of tries; if they do not produce enough losses, no connection is ended.
pub const MOST: u32 = 5_000;

/// Ends connections of the hall while the work runs.
pub fn while_connections_end<T>(tables: &Tables, work: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let apart = tables.apart();
            while !done.load(Ordering::Relaxed) {
                apart.query(
                    "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity
                     WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'",
                    &[],
                );
            }
        });
        let _done = Done(&done);
        work()
    })
}

/// Sets the flag also if the work panics.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn content(n: u32) -> Vec<u8> {
    n.to_le_bytes().repeat(200_000)
}

#[test]
fn no_half_object_is_seen_when_connections_end_in_the_middle_of_a_put() {
    let hall = hall();
    let (mut failed, mut stored) = (Vec::new(), Vec::new());
    while_connections_end(&hall.place, || {
        for n in 0..MOST {
            match hall.blobs.objects().put(&mut content(n).as_slice(), NO_LIMIT, NOW_MS) {
                Ok(_) => stored.push(n),
                Err(PutError::Blob(BlobError::Away { .. })) => failed.push(n),
                Err(other) => panic!("{other:?}"),
            }
            if failed.len() >= LOSSES {
                break;
            }
        }
    });
    assert!(failed.len() >= LOSSES, "only {} of {} puts were hit", failed.len(), stored.len());
    for n in stored {
        hall.blobs.objects().verify(&Digest::of(&content(n))).unwrap();
    }
    for n in failed {
        match hall.blobs.objects().verify(&Digest::of(&content(n))) {
            // The connection was lost after the commit and before the reply.
            Ok(()) | Err(BlobError::Missing { .. }) => {}
            Err(other) => panic!("{other}"),
        }
        hall.put(&content(n));
    }
    let nothing_wanted = Verdicts { referenced: &|_| false, pinned: &|_| false, gone: &|_| true };
    hall.blobs.collect(nothing_wanted, real_now_ms() + 2 * HOUR_MS, HOUR_MS).unwrap();
    let left =
        "SELECT (SELECT count(*) FROM jobhall.blob_files) + (SELECT count(*) FROM jobhall.blob_chunks)";
    assert_eq!(hall.place.number(left), 0, "no chunk is left of any of them");
}

#[test]
fn a_log_goes_on_over_lost_connections_without_a_gap_or_a_repetition() {
    let hall = hall();
    let (mut told, mut losses) = (Vec::new(), 0);
    while_connections_end(&hall.place, || {
        for n in 0..MOST {
            let bytes = n.to_le_bytes().repeat(1 + n as usize % 50);
            match hall.blobs.logs().append(ATTEMPT, &chunk(told.len() as u64, &bytes), NO_LIMIT, false) {
                Ok(appended) => {
                    told.extend(&bytes);
                    assert_eq!(appended.len, told.len() as u64);
                }
                Err(AppendError::Blob(BlobError::Away { .. })) => losses += 1,
                // The previous chunk was stored although the reply was lost, and this one is different.
                Err(AppendError::Conflict { .. }) => {
                    let there = hall.said();
                    assert!(there.starts_with(&told), "acknowledged bytes are stored");
                    told = there;
                }
                Err(other) => panic!("{other:?}"),
            }
            if losses >= LOSSES {
                break;
            }
        }
    });
    assert!(losses >= LOSSES, "only {losses} were lost");
    let said = hall.said();
    assert!(said.starts_with(&told));
    assert!(hall.reopened().said() == said);
}

#[test]
fn a_read_that_cannot_reach_the_database_is_told_apart_from_damage_and_faults() {
    let hall = hall();
    let object = hall.blobs.objects().open_sound(&hall.put(b"content")).unwrap();
    assert_eq!(object.read_at(0, 7).unwrap(), b"content");
    hall.place.close();
    let error = object.read_at(0, 7).unwrap_err();
    assert!(matches!(error, BlobError::Away { .. }), "{error:?}");
}

/// Small chunks of a log are added to existing rows, whose size is bounded.
#[test]
fn many_short_writes_make_few_rows_and_long_ones_bounded_rows() {
    let hall = hall();
    let rows =
        |hall: &Hall, what: &str| hall.place.number(&format!("SELECT {what} FROM jobhall.blob_chunks"));
    (0..200).for_each(|_| hall.say(&[b'x'; 60], false));
    let count = rows(&hall, "count(*)");
    assert!((30..=45).contains(&count), "400 writes of 12,000 and 5,600 bytes in {count} rows");
    hall.say(&vec![b'y'; 1 << 20], false);
    hall.put(&vec![b'z'; 1_000_000]);
    assert_eq!(rows(&hall, "max(length(data))::bigint"), 256 << 10);
    assert_eq!(hall.said().len(), 12_000 + (1 << 20));
}
