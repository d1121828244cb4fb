//! What is hidden from jobs stays hidden, whatever a job tries.
//!
//! Every script that mounts something runs below `unshare --mount --propagation private`, and mounts only directories
//! of the test below themselves: if the isolation did not work, nothing outside of the test would change.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command as Program, Output};

use jobhall_worker::{Command, Hidden, Options, Setup, Slots};

use crate::rig::{Marker, PROGRAM};

const SECRET: &str = "jh_secret_of_the_hall";
const NOBODY: u32 = 65_534;

/// A data directory and a credential, in a directory that is removed only if nothing is mounted in it.
struct Hall {
    folder: Option<tempfile::TempDir>,
    mounts: usize,
}

impl Hall {
    fn new(owner: Option<u32>) -> Hall {
        let mounts = mounts().len();
        let folder = tempfile::tempdir().expect("a directory");
        for name in ["data", "state", "open"] {
            std::fs::create_dir(folder.path().join(name)).expect("a directory");
        }
        let hall = Hall { folder: Some(folder), mounts };
        for file in hall.secrets() {
            std::fs::write(&file, SECRET).expect("a secret");
            std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).expect("private");
        }
        if let Some(owner) = owner {
            let folders = ["", "data", "state", "open"].map(|name| hall.path().join(name));
            for path in folders.into_iter().chain(hall.secrets()) {
                chown(path, Some(owner), Some(owner)).expect("another owner");
            }
        }
        hall
    }

    fn path(&self) -> &Path {
        self.folder.as_ref().expect("until it is dropped").path()
    }

    fn secrets(&self) -> [PathBuf; 2] {
        ["data/admin.token", "state/w.token"].map(|file| self.path().join(file))
    }

    /// The data directory, and the file in the other one.
    fn hidden(&self) -> Vec<PathBuf> {
        vec![self.path().join("data"), self.path().join("state/w.token")]
    }

    /// Runs a script in a slot of a worker in its own mount namespace.
    fn run(&self, user: Option<u32>, hidden: &[PathBuf], script: &str) -> Output {
        assert!(
            self.secrets().iter().all(|file| std::fs::read_to_string(file).is_ok_and(|text| text == SECRET))
        );
        let marker = Marker::new();
        let (name, value) = marker.variable();
        let mut program = Program::new("unshare");
        program.args(["--mount", "--propagation", "private"]);
        if let Some(user) = user {
            program.args([
                "setpriv",
                "--reuid",
                &user.to_string(),
                "--regid",
                &user.to_string(),
                "--clear-groups",
            ]);
        }
        program.args([PROGRAM, "worker", "sh", "-c", script, PROGRAM]).arg(self.path()).env(name, value);
        if !hidden.is_empty() {
            program.env("JOBHALL_TEST_HIDDEN", std::env::join_paths(hidden).expect("paths"));
        }
        let output = program.current_dir(self.path()).output().expect("unshare");
        assert!(
            self.secrets().iter().all(|file| std::fs::read_to_string(file).is_ok_and(|text| text == SECRET))
        );
        assert_eq!(mounts().len(), self.mounts, "no mount of a slot is seen outside of it");
        output
    }
}

impl Drop for Hall {
    fn drop(&mut self) {
        let folder = self.folder.take().expect("dropped once");
        if let Some(mount) = mounts().iter().find(|line| line.contains(&*folder.path().to_string_lossy())) {
            let kept = folder.keep();
            panic!("{} is not removed, because this is mounted in it: {mount}", kept.display());
        }
    }
}

fn mounts() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    text.lines().map(str::to_owned).collect()
}

/// Prints a line before each way to the secrets, and the secrets if the way works.
const ATTACK: &str = r#"
export PROGRAM="${0:?}" DIR="${1:?}"
exec 2>/dev/null
echo "way: the files"
cat "$DIR/data/admin.token" "$DIR/state/w.token"
echo "way: other processes"
for process in /proc/[0-9]*; do
    cat "$process/root$DIR/data/admin.token" "$process/root$DIR/state/w.token"
    cat "$process/cwd/data/admin.token" "$process/cwd/state/w.token"
done
echo "way: namespaces of other processes"
for process in $PPID 1 $(cut -d' ' -f4 /proc/$PPID/stat); do
    nsenter --mount="/proc/$process/ns/mnt" cat "$DIR/data/admin.token" "$DIR/state/w.token"
done
echo "way: unmount"
umount "$DIR/data" && cat "$DIR/data/admin.token"
umount -l "$DIR/data" && cat "$DIR/data/admin.token"
umount -l "$DIR/state/w.token" && cat "$DIR/state/w.token"
echo "way: mount the directory above"
mount --bind "$DIR" "$DIR/open" && cat "$DIR/open/data/admin.token" "$DIR/open/state/w.token"
echo "way: copy the mount above"
"$PROGRAM" uncover "$DIR" data/admin.token
"$PROGRAM" uncover "$DIR" state/w.token
echo "way: rename"
mv "$DIR/data" "$DIR/moved" && { cat "$DIR/moved/admin.token"; mv "$DIR/moved" "$DIR/data"; }
echo "way: a nested namespace"
unshare --user --map-root-user --mount --propagation private sh -c '
    echo "way: within the nested namespace"
    umount -l "$DIR/data"; umount -l "$DIR/state/w.token"
    cat "$DIR/data/admin.token" "$DIR/state/w.token"
    mount --bind "$DIR" "$DIR/open" && cat "$DIR/open/data/admin.token" "$DIR/open/state/w.token"
    "$PROGRAM" uncover "$DIR" data/admin.token
    "$PROGRAM" uncover "$DIR" state/w.token
'
unshare --user --map-root-user sh -c '
    umount -l "$DIR/data"; cat "$DIR/data/admin.token"
    mount --bind "$DIR" "$DIR/open" && cat "$DIR/open/data/admin.token"
'
echo "end: $(id -u) $(stat -c %u "$DIR")"
"#;

#[track_caller]
fn check_hidden(user: Option<u32>) {
    let open = Hall::new(user).run(user, &[], "cat \"$1/data/admin.token\" \"$1/state/w.token\"");
    let said = String::from_utf8_lossy(&open.stdout);
    assert_eq!(said.matches(SECRET).count(), 2, "without isolation a job reads them: {open:?}");

    let hall = Hall::new(user);
    let closed = hall.run(user, &hall.hidden(), ATTACK);
    let said = String::from_utf8_lossy(&closed.stdout);
    assert!(!said.contains(SECRET), "{said}");
    let uid = user.unwrap_or_else(|| rustix::process::getuid().as_raw());
    assert!(said.ends_with(&format!("end: {uid} {uid}\n")), "not all was tried: {said} {closed:?}");
}

#[test]
fn audit_h2_no_job_reads_what_is_hidden() {
    check_hidden(None);
}

#[test]
fn audit_h2_no_job_of_an_unprivileged_user_reads_what_is_hidden() {
    assert!(rustix::process::getuid().is_root(), "not proven: only root can start a worker of another user");
    check_hidden(Some(NOBODY));
}

#[tokio::test]
async fn audit_h2_a_slot_does_not_start_if_what_it_hides_has_moved() {
    let hall = Hall::new(None);
    let above = hall.path().join("above");
    std::fs::create_dir_all(above.join("data")).expect("directories");
    std::fs::write(above.join("token"), SECRET).expect("a secret");
    for path in [above.join("data"), above.join("token")] {
        let hidden = Hidden::new([path.clone(), above.join("not-there")]).expect("paths");
        let setup = Setup { hidden: Some(hidden), ..Setup::default() };
        let options = Options { program: PROGRAM.into(), setup, ..Options::default() };
        assert_eq!(options.probe().await, Ok(()), "not proven: slots cannot be isolated here");
        let elsewhere = hall.path().join("elsewhere");
        std::fs::rename(&above, &elsewhere).expect("renamed");
        let refused = options.probe().await.expect_err("moved");
        assert!(refused.contains(&format!("{}: it was moved", path.display())), "{refused}");
        std::fs::create_dir_all(above.join("data")).expect("others at the same path");
        std::fs::write(above.join("token"), "").expect("another file");
        assert!(options.probe().await.expect_err("replaced").contains("it was moved"));
        std::fs::remove_dir_all(&above).expect("removed");
        std::fs::rename(&elsewhere, &above).expect("renamed back");
        std::fs::write(above.join("new"), SECRET).expect("a secret");
        std::fs::rename(above.join("new"), above.join("token")).expect("a renewed credential");
        assert_eq!(options.probe().await, Ok(()));
    }
    assert_eq!(mounts().len(), hall.mounts);
}

/// The mount namespace of a job that runs in a slot of these.
async fn namespace_of_a_job(slots: &Slots) -> String {
    let command = Command::new(["readlink", "/proc/self/ns/mnt"]);
    let mut running = slots.acquire().await.run(command).await.expect("a slot");
    let mut chunks = Vec::new();
    while let Some(chunk) = running.next().await {
        chunks.push(chunk);
    }
    running.wait().await;
    crate::rig::text(&chunks)
}

#[tokio::test]
async fn audit_h2_a_slot_is_isolated_once_and_not_for_each_job() {
    let hall = Hall::new(None);
    let slots = || {
        let setup = Setup { hidden: Some(Hidden::new(hall.hidden()).expect("paths")), ..Setup::default() };
        Slots::new(Options { most: 1, program: PROGRAM.into(), setup, ..Options::default() })
    };
    let one = slots();
    let (first, second) = (namespace_of_a_job(&one).await, namespace_of_a_job(&one).await);
    assert!(first.starts_with("mnt:"), "{first}");
    assert_eq!(first, second, "the second job runs in the namespace of the slot");
    let own = std::fs::read_link("/proc/self/ns/mnt").expect("a link");
    assert_ne!(first.trim(), own.to_string_lossy(), "it is not that of the worker");
    assert_ne!(first, namespace_of_a_job(&slots()).await, "another slot has its own");
}

#[test]
fn what_is_below_a_hidden_directory_is_hidden_with_it() {
    let hall = Hall::new(None);
    let data = hall.path().join("data");
    let hidden = Hidden::new([data.join("admin.token"), data.clone(), data.join("later")]).expect("paths");
    assert_eq!(hidden, Hidden::new([data.clone()]).expect("paths"));
    assert_eq!(hidden.above(&data.join("x")), Some(data.as_path()));
    assert_eq!(hidden.above(hall.path()), None);
}
