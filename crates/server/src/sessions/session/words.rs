//! Sorts the messages of a frame: engine requests first, then log chunks, then outcomes.

use std::collections::HashMap;

use jobhall_core::{AttemptId, LeaseId, WorkerName};
use jobhall_engine::{AttemptRef, Request, SessionId};
use jobhall_protocol::{LogStream, SubJob, Timestamp, ToServer, ToWorker, Word};

use super::begin::offered;
use super::frame::{Frame, Unread};
use super::present::Book;
use crate::auth::tokens::Identity;
use crate::decode::attempt::{ending, indicators};
use crate::decode::sub_job::job_ids;
use crate::error::ApiError;
use crate::server::app::now;

/// The message that an engine answer belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Note {
    /// None if the worker receives no answer.
    pub to: Option<Word>,
    pub attempt: Option<AttemptId>,
    /// Whether the worker waits for the new state of the job.
    pub waits: bool,
}

/// A log chunk; the request at index `check` checks its lease.
pub(super) struct Piece {
    pub check: usize,
    pub attempt: AttemptId,
    pub offset: u64,
    pub stream: LogStream,
    pub bytes: Vec<u8>,
}

/// An outcome, and the state of its log.
pub(super) struct Ending {
    pub attempt: AttemptId,
    pub request: Request,
    pub note: Note,
    /// Whether the log must be completed first, and how the ownership of the attempt is known.
    pub log: Option<Owner>,
    /// Whether the attempt may have notes.
    pub noted: bool,
}

/// A sub-job that an attempt requests. The requests of an attempt are answered in their order, refused ones too.
pub(super) enum Call {
    Make { attempt: AttemptId, lease: LeaseId, job: Box<SubJob> },
    Refused(ToWorker),
}

/// How the session knows that an attempt belongs to its worker: it assigned the attempt, or a request checks it.
pub(super) enum Owner {
    Given,
    Check(usize),
}

#[derive(Default)]
pub(super) struct Sorted {
    pub requests: Vec<Request>,
    pub notes: Vec<Note>,
    pub pieces: Vec<Piece>,
    pub endings: Vec<Ending>,
    pub calls: Vec<Call>,
    /// Answers that do not require the engine.
    pub said: Vec<ToWorker>,
    pub leaves: bool,
    /// The last credit total.
    pub total: Option<i64>,
    /// The last abilities.
    pub abilities: Option<String>,
}

/// The sender of a frame.
pub(super) struct Speaker<'a> {
    pub worker: &'a WorkerName,
    pub who: &'a Identity,
    pub session: SessionId,
    /// Whether the server is draining: credit is then ignored.
    pub draining: bool,
    pub book: &'a mut Book,
}

/// Sorts a frame; an error if a message is not allowed now.
pub(super) fn sort(speaker: &mut Speaker<'_>, frame: Frame) -> Result<Sorted, &'static str> {
    let mut sorted = Sorted::default();
    // Attempts with log chunks in this frame.
    let mut written: HashMap<AttemptId, usize> = HashMap::new();
    for message in frame {
        let (worker, session) = (speaker.worker, speaker.session);
        let message = match message {
            Ok(message) => message,
            Err(unread) => {
                sorted.refuse(&unread);
                continue;
            }
        };
        match message {
            ToServer::Hello(_) => return Err("hello must be sent once, as the first message"),
            ToServer::Credit { total } => {
                sorted.total = Some(total);
                if speaker.draining {
                    continue;
                }
                sorted.ask(Request::Credit { session, total }, Some(Word::Credit), None);
            }
            ToServer::Abilities { abilities, accepts } => match offered(speaker.who, &abilities, &accepts) {
                Ok((abilities, accepts)) => {
                    sorted.abilities = Some(abilities.to_string());
                    let request = Request::SetAbilities { session, abilities, accepts };
                    sorted.ask(request, Some(Word::Abilities), None);
                }
                Err(trouble) => sorted.said.push(refused(Word::Abilities, None, &trouble)),
            },
            ToServer::Renew {} => sorted.ask(Request::Renew { session }, Some(Word::Renew), None),
            ToServer::Leave {} => {
                sorted.leaves = true;
                break;
            }
            ToServer::Ping { n } => {
                sorted.said.push(ToWorker::Pong { n, at: Timestamp(now()) });
            }
            ToServer::Accept { attempt, lease, answer: waits } => {
                let of = AttemptRef { worker: worker.clone(), attempt, lease };
                sorted.requests.push(Request::Accept { of });
                sorted.notes.push(Note { to: Some(Word::Accept), attempt: Some(attempt), waits });
            }
            ToServer::Progress { attempt, lease, indicators: given } => match indicators(given) {
                Ok(indicators) => {
                    let of = AttemptRef { worker: worker.clone(), attempt, lease };
                    sorted.ask(Request::Progress { of, indicators }, Some(Word::Progress), Some(attempt));
                }
                Err(trouble) => sorted.said.push(refused(Word::Progress, Some(attempt), &trouble)),
            },
            ToServer::Log { attempt, lease, offset, stream, bytes } => {
                let check = sorted.check(worker, attempt, lease, Some(Word::of_log(stream)));
                written.insert(attempt, check);
                if let Some(given) = speaker.book.attempts.get_mut(&attempt) {
                    given.logged = true;
                    given.noted |= stream == LogStream::Note;
                }
                sorted.pieces.push(Piece { check, attempt, offset, stream, bytes });
            }
            ToServer::SubJob { attempt, lease, call, job } => {
                let job = Box::new(SubJob { call: Some(call), job: *job });
                sorted.calls.push(Call::Make { attempt, lease, job });
            }
            ToServer::Wait { attempt, lease, jobs } => match job_ids(jobs) {
                Ok(jobs) => {
                    let of = AttemptRef { worker: worker.clone(), attempt, lease };
                    sorted.ask(Request::Wait { of, jobs, wait_ms: 0 }, Some(Word::Wait), Some(attempt));
                }
                Err(trouble) => sorted.said.push(refused(Word::Wait, Some(attempt), &trouble)),
            },
            ToServer::Outcome { attempt, lease, report } => match ending(&report) {
                Ok(ending) => {
                    let of = AttemptRef { worker: worker.clone(), attempt, lease };
                    let request = ending.request(of);
                    let note = Note { to: Some(Word::Outcome), attempt: Some(attempt), waits: true };
                    let (log, noted) = match speaker.book.attempts.get(&attempt) {
                        Some(given) if given.lease == lease => {
                            (given.logged.then_some(Owner::Given), given.noted)
                        }
                        _ => match written.get(&attempt) {
                            Some(&check) => (Some(Owner::Check(check)), true),
                            None => (Some(Owner::Check(sorted.check(worker, attempt, lease, None))), true),
                        },
                    };
                    sorted.endings.push(Ending { attempt, request, note, log, noted });
                }
                Err(trouble) => sorted.said.push(refused(Word::Outcome, Some(attempt), &trouble)),
            },
        }
    }
    Ok(sorted)
}

impl Sorted {
    fn ask(&mut self, request: Request, to: Option<Word>, attempt: Option<AttemptId>) {
        self.requests.push(request);
        self.notes.push(Note { to, attempt, waits: false });
    }

    fn refuse(&mut self, unread: &Unread) {
        let refusal = refused(unread.to, Some(unread.attempt), &unread.why);
        match unread.to {
            Word::SubJob => self.calls.push(Call::Refused(refusal)),
            _ => self.said.push(refusal),
        }
    }

    /// Checks a lease with an empty progress report, which requires the current lease.
    fn check(&mut self, worker: &WorkerName, attempt: AttemptId, lease: LeaseId, to: Option<Word>) -> usize {
        let of = AttemptRef { worker: worker.clone(), attempt, lease };
        self.ask(Request::Progress { of, indicators: Vec::new() }, to, Some(attempt));
        self.requests.len() - 1
    }
}

/// The refusal for the worker; the internal detail is logged.
pub(super) fn refused(to: Word, attempt: Option<AttemptId>, trouble: &ApiError) -> ToWorker {
    if let Some(inside) = trouble.inside() {
        tracing::error!("{inside}");
    }
    let (code, detail) = trouble.words();
    ToWorker::Refused { to, attempt, code, detail: detail.to_owned() }
}
