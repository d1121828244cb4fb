//! A minimal worker on the real client.

use std::collections::VecDeque;
use std::time::Duration;

use jobhall_client::{Client, ClientError, Session};
use jobhall_core::{AttemptId, LeaseId};
use jobhall_protocol::{
    AssignedJob, AttemptRef, Encoding, Hello, Outcome, OutcomeReport, ToServer, ToWorker, Word,
};

use crate::server::{TestServer, wait_until};

/// Waits until no worker is connected. A worker whose connection broke is listed until its lease ends.
pub async fn until_none_connected(hall: &TestServer) {
    let none = async || hall.workers().await.iter().all(|worker| worker["connected"] == false);
    wait_until("no worker is connected", none).await;
}

/// A generous time limit.
pub const LONG: Duration = Duration::from_secs(30);

pub struct TestWorker {
    pub session: Session,
    seen: VecDeque<ToWorker>,
}

#[derive(Clone, Debug)]
pub struct Job {
    pub attempt: AttemptId,
    pub lease: LeaseId,
    pub job: AssignedJob,
}

impl Job {
    pub fn held(&self) -> AttemptRef {
        AttemptRef { attempt: self.attempt, lease: self.lease }
    }

    pub fn accept(&self) -> ToServer {
        ToServer::Accept { attempt: self.attempt, lease: self.lease, answer: false }
    }

    pub fn outcome(&self, outcome: Outcome) -> ToServer {
        ToServer::Outcome { attempt: self.attempt, lease: self.lease, report: report(outcome) }
    }

    pub fn passed(&self) -> ToServer {
        self.outcome(Outcome::Succeeded)
    }
}

pub fn report(outcome: Outcome) -> OutcomeReport {
    OutcomeReport { outcome, value: None, error: None, retry: None, params: None }
}

pub fn client(hall: &TestServer, token: &str) -> Client {
    Client::new(&format!("http://{}", hall.address), Some(token)).unwrap()
}

impl TestWorker {
    pub async fn connect(hall: &TestServer, encoding: Encoding, hello: Hello) -> TestWorker {
        TestWorker::try_connect(hall, &hall.worker, encoding, hello).await.unwrap()
    }

    pub async fn try_connect(
        hall: &TestServer,
        token: &str,
        encoding: Encoding,
        hello: Hello,
    ) -> Result<TestWorker, ClientError> {
        let session = client(hall, token).session_in(encoding, hello).await?;
        Ok(TestWorker { session, seen: VecDeque::new() })
    }

    /// A worker on this client.
    pub async fn of(client: Client, hello: Hello) -> TestWorker {
        TestWorker { session: client.session(hello).await.unwrap(), seen: VecDeque::new() }
    }

    pub async fn ready(hall: &TestServer, total: i64) -> TestWorker {
        let mut worker = TestWorker::connect(hall, Encoding::MessagePack, Hello::default()).await;
        worker.say(ToServer::Credit { total }).await;
        worker
    }

    pub async fn say(&mut self, message: ToServer) {
        self.session.send(&[message]).await.unwrap();
    }

    /// The next matching message; other messages are kept for later.
    pub async fn hear<T>(&mut self, wanted: impl Fn(&ToWorker) -> Option<T>) -> T {
        if let Some(at) = self.seen.iter().position(|message| wanted(message).is_some()) {
            return self.seen.remove(at).and_then(|message| wanted(&message)).unwrap();
        }
        loop {
            let frame = tokio::time::timeout(LONG, self.session.next()).await;
            let frame = frame.unwrap_or_else(|_| panic!("received only {:?}", self.seen)).unwrap();
            let mut found = None;
            for message in frame {
                match wanted(&message).filter(|_| found.is_none()) {
                    Some(value) => found = Some(value),
                    None => self.seen.push_back(message),
                }
            }
            if let Some(found) = found {
                return found;
            }
        }
    }

    pub async fn job(&mut self) -> Job {
        self.hear(|message| match message {
            ToWorker::Assign { attempt, lease, job, .. } => {
                Some(Job { attempt: *attempt, lease: *lease, job: job.clone() })
            }
            _ => None,
        })
        .await
    }

    /// The state of the job after a message.
    pub async fn moved(&mut self, about: AttemptId, after: Word) -> String {
        self.hear(|message| match message {
            ToWorker::Moved { attempt, to, state } if *attempt == about && *to == after => {
                Some(state.clone())
            }
            _ => None,
        })
        .await
    }

    /// The code and detail of a refusal.
    pub async fn refused(&mut self, of: Word) -> (String, String) {
        self.hear(|message| match message {
            ToWorker::Refused { to, code, detail, .. } if *to == of => {
                Some((serde_json::to_string(code).unwrap().trim_matches('"').to_owned(), detail.clone()))
            }
            _ => None,
        })
        .await
    }

    /// Waits for the end of the session; returns the reason.
    pub async fn end(&mut self) -> String {
        let end = async {
            loop {
                match self.session.next().await {
                    Ok(frame) => self.seen.extend(frame),
                    Err(error) => return error.to_string(),
                }
            }
        };
        tokio::time::timeout(LONG, end).await.expect("an end")
    }

    /// All messages received so far, up to the answer to a ping.
    pub async fn so_far(&mut self) -> Vec<ToWorker> {
        self.say(ToServer::Ping { n: 99 }).await;
        self.hear(|message| matches!(message, ToWorker::Pong { n: 99, .. }).then_some(())).await;
        self.seen.drain(..).collect()
    }
}
