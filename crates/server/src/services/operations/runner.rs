//! Executes operations: one at a time, one page of jobs at a time.

use std::sync::Arc;
use std::time::Duration;

use jobhall_core::{Failure, Job, JobId, Scope};
use jobhall_engine::{IdempotencyKey, Rejected, Request};
use jobhall_protocol::{Operation, OperationState, Verb};

use super::Record;
use crate::error::ApiError;
use crate::request::filter::Filter;
use crate::server::app::App;

/// Number of jobs read and changed at once.
const PAGE: usize = 100;
/// Pause before a failed store request is retried.
const PAUSE: Duration = Duration::from_secs(1);
/// Maximum number of tries per page.
const TRIES: usize = 30;
/// Maximum length of an error in a record.
const ERROR_CHARS: usize = 500;

/// Executes operations until the server stops.
pub(crate) async fn run(app: Arc<App>) {
    loop {
        let next = tokio::select! {
            biased;
            () = app.drained() => return,
            next = app.operations.next() => next,
        };
        let carried = match next {
            Ok(record) => carry_out(&app, record).await,
            Err(trouble) => Err(trouble),
        };
        if let Err(trouble) = carried {
            tracing::error!(
                "an operation is paused and will be retried: {}",
                trouble.inside().unwrap_or(trouble.detail())
            );
            rest(&app).await;
        }
    }
}

/// A pause that ends when the server stops.
async fn rest(app: &App) {
    let _ = tokio::time::timeout(PAUSE, app.drained()).await;
}

/// The results for the jobs of a page.
#[derive(Default)]
struct Tally {
    done: u64,
    failed: u64,
    skipped: u64,
    error: Option<String>,
}

async fn carry_out(app: &App, record: Record) -> Result<(), ApiError> {
    let id = record.operation.id;
    let filter = match Filter::new(&record.operation.filter, Scope::default()) {
        Ok(filter) => filter,
        Err(trouble) => return fail(app, id, trouble.detail()).await,
    };
    let record = match record.operation.total {
        Some(_) => record,
        None => match count(app, &record, &filter).await? {
            Some(total) => app.operations.update(id, |record| record.operation.total = Some(total)).await?,
            None => return stop(app, id).await,
        },
    };
    if record.operation.dry_run {
        return end(app, id, OperationState::Succeeded).await;
    }
    work(app, record, &filter).await
}

/// Counts the matching jobs; none if the operation was stopped in the meantime.
async fn count(app: &App, record: &Record, filter: &Filter) -> Result<Option<u64>, ApiError> {
    if record.operation.up_to == 0 {
        return Ok(Some(0));
    }
    let (mut total, mut before) = (0, record.before());
    loop {
        if is_to_stop(app, record.operation.id).await? {
            return Ok(None);
        }
        let page = filter.look(app, before, PAGE).await?;
        total += page.jobs.len() as u64;
        before = page.next;
        if before.is_none() {
            return Ok(Some(total));
        }
    }
}

async fn work(app: &App, mut record: Record, filter: &Filter) -> Result<(), ApiError> {
    let id = record.operation.id;
    loop {
        if is_to_stop(app, id).await? {
            return stop(app, id).await;
        }
        if record.operation.total == Some(0) {
            return end(app, id, OperationState::Succeeded).await;
        }
        let page = filter.look(app, record.before(), PAGE).await?;
        let tally = match change(app, &record.operation, page.jobs).await {
            Ok(tally) => tally,
            // The operation continues after the next start.
            Err(Rejected::Stopped(_)) if app.is_draining() => return Ok(()),
            Err(refused) => return fail(app, id, &refused.to_string()).await,
        };
        let next = page.next;
        record = app.operations.update(id, |record| note(record, tally, next)).await?;
        if record.operation.state != OperationState::Running {
            return Ok(());
        }
    }
}

/// Whether the server stops, or a stop of the operation was requested.
async fn is_to_stop(app: &App, id: u64) -> Result<bool, ApiError> {
    Ok(app.is_draining() || app.operations.get(id).await?.cancel_requested)
}

/// Stops the operation: permanently if that was requested, otherwise until the next start.
async fn stop(app: &App, id: u64) -> Result<(), ApiError> {
    if app.operations.get(id).await?.cancel_requested {
        end(app, id, OperationState::Cancelled).await?;
    }
    Ok(())
}

async fn end(app: &App, id: u64, state: OperationState) -> Result<(), ApiError> {
    app.operations.update(id, |record| record.operation.state = state).await.map(drop)
}

async fn fail(app: &App, id: u64, why: &str) -> Result<(), ApiError> {
    let update = app.operations.update(id, |record| {
        record.operation.state = OperationState::Failed;
        record.operation.error = Some(why.chars().take(ERROR_CHARS).collect());
    });
    update.await.map(drop)
}

fn note(record: &mut Record, tally: Tally, next: Option<JobId>) {
    let operation = &mut record.operation;
    operation.done += tally.done;
    operation.failed += tally.failed;
    operation.skipped += tally.skipped;
    operation.error = tally.error.or(operation.error.take());
    match next {
        Some(next) => record.reached = Some(next.get()),
        None => operation.state = OperationState::Succeeded,
    }
}

/// Changes the jobs of a page; retries what the store could not do.
async fn change(app: &App, operation: &Operation, jobs: Vec<Job>) -> Result<Tally, Rejected> {
    let applies = |job: &Job| job.status.state.is_terminal() != (operation.verb == Verb::Cancel);
    let (mut left, others): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(applies);
    let mut tally = Tally { skipped: others.len() as u64, ..Tally::default() };
    for tried in 1.. {
        let trouble = match operation.verb {
            Verb::Delete => delete(app, &mut left, &mut tally).await?,
            Verb::Cancel | Verb::Retry => change_each(app, operation, &mut left, &mut tally).await?,
        };
        match trouble {
            Some(trouble) if tried == TRIES || app.is_draining() => return Err(trouble),
            Some(_) => rest(app).await,
            None => break,
        }
    }
    Ok(tally)
}

/// Deletes the remaining jobs, or returns why the store could not.
async fn delete(app: &App, left: &mut Vec<Job>, tally: &mut Tally) -> Result<Option<Rejected>, Rejected> {
    if left.is_empty() {
        return Ok(None);
    }
    match app.engine.remove(left.iter().map(|job| job.id).collect()).await {
        Ok(removed) => {
            tally.done += removed;
            tally.skipped += (left.len() as u64).saturating_sub(removed);
            left.clear();
            Ok(None)
        }
        Err(refused @ Rejected::Storage { .. }) => Ok(Some(refused)),
        Err(refused) => Err(refused),
    }
}

/// Changes each remaining job. Returns why the store could not change those that are left.
async fn change_each(
    app: &App,
    operation: &Operation,
    left: &mut Vec<Job>,
    tally: &mut Tally,
) -> Result<Option<Rejected>, Rejected> {
    let requests = left.iter().map(|job| request(operation, job.id)).collect();
    let answers = app.engine.ask_many(requests).await?;
    let (mut again, mut trouble) = (Vec::new(), None);
    for (job, answer) in left.drain(..).zip(answers) {
        match answer {
            Ok(_) => tally.done += 1,
            // The job ended or restarted after it was read.
            Err(Rejected::Event(_) | Rejected::NoSuchJob(_) | Rejected::Reserved { .. }) => {
                tally.skipped += 1;
            }
            Err(refused @ Rejected::Storage { .. }) => {
                again.push(job);
                trouble = Some(refused);
            }
            Err(refused @ (Rejected::Stopped(_) | Rejected::Unknown(_))) => return Err(refused),
            Err(refused) => {
                tally.failed += 1;
                let text = format!("job {}: {refused}", job.id);
                tally.error = Some(text.chars().take(ERROR_CHARS).collect());
            }
        }
    }
    *left = again;
    Ok(trouble)
}

fn request(operation: &Operation, id: JobId) -> Request {
    let Operation { id: number, who, .. } = operation;
    if operation.verb == Verb::Retry {
        // With this idempotency key a page may be executed twice.
        let name = IdempotencyKey {
            scope: format!("operation:{number}"),
            key: format!("retry:{id}"),
            body: u128::from(id.get()),
        };
        return Request::Retry { id, name: Some(name) };
    }
    let why = format!("cancelled by operation {number} of {who}");
    Request::Cancel { id, failure: Failure::new("cancelled", why) }
}
