//! Watches the files of the commands: when one changes, the worker offers the new version in its session, and then declares
//! it, so that a query is never planned for a version that nobody has yet.
//!
//! ```text
//! file ── inotify, or a look every two seconds ──▶ Filters ── session: abilities ──▶ answered ── PUT /commands ──▶ current
//! ```

mod directories;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jobhall_client::{Client, ClientError};
use jobhall_protocol::{DeclareCommands, DeclaredCommand, WorkerFile};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::attempt::files::{Digests, Stamp, machine};
use crate::attempt::filters::{Filters, paths};
use crate::executor::reporter::is_passing;
use crate::offers::{Offer, Offers};
use directories::Directories;

/// Time until the commands are declared again after the server could not be reached.
const AGAIN: Duration = Duration::from_secs(1);
/// Time after the first sign of a change: a file that is written in place changes several times.
const SETTLE: Duration = Duration::from_millis(5);
/// Without a sign, the files are looked at this often: some file systems give none.
const LOOK: Duration = Duration::from_secs(2);
/// Maximum size of one declaration, in bytes.
const DECLARED_BYTES: usize = 512 << 10;

/// Reads the worker file again.
pub type Reread = Arc<dyn Fn() -> Result<WorkerFile, String> + Send + Sync>;

/// Keeps the offer and the declarations as the files are.
pub(crate) struct Watcher {
    pub client: Client,
    pub offers: Offers,
    pub reread: Option<Reread>,
}

/// What was read, and when to read again.
#[derive(Default)]
struct Seen {
    digests: Digests,
    stamps: BTreeMap<PathBuf, Option<Stamp>>,
}

/// Why the declarations are looked at again.
enum Sign {
    Change,
    /// Nothing has changed; a declaration has to be sent again.
    Declare,
}

impl Watcher {
    /// Runs as long as the worker does.
    pub async fn run(self) {
        if self.reread.is_none() && self.offers.now().file.commands.is_empty() {
            return;
        }
        let mut directories = Directories::new();
        let (mut seen, mut declared) = (Seen::default(), BTreeMap::new());
        loop {
            let wanted = self.offers.wanted();
            // Watched before it is read: a change after the read is seen.
            directories.watch(&paths(&self.offers.now().file));
            seen = self.read(seen).await;
            let sign = tokio::select! {
                () = self.offers.until_session_has(self.offers.now().number) => None,
                () = self.sign(&mut directories, &seen, wanted) => Some(Sign::Change),
            };
            let sign = match sign {
                None => self.declare(&mut declared).await,
                Some(sign) => Err(sign),
            };
            match sign {
                Ok(()) => {
                    self.offers.meet(wanted);
                    self.sign(&mut directories, &seen, wanted).await;
                }
                Err(Sign::Change) => {}
                Err(Sign::Declare) => tokio::select! {
                    () = sleep(AGAIN) => {}
                    () = self.sign(&mut directories, &seen, wanted) => {}
                },
            }
        }
    }

    /// Waits for a sign that a file has changed.
    async fn sign(&self, directories: &mut Directories, seen: &Seen, wanted: u64) {
        tokio::select! {
            () = directories.changed() => sleep(SETTLE).await,
            () = looked(seen) => {}
            () = self.offers.until_wanted(wanted) => {}
        }
    }

    /// Reads the files, and replaces the offer if it is another one.
    async fn read(&self, seen: Seen) -> Seen {
        let (now, reread) = (self.offers.now(), self.reread.clone());
        let read = spawn_blocking(move || read(&now, reread.as_ref(), seen)).await;
        let Ok((offer, seen)) = read else { return Seen::default() };
        if let Some(offer) = offer {
            self.offers.replace(offer);
        }
        seen
    }

    /// Declares the commands that are not as they were declared last.
    async fn declare(&self, declared: &mut BTreeMap<String, DeclaredCommand>) -> Result<(), Sign> {
        let all = self.offers.now().filters.declarations();
        let is_new = |(name, command): &(&String, &DeclaredCommand)| declared.get(*name) != Some(*command);
        let new: BTreeMap<_, _> =
            all.iter().filter(is_new).map(|(name, command)| (name.clone(), command.clone())).collect();
        for part in parts(new) {
            let given = DeclareCommands { commands: part, machine: machine() };
            // To the end: a declaration that is still under way must not overtake the next one.
            match self.client.declare_commands(&given).await {
                Ok(done) => tracing::info!(changed = done.changed, "commands declared"),
                Err(ClientError::Problem(problem)) if !is_passing(problem.code) => {
                    tracing::error!("the server refused the commands of this worker: {}", problem.detail);
                }
                Err(error) => {
                    tracing::warn!("failed to declare the commands of this worker, trying again: {error}");
                    return Err(Sign::Declare);
                }
            }
            declared.extend(given.commands);
        }
        Ok(())
    }
}

/// Waits until a file is not as it was seen, by looking now and then.
async fn looked(seen: &Seen) {
    loop {
        sleep(LOOK).await;
        let stamps = seen.stamps.clone();
        let changed = move || stamps.iter().any(|(path, stamp)| Stamp::of(path) != *stamp);
        if spawn_blocking(changed).await.unwrap_or(true) {
            return;
        }
    }
}

/// The offer as the files are now; none if it is the same.
fn read(before: &Offer, reread: Option<&Reread>, seen: Seen) -> (Option<Offer>, Seen) {
    let Seen { mut digests, .. } = seen;
    let reread = reread.map(|reread| reread());
    let file = worker_file(before, reread.as_ref());
    // Taken before the content is read: a file that changes meanwhile is read again.
    let stamps: BTreeMap<_, _> =
        paths(&file).into_iter().map(|path| (path.clone(), Stamp::of(&path))).collect();
    let (mut filters, problems) = Filters::read_again(&file, &mut digests);
    if matches!(reread, Some(Err(_))) {
        // What is declared is of the file as it was.
        filters.keep_worker_file(&before.filters, &file);
    }
    for why in problems {
        tracing::warn!("a command is not offered until its files can be read: {why}");
    }
    digests.keep_only(|path: &Path| stamps.contains_key(path));
    let seen = Seen { digests, stamps };
    if *before.file == *file && before.filters.declarations() == filters.declarations() {
        return (None, seen);
    }
    match Offer::new(before.number, file, filters) {
        Ok(offer) => {
            let number = before.number + u64::from(offer.is_other(before));
            (Some(Offer { number, ..offer }), seen)
        }
        Err(error) => {
            tracing::warn!("the change of a file is not used: abilities: {error}");
            (None, seen)
        }
    }
}

/// The worker file with the types and commands of now; as before if it cannot be read.
fn worker_file(before: &Offer, reread: Option<&Result<WorkerFile, String>>) -> Arc<WorkerFile> {
    match reread {
        None => before.file.clone(),
        Some(Ok(now)) => {
            let (types, commands) = (now.types.clone(), now.commands.clone());
            Arc::new(WorkerFile { types, commands, ..(*before.file).clone() })
        }
        Some(Err(why)) => {
            tracing::warn!("the change of the worker file is not used: {why}");
            before.file.clone()
        }
    }
}

/// Parts that each fit in one request.
fn parts(commands: BTreeMap<String, DeclaredCommand>) -> Vec<BTreeMap<String, DeclaredCommand>> {
    let (mut parts, mut room) = (Vec::<BTreeMap<_, _>>::new(), 0);
    for (name, command) in commands {
        let size = name.len() + serde_json::to_vec(&command).map_or(0, |json| json.len());
        if room < size || parts.is_empty() {
            parts.push(BTreeMap::new());
            room = DECLARED_BYTES;
        }
        room = room.saturating_sub(size);
        if let Some(part) = parts.last_mut() {
            part.insert(name, command);
        }
    }
    parts
}
