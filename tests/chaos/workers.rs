//! Workers of the test, with long polls only. Some behave correctly: others never accept, vanish, are late, repeat
//! messages, contradict themselves, or use the lease of another worker.

use std::time::Duration;

use bytes::Bytes;
use jobhall_client::{AttemptRef, Client, Stream};
use jobhall_core::{AttemptId, Failure, Json, LeaseId, Report};
use jobhall_engine::{Answer, Request};
use jobhall_protocol::{
    self as wire, Assigned, Code, Outcome, OutcomeReport, Renewals, RenewedAttempt, Vacancy,
};
use rand::RngExt as _;
use rand::rngs::StdRng;
use serde_json::value::RawValue;
use tokio::sync::watch;

use super::record::{Record, state, worker};
use super::work;

/// Pause before the next try.
const PAUSE: Duration = Duration::from_millis(30);

pub struct Hand {
    pub client: Client,
    pub record: Record,
    pub random: StdRng,
    pub calm: watch::Receiver<bool>,
    pub over: watch::Receiver<bool>,
}

/// One attempt of it.
struct Task {
    id: AttemptId,
    name: String,
    secret: String,
    lease: LeaseId,
}

impl Task {
    fn lease(&self) -> AttemptRef<'_> {
        AttemptRef { attempt: &self.name, lease: &self.secret }
    }
}

impl Hand {
    /// Runs until the test ends; in the calm phase it behaves correctly.
    pub async fn run(mut self) {
        let vacancy = Vacancy {
            slots: self.random.random_range(1..3),
            wait_s: 2,
            accepts: format!("type={}", work::OWN),
            ..Vacancy::default()
        };
        while !*self.over.borrow() {
            let asked_at = self.record.now();
            match self.client.vacancies(&vacancy).await {
                Ok(given) => {
                    for assigned in given.attempts {
                        let task = self.given(&assigned, asked_at);
                        self.work(&task).await;
                    }
                }
                Err(error) => {
                    assert!(error.is_transient(), "{error}");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn given(&self, assigned: &Assigned, asked_at: u64) -> Task {
        let id: AttemptId = assigned.id.parse().unwrap();
        let lease = LeaseId(u128::from_str_radix(&assigned.lease, 16).unwrap());
        let params = Json::params(assigned.job.params.get()).unwrap();
        let entry = super::record::Entry::Assigned(id, lease, params, asked_at);
        self.record.book().entries.push(entry);
        self.record.count("attempts of the test's workers");
        Task { id, name: assigned.id.clone(), secret: assigned.lease.clone(), lease }
    }

    async fn work(&mut self, task: &Task) {
        let manner = if *self.calm.borrow() { 0 } else { self.random.random_range(0..100) };
        match manner {
            0..60 => self.good(task).await,
            60..68 => {
                let report = self.report();
                self.tell(task, &report).await;
            }
            68..74 => self.record.count("assignments ignored"),
            74..80 => {
                self.accept(task).await;
                self.record.count("attempts left behind");
            }
            80..85 => self.late(task).await,
            85..95 => self.twice(task).await,
            95..98 => self.stranger(task).await,
            _ => self.long(task).await,
        }
    }

    async fn accept(&self, task: &Task) -> bool {
        match self.client.accept(task.lease()).await {
            Ok(_) => true,
            Err(error) => {
                let request = Request::Accept {
                    of: jobhall_engine::AttemptRef { worker: worker(), attempt: task.id, lease: task.lease },
                };
                self.record.refused(request, &error);
                false
            }
        }
    }

    async fn good(&mut self, task: &Task) {
        if self.accept(task).await {
            let log = self.log(task).await;
            let report = self.report();
            if self.tell(task, &report).await {
                self.record.book().logs.extend(log.map(|log| (task.id, log)));
            }
        }
    }

    /// Writes a log in chunks; returns its content if all of it was accepted.
    async fn log(&mut self, task: &Task) -> Option<Vec<u8>> {
        let mut log: Vec<u8> = Vec::new();
        let pieces = self.random.random_range(0..4);
        for piece in 0..pieces {
            let bytes = format!("{} piece {piece} \0\u{1f}\n", task.name).repeat(1 + piece * 50).into_bytes();
            let (at, chunk) = (log.len() as u64, Bytes::from(bytes.clone()));
            log.extend(bytes);
            loop {
                match self.client.append_log(task.lease(), Stream::Stdout, at, chunk.clone()).await {
                    Ok(_) => break,
                    Err(error) if error.is_transient() => tokio::time::sleep(PAUSE).await,
                    Err(error) => {
                        assert_eq!(error.code(), Some(Code::LeaseLost), "{}: {error}", task.name);
                        return None;
                    }
                }
            }
        }
        Some(log)
    }

    /// Sends no renewal for longer than a lease, and reports then.
    async fn late(&mut self, task: &Task) {
        self.accept(task).await;
        self.record.count("outcomes that came late");
        let nap = Duration::from_millis(self.random.random_range(1_000..5_000));
        let _ = tokio::time::timeout(nap, self.calm.changed()).await;
        let report = self.report();
        self.tell(task, &report).await;
    }

    /// A repeated report is answered like the first; a different one is refused.
    async fn twice(&mut self, task: &Task) {
        let report = self.report();
        if self.tell(task, &report).await {
            self.tell(task, &report).await;
            self.record.count("outcomes repeated");
            let (Report::Succeeded(_), other) = (&report, Report::Failed(Failure::new("changed", ""), None))
            else {
                return;
            };
            self.tell(task, &other).await;
        }
    }

    /// The lease of another worker is refused.
    async fn stranger(&mut self, task: &Task) {
        let lease = LeaseId(u128::from(self.random.random::<u64>()) + 1);
        let forged = Task { lease, secret: format!("{:032x}", lease.0), name: task.name.clone(), ..*task };
        let report = self.report();
        let taken = self.tell(&forged, &report).await;
        assert!(!taken, "{}: a lease that was never assigned is accepted", task.name);
        self.good(task).await;
    }

    /// Works for a while, renews, and obeys cancels.
    async fn long(&mut self, task: &Task) {
        self.record.count("attempts that renew");
        if !self.accept(task).await {
            return;
        }
        for _ in 0..self.random.random_range(2..8) {
            let _ = tokio::time::timeout(Duration::from_millis(500), self.calm.changed()).await;
            let held = RenewedAttempt { id: task.name.clone(), lease: task.secret.clone() };
            let Ok(renewed) = self.client.renew(&Renewals { attempts: vec![held] }).await else { continue };
            if renewed.lost.contains(&task.name) {
                return self.record.count("leases lost and reported as lost");
            }
            if renewed.cancel.contains(&task.name) {
                self.record.count("cancels obeyed");
                self.tell(task, &Report::Cancelled).await;
                return;
            }
        }
        let report = self.report();
        self.tell(task, &report).await;
    }

    fn report(&mut self) -> Report {
        let value = Json::value(&format!("{{\"n\":{}}}", self.random.random_range(0..1_000_000))).unwrap();
        match self.random.random_range(0..10) {
            0..6 => Report::Succeeded(value),
            6 => Report::Skipped(Json::null()),
            7 => Report::Crashed(Failure::new("crashed", "requested by the test"), None),
            8 => Report::TimedOut(Failure::new("timed_out", ""), None),
            _ => Report::Failed(Failure::new("failed", "requested by the test"), None),
        }
    }

    /// Reports the outcome until it is answered; returns whether it was accepted.
    async fn tell(&self, task: &Task, report: &Report) -> bool {
        let request = Request::Report {
            of: jobhall_engine::AttemptRef { worker: worker(), attempt: task.id, lease: task.lease },
            report: report.clone(),
            records: Vec::new(),
        };
        self.record.sent(&request);
        loop {
            match self.client.outcome(task.lease(), &on_the_wire(report)).await {
                Ok(moved) => {
                    self.record.count("outcomes acknowledged");
                    self.record.heard(request, Ok(Answer::State(state(&moved.state))));
                    return true;
                }
                Err(error) if error.is_transient() => {
                    self.record.count("outcomes sent again");
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => {
                    self.record.refused(request, &error);
                    return false;
                }
            }
        }
    }
}

fn on_the_wire(report: &Report) -> OutcomeReport {
    let value = match report {
        Report::Succeeded(value) | Report::Skipped(value) => {
            Some(RawValue::from_string(value.as_str().to_owned()).unwrap())
        }
        _ => None,
    };
    let error = report.failure().map(|failure| wire::Failure {
        reason: failure.reason.clone(),
        explanation: failure.explanation.clone(),
        data: None,
    });
    let outcome = match report {
        Report::Succeeded(_) => Outcome::Succeeded,
        Report::Skipped(_) => Outcome::Skipped,
        Report::Failed(..) => Outcome::Failed,
        Report::Crashed(..) => Outcome::Crashed,
        Report::TimedOut(..) => Outcome::TimedOut,
        Report::Cancelled => Outcome::Cancelled,
    };
    OutcomeReport { outcome, value, error, retry: None, params: None }
}
