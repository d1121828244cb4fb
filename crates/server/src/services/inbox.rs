//! Submits the jobs that other programs requested in their own transactions (`jobhall.submit`, docs/sql.md). It runs
//! as long as this node leads.
//!
//! Every row is submitted through the engine under an idempotency key derived from the row. The store deletes the row
//! in the transaction that stores the job, so a row becomes a job exactly once even after a crash. A row that cannot
//! become a job is set aside with the reason. A row that cannot become a job at the moment stays in the inbox.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use jobhall_engine::{Rejected, Submit};
use jobhall_protocol::Code;
use jobhall_store::{INBOX_SCOPE, Inbox, InboxRow, StoreError};

use crate::auth::tokens::{Identity, Role};
use crate::decode::submit::{job, named};
use crate::error::ApiError;
use crate::request::body;
use crate::server::app::App;

/// Maximum number of rows read at once.
const PAGE: usize = 500;
/// Pause before rows that could not be submitted are retried.
const PAUSE: Duration = Duration::from_secs(1);

/// Why a row did not become a job.
enum Unmade {
    /// It can never become a job.
    Never(String),
    /// It may become a job later.
    NotNow(String),
}

/// Submits rows until the server accepts no new work.
pub(crate) async fn run(app: Arc<App>) {
    let Some(inbox) = app.store.inbox() else { return };
    loop {
        let turn = async {
            let waits = match page(&app, &*inbox).await {
                Ok(waits) => waits,
                Err(error) => Some(error.message),
            };
            match waits {
                Some(why) => {
                    tracing::warn!("the inbox is paused and will be retried: {why}");
                    tokio::time::sleep(PAUSE).await;
                }
                None => inbox.news().await,
            }
        };
        tokio::select! {
            biased;
            () = app.drained() => return,
            () = turn => {}
        }
    }
}

/// Submits all rows; returns why some remain.
async fn page(app: &App, inbox: &dyn Inbox) -> Result<Option<String>, StoreError> {
    let mut before = None;
    loop {
        let rows = inbox.rows(PAGE).await?;
        let Some(first) = rows.first().map(|row| row.id) else { return Ok(None) };
        if before.replace(first) == Some(first) {
            return Ok(Some(format!("inbox row {first} was submitted but could not be deleted")));
        }
        let mut stays = None;
        for (row, made) in rows.iter().zip(make(app, &rows).await) {
            match made {
                Ok(()) => {
                    app.metrics.inbox_taken.inc();
                }
                Err(Unmade::Never(why)) => {
                    tracing::warn!(row = row.id, "inbox row refused: {why}");
                    inbox.refuse(row.id, why).await?;
                    app.metrics.inbox_refused.inc();
                }
                Err(Unmade::NotNow(why)) => stays = Some(why),
            }
        }
        if stays.is_some() {
            return Ok(stays);
        }
    }
}

/// Submits rows in order; the jobs are stored together.
async fn make(app: &App, rows: &[InboxRow]) -> Vec<Result<(), Unmade>> {
    let mut submits = Vec::with_capacity(rows.len());
    for row in rows {
        submits.push(submit_of(app, row).await);
    }
    let making = submits.into_iter().map(|submit| async {
        match app.engine.submit(submit?).await {
            Ok(_) => Ok(()),
            Err(Rejected::Contended) => Err(Unmade::NotNow(Rejected::Contended.to_string())),
            Err(refused) => Err(unmade(&refused.into())),
        }
    });
    join_all(making).await
}

async fn submit_of(app: &App, row: &InboxRow) -> Result<Submit, Unmade> {
    let asker = Identity::new("", INBOX_SCOPE, Role::Client);
    let given = body::parse(row.body.as_bytes()).map_err(|trouble| unmade(&trouble))?;
    let job = job(app, &asker, &given).await.map_err(|trouble| unmade(&trouble))?;
    Ok(Submit {
        jobs: vec![job],
        name: Some(named(INBOX_SCOPE, &row.id.to_string(), row.body.as_bytes())),
        ..Submit::default()
    })
}

/// A row is set aside only for an error in the row itself or in its request; any other error may be temporary.
fn unmade(trouble: &ApiError) -> Unmade {
    match trouble.words().0 {
        Code::BadRequest
        | Code::Forbidden
        | Code::NotFound
        | Code::KeyHeld
        | Code::IdempotencyKeyReused
        | Code::DependencyUnmet
        | Code::GroupClosed
        | Code::Conflict
        | Code::NotComputed
        | Code::StepFailed
        | Code::StepCrashed
        | Code::StepCancelled
        | Code::VersionChanged
        | Code::QueryCycle
        | Code::QuerySyntax
        | Code::QueryTooLong
        | Code::QueryTooLarge
        | Code::UnknownCommand
        | Code::WrongArgument
        | Code::WrongPlace
        | Code::RecipeCycle
        | Code::UnknownSource
        | Code::FormatNotOffered
        | Code::NotSerialisable
        | Code::TooLarge => Unmade::Never(trouble.detail().to_owned()),
        Code::Unauthorized
        | Code::MethodNotAllowed
        | Code::LeaseLost
        | Code::PreconditionFailed
        | Code::Timeout
        | Code::RangeNotSatisfiable
        | Code::Misdirected
        | Code::TooManyRequests
        | Code::Unavailable
        | Code::NoLeader
        | Code::OutcomeUnknown
        | Code::StorageFull
        | Code::Internal => Unmade::NotNow(trouble.inside().unwrap_or(trouble.detail()).to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use jobhall_core::{JobId, TypeName};

    use super::*;

    #[test]
    fn only_what_is_wrong_with_a_row_puts_it_aside() {
        let job = JobId::new(1).unwrap();
        let wrong = [
            Rejected::KeyHeld { job_type: TypeName::new("t").unwrap(), holder: job },
            Rejected::NoSuchDependency(job),
            Rejected::IdempotencyKeyReused,
        ];
        for refused in wrong {
            let word = refused.to_string();
            assert!(matches!(unmade(&refused.into()), Unmade::Never(_)), "{word}");
        }
        let passing = [
            Rejected::Unknown("a commit was under way".to_owned()),
            Rejected::Stopped("it was shut down".to_owned()),
            Rejected::Storage { full: false, message: "away".to_owned() },
            Rejected::Storage { full: true, message: "full".to_owned() },
            Rejected::Full { open: 1, limit: 1 },
        ];
        for refused in passing {
            let word = refused.to_string();
            assert!(matches!(unmade(&refused.into()), Unmade::NotNow(_)), "{word}");
        }
    }
}
