//! Asking from a running attempt: what is missing becomes sub-jobs of its job in one commit, each under its identity as
//! the name of the call. So a job that is tried again finds what it has asked for before.

use std::collections::BTreeSet;
use std::sync::Arc;

use jobhall_core::query::{NodeParams, Query, StoredValue};
use jobhall_core::{Disposition, Failure, Job, JobId, State};
use jobhall_engine::{AttemptRef, Rejected};

use super::fresh::meaning;
use super::inline::Inline;
use super::open::Answer;
use crate::promise::params;
use crate::{Asked, Ended, EndedHow, Error, Found, Planned, Queries, Request, StoredSource};

/// Maximum number of commands that ask for each other's queries, one in another.
const DEPTH_MAX: usize = 256;

/// The attempt that asks.
#[derive(Clone, Debug)]
pub struct Asker {
    pub of: AttemptRef,
    pub job: Job,
    /// The commands that it can run itself, each as `NAME@VERSION`.
    pub here: BTreeSet<String>,
}

/// The answer to an attempt.
#[derive(Clone, Debug)]
pub struct Within {
    /// The identity of the value, or the digest of stored data.
    pub meaning: String,
    pub asked: SubAsked,
}

/// Where the value of a sub-query is.
#[derive(Clone, Debug)]
pub enum SubAsked {
    /// It has a value, or has failed.
    Ended(Arc<Ended>),
    /// The query has no command.
    Source(StoredSource),
    /// This job makes the value: a sub-job of the asking one.
    Pending(Found),
    /// The asker makes it itself.
    Inline(Box<Inline>),
}

impl Queries {
    /// Answers a query for an attempt, which holds the lease of its job. That job is a step of a query.
    ///
    /// # Errors
    /// The query is wrong or asks for itself, the kernel refuses the jobs, or the store cannot be read.
    pub async fn ask_within(&self, asker: Asker, query: Query) -> Result<Within, Error> {
        let (epoch, text) = (self.0.fresh.epoch(), query.text());
        self.0.promises.follow().await?;
        if let Some(within) = self.inline(&asker, &query, epoch).await? {
            return Ok(within);
        }
        let of = &asker.of.clone();
        let request = Request {
            query,
            compute: true,
            stale: false,
            priority: asker.job.spec.priority,
            owner: asker.job.spec.owner.clone(),
            within: Some(asker),
        };
        let (asked, planned) = self.ask_planned(request).await?;
        let meaning = meaning(&planned.plan);
        let (asked, made_by) = match asked {
            Asked::Hit(ended) => {
                let id = ended.job.id;
                (SubAsked::Ended(ended), Some(id))
            }
            Asked::Source(source) => (SubAsked::Source(source), None),
            Asked::Promise(found) => {
                let id = found.job;
                let ended = match found.disposition {
                    Disposition::Reused => self.ended(id).await?,
                    _ => None,
                };
                (ended.map_or(SubAsked::Pending(found), |ended| SubAsked::Ended(Arc::new(ended))), Some(id))
            }
            Asked::NotComputed(_) => return Err(Error::Damaged("it may be computed".to_owned())),
        };
        let value = match &asked {
            SubAsked::Ended(ended) => value_of(ended),
            SubAsked::Source(_) | SubAsked::Pending(_) | SubAsked::Inline(_) => None,
        };
        let (value, query) = (value.as_ref(), text);
        let is_timed = !planned.plan.checks.is_empty();
        let answer = Answer { query, meaning: meaning.clone(), job: made_by, value, is_timed, epoch };
        self.0.asks.note(of.attempt, answer).await?;
        // Another run on the same input may get other answers, so this value is not the result of its content.
        self.0.promises.shared.contents.take(of.attempt.job);
        if let SubAsked::Pending(found) = &asked {
            self.follow_within(of.clone(), found.job);
        }
        Ok(Within { meaning, asked })
    }

    /// The identity of a query that an attempt has asked for, and how it ended; none while it is pending. If it was
    /// cancelled, the attempt is cancelled too.
    ///
    /// # Errors
    /// The attempt has not asked for it, or it cannot be read.
    pub async fn promised_within(
        &self,
        of: &AttemptRef,
        id: JobId,
    ) -> Result<(String, Option<Ended>), Error> {
        self.0.engine.check_sub_job(of.clone(), id).await?;
        let ended = self.ended(id).await?;
        let identity = match &ended {
            Some(ended) => ended.params.identity,
            None => self.promised(id).await?.params.identity,
        };
        if let Some(Ended { how: EndedHow::Failure { .. }, .. }) = &ended {
            self.0.asks.note_failed(of.attempt, id).await?;
        }
        if let Some(ended) = &ended {
            self.cancel_asker(of, ended).await;
        }
        Ok((identity.to_string(), ended))
    }

    /// The job whose value an attempt may read, because it has asked for what has this meaning: none within for stored
    /// data, none at all if it has not asked for it.
    ///
    /// # Errors
    /// What it asked for cannot be read.
    pub async fn asked_within(&self, of: &AttemptRef, meaning: &str) -> Result<Option<Option<JobId>>, Error> {
        self.0.asks.answer(of.attempt, meaning).await
    }

    /// Cancels the asking attempt if what it asked for is cancelled. The wait is also what makes a step be planned again
    /// that nobody can run any more.
    pub(super) fn follow_within(&self, of: AttemptRef, id: JobId) {
        let queries = self.clone();
        tokio::spawn(async move {
            if let Ok(ended) = queries.wait(id).await {
                queries.cancel_asker(&of, &ended).await;
            }
        });
    }

    async fn cancel_asker(&self, of: &AttemptRef, ended: &Ended) {
        let EndedHow::Failure { first, .. } = &ended.how else { return };
        if !matches!(first.status.state, State::Cancelled(_)) || ended.is_outdated() {
            return;
        }
        let held = match self.0.engine.show(of.attempt.job).await {
            Ok(shown) => shown.job.status.state.leased().is_some_and(|held| held.lease.id == of.lease),
            Err(_) => false,
        };
        if !held {
            return;
        }
        let why = format!("{}, which it asked for, was cancelled (job {})", ended.params.query, ended.job.id);
        match self.0.engine.cancel(of.attempt.job, Failure::new("query_cancelled", why)).await {
            Ok(_) | Err(Rejected::NoSuchJob(_) | Rejected::Event(_)) => {}
            Err(error) => tracing::warn!("job {} is not cancelled: {error}", of.attempt.job),
        }
    }

    /// Refuses a query that needs the value of the asking job, or of one that waits for it.
    pub(crate) async fn check_cycle(&self, job: &Job, planned: &Planned) -> Result<(), Error> {
        let (mut job, mut way) = (job.clone(), Vec::new());
        loop {
            let NodeParams { query, identity, .. } = params(&job)?;
            way.push(query);
            if let Some(node) = planned.missing().find(|node| node.identity == identity) {
                way.reverse();
                way.push(node.text.clone());
                return Err(Error::Cycle(way));
            }
            if way.len() >= DEPTH_MAX {
                let why = format!("commands ask for each other's queries more than {DEPTH_MAX} deep");
                return Err(Error::Refused(why));
            }
            let Some(parent) = job.spec.parent else { return Ok(()) };
            job = match self.0.promises.shared.job(parent).await {
                Ok(parent) if !parent.status.state.is_terminal() => parent,
                Ok(_) | Err(Error::NoSuchPromise(_)) => return Ok(()),
                Err(error) => return Err(error),
            };
        }
    }
}

fn value_of(ended: &Ended) -> Option<StoredValue> {
    match &ended.job.status.state {
        State::Succeeded(success) => StoredValue::parse(success.value.as_str()),
        _ => None,
    }
}
