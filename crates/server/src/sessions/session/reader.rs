//! Incoming messages: the reader turns a frame into engine requests and reads the next frame before these are
//! answered.
//!
//! A log chunk is stored after the engine has checked its lease. An outcome is sent to the engine after its log is
//! complete and durable. The reader waits for nothing else; the writer handles the answers.

use std::collections::HashSet;
use std::sync::Arc;

use axum::extract::ws::{WebSocket, close_code};
use futures_util::future::join_all;
use futures_util::stream::SplitStream;
use jobhall_blobs::{Channel, Stream};
use jobhall_core::AttemptId;
use jobhall_engine::{Answer, Answers, AttemptRef, Rejected, Request, SessionId, WorkerChange};
use jobhall_protocol::{Code, LogStream, ToWorker, Word};
use tokio::sync::mpsc;

use super::Caller;
use super::begin::next_frame;
use super::end::End;
use super::frame::Frame;
use super::present::Present;
use super::words::{Call, Ending, Note, Owner, Piece, Sorted, Speaker, refused, sort};
use super::writer::answers;
use crate::decode;
use crate::decode::attempt::completed;
use crate::error::ApiError;
use crate::server::app::App;

/// Messages for the writer to send.
pub(super) struct Told {
    pub said: Vec<ToWorker>,
    pub answers: Answers,
    pub notes: Vec<Note>,
}

/// The engine's answers to one frame.
type Heard = Vec<Result<Answer, Rejected>>;

pub(super) struct Reader<'a> {
    app: &'a Arc<App>,
    caller: &'a Caller,
    session: SessionId,
    present: &'a Present,
    to_writer: mpsc::Sender<Told>,
    /// Whether accepts and progress are answered too.
    all: bool,
    /// Logs whose last chunk could not be stored but may be stored later; the outcomes of their attempts wait for it.
    behind: HashSet<(AttemptId, Channel)>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        app: &'a Arc<App>,
        caller: &'a Caller,
        session: SessionId,
        present: &'a Present,
        to_writer: mpsc::Sender<Told>,
        all: bool,
    ) -> Reader<'a> {
        Reader { app, caller, session, present, to_writer, all, behind: HashSet::new() }
    }

    /// Reads until the session is over.
    pub(super) async fn run(&mut self, first: Frame, stream: &mut SplitStream<WebSocket>) -> End {
        let mut frame = first;
        loop {
            if let Err(end) = self.take(frame).await {
                return end;
            }
            frame = match next_frame(self.caller.encoding, stream).await {
                Ok(frame) => frame,
                Err(end) => return end,
            };
        }
    }

    fn sort(&self, frame: Frame) -> Result<Sorted, End> {
        let mut book = self.present.book();
        let (Caller { worker, who, .. }, draining) = (self.caller, self.app.is_draining());
        let mut speaker = Speaker { worker, who, session: self.session, draining, book: &mut book };
        let sorted = sort(&mut speaker, frame);
        let sorted = sorted.map_err(|why| End::Wrong(close_code::PROTOCOL, why.to_owned()))?;
        book.total = sorted.total.unwrap_or(book.total);
        if let Some(abilities) = &sorted.abilities {
            book.abilities.clone_from(abilities);
        }
        Ok(sorted)
    }

    async fn take(&mut self, frame: Frame) -> Result<(), End> {
        let sorted = self.sort(frame)?;
        let leaves = sorted.leaves;
        self.carry(sorted).await?;
        if leaves {
            // A process that leaves exits, so a drain of it is over. This precedes the end of the session, which may
            // end this task.
            if let Some(process) = self.present.process.clone() {
                let worker = self.caller.worker.clone();
                let _ = self.app.engine.change_worker(worker, WorkerChange::Drained(process)).await;
            }
            let closed = self.app.engine.close_session(self.session).await;
            return Err(closed.map_or(End::Broken, |_| End::Left));
        }
        Ok(())
    }

    async fn carry(&mut self, sorted: Sorted) -> Result<(), End> {
        let Sorted { mut requests, mut notes, pieces, endings, calls, mut said, .. } = sorted;
        said.extend(self.call(calls).await);
        let checked = endings.iter().any(|ending| matches!(ending.log, Some(Owner::Check(_))));
        if !pieces.is_empty() || checked {
            let heard = self.app.engine.ask_many(std::mem::take(&mut requests)).await;
            let heard = heard.map_err(|_| End::Broken)?;
            self.store(pieces, &heard, &mut said).await;
            let reports = self.finish(endings, &heard, &mut said).await;
            said.extend(answers(self.app, std::mem::take(&mut notes), heard, self.all).await?);
            split(reports, &mut requests, &mut notes);
        } else {
            let reports = self.finish(endings, &Vec::new(), &mut said).await;
            split(reports, &mut requests, &mut notes);
        }
        if requests.is_empty() && said.is_empty() {
            return Ok(());
        }
        let answers = self.app.engine.begin_many(requests).await.map_err(|_| End::Broken)?;
        if self.to_writer.send(Told { said, answers, notes }).await.is_err() {
            // The writer is about to end the session and sends the reason.
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    /// Creates the sub-jobs that attempts request, concurrently.
    async fn call(&self, calls: Vec<Call>) -> Vec<ToWorker> {
        let Caller { worker, who, .. } = self.caller;
        let answer = async |call: Call| {
            let (attempt, lease, job) = match call {
                Call::Make { attempt, lease, job } => (attempt, lease, job),
                Call::Refused(refusal) => return refusal,
            };
            let (worker, call) = (worker.clone(), job.call.clone().unwrap_or_default());
            let of = AttemptRef { worker, attempt, lease };
            match decode::sub_job::call_one(self.app, who, of, &job).await {
                Ok(job) => ToWorker::SubJob { attempt, call, job },
                Err(trouble) => refused(Word::SubJob, Some(attempt), &trouble),
            }
        };
        join_all(calls.into_iter().map(answer)).await
    }

    /// Stores log chunks whose leases are valid.
    async fn store(&mut self, pieces: Vec<Piece>, heard: &Heard, said: &mut Vec<ToWorker>) {
        for Piece { check, attempt, offset, stream, bytes } in pieces {
            let word = Word::of_log(stream);
            let stream = match stream {
                LogStream::Stdout => Stream::Stdout,
                LogStream::Stderr => Stream::Stderr,
                LogStream::Note => Stream::Note,
            };
            let log = (attempt, stream.channel());
            match heard.get(check) {
                Some(Ok(_)) => {}
                Some(Err(why)) => {
                    self.not_stored(log, &ApiError::from(why.clone()));
                    continue;
                }
                None => continue,
            }
            let added = bytes.len() as u64;
            match self.app.logs.append(attempt, Some(offset), stream, bytes.into()).await {
                Ok(appended) => {
                    self.app.metrics.log_bytes.inc_by(added);
                    self.behind.remove(&log);
                    let (len, truncated, note) = (appended.len, appended.truncated, word == Word::Note);
                    said.push(ToWorker::Logged { attempt, len, truncated, note });
                }
                Err(trouble) => {
                    self.not_stored(log, &trouble);
                    said.push(refused(word, Some(attempt), &trouble));
                }
            }
        }
    }

    /// Marks an attempt whose outcome waits for a log chunk that may be stored later.
    fn not_stored(&mut self, log: (AttemptId, Channel), trouble: &ApiError) {
        if passes(trouble) {
            self.behind.insert(log);
        }
    }

    fn is_behind(&self, attempt: AttemptId) -> bool {
        let both = [Channel::Output, Channel::Notes];
        both.into_iter().any(|channel| self.behind.contains(&(attempt, channel)))
    }

    /// Completes the logs of outcomes. An outcome whose log is incomplete is refused, and the log stays open.
    async fn finish(
        &mut self,
        endings: Vec<Ending>,
        heard: &Heard,
        said: &mut Vec<ToWorker>,
    ) -> Vec<(Request, Note)> {
        let own = |ending: &Ending| match ending.log {
            _ if self.is_behind(ending.attempt) => false,
            Some(Owner::Given) => true,
            Some(Owner::Check(at)) => heard.get(at).is_some_and(Result::is_ok),
            None => false,
        };
        let owned = endings.iter().filter(|ending| own(ending));
        let logs: Vec<_> = owned.map(|ending| (ending.attempt, ending.noted)).collect();
        let mut failed: Vec<(AttemptId, ApiError)> = Vec::new();
        if !logs.is_empty() {
            match self.app.logs.finish_all(logs.clone()).await {
                Ok(results) => {
                    let results = logs.into_iter().zip(results);
                    failed
                        .extend(results.filter_map(|((attempt, _), result)| Some((attempt, result.err()?))));
                }
                Err(trouble) => {
                    failed.extend(logs.into_iter().map(|(attempt, _)| (attempt, trouble.clone())));
                }
            }
        }
        let mut reports = Vec::with_capacity(endings.len());
        for Ending { attempt, request, note, .. } in endings {
            let trouble = failed.iter().find(|(broken, _)| *broken == attempt).map(|(_, why)| why.clone());
            let trouble = trouble.or_else(|| self.is_behind(attempt).then(log_missing));
            match trouble {
                Some(trouble) => said.push(refused(Word::Outcome, Some(attempt), &trouble)),
                None => match completed(self.app, request).await {
                    Ok(request) => reports.push((request, note)),
                    Err(trouble) => said.push(refused(Word::Outcome, Some(attempt), &trouble)),
                },
            }
        }
        reports
    }
}

fn log_missing() -> ApiError {
    ApiError::new(Code::Unavailable, "the log of the attempt is incomplete; send the missing chunk first")
}

/// Whether a retry may succeed.
fn passes(trouble: &ApiError) -> bool {
    matches!(trouble.words().0, Code::Unavailable | Code::StorageFull | Code::Internal | Code::OutcomeUnknown)
}

fn split(reports: Vec<(Request, Note)>, requests: &mut Vec<Request>, notes: &mut Vec<Note>) {
    for (request, note) in reports {
        requests.push(request);
        notes.push(note);
    }
}
