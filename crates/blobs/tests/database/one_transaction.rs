//! Many objects in one transaction.

use jobhall_blobs::{BlobError, Digest, MIN_AGE_MS, PutManyError, Verdicts};

use crate::fixture::{FileStore, NOW_MS};
use crate::hall;
use crate::lost_connections::{LOSSES, MOST, while_connections_end};

fn batch(n: u32) -> Vec<Vec<u8>> {
    (0..20_u32)
        .map(|part| [n, part].map(u32::to_le_bytes).concat().repeat(1 + 2_000 * part as usize))
        .collect()
}

fn slices(contents: &[Vec<u8>]) -> Vec<&[u8]> {
    contents.iter().map(Vec::as_slice).collect()
}

#[test]
fn ground_11_many_objects_are_one_transaction() {
    let hall = hall();
    let contents = batch(1);
    hall.blobs.objects().put_many(&slices(&contents), NOW_MS).unwrap();
    let sql = "SELECT count(DISTINCT writer) FROM (SELECT xmin::text FROM jobhall.blob_files
        UNION ALL SELECT xmin::text FROM jobhall.blob_chunks) AS written (writer)";
    assert_eq!(hall.place.number(sql), 1);
    assert_eq!(hall.place.count("objects"), contents.len());
}

#[test]
fn ground_11_of_many_objects_all_or_none_are_stored_when_connections_end() {
    let hall = hall();
    let (mut failed, mut stored) = (Vec::new(), Vec::new());
    while_connections_end(&hall.place, || {
        for n in 0..MOST {
            match hall.blobs.objects().put_many(&slices(&batch(n)), NOW_MS) {
                Ok(_) => stored.push(n),
                Err(PutManyError::Blob(BlobError::Away { .. })) => failed.push(n),
                Err(other) => panic!("{other:?}"),
            }
            if failed.len() >= LOSSES {
                break;
            }
        }
    });
    assert!(failed.len() >= LOSSES, "only {} of {} calls were hit", failed.len(), stored.len());
    let there = |n: u32| {
        let exists = |content: &Vec<u8>| match hall.blobs.objects().verify(&Digest::of(content)) {
            Ok(()) => true,
            Err(BlobError::Missing { .. }) => false,
            Err(other) => panic!("{other}"),
        };
        batch(n).iter().filter(|content| exists(content)).count()
    };
    assert!(!stored.is_empty(), "some calls were not hit");
    assert!(stored.into_iter().all(|n| there(n) == 20), "what was acknowledged is stored");
    assert!(failed.into_iter().all(|n| [0, 20].contains(&there(n))), "all or none");
}

/// Another node stores one of the objects, and removes another, after this one has looked.
#[test]
fn ground_11_many_objects_are_looked_at_again_when_another_node_was_faster() {
    let hall = hall();
    let apart = hall.place.apart();
    let other = apart.open();
    let later = NOW_MS + MIN_AGE_MS;
    for round in 0..20_u32 {
        let contents = batch(round);
        hall.put(&contents[0]);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                other.objects().put(&mut contents[5].as_slice(), u64::MAX, later).unwrap();
                let verdicts = Verdicts { referenced: &|_| false, pinned: &|_| false, gone: &|_| false };
                other.collect(verdicts, later, MIN_AGE_MS).unwrap();
            });
            let stored = hall.blobs.objects().put_many(&slices(&contents), later).unwrap();
            stored.iter().for_each(|stored| hall.blobs.objects().verify(&stored.digest).unwrap());
        });
    }
}
