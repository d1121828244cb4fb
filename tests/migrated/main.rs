//! Data written by jobhall 0.1.0 with the current program: everything is listed, shown and explained, tokens and
//! leases stay valid, and the remaining work is done. `crates/store-sqlite/tests/fixtures/README.md` describes how
//! the data was made.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod golden;
mod reads;
mod work;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use jobhall_tests::Rig;
use jobhall_throwaway::Cluster;
use rusqlite::Connection;

use work::OldLease;

/// Short, so that attempts of lost workers are soon assigned to others.
const LEASE: [&str; 2] = ["--lease", "5s"];

/// The directory of the fixture of a store.
fn fixture(store: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    root.join("crates").join(store).join("tests/fixtures/0.1.0")
}

/// Copies files with the modes that the program requires, which a checkout does not keep.
fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).unwrap();
        fs::set_permissions(to, fs::Permissions::from_mode(0o700)).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let name = entry.unwrap().file_name();
            copy(&from.join(&name), &to.join(&name));
        }
    } else {
        fs::copy(from, to).unwrap();
        fs::set_permissions(to, fs::Permissions::from_mode(0o600)).unwrap();
    }
}

/// Nothing is removed until someone sets a rule, and `doctor` says so.
fn has_no_rule(rig: &Rig) {
    let rule = rig.json(&["retention", "show", "--json"]);
    assert!(rule["keep_ms"].is_null() && rule["keep_count"].is_null() && rule["is_set"] == false, "{rule}");
    assert!(!rig.said("hall").contains("completed jobs are kept"), "{}", rig.said("hall"));
    let checks = rig.json(&["doctor", "--json"]);
    let check = checks.as_array().unwrap().iter().find(|check| check["check"] == "retention").unwrap();
    assert_eq!(check["verdict"], "warning", "{check}");
    assert!(check["detail"].as_str().unwrap().contains("`jobhall retention set"), "{check}");
}

fn check(rig: &Rig, fixture: &Path, lease: &OldLease) {
    let secrets = fs::read_to_string(fixture.join("tokens.json")).unwrap();
    let secrets: serde_json::Value = serde_json::from_str(&secrets).unwrap();
    let golden = golden::read(&fixture.join("golden.txt"));
    work::finish_as_before(rig, secrets["w1"].as_str().unwrap(), lease);
    reads::completed_jobs_are_as_they_were(rig, &golden);
    reads::open_jobs_are_explained(rig, &golden);
    reads::lists_have_everything(rig);
    reads::outputs_are_there(rig, golden::of_case(&golden, "passed"));
    reads::tokens_reach_what_they_did(rig, &secrets);
    work::finish_everything(rig, secrets["w1"].as_str().unwrap());
    work::ends_are_right(rig, &golden);
    has_no_rule(rig);
}

#[test]
fn the_work_of_a_sqlite_file_of_0_1_0_goes_on() {
    let (mut rig, fixture) = (Rig::new(), fixture("store-sqlite"));
    copy(&fixture.join("data"), &rig.data());
    let path = rig.data().join("jobs.db");
    let file = Connection::open(&path).unwrap();
    file.execute_batch(&fs::read_to_string(fixture.join("jobs.sql")).unwrap()).unwrap();
    let sql =
        "SELECT id || '-' || claim, lower(hex(lease)) FROM jobs JOIN specs USING (id) WHERE key = 'running'";
    let lease =
        file.query_row(sql, [], |row| Ok(OldLease { attempt: row.get(0)?, lease: row.get(1)? })).unwrap();
    drop(file);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    rig.start(&[&["server"], &LEASE[..]].concat());
    check(&rig, &fixture, &lease);
}

#[test]
fn the_work_of_a_postgresql_database_of_0_1_0_goes_on() {
    let (mut rig, fixture) = (Rig::new(), fixture("store-postgres"));
    let server = Cluster::shared();
    let database = server.database();
    database.load(&fs::read_to_string(fixture.join("dump.sql")).unwrap());
    let sql = "SELECT id || '-' || claim, encode(lease, 'hex') FROM jobhall.jobs JOIN jobhall.specs USING (id) \
               WHERE key = 'running'";
    let row = database.sql(sql);
    let (attempt, lease) = row.split_once('|').unwrap();
    let lease = OldLease { attempt: attempt.to_owned(), lease: lease.to_owned() };
    fs::create_dir_all(rig.data()).unwrap();
    fs::set_permissions(rig.data(), fs::Permissions::from_mode(0o700)).unwrap();
    copy(&fixture.join("admin.token"), &rig.data().join("admin.token"));
    rig.start(&[&["server", "--database", &database.url()], &LEASE[..]].concat());
    check(&rig, &fixture, &lease);
    let in_inbox = "SELECT jobhall.job_of(3) > 1000";
    assert_eq!(database.sql(in_inbox), "t", "the row that was left in the inbox became a job");
}
