//! The store as a hall left it, read from its file after the hall has ended.

use std::collections::BTreeMap;
use std::path::Path;

use jobhall_core::{Disposition, Submitted};
use jobhall_sim::{Name, Stored};
use jobhall_store::{JobFilter, Store};
use jobhall_store_sqlite::{Options, Sqlite};
use rusqlite::{Connection, OpenFlags};

use super::record::job_id;

/// Everything in the store of this data directory. SQLite itself is asked first whether the file is sound.
pub async fn read(data: &Path) -> Stored {
    let file = data.join("jobs.db");
    let plain = Connection::open_with_flags(&file, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
    let sound: String = plain.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok", "I6: {}", file.display());
    let names = names(&plain);
    drop(plain);
    let store = Sqlite::open(&file, Options::default()).unwrap();
    let (mut jobs, mut attempts) = (BTreeMap::new(), BTreeMap::new());
    let mut before = None;
    loop {
        let page = store.list(JobFilter::default(), before, 1_000).await.unwrap();
        for job in page.jobs {
            attempts.insert(job.id, store.attempts(job.id).await.unwrap());
            jobs.insert(job.id, job);
        }
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    let open = store.open_jobs(None, 1_000_000).await.unwrap().iter().map(|job| job.id).collect();
    let blocks = store.blocks().await.unwrap();
    let mut feed = store.feed(0, 1_000).await.unwrap();
    while let Some(last) = feed.rows.last().map(|row| row.n) {
        let more = store.feed(last, 1_000).await.unwrap().rows;
        if more.is_empty() {
            break;
        }
        feed.rows.extend(more);
    }
    Stored { jobs, attempts, open, blocks, feed, names }
}

/// Idempotency names. The digest of the body is the hall's own affair: every name was first sent with body 0.
fn names(plain: &Connection) -> Vec<Name> {
    let mut rows = plain.prepare("SELECT scope, key, answer FROM submit_keys").unwrap();
    let names = rows.query_map([], |row| {
        let answer: String = row.get(2)?;
        let answer: Vec<(u64, usize)> = serde_json::from_str(&answer).unwrap();
        let submitted =
            |(id, code): (u64, usize)| Submitted { id: job_id(id), disposition: Disposition::ALL[code] };
        let answer = answer.into_iter().map(submitted).collect();
        Ok(Name { scope: row.get(0)?, key: row.get(1)?, body: 0, answer })
    });
    names.unwrap().map(Result::unwrap).collect()
}
