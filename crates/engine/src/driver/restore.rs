//! Reading the settings, the open jobs and their links at start.

use std::sync::Arc;

use jobhall_core::{Job, JobId};
use jobhall_kernel::Kernel;
use jobhall_store::{Later, SettingKind, SettingWrite, Store, StoreError, Unit};
use tokio::sync::mpsc;

/// Rows per read.
const PAGE: usize = 2_000;
/// Pages that were read and wait for the kernel.
const AHEAD: usize = 1;

/// The kinds of settings that the kernel knows.
const KINDS: [SettingKind; 5] = [
    SettingKind::Type,
    SettingKind::Queue,
    SettingKind::Schedule,
    SettingKind::Worker,
    SettingKind::Retention,
];

pub(super) async fn settings(store: &dyn Store, kernel: &mut Kernel) -> Result<(), StoreError> {
    for kind in KINDS {
        kernel.restore_settings(store.settings(Some(kind)).await?)?;
    }
    for removals in kernel.forget_default_types().chunks(PAGE) {
        let unit = |removal: &SettingWrite| Unit { settings: vec![removal.clone()], ..Unit::default() };
        if let Err(error) = store.commit(removals.iter().map(unit).collect()).await {
            // The next start tries again.
            tracing::warn!("failed to remove types without configuration: {error}");
            break;
        }
    }
    Ok(())
}

/// Restores the open jobs. The store reads the next page while the kernel restores one, because both take about the same
/// time.
pub(super) async fn jobs(store: &Arc<dyn Store>, kernel: &mut Kernel) -> Result<(), StoreError> {
    let (pages, read) = mpsc::channel(AHEAD);
    tokio::spawn(read_jobs(store.clone(), pages));
    restore_jobs(read, kernel).await
}

type Page = Result<Vec<Job>, StoreError>;

async fn restore_jobs(mut read: mpsc::Receiver<Page>, kernel: &mut Kernel) -> Result<(), StoreError> {
    loop {
        let page =
            read.recv().await.ok_or_else(|| StoreError::new("the reader of open jobs has stopped"))??;
        if page.is_empty() {
            return Ok(());
        }
        page.into_iter().for_each(|job| kernel.restore(job));
    }
}

/// Sends all open jobs and an empty page, or an error. Ends early if they are no longer wanted.
///
/// A long queue has dense ids. After a page without gaps, the page behind the next one is requested together with the
/// next one, as if that had no gaps either; if it has some, the result is not used.
async fn read_jobs(store: Arc<dyn Store>, pages: mpsc::Sender<Page>) {
    let (mut after, mut dense) = (0, false);
    let mut early: Option<(u64, Later<Page>)> = None;
    loop {
        let next = match early.take() {
            Some((from, page)) if from == after => page,
            _ => store.open_jobs(JobId::new(after).ok(), PAGE),
        };
        let guess = after + PAGE as u64;
        if dense {
            early = Some((guess, store.open_jobs(JobId::new(guess).ok(), PAGE)));
        }
        let page = next.await;
        let last = page.as_ref().ok().and_then(|jobs| jobs.last()).map(|job| job.id.get());
        let ended = last.is_none();
        if pages.send(page).await.is_err() || ended {
            return;
        }
        after = last.unwrap_or(after);
        dense = after == guess;
    }
}

/// Restores the links of sub-jobs.
pub(super) async fn links(store: &dyn Store, kernel: &mut Kernel) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let links = store.links(after, PAGE).await?;
        let Some(last) = links.last() else { return Ok(()) };
        after = Some((last.parent, last.call.clone()));
        kernel.restore_links(links);
    }
}

#[cfg(test)]
mod tests {
    use jobhall_core::{JobSpec, JobStatus, QueueName, Time, TypeName};
    use jobhall_kernel::{Config, Now};
    use jobhall_store::{Insert, Memory, Unit};

    use super::*;

    fn kernel() -> Kernel {
        Kernel::new(Config::default(), Now::default(), Box::new(|| 7))
    }

    fn job(n: u64) -> Job {
        let (job_type, queue) = (TypeName::new("t").unwrap(), QueueName::new("q").unwrap());
        let spec = Arc::new(JobSpec::plain(job_type, queue, Time::EPOCH));
        Job { id: JobId::new(n).unwrap(), spec, status: JobStatus::queued(Time::EPOCH, Time::EPOCH) }
    }

    /// A store with these open jobs.
    fn store(ids: impl Iterator<Item = u64>) -> Arc<dyn Store> {
        let memory = Memory::new();
        let inserts: Vec<_> = ids.map(|n| Insert { job: job(n), reuse: None }).collect();
        memory.take_block_now(inserts.last().unwrap().job.id.get());
        memory.commit_now(vec![Unit { inserts, ..Unit::default() }]);
        Arc::new(memory)
    }

    #[tokio::test]
    async fn every_page_of_open_jobs_is_restored() {
        let (many, mut kernel) = (2 * PAGE as u64 + 1, kernel());
        jobs(&store(1..=many), &mut kernel).await.unwrap();
        assert_eq!(kernel.open_count() as u64, many);
    }

    #[tokio::test]
    async fn every_job_is_read_once_and_in_order_whether_ids_have_gaps_or_not() {
        let page = PAGE as u64;
        let gaps: [fn(u64) -> bool; 5] = [
            |_| true,
            |n| n != 1,
            |n| n != 2 * PAGE as u64,
            |n| n % 7 != 0 || n < 4 * PAGE as u64,
            |n| !(3 * PAGE as u64 - 5..5 * PAGE as u64).contains(&n),
        ];
        for open in gaps {
            let ids: Vec<u64> = (1..=8 * page).filter(|&n| open(n)).collect();
            let (pages, mut read) = mpsc::channel(AHEAD);
            tokio::spawn(read_jobs(store(ids.iter().copied()), pages));
            let mut found = Vec::new();
            while let Some(page) = read.recv().await {
                found.extend(page.unwrap().iter().map(|job| job.id.get()));
            }
            assert_eq!(found, ids);
        }
    }

    #[tokio::test]
    async fn an_error_after_some_pages_is_returned() {
        let (pages, read) = mpsc::channel(2);
        pages.send(Ok(vec![job(1)])).await.unwrap();
        pages.send(Err(StoreError::new("no disk"))).await.unwrap();
        let error = restore_jobs(read, &mut kernel()).await.unwrap_err();
        assert_eq!(error.message, "no disk");
    }

    #[tokio::test]
    async fn a_reader_that_stops_before_the_last_page_is_an_error() {
        let (pages, read) = mpsc::channel(2);
        pages.send(Ok(vec![job(1)])).await.unwrap();
        drop(pages);
        assert!(restore_jobs(read, &mut kernel()).await.is_err());
    }
}
