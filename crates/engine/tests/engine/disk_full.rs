//! The engine on a disk that is really full (a small tmpfs): it acknowledges nothing that is not stored, says why, and
//! goes on when there is room. Needs the right to mount; without it the test fails, unless `JOBHALL_ALLOW_UNPROVEN`
//! names `disk_full`.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use jobhall_core::{Json, NewJob, TypeName};
use jobhall_engine::{Config, Engine, Rejected, SystemClock};
use jobhall_store::Store;
use jobhall_store_sqlite::{Options, Sqlite};

/// A mounted file system that goes with this.
struct Mount(PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn mount(at: &Path) -> Option<Mount> {
    let done = Command::new("mount").args(["-t", "tmpfs", "-o", "size=8m", "jobhall-test"]).arg(at).output();
    if done.as_ref().is_ok_and(|done| done.status.success()) {
        return Some(Mount(at.to_owned()));
    }
    let allowed = std::env::var("JOBHALL_ALLOW_UNPROVEN").unwrap_or_default();
    assert!(allowed.split(',').any(|name| name == "disk_full"), "not proven: mount refused: {done:?}");
    eprintln!("not proven: mount refused: {done:?}");
    None
}

fn large() -> NewJob {
    let params = Json::params(&format!("\"{}\"", "x".repeat(30_000))).unwrap();
    NewJob { params, ..NewJob::new(TypeName::new("t").unwrap()) }
}

#[tokio::test]
async fn a_full_disk_is_said_and_nothing_acknowledged_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_mounted) = mount(folder.path()) else { return };
    let ballast = folder.path().join("ballast");
    fs::write(&ballast, vec![1u8; 3 << 20]).unwrap();
    let store = Arc::new(Sqlite::open(folder.path().join("hall.db"), Options::default()).unwrap());
    let engine = Engine::start(store.clone(), Config::default(), SystemClock::default()).await.unwrap();
    let mut acknowledged = Vec::new();
    let refused = loop {
        match engine.submit_one(large()).await {
            Ok(submitted) => acknowledged.push(submitted.id),
            Err(refused) => break refused,
        }
        assert!(acknowledged.len() < 1_000, "the disk never was full");
    };
    assert!(matches!(refused, Rejected::Storage { full: true, .. }), "{refused:?}");
    assert!(refused.to_string().starts_with("the store failed: "), "{refused}");
    assert!(matches!(engine.submit_one(large()).await, Err(Rejected::Storage { full: true, .. })));
    fs::remove_file(&ballast).unwrap();
    acknowledged.push(engine.submit_one(large()).await.expect("it goes on when there is room").id);
    let stored = store.jobs(acknowledged.clone()).await.unwrap();
    assert!(stored.iter().all(Option::is_some));
    assert_eq!(store.open_jobs(None, 10_000).await.unwrap().len(), acknowledged.len(), "and nothing else");
    engine.stop().await;
}
