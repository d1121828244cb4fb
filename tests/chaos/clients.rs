//! Clients: they submit single jobs and batches, repeat unanswered requests, cancel, retry and read.

use std::path::PathBuf;
use std::time::Duration;

use jobhall_client::Client;
use jobhall_core::{Disposition, Failure, Submitted};
use jobhall_engine::{Answer, IdempotencyKey, Request, Submit};
use jobhall_protocol::{self as wire, Cancel, Code, SubmitJob};
use rand::RngExt as _;
use rand::rngs::StdRng;
use tokio::sync::watch;

use super::record::{Record, asked, job_id, state};
use super::work;

pub struct Customer {
    pub number: u64,
    pub client: Client,
    pub record: Record,
    pub random: StdRng,
    pub folder: PathBuf,
    pub calm: watch::Receiver<bool>,
    pub count: u64,
}

impl Customer {
    /// Runs until the calm phase.
    pub async fn run(mut self) {
        while !*self.calm.borrow() {
            match self.random.random_range(0..20) {
                0..7 => self.submit().await,
                7..12 => self.bulk().await,
                12..15 => self.cancel().await,
                15 => self.retry().await,
                _ => self.look().await,
            }
            let pause = Duration::from_millis(self.random.random_range(10..120));
            let _ = tokio::time::timeout(pause, self.calm.changed()).await;
        }
    }

    fn job(&mut self, keyed: bool) -> SubmitJob {
        self.count += 1;
        let tag = format!("c{}-{}", self.number, self.count);
        work::job(&mut self.random, &tag, &self.folder, keyed)
    }

    /// Without an idempotency key: if the connection breaks, the outcome is unknown.
    async fn submit(&mut self) {
        let jobs = [self.job(true)];
        let request = Request::Submit {
            submit: Submit { jobs: jobs.iter().map(asked).collect::<Vec<_>>(), ..Submit::default() },
        };
        self.record.sent(&request);
        match self.client.submit_many(&jobs, None).await {
            Ok(answers) => self.submitted(request, &answers),
            Err(error) => self.record.refused(request, &error),
        }
    }

    /// With an idempotency key: it is sent until it is answered, sometimes once more, and sometimes with another
    /// body.
    async fn bulk(&mut self) {
        let count = self.random.random_range(1..6);
        let jobs: Vec<_> = (0..count).map(|_| self.job(false)).collect();
        let key = format!("c{}-{}", self.number, self.count);
        self.named(&jobs, &key, 0).await;
        if self.random.random_range(0..3) == 0 {
            self.record.count("submits sent again after their answer");
            self.named(&jobs, &key, 0).await;
        }
        if self.random.random_range(0..8) == 0 {
            self.record.count("idempotency keys with another body");
            let other = [self.job(false)];
            self.named(&other, &key, 1).await;
        }
    }

    async fn named(&mut self, jobs: &[SubmitJob], key: &str, body: u128) {
        let name = IdempotencyKey { scope: "admin".to_owned(), key: key.to_owned(), body };
        let request = Request::Submit {
            submit: Submit {
                jobs: jobs.iter().map(asked).collect::<Vec<_>>(),
                name: Some(name),
                ..Submit::default()
            },
        };
        self.record.sent(&request);
        loop {
            match self.client.submit_many(jobs, Some(key)).await {
                Ok(answers) => return self.submitted(request, &answers),
                Err(error) if error.is_transient() => self.again("submits sent again").await,
                Err(error) => return self.record.refused(request, &error),
            }
        }
    }

    /// A server that stops or has no leader responds immediately, so the client pauses before it retries.
    async fn again(&self, what: &'static str) {
        self.record.count(what);
        tokio::time::sleep(Duration::from_millis(30)).await;
    }

    fn submitted(&self, request: Request, answers: &[wire::Submitted]) {
        let found = answers
            .iter()
            .map(|answer| Submitted { id: job_id(answer.id), disposition: disposition(&answer.disposition) });
        let found: Vec<_> = found.collect();
        self.record.book().jobs.extend(answers.iter().map(|answer| answer.id));
        self.record.heard(request, Ok(Answer::Submitted(found)));
        self.record.count("submits acknowledged");
    }

    async fn cancel(&mut self) {
        let Some(id) = self.record.any_job(&mut self.random) else { return };
        let failure = Failure::new("cancelled", "cancelled on request");
        let request = Request::Cancel { id: job_id(id), failure };
        self.record.sent(&request);
        match self.client.cancel(id, &Cancel::default()).await {
            Ok(job) => {
                self.record.count("cancels acknowledged");
                self.record.heard(request, Ok(Answer::State(state(&job.state))));
            }
            Err(error) => self.record.refused(request, &error),
        }
    }

    async fn retry(&mut self) {
        let Some(id) = self.record.any_job(&mut self.random) else { return };
        let request = Request::Retry { id: job_id(id), name: None };
        match self.client.retry(id, None).await {
            Ok(job) => {
                let made = Submitted { id: job_id(job.id), disposition: Disposition::Created };
                self.record.book().jobs.push(job.id);
                self.record.count("retries acknowledged");
                self.record.heard(request, Ok(Answer::Submitted(vec![made])));
            }
            // Another job may hold the key of a job to retry by now.
            Err(error) if error.code() == Some(Code::KeyHeld) => self.record.count("retries refused"),
            Err(error) => self.record.refused(request, &error),
        }
    }

    /// Acknowledged jobs exist; completed jobs do not change.
    async fn look(&mut self) {
        let Some(id) = self.record.any_job(&mut self.random) else { return };
        match self.client.job(id).await {
            Ok(job) if state(&job.state).is_terminal() => {
                let shown = serde_json::to_value(&job).unwrap();
                let first = self.record.book().completed.entry(id).or_insert_with(|| shown.clone()).clone();
                assert_eq!(first, shown, "job {id} was completed and changed");
            }
            Ok(_) => {}
            Err(error) => self.record.refused(Request::Show { id: job_id(id) }, &error),
        }
    }
}

fn disposition(name: &str) -> Disposition {
    Disposition::ALL.into_iter().find(|disposition| disposition.as_str() == name).unwrap()
}
