//! A store under test, and how to reopen it.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use jobhall_store::{Later, Store};

/// A store under test. It is dropped before the data of its opener, such as a temporary directory.
pub struct Fixture {
    store: Option<Box<dyn Store>>,
    open: Option<Box<dyn Fn() -> Box<dyn Store> + Send>>,
}

impl Fixture {
    /// A store without durable data.
    pub fn volatile(store: impl Store) -> Fixture {
        Fixture { store: Some(Box::new(store)), open: None }
    }

    /// A store that `open` opens now, and again after it was dropped: then with all acknowledged data.
    pub fn durable<S: Store>(open: impl Fn() -> S + Send + 'static) -> Fixture {
        let open = move || Box::new(open()) as Box<dyn Store>;
        Fixture { store: Some(open()), open: Some(Box::new(open)) }
    }

    pub fn store(&self) -> &dyn Store {
        self.store.as_deref().expect("a fixture has a store")
    }

    /// Drops the store and opens it again; false if the store is not durable.
    pub fn reopen(&mut self) -> bool {
        let Some(open) = &self.open else { return false };
        drop(self.store.take());
        self.store = Some(open());
        true
    }
}

impl fmt::Debug for Fixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fixture").field("durable", &self.open.is_some()).finish_non_exhaustive()
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks this thread until the result is available. Stores must not require a runtime around their callers.
pub fn wait<T>(later: Later<T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut later = pin!(later);
    loop {
        match later.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}
