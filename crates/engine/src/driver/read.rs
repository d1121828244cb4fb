//! Reads a job for the kernel.

use jobhall_core::{Job, JobId, PastAttempt};
use jobhall_kernel::{WHOLE_ATTEMPTS, abridge};
use jobhall_store::{Store, StoreError};

/// A job with what the kernel needs of its ended attempts. They are read in small portions: each may be large.
pub(super) async fn read(
    store: &dyn Store,
    id: JobId,
) -> Result<(Option<Job>, Vec<PastAttempt>), StoreError> {
    let Some(job) = store.jobs(vec![id]).await?.into_iter().next().flatten() else {
        return Ok((None, Vec::new()));
    };
    let mut past = store.attempts(id, 0, WHOLE_ATTEMPTS).await?;
    while job.spec.avoid && past.len().is_multiple_of(WHOLE_ATTEMPTS) {
        let older = store.attempts(id, past.len(), WHOLE_ATTEMPTS).await?;
        if older.is_empty() {
            break;
        }
        past.splice(..0, older);
        abridge(&job, &mut past);
    }
    Ok((Some(job), past))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jobhall_core::{
        Backoff, Decision, Dice, Event, Failure, JobSpec, JobStatus, Json, LeaseId, QueueName, Report,
        RetryPolicy, Time, TypeName, WorkerName, transition,
    };
    use jobhall_store::{Change, Insert, Memory, Unit};

    use super::*;

    fn step(store: &Memory, id: JobId, event: &Event<'_>) {
        let job = store.jobs_now(&[id]).remove(0).unwrap();
        let Ok(Decision::Step(step)) = transition(&job.status, event, job.status.run_at) else {
            panic!("{} does not apply to {job:?}", event.name());
        };
        let change = Change {
            id,
            expected: job.status.rev,
            status: step.status,
            spec: None,
            past: step.past,
            want_spec: false,
        };
        let unit = Unit { changes: vec![change], ..Unit::default() };
        assert!(store.commit_now(vec![unit]).results[0].is_ok());
    }

    fn fail(store: &Memory, id: JobId, claim: u32, retry: &RetryPolicy) {
        let (lease, worker) = (LeaseId(1), WorkerName::new(&format!("w{claim}")).unwrap());
        step(store, id, &Event::Claim { lease, worker });
        step(store, id, &Event::Accept { claim, lease });
        let report = Report::Failed(Failure { data: Some(Json::null()), ..Failure::new("r", "") }, None);
        step(store, id, &Event::Report { claim, lease, report: &report, retry, dice: Dice(0) });
    }

    /// The workers of the attempts that are read, and how many are read whole.
    async fn read_of(avoid: bool, attempts: u32) -> (Vec<String>, usize) {
        let (store, id) = (Memory::new(), JobId::new(1).unwrap());
        let (job_type, queue) = (TypeName::new("t").unwrap(), QueueName::new("q").unwrap());
        let plain = JobSpec::plain(job_type, queue, Time::EPOCH);
        let retry = RetryPolicy { max_attempts: 50, backoff: Backoff::Constant { ms: 0 }, ..plain.retry };
        let spec = JobSpec { avoid, retry, ..plain };
        let job = Job { id, spec: Arc::new(spec), status: JobStatus::queued(Time::EPOCH, Time::EPOCH) };
        store.commit_now(vec![Unit { inserts: vec![Insert { job, reuse: None }], ..Unit::default() }]);
        (1..=attempts).for_each(|claim| fail(&store, id, claim, &retry));
        let (job, past) = read(&store, id).await.unwrap();
        assert!(job.is_some());
        let whole = past.iter().filter(|attempt| attempt.failure.data.is_some()).count();
        (past.iter().map(|attempt| attempt.worker.to_string()).collect(), whole)
    }

    #[tokio::test]
    async fn audit_m4_few_attempts_are_read_whole_and_all_workers_that_are_avoided() {
        let workers = |from: u32, to: u32| (from..=to).map(|n| format!("w{n}")).collect::<Vec<_>>();
        assert_eq!(read_of(false, 0).await, (workers(1, 0), 0));
        assert_eq!(read_of(false, 11).await, (workers(8, 11), 4));
        for attempts in [0, 1, 4, 5, 8, 11] {
            let whole = (attempts as usize).min(WHOLE_ATTEMPTS);
            assert_eq!(read_of(true, attempts).await, (workers(1, attempts), whole));
        }
    }
}
