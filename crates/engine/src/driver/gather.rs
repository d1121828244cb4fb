//! Answers to many requests, returned together.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::gone;
use jobhall_kernel::{Answer, Rejected};

type One<T> = Result<T, Rejected>;

/// Collects the answers.
pub(super) struct Gather<T>(Mutex<Gathered<T>>);

struct Gathered<T> {
    answers: Vec<Option<One<T>>>,
    missing: usize,
    to: Option<oneshot::Sender<Vec<One<T>>>>,
}

/// Pending answers. They are returned together, in the order of the requests.
#[derive(Debug)]
pub struct Answers<T = Answer>(Option<oneshot::Receiver<Vec<One<T>>>>);

impl<T> Gather<T> {
    /// Collects this many answers. With no requests, the result is available immediately.
    pub(super) fn of(count: usize) -> (Arc<Gather<T>>, Answers<T>) {
        let (to, answers) = oneshot::channel();
        let empty = std::iter::repeat_with(|| None).take(count).collect();
        let gathered = Gathered { answers: empty, missing: count, to: Some(to) };
        (Arc::new(Gather(Mutex::new(gathered))), Answers((count > 0).then_some(answers)))
    }

    /// Adds one answer, and returns all after the last.
    pub(super) fn put(&self, at: usize, answer: One<T>) {
        let Ok(mut gathered) = self.0.lock() else { return };
        gathered.answers[at] = Some(answer);
        gathered.missing -= 1;
        if gathered.missing == 0
            && let Some(to) = gathered.to.take()
        {
            let answers = std::mem::take(&mut gathered.answers).into_iter().flatten().collect();
            let _ = to.send(answers);
        }
    }
}

impl<T> Future for Answers<T> {
    type Output = Result<Vec<One<T>>, Rejected>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Some(answers) => Pin::new(answers).poll(context).map_err(|_| gone()),
            None => Poll::Ready(Ok(Vec::new())),
        }
    }
}
