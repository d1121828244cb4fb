//! A panic of the driver ends the engine, and everyone who waits for it gets to know.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jobhall_engine::{Clock, Config, Engine, Now, Rejected, SystemClock};
use jobhall_store::Memory;

use crate::rig::job;

/// A clock that panics from some time on. The driver and the kernel read it in the same task.
struct BrokenClock {
    works: SystemClock,
    is_broken: Arc<AtomicBool>,
}

impl Clock for BrokenClock {
    fn now(&self) -> Now {
        assert!(!self.is_broken.load(Ordering::SeqCst), "the clock is broken");
        self.works.now()
    }
}

#[tokio::test]
async fn audit_m8_a_panic_of_the_driver_is_the_reason_why_the_engine_stopped() {
    let is_broken = Arc::new(AtomicBool::new(false));
    let clock = BrokenClock { works: SystemClock::default(), is_broken: is_broken.clone() };
    let engine = Engine::start(Arc::new(Memory::new()), Config::default(), clock).await.unwrap();
    engine.submit_one(job("t")).await.unwrap();
    is_broken.store(true, Ordering::SeqCst);
    let refused = engine.submit_one(job("t")).await;
    assert!(matches!(refused, Err(Rejected::Stopped(_) | Rejected::Unknown(_))), "{refused:?}");
    assert_eq!(engine.stopped().await, "the engine panicked: the clock is broken");
    engine.stop().await;
}
