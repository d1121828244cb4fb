//! What an attempt tells the server, and the orders that it gets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jobhall_core::{AttemptId, LeaseId};
use jobhall_protocol::{Code, Outcome, OutcomeReport, ToServer};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::attempt::contract;
use crate::session_loop::outbox::{Outbox, Reply};

/// Pause before a message that the server could not accept is sent again.
pub(crate) const AGAIN: Duration = Duration::from_millis(500);

/// The order for an attempt, in increasing order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    Go,
    /// Stop, and report that it was cancelled.
    Cancel,
    /// Stop immediately and report nothing: the lease is lost.
    Lost,
}

/// Whether the work of an attempt was started; shared by its task and the session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Begun(Arc<AtomicBool>);

impl Begun {
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The way of one attempt to the server.
pub(crate) struct Reporter {
    pub attempt: AttemptId,
    pub lease: LeaseId,
    pub outbox: Outbox,
    pub order: watch::Receiver<Order>,
    pub begun: Begun,
}

impl Reporter {
    /// The current order.
    pub fn order(&self) -> Order {
        *self.order.borrow()
    }

    /// Accepts the job, and returns whether the work may start: the server has stored the accept.
    pub async fn accept(&mut self) -> bool {
        while self.order() < Order::Lost {
            let (attempt, lease) = (self.attempt, self.lease);
            let accept = ToServer::Accept { attempt, lease, answer: true };
            match self.outbox.send(vec![accept]).await {
                Some(Reply::Taken) => return self.order() < Order::Lost,
                Some(Reply::Refused(code, _)) if is_passing(code) => {
                    let _ = timeout(AGAIN, self.order.changed()).await;
                }
                Some(Reply::Refused(_, why)) => {
                    tracing::warn!(why, %attempt, "the server refused the accept");
                    return false;
                }
                None => return false,
            }
        }
        false
    }

    /// Sends until the server has accepted it or never will.
    pub async fn deliver(&self, messages: Vec<ToServer>) {
        loop {
            match self.outbox.send(messages.clone()).await {
                Some(Reply::Refused(code, _)) if is_passing(code) => tokio::time::sleep(AGAIN).await,
                Some(Reply::Refused(_, why)) => {
                    return tracing::warn!(why, attempt = %self.attempt, "the server refused output");
                }
                Some(Reply::Taken) | None => return,
            }
        }
    }

    /// Sends the last output and the outcome until the server has accepted it or the lease is lost. An outcome that
    /// the server cannot accept becomes a crash: an attempt without an outcome would stay leased forever.
    pub async fn report(&mut self, mut report: OutcomeReport, last: Option<ToServer>) {
        let mut second = false;
        while self.order() < Order::Lost {
            let mut messages = Vec::from_iter(last.clone());
            let (attempt, lease) = (self.attempt, self.lease);
            messages.push(ToServer::Outcome { attempt, lease, report: report.clone() });
            match self.outbox.send(messages).await {
                Some(Reply::Refused(code, _)) if is_passing(code) => {
                    let _ = timeout(AGAIN, self.order.changed()).await;
                }
                Some(Reply::Refused(_, why)) if !second => {
                    tracing::warn!(why, %attempt, "the server refused the outcome");
                    report = broken("outcome_refused", &why);
                    second = true;
                }
                Some(Reply::Refused(_, why)) => {
                    return tracing::warn!(why, %attempt, "the server refused the outcome again");
                }
                Some(Reply::Taken) | None => return,
            }
        }
    }
}

/// A crash caused by the worker or the server, not by the command.
pub(crate) fn broken(reason: &str, error: &dyn std::fmt::Display) -> OutcomeReport {
    contract::report(Outcome::Crashed, Some(contract::refused(reason, error.to_string())))
}

/// Whether a retry may succeed.
pub(crate) fn is_passing(code: Code) -> bool {
    let of_nodes = matches!(code, Code::NoLeader | Code::OutcomeUnknown);
    of_nodes || matches!(code, Code::Unavailable | Code::TooManyRequests | Code::StorageFull | Code::Internal)
}
