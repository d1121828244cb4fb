//! The timer of request heads. The HTTP library starts a timer for each request and drops it when the head has arrived,
//! usually at once. Here all of them share one timer of the connection, which stays set for an earlier request and is
//! set again only when it fires: the timer wheel changes once per time limit, not once per request.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};

/// The timer of one connection.
#[derive(Default)]
pub(super) struct HeadTimer(Arc<Shared>);

#[derive(Default)]
struct Shared(Mutex<Option<Pin<Box<tokio::time::Sleep>>>>);

/// A wait until a time, on the timer of the connection.
struct Wait {
    deadline: tokio::time::Instant,
    shared: Arc<Shared>,
}

impl Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Wait { deadline: deadline.into(), shared: self.0.clone() })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into()
    }
}

impl Sleep for Wait {}

impl Future for Wait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut timer = self.shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(self.deadline)));
        if self.deadline < timer.deadline() {
            timer.as_mut().reset(self.deadline);
        }
        while timer.as_mut().poll(context).is_ready() {
            if self.deadline <= timer.deadline() {
                return Poll::Ready(());
            }
            // It was set for an earlier request.
            timer.as_mut().reset(self.deadline);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn each_wait_ends_at_its_own_time() {
        let (timer, begun) = (HeadTimer::default(), tokio::time::Instant::now());
        for seconds in [3, 4, 50] {
            // A head that arrives in time: the wait was polled once and is dropped.
            let waited = tokio::time::timeout(Duration::from_secs(seconds), timer.sleep(LIMIT * 10)).await;
            assert!(waited.is_err());
        }
        timer.sleep(LIMIT).await;
        assert_eq!(
            begun.elapsed(),
            Duration::from_secs(57) + LIMIT,
            "earlier than what the timer was set for"
        );
        timer.sleep(LIMIT).await;
        assert_eq!(begun.elapsed(), Duration::from_secs(57) + LIMIT * 2, "after the timer has fired");
        let early = tokio::time::timeout(Duration::from_secs(9), timer.sleep(LIMIT)).await;
        assert!(early.is_err());
        timer.sleep(LIMIT).await;
        assert_eq!(
            begun.elapsed(),
            Duration::from_secs(66) + LIMIT * 3,
            "the timer fired for a dropped wait"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_does_not_set_the_timer_while_an_earlier_time_is_set() {
        let timer = HeadTimer::default();
        let set = || timer.0.0.lock().unwrap().as_ref().map(|timer| timer.deadline());
        assert!(tokio::time::timeout(Duration::from_secs(1), timer.sleep(LIMIT)).await.is_err());
        let first = set();
        assert!(first.is_some());
        for _ in 0..5 {
            assert!(tokio::time::timeout(Duration::from_secs(1), timer.sleep(LIMIT)).await.is_err());
            assert_eq!(set(), first);
        }
    }
}
