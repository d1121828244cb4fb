//! The store after the hall has ended, read from its file or from its database.

use std::collections::BTreeMap;
use std::path::Path;

use jobhall_core::{Disposition, Submitted};
use jobhall_sim::{Name, Stored};
use jobhall_store::{JobFilter, Store};
use jobhall_store_postgres::{Leadership, Node};
use jobhall_store_sqlite::{Options, Sqlite};
use jobhall_throwaway::Database;
use rusqlite::{Connection, OpenFlags};

use super::record::job_id;

/// The content of the store in this data directory. SQLite checks the integrity of the file first.
pub async fn in_file(data: &Path) -> Stored {
    let file = data.join("jobs.db");
    let plain = Connection::open_with_flags(&file, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
    let sound: String = plain.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok", "I6: {}", file.display());
    let names = {
        let mut rows = plain.prepare("SELECT scope, key, answer FROM idempotency_keys").unwrap();
        let names = rows.query_map([], |row| Ok(name(row.get(0)?, row.get(1)?, &row.get::<_, String>(2)?)));
        names.unwrap().map(Result::unwrap).collect()
    };
    drop(plain);
    let store = Sqlite::open(&file, Options::default()).unwrap();
    all(&store, names).await
}

/// The content of this database. The reader must lead: the nodes have released the leadership.
pub async fn in_database(database: &Database) -> Stored {
    let rows = database.sql(
        "SELECT coalesce(json_agg(json_build_array(scope, key, answer)), '[]') FROM jobhall.idempotency_keys",
    );
    let rows: Vec<(String, String, String)> = serde_json::from_str(&rows).unwrap();
    let names = rows.into_iter().map(|(scope, key, answer)| name(scope, key, &answer)).collect();
    let options = jobhall_store_postgres::Options::new(database.url());
    let opened = tokio::task::spawn_blocking(|| jobhall_store_postgres::Database::open(options));
    let reader = Node { name: "judge".to_owned(), url: "http://localhost".to_owned() };
    match opened.await.unwrap().unwrap().lead(reader).await.unwrap() {
        Leadership::Mine(store) => all(&*store, names).await,
        Leadership::Theirs(holder) => panic!("all nodes have stopped, and {holder:?} leads"),
    }
}

async fn all(store: &dyn Store, names: Vec<Name>) -> Stored {
    let (mut jobs, mut attempts) = (BTreeMap::new(), BTreeMap::new());
    let mut before = None;
    loop {
        let page = store.list(JobFilter::default(), before, 1_000).await.unwrap();
        for job in page.jobs {
            attempts.insert(job.id, store.attempts(job.id, 0, usize::MAX).await.unwrap());
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

/// An idempotency key. The digest of the body is internal to the server: every key was first sent with body 0.
fn name(scope: String, key: String, answer: &str) -> Name {
    let answer: Vec<(u64, usize)> = serde_json::from_str(answer).unwrap();
    let submitted =
        |(id, code): (u64, usize)| Submitted { id: job_id(id), disposition: Disposition::ALL[code] };
    Name { scope, key, body: 0, answer: answer.into_iter().map(submitted).collect() }
}
