//! A chain of five migrations is killed before every statement; the file always has a complete prefix of them.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

use std::path::Path;
use std::process::{Command, abort};

use rusqlite::Connection;

use super::*;
use crate::database::open_writer;

const CHAIN: [Migration; 5] = [
    Migration {
        name: "0001_a",
        sql: "CREATE TABLE a (id INTEGER PRIMARY KEY, name TEXT) STRICT;
              INSERT INTO a VALUES (1, 'one'), (2, 'two');
              CREATE INDEX a_name ON a (name);",
    },
    Migration {
        name: "0002_b",
        sql: "ALTER TABLE a ADD COLUMN size INTEGER;
              UPDATE a SET size = length(name);
              CREATE TABLE b (a INTEGER NOT NULL, PRIMARY KEY (a)) STRICT, WITHOUT ROWID;",
    },
    Migration { name: "0003_c", sql: "INSERT INTO b SELECT id FROM a; DROP INDEX a_name;" },
    Migration {
        name: "0004_d",
        sql: "CREATE TABLE a2 (id INTEGER PRIMARY KEY, size INTEGER NOT NULL) STRICT;
              INSERT INTO a2 SELECT id, size FROM a;
              DROP TABLE a;
              ALTER TABLE a2 RENAME TO a;",
    },
    Migration {
        name: "0005_e",
        sql: "CREATE VIEW e AS SELECT size FROM a; -- the end\nDELETE FROM b WHERE a = 1;",
    },
];

/// The child's file, and the statement before which it is killed.
const FILE: &str = "JOBHALL_TEST_MIGRATION_FILE";
const DIES_AT: &str = "JOBHALL_TEST_MIGRATION_DIES_AT";

/// Everything that a migration can change: schema, rows, version.
fn content(conn: &Connection) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut schema = conn.prepare("SELECT name, coalesce(sql, '') FROM sqlite_schema ORDER BY name").unwrap();
    let rows = schema.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))).unwrap();
    for (name, sql) in rows.map(Result::unwrap) {
        if sql.starts_with("CREATE TABLE") {
            let count = format!("SELECT count(*) FROM {name}");
            let count: i64 = conn.query_row(&count, [], |row| row.get(0)).unwrap();
            found.push(format!("{name} has {count}"));
        }
        found.push(format!("{name}: {sql}"));
    }
    found.push(format!("version {}", version(conn).unwrap()));
    found
}

fn migrated(path: &Path, list: &[Migration], observer: Observer<'_>) -> Connection {
    std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    open_writer(path, list, observer).unwrap()
}

#[test]
fn child_dies_at_a_statement() {
    let (Some(file), Ok(at)) = (std::env::var_os(FILE), std::env::var(DIES_AT)) else { return };
    let mut left: usize = at.parse().unwrap();
    let mut die = || {
        if left == 0 {
            abort();
        }
        left -= 1;
    };
    migrated(Path::new(&file), &CHAIN, &mut die);
}

fn killed_at(path: &Path, at: usize) -> bool {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "migrations::tests::child_dies_at_a_statement"]);
    let child = child.env(FILE, path).env(DIES_AT, at.to_string()).output().unwrap();
    assert!(
        child.status.code().is_none_or(|code| code == 0),
        "the child died of something else: {}",
        String::from_utf8_lossy(&child.stderr)
    );
    !child.status.success()
}

#[test]
fn a_kill_at_any_statement_leaves_a_whole_prefix_and_a_second_run_completes_it() {
    let folder = tempfile::tempdir().unwrap();
    let prefixes: Vec<_> = (0..=CHAIN.len())
        .map(|n| content(&migrated(&folder.path().join(format!("prefix{n}.db")), &CHAIN[..n], &mut || ())))
        .collect();
    let mut statements = 0;
    migrated(&folder.path().join("whole.db"), &CHAIN, &mut || statements += 1);
    assert!(statements > 5 * 5 + 14, "every statement, its bookkeeping and its transaction: {statements}");

    let mut left_at = vec![0; prefixes.len()];
    for at in 0..statements {
        let path = folder.path().join(format!("killed{at}.db"));
        assert!(killed_at(&path, at), "statement {at} was reached");
        let conn = Connection::open(&path).unwrap();
        let verdict: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(verdict, "ok");
        let left = content(&conn);
        let prefix = prefixes.iter().position(|prefix| *prefix == left);
        left_at[prefix.unwrap_or_else(|| panic!("killed at {at}: no whole prefix: {left:#?}"))] += 1;
        drop(conn);
        assert_eq!(content(&migrated(&path, &CHAIN, &mut || ())), prefixes[CHAIN.len()]);
    }
    assert!(left_at.iter().all(|&n| n > 0), "every prefix was seen: {left_at:?}");
    assert!(!killed_at(&folder.path().join("undisturbed.db"), statements));
}

#[test]
fn a_migration_that_fails_leaves_the_file_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hall.db");
    let before = content(&migrated(&path, &CHAIN[..2], &mut || ()));
    let broken = Migration { name: "0003_broken", sql: "DELETE FROM b; INSERT INTO nowhere VALUES (1);" };
    let list = [CHAIN[0], CHAIN[1], broken];
    let error = open_writer(&path, &list, &mut || ()).unwrap_err();
    assert!(error.message.contains("hall.db") && error.message.contains("nowhere"), "{error}");
    assert_eq!(content(&migrated(&path, &CHAIN[..2], &mut || ())), before);
}

#[test]
fn an_edited_or_renamed_migration_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hall.db");
    migrated(&path, &CHAIN, &mut || ());
    let mut list = CHAIN;
    list[2].sql = "INSERT INTO b SELECT id FROM a; DROP INDEX  a_name;";
    let error = open_writer(&path, &list, &mut || ()).unwrap_err();
    assert!(error.message.contains("another text of migration 3 (0003_c)"), "{error}");
    let error = open_writer(&path, &CHAIN[..3], &mut || ()).unwrap_err();
    assert!(error.message.contains("has schema 5, this jobhall knows schemas up to 3"), "{error}");
}

#[test]
fn the_checksum_is_fnv_1a() {
    assert_eq!(checksum("").cast_unsigned(), 0xCBF2_9CE4_8422_2325);
    assert_eq!(checksum("a").cast_unsigned(), 0xAF63_DC4C_8601_EC8C);
}
