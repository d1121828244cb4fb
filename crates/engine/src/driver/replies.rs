//! Where answers go: each pending request has a waiter for the type of its answer.

use std::sync::Arc;

use jobhall_core::IdMap;
use jobhall_kernel::{
    Answer, AnswerVisitor, ByReply, Now, Rejected, Reply, ReplyFamily, Request, Ticket, TypedAnswer,
    TypedRequest,
};

use super::Driver;
use super::gather::Gather;

/// What is done with the answer to a request.
pub(super) type Waiter<T> = Box<dyn FnOnce(&mut Driver, Result<T, Rejected>) + Send>;

/// The waiters, by the type of their answer.
pub(super) struct Waiters;

impl ReplyFamily for Waiters {
    type Of<T: Reply> = IdMap<Ticket<T>, Waiter<T>>;
}

/// The requests that are not answered yet.
#[derive(Default)]
pub(super) struct Replies {
    number: u64,
    waiters: ByReply<Waiters>,
    /// Requests of batches, whose answers are of any type: the batch, and the place in it.
    parts: IdMap<u64, (Arc<Gather<Answer>>, usize)>,
}

impl Replies {
    fn next(&mut self) -> u64 {
        self.number += 1;
        self.number
    }
}

impl Driver {
    /// Passes a request to the kernel.
    pub(super) fn ask<T: Reply>(
        &mut self,
        now: Now,
        request: impl FnOnce(Ticket<T>) -> TypedRequest,
        waiter: Waiter<T>,
    ) {
        let ticket = Ticket::new(self.replies.next());
        T::of(&mut self.replies.waiters).insert(ticket, waiter);
        self.pass(now, request(ticket));
    }

    /// Passes a request of a batch to the kernel.
    pub(super) fn ask_part(&mut self, now: Now, request: Request, gather: Arc<Gather<Answer>>, at: usize) {
        let number = self.replies.next();
        self.replies.parts.insert(number, (gather, at));
        self.pass(now, request.typed(number));
    }

    fn pass(&mut self, now: Now, request: TypedRequest) {
        if request.is_overview() {
            // The view must not be older than what the feed has published.
            self.pass_on_all(now);
        }
        self.kernel.ask(now, request);
    }

    pub(super) fn answer(&mut self, answer: TypedAnswer) {
        match self.replies.parts.remove(&answer.number()) {
            Some((gather, at)) => gather.put(at, answer.untyped().1),
            None => answer.visit(self),
        }
    }
}

impl AnswerVisitor for Driver {
    fn visit<T: Reply>(&mut self, to: Ticket<T>, result: Result<T, Rejected>) {
        if let Some(waiter) = T::of(&mut self.replies.waiters).remove(&to) {
            waiter(self, result);
        }
    }
}
