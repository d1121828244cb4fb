//! Connections that end in the middle of something: what was told is there, nothing half is ever seen, and the next
//! call goes on with another connection.

use std::io::{self, Read};

use jobhall_blobs::{AppendError, BlobError, Digest, PutError, Verdicts};

use crate::fixture::{ATTEMPT, HOUR_MS, NO_LIMIT, NOW_MS, Place, chunk, real_now_ms};
use crate::tables::Tables;
use crate::{Hall, hall};

/// Ends all connections to the database but the one that says so.
fn end_connections(tables: &Tables) {
    tables.query(
        "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
        &[],
    );
}

/// Ends all connections whenever so many more bytes were read.
struct Cutting<'a> {
    rest: &'a [u8],
    tables: &'a Tables,
    every: usize,
    until: usize,
}

impl Read for Cutting<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.rest.read(out)?;
        self.until = self.until.saturating_sub(count);
        if self.until == 0 {
            self.until = self.every;
            end_connections(self.tables);
        }
        Ok(count)
    }
}

#[test]
fn no_half_object_is_seen_when_connections_end_in_the_middle_of_a_put() {
    let hall = hall();
    let content: Vec<u8> = (0..1_u32 << 18).flat_map(u32::to_le_bytes).collect();
    let digest = Digest::of(&content);
    let (mut failed, mut tried) = (0, 0);
    for every in [64 << 10, 300 << 10, 700 << 10, 1 << 20] {
        let mut source = Cutting { rest: &content, tables: &hall.place, every, until: every };
        match hall.blobs.objects().put(&mut source, NO_LIMIT, NOW_MS) {
            Ok(stored) => assert_eq!(stored.digest, digest),
            Err(PutError::Blob(BlobError::Io { .. })) => failed += 1,
            Err(other) => panic!("{other:?}"),
        }
        tried += 1;
        match hall.blobs.objects().read_all(&digest, NO_LIMIT) {
            Ok(there) => assert!(there == content),
            Err(error) => assert!(error.to_string().starts_with("find "), "{error}"),
        }
        assert_eq!(hall.place.count("objects"), usize::from(hall.blobs.objects().exists(&digest).unwrap()));
    }
    assert!(failed <= tried);
    assert_eq!(hall.put(&content), digest, "and then it goes on");
    let nothing_wanted = Verdicts { referenced: &|_| false, gone: &|_| true };
    hall.blobs.collect(nothing_wanted, real_now_ms() + 2 * HOUR_MS, HOUR_MS).unwrap();
    let left =
        "SELECT (SELECT count(*) FROM jobhall.blob_files) + (SELECT count(*) FROM jobhall.blob_chunks)";
    assert_eq!(hall.place.number(left), 0, "no chunk is left of any of them");
}

#[test]
fn a_log_goes_on_over_lost_connections_without_a_gap_or_a_repetition() {
    let hall = hall();
    let mut told = Vec::new();
    for n in 0..30_u8 {
        let bytes = vec![n; 1 + usize::from(n) * 40];
        if n % 3 == 0 {
            end_connections(&hall.place);
        }
        // As a worker does: the same chunk again until it was taken.
        for _ in 0..20 {
            match hall.blobs.logs().append(ATTEMPT, &chunk(told.len() as u64, &bytes), NO_LIMIT, false) {
                Ok(appended) => {
                    told.extend(&bytes);
                    assert_eq!(appended.len, told.len() as u64);
                    break;
                }
                Err(AppendError::Blob(BlobError::Io { .. })) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(told.len(), (0..30).map(|n| 1 + n * 40).sum::<usize>(), "every chunk was taken");
    assert!(hall.said() == told);
    assert!(hall.reopened().said() == told);
}

/// Chunks of a log are added to rows, and those are bounded on both sides.
#[test]
fn many_short_writes_make_few_rows_and_long_ones_bounded_rows() {
    let hall = hall();
    let rows =
        |hall: &Hall, what: &str| hall.place.number(&format!("SELECT {what} FROM jobhall.blob_chunks"));
    (0..200).for_each(|_| hall.say(&[b'x'; 60], false));
    let count = rows(&hall, "count(*)");
    assert!((10..=20).contains(&count), "400 writes of 12,000 and 5,600 bytes in {count} rows");
    hall.say(&vec![b'y'; 1 << 20], false);
    hall.put(&vec![b'z'; 1_000_000]);
    assert_eq!(rows(&hall, "max(length(data))::bigint"), 256 << 10);
    assert_eq!(hall.said().len(), 12_000 + (1 << 20));
}
