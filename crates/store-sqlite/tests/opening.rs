//! Which files are opened, and which are refused with the reason and left unchanged.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

mod fixture;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use fixture::{inserting, open, present, queued, wait};
use jobhall_store::{Store, StoreError};
use jobhall_store_sqlite::{Options, Sqlite};

fn refusal(path: &Path) -> String {
    let StoreError { message, .. } = Sqlite::open(path, Options::default()).unwrap_err();
    assert!(message.contains(path.to_str().unwrap()), "names the file: {message}");
    message
}

fn filled(path: &Path, last: u64) {
    let store = open(path);
    wait(store.commit(vec![inserting((1..=last).map(|n| queued(n, None)))])).unwrap();
}

fn edit(path: &Path, sql: &str) {
    rusqlite::Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

#[test]
fn what_was_acknowledged_is_there_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hall.db");
    filled(&path, 50);
    let store = open(&path);
    assert_eq!(present(&store, 60).len(), 50);
    let committed = wait(store.commit(vec![inserting([queued(51, None)])])).unwrap();
    assert_eq!(committed.feed, Some(2), "numbers continue");
}

#[test]
fn only_the_owner_may_read_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hall.db");
    let store = open(&path);
    wait(store.commit(vec![inserting([queued(1, None)])])).unwrap();
    for name in ["hall.db", "hall.db-wal", "hall.db-shm", "hall.db.lock"] {
        let mode = fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn a_second_hall_is_refused_while_the_first_lives() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hall.db");
    let store = open(&path);
    let message = refusal(&path);
    assert!(message.ends_with("hall.db.lock is locked: another server has this store open"), "{message}");
    drop(store);
    open(&path);
}

#[test]
fn a_symbolic_link_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    filled(&folder.path().join("real.db"), 1);
    let link = folder.path().join("hall.db");
    std::os::unix::fs::symlink(folder.path().join("real.db"), &link).unwrap();
    assert!(refusal(&link).ends_with("is a symbolic link, which is refused"));
    fs::create_dir(folder.path().join("folder.db")).unwrap();
    assert!(refusal(&folder.path().join("folder.db")).ends_with("is not a file"));
}

#[test]
fn a_network_file_system_is_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hall.db");
    for (magic, name) in [(0x6969u32, "NFS"), (0xFF53_4D42, "CIFS"), (0x6573_5546, "FUSE")] {
        let file_system = match magic {
            0x6969 => |_: &Path| Ok(0x6969),
            0xFF53_4D42 => |_: &Path| Ok(0xFF53_4D42),
            _ => |_: &Path| Ok(0x6573_5546),
        };
        let error = Sqlite::open(&path, Options { file_system, ..Options::default() }).unwrap_err();
        assert!(error.message.contains(&format!("hall.db is on {name}")), "{error}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let local = Options { file_system: |_| Ok(0xEF53), ..Options::default() };
    Sqlite::open(&path, local).unwrap();
}

#[test]
fn a_folder_that_does_not_exist_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = Sqlite::open(folder.path().join("no/hall.db"), Options::default()).unwrap_err();
    assert!(error.message.contains("/no"), "{error}");
}

#[test]
fn garbage_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hall.db");
    let garbage: Vec<u8> = (0..20_000u32).map(|n| (n * 31 % 251).to_le_bytes()[0]).collect();
    fs::write(&path, &garbage).unwrap();
    assert!(refusal(&path).contains("damaged or not a Jobhall database"));
    assert_eq!(fs::read(&path).unwrap(), garbage);
}

#[test]
fn a_truncated_file_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hall.db");
    filled(&path, 2_000);
    let whole = fs::read(&path).unwrap();
    for left in [whole.len() - 4_096, whole.len() / 2, 10_000, 4_096, 300] {
        fs::write(&path, &whole[..left]).unwrap();
        assert!(refusal(&path).contains("damaged or not a Jobhall database"), "{left} bytes left");
        assert_eq!(fs::read(&path).unwrap(), &whole[..left]);
    }
}

#[test]
fn a_database_of_another_program_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hall.db");
    edit(&path, "CREATE TABLE jobs (a); INSERT INTO jobs VALUES (1)");
    let before = fs::read(&path).unwrap();
    assert!(refusal(&path).contains("is a database of another program"));
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_newer_schema_is_refused_and_not_a_byte_changed() {
    let newer = "INSERT INTO migrations VALUES (999, '0999_later', 5);";
    for sql in ["PRAGMA user_version = 999", newer, &format!("{newer} PRAGMA user_version = 999")] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hall.db");
        filled(&path, 10);
        edit(&path, sql);
        let before = fs::read(&path).unwrap();
        let message = refusal(&path);
        assert!(message.contains("has schema 999, this jobhall knows schemas up to "), "{message}");
        assert_eq!(fs::read(&path).unwrap(), before, "{sql}");
    }
}

#[test]
fn a_newer_schema_in_an_uncopied_log_is_refused_and_not_a_byte_changed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("hall.db"), folder.path().join("copy.db"));
    filled(&path, 10);
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.execute_batch("PRAGMA wal_autocheckpoint = 0; PRAGMA user_version = 999").unwrap();
    // The state after a crash: the newer version is only in the log.
    fs::copy(&path, &copy).unwrap();
    fs::copy(folder.path().join("hall.db-wal"), folder.path().join("copy.db-wal")).unwrap();
    let read = || (fs::read(&copy).unwrap(), fs::read(folder.path().join("copy.db-wal")).unwrap());
    let before = read();
    assert!(refusal(&copy).contains("has schema 999"));
    assert_eq!(read(), before);
}

#[test]
fn an_edited_migration_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hall.db");
    filled(&path, 10);
    edit(&path, "UPDATE migrations SET checksum = checksum + 1");
    let before = fs::read(&path).unwrap();
    let message = refusal(&path);
    assert!(message.contains("another text of migration 1 (0001_jobs)"), "{message}");
    assert_eq!(fs::read(&path).unwrap(), before);
    edit(&path, "UPDATE migrations SET checksum = checksum - 1; PRAGMA user_version = 0");
    assert!(refusal(&path).contains("has schema 0, but records "));
}
