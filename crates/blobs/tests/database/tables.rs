//! Direct access to the tables of blobs, without their rules.

use std::sync::{Mutex, OnceLock};

use deadpool_postgres::{Manager, Pool};
use jobhall_blobs::{Blobs, Database};
use jobhall_throwaway::{Cluster, Shared};
use tokio::runtime::Runtime;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{NoTls, Row};

use crate::fixture::{FileStore, real_now_ms};

/// The tables in a separate database.
pub struct Tables {
    /// None if another value owns it.
    database: Option<jobhall_throwaway::Database>,
    pool: Pool,
    /// The epoch of the leadership that its blobs are opened with.
    pub epoch: Option<u64>,
}

/// The server, and unused databases: a property test uses many.
struct Server {
    shared: Shared,
    free: Mutex<Vec<jobhall_throwaway::Database>>,
}

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server { shared: Cluster::shared(), free: Mutex::default() })
}

pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
    })
}

/// A connection pool like that of a hall.
pub fn pool(url: &str) -> Pool {
    let manager = Manager::new(url.parse().unwrap(), NoTls);
    Pool::builder(manager).max_size(8).build().unwrap()
}

impl Tables {
    pub fn new() -> Tables {
        let free = server().free.lock().unwrap().pop();
        let database = free.unwrap_or_else(|| server().shared.database());
        let pool = pool(&database.url());
        let tables = Tables { database: Some(database), pool, epoch: None };
        tables.query("DROP SCHEMA IF EXISTS jobhall CASCADE", &[]);
        tables
    }

    /// The same tables with separate connections.
    pub fn apart(&self) -> Tables {
        let pool = pool(&self.database.as_ref().unwrap().url());
        Tables { database: None, pool, epoch: self.epoch }
    }

    pub fn name(&self) -> &str {
        self.database.as_ref().unwrap().name()
    }

    /// The blobs as opened by a leader with this epoch.
    pub fn opened_at(&self, epoch: Option<u64>) -> Blobs {
        let database = Database { pool: self.pool.clone(), runtime: runtime().handle().clone(), epoch };
        Blobs::in_database(database).unwrap()
    }

    pub fn query(&self, sql: &str, parameters: &[(&(dyn ToSql + Sync), Type)]) -> Vec<Row> {
        runtime()
            .block_on(async { self.pool.get().await.unwrap().query_typed(sql, parameters).await.unwrap() })
    }

    /// From now on no connection is available.
    pub fn close(&self) {
        self.pool.close();
    }

    /// The number that a query returns.
    pub fn number(&self, sql: &str) -> i64 {
        self.query(sql, &[])[0].get(0)
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        self.pool.close();
        server().free.lock().unwrap().extend(self.database.take());
    }
}

impl FileStore for Tables {
    fn open(&self) -> Blobs {
        self.opened_at(self.epoch)
    }

    fn read(&self, name: &str) -> Option<Vec<u8>> {
        let sql = "SELECT f.bytes, coalesce(string_agg(c.data, ''::bytea ORDER BY c.at), ''::bytea)
            FROM jobhall.blob_files f LEFT JOIN jobhall.blob_chunks c ON c.file = f.id
            WHERE f.name = $1 GROUP BY f.id";
        let rows = self.query(sql, &[(&name, Type::TEXT)]);
        let row = rows.first()?;
        let (bytes, content): (i64, Vec<u8>) = (row.get(0), row.get(1));
        assert_eq!(bytes, i64::try_from(content.len()).unwrap(), "{name} has the recorded length");
        Some(content)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let (len, now_ms) = (i64::try_from(bytes.len()).unwrap(), i64::try_from(real_now_ms()).unwrap());
        let sql = "INSERT INTO jobhall.blob_files (name, bytes, tail, touched_ms) VALUES ($1, $2, 0, $3)
            ON CONFLICT (name) DO UPDATE SET bytes = excluded.bytes, tail = 0 RETURNING id";
        let rows = self.query(sql, &[(&name, Type::TEXT), (&len, Type::INT8), (&now_ms, Type::INT8)]);
        let file: i64 = rows[0].get(0);
        self.query("DELETE FROM jobhall.blob_chunks WHERE file = $1", &[(&file, Type::INT8)]);
        if !bytes.is_empty() {
            let sql = "INSERT INTO jobhall.blob_chunks (file, at, data) VALUES ($1, 0, $2)";
            self.query(sql, &[(&file, Type::INT8), (&bytes, Type::BYTEA)]);
        }
    }

    fn remove(&self, name: &str) {
        self.query("DELETE FROM jobhall.blob_files WHERE name = $1", &[(&name, Type::TEXT)]);
    }

    fn set_modified(&self, name: &str, ms: u64) {
        let sql = "UPDATE jobhall.blob_files SET touched_ms = $2 WHERE name = $1";
        self.query(sql, &[(&name, Type::TEXT), (&i64::try_from(ms).unwrap(), Type::INT8)]);
    }

    fn count(&self, below: &str) -> usize {
        let sql = "SELECT count(*) FROM jobhall.blob_files WHERE name LIKE $1 || '/%'";
        let rows = self.query(sql, &[(&below, Type::TEXT)]);
        usize::try_from(rows[0].get::<_, i64>(0)).unwrap()
    }
}
