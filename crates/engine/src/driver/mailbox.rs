//! The mailbox from the engine to one worker: events are kept until the worker's side takes them.
//!
//! Thousands of long polls wait at once for one event each, so a waiting mailbox consists only of its lock and its
//! waker. A tokio channel allocates room for about thirty events at creation, which is more than a kilobyte per
//! mailbox.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use super::SessionEvent;

/// Events that a worker may lag behind before it is disconnected.
const BEHIND: usize = 20_000;
/// Capacity that is kept after everything was taken.
const KEPT: usize = 256;

/// The driver's end. Dropping it ends the stream of the other side.
pub(super) struct Sender(Arc<Mutex<Mailbox>>);

/// The worker's end.
pub(super) struct Receiver(Arc<Mutex<Mailbox>>);

/// The worker does not read its events, or is gone.
#[derive(Debug)]
pub(super) struct Undeliverable;

struct Mailbox {
    events: VecDeque<SessionEvent>,
    sleeper: Option<Waker>,
    /// Whether both ends exist.
    open: bool,
}

/// An empty mailbox.
pub(super) fn mailbox() -> (Sender, Receiver) {
    let shared = Arc::new(Mutex::new(Mailbox { events: VecDeque::new(), sleeper: None, open: true }));
    (Sender(shared.clone()), Receiver(shared))
}

fn look(mailbox: &Mutex<Mailbox>) -> MutexGuard<'_, Mailbox> {
    mailbox.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sender {
    /// Adds an event.
    pub(super) fn send(&self, event: SessionEvent) -> Result<(), Undeliverable> {
        let mut mailbox = look(&self.0);
        if !mailbox.open || mailbox.events.len() >= BEHIND {
            return Err(Undeliverable);
        }
        mailbox.events.push_back(event);
        let sleeper = mailbox.sleeper.take();
        drop(mailbox);
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
        Ok(())
    }
}

impl Receiver {
    /// The next event; none if the driver's end was dropped and everything was taken.
    pub(super) async fn next(&mut self) -> Option<SessionEvent> {
        self.when(|mailbox| mailbox.events.pop_front()).await
    }

    /// Like [`Receiver::next`], several at once; returns how many. Nothing is lost if the future is dropped.
    pub(super) async fn next_many(&mut self, into: &mut Vec<SessionEvent>, most: usize) -> usize {
        let taken = self.when(|mailbox| {
            let count = mailbox.events.len().min(most);
            into.extend(mailbox.events.drain(..count));
            if mailbox.events.is_empty() {
                mailbox.events.shrink_to(KEPT);
            }
            (count > 0).then_some(count)
        });
        taken.await.unwrap_or(0)
    }

    /// Waits until something can be taken, or nothing will ever arrive.
    async fn when<T>(&mut self, mut take: impl FnMut(&mut Mailbox) -> Option<T>) -> Option<T> {
        poll_fn(|context| {
            let mut mailbox = look(&self.0);
            match take(&mut mailbox) {
                None if mailbox.open => {
                    let known =
                        mailbox.sleeper.as_ref().is_some_and(|known| known.will_wake(context.waker()));
                    let before = if known { None } else { mailbox.sleeper.replace(context.waker().clone()) };
                    // Dropping a waker may call back into this mailbox, so it is dropped without the lock.
                    drop(mailbox);
                    drop(before);
                    Poll::Pending
                }
                taken => Poll::Ready(taken),
            }
        })
        .await
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let mut mailbox = look(&self.0);
        mailbox.open = false;
        let sleeper = mailbox.sleeper.take();
        drop(mailbox);
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut mailbox = look(&self.0);
        mailbox.open = false;
        let left = (std::mem::take(&mut mailbox.events), mailbox.sleeper.take());
        drop(mailbox);
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};

    use super::*;
    use jobhall_kernel::{Ended, VacancyId};

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn event(number: u64) -> SessionEvent {
        SessionEvent::VacancyEnded(VacancyId(number), Ended::Withdrawn)
    }

    /// What is there without waiting, and how often the reader was woken before.
    fn now<T>(woken: &Arc<Woken>, future: impl Future<Output = T>) -> Option<T> {
        let waker = woken.clone().into();
        match std::pin::pin!(future).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        }
    }

    #[test]
    fn events_come_in_order_and_wake_the_reader_once() {
        let (woken, (sender, mut receiver)) = (Arc::new(Woken::default()), mailbox());
        let count = || woken.0.load(Ordering::Relaxed);
        assert_eq!(now(&woken, receiver.next()), None);
        (1..=3).for_each(|number| sender.send(event(number)).unwrap());
        assert_eq!(count(), 1, "the first one wakes");
        assert_eq!(now(&woken, receiver.next()), Some(Some(event(1))));
        let mut taken = Vec::new();
        assert_eq!(now(&woken, receiver.next_many(&mut taken, 1)), Some(1));
        assert_eq!(now(&woken, receiver.next_many(&mut taken, 10)), Some(1));
        assert_eq!(taken, [event(2), event(3)]);
        assert_eq!(now(&woken, receiver.next_many(&mut taken, 10)), None);
        sender.send(event(4)).unwrap();
        assert_eq!(count(), 2);
        drop(sender);
        assert_eq!(now(&woken, receiver.next()), Some(Some(event(4))), "what was left is still read");
        assert_eq!(now(&woken, receiver.next()), Some(None));
        assert_eq!(now(&woken, receiver.next_many(&mut taken, 10)), Some(0));
    }

    #[test]
    fn the_end_of_either_side_is_noticed_by_the_other() {
        let (woken, (sender, mut receiver)) = (Arc::new(Woken::default()), mailbox());
        assert_eq!(now(&woken, receiver.next()), None);
        drop(sender);
        assert_eq!(woken.0.load(Ordering::Relaxed), 1, "a reader that sleeps is woken by the end");
        let (sender, receiver) = mailbox();
        drop(receiver);
        assert!(sender.send(event(1)).is_err());
    }

    #[test]
    fn a_reader_that_is_too_far_behind_is_given_up_and_room_is_not_kept() {
        let (woken, (sender, mut receiver)) = (Arc::new(Woken::default()), mailbox());
        (0..BEHIND as u64).for_each(|number| sender.send(event(number)).unwrap());
        assert!(sender.send(event(0)).is_err());
        let mut taken = Vec::new();
        assert_eq!(now(&woken, receiver.next_many(&mut taken, BEHIND + 1)), Some(BEHIND));
        assert!(look(&receiver.0).events.capacity() < 2 * KEPT);
        assert!(sender.send(event(0)).is_ok());
    }

    #[test]
    fn a_mailbox_that_waits_is_small() {
        let (_sender, receiver) = mailbox();
        assert!(size_of::<Mutex<Mailbox>>() <= 64, "{}", size_of::<Mutex<Mailbox>>());
        assert_eq!(look(&receiver.0).events.capacity(), 0);
    }
}
