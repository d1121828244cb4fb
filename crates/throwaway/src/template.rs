//! Keeps the result of `initdb` for the next cluster.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::programs::{OWNER, owned, program, run, version};

/// The directory for throwaway data of this user.
pub(crate) fn common() -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    let path = PathBuf::from(format!("/tmp/jobhall-throwaway-{user}"));
    if !path.exists() {
        owned(&path);
    }
    path
}

/// A new data directory at this path. Its parent belongs to the unprivileged user.
pub(crate) fn copy_to(path: &Path) {
    let template = template();
    run(program("/bin/cp").arg("-a").arg(&template).arg(path));
}

fn template() -> PathBuf {
    let path = common().join(format!("template-{}", version()));
    let gate = File::create(common().join("template.lock")).expect("the lock can be made");
    gate.lock().expect("the lock can be taken");
    if !path.exists() {
        let unfinished = path.with_extension("unfinished");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).expect("what an ended test left can be removed");
        }
        run(program("initdb").arg("--pgdata").arg(&unfinished).args([
            "--no-sync",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--username",
            OWNER,
        ]));
        fs::rename(&unfinished, &path).expect("a directory can be renamed");
    }
    path
}
