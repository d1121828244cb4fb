//! The attempts of a worker, each with its order and its unanswered messages.

use std::collections::BTreeMap;

use jobhall_core::{AttemptId, LeaseId};
use jobhall_protocol::{AttemptRef, Code, ToServer, ToWorker, Word};
use tokio::sync::watch;
use tokio::task::Id;

use crate::executor::reporter::{Begun, Order};
use crate::session_loop::outbox::{OutboundMessage, Reply};

/// One attempt.
struct Holding {
    lease: LeaseId,
    task: Id,
    order: watch::Sender<Order>,
    /// Whether its command was started.
    begun: Begun,
    /// Whether its slot is free: its command has ended.
    free: bool,
    /// Its unanswered message.
    message: Option<OutboundMessage>,
    /// Its unanswered note: notes are written beside output.
    note: Option<OutboundMessage>,
}

impl Holding {
    /// Where an unanswered message of this kind is kept.
    fn slot(&mut self, kind: Option<Word>) -> &mut Option<OutboundMessage> {
        if kind == Some(Word::Note) { &mut self.note } else { &mut self.message }
    }
}

/// All attempts of the worker.
#[derive(Default)]
pub(crate) struct InFlight(BTreeMap<AttemptId, Holding>);

impl InFlight {
    pub fn add(
        &mut self,
        attempt: AttemptId,
        lease: LeaseId,
        task: Id,
        order: watch::Sender<Order>,
        begun: Begun,
    ) {
        self.0.insert(attempt, Holding { lease, task, order, begun, free: false, message: None, note: None });
    }

    /// The number of slots in use.
    pub fn busy(&self) -> usize {
        self.0.values().filter(|holding| !holding.free).count()
    }

    /// Whether the command of this attempt still runs, as far as is known here.
    pub fn is_busy(&self, attempt: AttemptId) -> bool {
        self.0.get(&attempt).is_some_and(|holding| !holding.free)
    }

    /// Whether the command of this attempt was started.
    pub fn has_begun(&self, attempt: AttemptId) -> bool {
        self.0.get(&attempt).is_some_and(|holding| holding.begun.get())
    }

    /// The running commands, to be reported on a new connection: a server that has restarted may not know that they
    /// were started.
    pub fn starts(&self) -> Vec<ToServer> {
        let running = self.0.iter().filter(|(_, holding)| holding.begun.get() && !holding.free);
        let own = running.filter(|(_, holding)| *holding.order.borrow() < Order::Lost);
        own.map(|(&attempt, holding)| start(attempt, holding.lease)).collect()
    }

    /// Removes the attempt of a task that ended; returns the attempt and its lease.
    pub fn remove(&mut self, task: Id) -> Option<(AttemptId, LeaseId)> {
        let (&attempt, _) = self.0.iter().find(|(_, holding)| holding.task == task)?;
        self.0.remove(&attempt).map(|holding| (attempt, holding.lease))
    }

    /// The attempts to name in the next hello.
    pub fn list(&self) -> Vec<AttemptRef> {
        let own = self.0.iter().filter(|(_, holding)| *holding.order.borrow() < Order::Lost);
        own.map(|(&attempt, holding)| AttemptRef { attempt, lease: holding.lease }).collect()
    }

    /// Whether this attempt is running.
    pub fn goes_on(&self, attempt: AttemptId) -> bool {
        self.0.get(&attempt).is_some_and(|holding| *holding.order.borrow() < Order::Lost)
    }

    /// Sends an order to an attempt; an order never decreases. A lost attempt no longer waits for a reply.
    pub fn tell(&mut self, attempt: AttemptId, order: Order) {
        let Some(holding) = self.0.get_mut(&attempt) else { return };
        holding.order.send_if_modified(|current| {
            let rises = order > *current;
            *current = order.max(*current);
            rises
        });
        if order == Order::Lost {
            (holding.message, holding.note) = (None, None);
        }
    }

    /// Marks all attempts as lost.
    pub fn lose_all(&mut self) {
        self.lose_where(|_| true);
    }

    /// Marks the attempts whose command still runs as lost. An unanswered outcome may be sent later: a server that
    /// has assigned the job to another worker refuses it.
    pub fn lose_running(&mut self) {
        self.lose_where(|holding| !holding.free);
    }

    fn lose_where(&mut self, is_meant: impl Fn(&Holding) -> bool) {
        let meant = self.0.iter().filter(|(_, holding)| is_meant(holding));
        let meant: Vec<_> = meant.map(|(&attempt, _)| attempt).collect();
        meant.into_iter().for_each(|attempt| self.tell(attempt, Order::Lost));
    }

    /// Resolves when no process of the lost attempts is left.
    pub fn all_stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        let orders = self.0.values().map(|holding| &holding.order);
        let lost: Vec<_> = orders.filter(|order| *order.borrow() == Order::Lost).cloned().collect();
        async move {
            for order in lost {
                order.closed().await;
            }
        }
    }

    /// Keeps a message until it is answered; returns the messages to send now.
    pub fn keep(&mut self, message: OutboundMessage) -> Vec<ToServer> {
        let Some(holding) = self.0.get_mut(&message.attempt) else { return Vec::new() };
        if *holding.order.borrow() == Order::Lost {
            return Vec::new();
        }
        let messages = message.messages.clone();
        let kind = last(&message);
        holding.free |= kind == Some(Word::Outcome);
        *holding.slot(kind) = Some(message);
        messages
    }

    /// All unanswered messages, to be sent again on a new connection.
    pub fn unanswered(&self) -> Vec<ToServer> {
        // A note that was written before the outcome is sent before it.
        let outbound = self.0.values().flat_map(|holding| [&holding.note, &holding.message]).flatten();
        outbound.flat_map(|message| message.messages.iter().cloned()).collect()
    }

    /// Forwards a message of the server about an attempt.
    pub fn hear(&mut self, message: ToWorker) {
        match message {
            ToWorker::Cancel { attempt, .. } => self.tell(attempt, Order::Cancel),
            ToWorker::Revoke { attempt } => self.tell(attempt, Order::Lost),
            ToWorker::Logged { attempt, note, .. } => {
                self.answer(attempt, if note { Word::Note } else { Word::Log }, Reply::Taken);
            }
            ToWorker::Moved { attempt, to, .. } => self.answer(attempt, to, Reply::Taken),
            ToWorker::Refused { attempt: Some(attempt), to, code, detail } => {
                if matches!(code, Code::LeaseLost | Code::NotFound) {
                    self.tell(attempt, Order::Lost);
                } else {
                    self.answer(attempt, to, Reply::Refused(code, detail));
                }
            }
            _ => {}
        }
    }

    fn answer(&mut self, attempt: AttemptId, to: Word, reply: Reply) {
        let Some(holding) = self.0.get_mut(&attempt) else { return };
        if let Some(message) = holding.slot(Some(to)).take_if(|message| last(message) == Some(to)) {
            // A receiver that was dropped belongs to an ended task, which reports it.
            let _ = message.reply.send(reply);
        }
    }
}

/// The message that the command of an attempt was started.
pub(crate) fn start(attempt: AttemptId, lease: LeaseId) -> ToServer {
    ToServer::Progress { attempt, lease, indicators: Vec::new() }
}

/// The kind of the last part of a message.
fn last(message: &OutboundMessage) -> Option<Word> {
    match message.messages.last()? {
        ToServer::Accept { .. } => Some(Word::Accept),
        ToServer::Log { stream, .. } => Some(Word::of_log(*stream)),
        ToServer::Outcome { .. } => Some(Word::Outcome),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use jobhall_protocol::{LogStream, Outcome};
    use tokio::sync::oneshot;

    use super::*;
    use crate::attempt::contract;

    const LEASE: LeaseId = LeaseId(7);

    fn attempt() -> AttemptId {
        "1-1".parse().unwrap()
    }

    fn log() -> ToServer {
        let (offset, stream, bytes) = (0, LogStream::Stdout, b"x".to_vec());
        ToServer::Log { attempt: attempt(), lease: LEASE, offset, stream, bytes }
    }

    fn outcome() -> ToServer {
        ToServer::Outcome {
            attempt: attempt(),
            lease: LEASE,
            report: contract::report(Outcome::Succeeded, None),
        }
    }

    fn message(messages: Vec<ToServer>) -> (OutboundMessage, oneshot::Receiver<Reply>) {
        let (reply, answer) = oneshot::channel();
        (OutboundMessage { attempt: attempt(), messages, reply }, answer)
    }

    async fn one() -> (InFlight, watch::Receiver<Order>) {
        let (order, orders) = watch::channel(Order::Go);
        let task = tokio::spawn(async {}).id();
        let mut held = InFlight::default();
        held.add(attempt(), LEASE, task, order, Begun::default());
        (held, orders)
    }

    fn refused(to: Word, code: Code) -> ToWorker {
        ToWorker::Refused { to, attempt: Some(attempt()), code, detail: "no".to_owned() }
    }

    #[tokio::test]
    async fn a_message_is_answered_by_the_answer_to_its_last_message() {
        let (mut held, _) = one().await;
        let (both, mut answer) = message(vec![log(), outcome()]);
        assert_eq!(held.keep(both).len(), 2);
        held.hear(ToWorker::Logged { attempt: attempt(), len: 1, truncated: false, note: false });
        assert!(answer.try_recv().is_err(), "the outcome is still open");
        assert_eq!(held.unanswered().len(), 2, "both are sent again on a new connection");
        held.hear(refused(Word::Outcome, Code::StorageFull));
        assert_eq!(answer.try_recv(), Ok(Reply::Refused(Code::StorageFull, "no".to_owned())));
        assert!(held.unanswered().is_empty());
        let (again, mut answer) = message(vec![outcome()]);
        held.keep(again);
        held.hear(ToWorker::Moved { attempt: attempt(), to: Word::Outcome, state: "succeeded".to_owned() });
        assert_eq!(answer.try_recv(), Ok(Reply::Taken));
    }

    #[tokio::test]
    async fn ground_10_a_note_and_output_are_answered_apart() {
        let (mut held, _) = one().await;
        let ToServer::Log { attempt, lease, offset, bytes, .. } = log() else { panic!("a log message") };
        let note = ToServer::Log { attempt, lease, offset, stream: LogStream::Note, bytes };
        let (output, mut of_output) = message(vec![log()]);
        let (note, mut of_note) = message(vec![note]);
        held.keep(output);
        held.keep(note);
        assert_eq!(held.unanswered().len(), 2, "neither replaces the other");
        held.hear(ToWorker::Logged { attempt, len: 1, truncated: false, note: false });
        assert_eq!(of_output.try_recv(), Ok(Reply::Taken));
        assert!(of_note.try_recv().is_err(), "the note is still open");
        held.hear(refused(Word::Log, Code::Conflict));
        assert!(of_note.try_recv().is_err());
        held.hear(refused(Word::Note, Code::TooLarge));
        assert_eq!(of_note.try_recv(), Ok(Reply::Refused(Code::TooLarge, "no".to_owned())));
        assert!(held.unanswered().is_empty());
    }

    #[tokio::test]
    async fn a_slot_is_free_once_its_outcome_is_told_and_not_before() {
        let (mut held, _) = one().await;
        held.keep(message(vec![log()]).0);
        assert_eq!(held.busy(), 1);
        held.keep(message(vec![log(), outcome()]).0);
        assert_eq!((held.busy(), held.0.len()), (0, 1), "free, though not yet answered");
        held.lose_running();
        assert!(held.goes_on(attempt()), "none of it runs");
        held.lose_all();
        assert!(!held.goes_on(attempt()));
    }

    #[tokio::test]
    async fn what_is_lost_is_stopped_says_nothing_and_stays_lost() {
        for word in [refused(Word::Accept, Code::LeaseLost), ToWorker::Revoke { attempt: attempt() }] {
            let (mut held, orders) = one().await;
            let (piece, mut answer) = message(vec![log()]);
            held.keep(piece);
            held.hear(word);
            assert_eq!(*orders.borrow(), Order::Lost);
            assert_eq!(answer.try_recv(), Err(oneshot::error::TryRecvError::Closed), "it no longer waits");
            held.hear(ToWorker::Cancel { attempt: attempt(), timed_out: false });
            assert_eq!(*orders.borrow(), Order::Lost, "an order never decreases");
            assert!(held.keep(message(vec![outcome()]).0).is_empty());
            assert!(held.list().is_empty() && !held.goes_on(attempt()), "nor is it named in the next hello");
        }
    }

    #[tokio::test]
    async fn only_a_running_command_is_reported_again_as_started() {
        let (mut held, _orders) = one().await;
        assert!(!held.has_begun(attempt()) && held.starts().is_empty(), "not started yet");
        held.0.get(&attempt()).unwrap().begun.set();
        assert!(held.has_begun(attempt()));
        assert!(matches!(*held.starts(), [ToServer::Progress { .. }]));
        held.keep(message(vec![outcome()]).0);
        assert!(held.starts().is_empty(), "its outcome implies it");
    }

    #[tokio::test]
    async fn a_lost_command_is_not_reported_as_started() {
        let (mut held, _orders) = one().await;
        held.0.get(&attempt()).unwrap().begun.set();
        held.lose_all();
        assert!(held.starts().is_empty());
    }

    #[tokio::test]
    async fn a_cancel_leaves_the_attempt_its_own_end() {
        let (mut held, orders) = one().await;
        held.hear(ToWorker::Cancel { attempt: attempt(), timed_out: true });
        assert_eq!((*orders.borrow(), held.list().len()), (Order::Cancel, 1));
        assert_eq!(held.keep(message(vec![outcome()]).0).len(), 1);
    }
}
