//! Blobs through a pooler that assigns every transaction another connection.

use std::thread;

use jobhall_blobs::{Artifact, ArtifactName, AttemptKey, Blobs, Database, MediaType};
use jobhall_throwaway::Cluster;

use crate::fixture::{NO_LIMIT, NOW_MS, chunk};
use crate::tables::{Tables, pool, runtime};

#[test]
fn everything_works_through_a_pooler_in_transaction_mode() {
    let (tables, pooler) = (Tables::new(), Cluster::shared().pgbouncer(2));
    let pool = pool(&pooler.url(tables.name()));
    let database = Database { pool, runtime: runtime().handle().clone(), epoch: None };
    let blobs = Blobs::in_database(database).unwrap();
    let work = |job: u64| {
        let attempt = AttemptKey { job, claim: 1 };
        let content = job.to_le_bytes().repeat(50_000);
        for offset in 0..20 {
            blobs.logs().append(attempt, &chunk(offset * 5, b"line\n"), NO_LIMIT, false).unwrap();
        }
        let stored = blobs.objects().put(&mut content.as_slice(), NO_LIMIT, NOW_MS).unwrap();
        let (name, digest) = (ArtifactName::new("a").unwrap(), stored.digest);
        let kept =
            Artifact { name, digest, size: stored.bytes, media_type: MediaType::unknown(), at_ms: NOW_MS };
        blobs.keep(attempt, &kept).unwrap();
        assert_eq!(blobs.logs().finish(attempt, NOW_MS).unwrap().len, 100);
        assert!(blobs.objects().read_all(&digest, NO_LIMIT).unwrap() == content);
        assert_eq!(blobs.artifacts().find(attempt, &kept.name).unwrap(), Some(kept));
    };
    thread::scope(|scope| {
        for job in 1..=8 {
            scope.spawn(move || work(job));
        }
    });
}
