//! Threads that read. They are separate threads, so that a read needs no async runtime. Each opens its connection
//! at its first read.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use jobhall_store::{Later, StoreError};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::database::{failed, open_reader};
use crate::error::SqlError;
use crate::options::Options;
use crate::statements::Reads;

/// A read: receives the statements, or the error, and replies to the caller.
type Read = Box<dyn FnOnce(Result<&mut Reads<'_>, StoreError>) + Send>;

/// The threads and their channel.
#[derive(Debug)]
pub(crate) struct Readers {
    path: Arc<PathBuf>,
    reads: Option<SyncSender<Read>>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    pub(crate) fn start(path: &Path, options: &Options) -> Result<Readers, StoreError> {
        let (reads, waiting) = sync_channel(options.waiting);
        let (path, waiting) = (Arc::new(path.to_owned()), Arc::new(Mutex::new(waiting)));
        let mut threads = Vec::new();
        for n in 0..options.readers.max(1) {
            let (path, waiting) = (path.clone(), waiting.clone());
            let started = thread::Builder::new().name(format!("store-read-{n}")).spawn(move || {
                serve(&path, &waiting);
            });
            threads.push(started.map_err(|error| StoreError::new(format!("failed to start: {error}")))?);
        }
        Ok(Readers { path, reads: Some(reads), threads })
    }

    /// Reads on one snapshot.
    pub(crate) fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut Reads<'_>) -> Result<T, SqlError> + Send + 'static,
    ) -> Later<Result<T, StoreError>> {
        let (reply, answer) = oneshot::channel();
        let path = self.path.clone();
        let read: Read = Box::new(move |reads| {
            let result = reads.and_then(|reads| {
                on_snapshot(reads, read).map_err(|trouble| failed("read", &path, &trouble))
            });
            // The caller may have stopped waiting.
            let _ = reply.send(result);
        });
        let refused = match self.reads.as_ref().map(|reads| reads.try_send(read)) {
            Some(Ok(())) => None,
            Some(Err(TrySendError::Full(_))) => Some("too many reads are waiting"),
            Some(Err(TrySendError::Disconnected(_))) | None => Some("the readers have stopped"),
        };
        Box::pin(async move {
            match refused {
                Some(why) => Err(StoreError::new(why)),
                None => answer.await.unwrap_or_else(|_| Err(StoreError::new("the reader has stopped"))),
            }
        })
    }

    /// Lets the waiting reads finish, then ends the threads.
    pub(crate) fn stop(&mut self) {
        self.reads = None;
        for thread in self.threads.drain(..) {
            // The panic was printed, and a reader has no state to save.
            let _ = thread.join();
        }
    }
}

fn on_snapshot<T>(
    reads: &mut Reads<'_>,
    read: impl FnOnce(&mut Reads<'_>) -> Result<T, SqlError>,
) -> Result<T, SqlError> {
    let snapshot = reads.conn.unchecked_transaction()?;
    let result = read(reads);
    snapshot.finish()?;
    result
}

fn next(waiting: &Mutex<Receiver<Read>>) -> Option<Read> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

fn serve(path: &Path, waiting: &Mutex<Receiver<Read>>) {
    while let Some(first) = next(waiting) {
        let refuse = |trouble: SqlError| Err(failed("read", path, &trouble));
        let conn: Connection = match open_reader(path) {
            Ok(conn) => conn,
            Err(trouble) => {
                first(refuse(trouble));
                continue;
            }
        };
        let mut reads = match Reads::prepare(&conn) {
            Ok(reads) => reads,
            Err(error) => {
                first(refuse(error.into()));
                continue;
            }
        };
        first(Ok(&mut reads));
        while let Some(read) = next(waiting) {
            read(Ok(&mut reads));
        }
    }
}
