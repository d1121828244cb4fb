//! An attack in progress, which ends when it is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use jobhall_tests::Raw;

/// Pause between two rounds of an attack that goes over its connections.
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Default)]
pub struct UnderAttack {
    connections: Vec<Raw>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl UnderAttack {
    /// Connections that are only held.
    pub fn holding(connections: Vec<Raw>) -> UnderAttack {
        UnderAttack::default().and_holding(connections)
    }

    pub fn and_holding(mut self, connections: Vec<Raw>) -> UnderAttack {
        self.connections.extend(connections);
        self
    }

    /// Repeats this in so many threads.
    pub fn repeating(threads: usize, act: impl Fn() + Clone + Send + 'static) -> UnderAttack {
        let mut attack = UnderAttack::default();
        for _ in 0..threads {
            let act = act.clone();
            attack.spawn(act);
        }
        attack
    }

    /// Repeats this in one thread, with pauses.
    pub fn pacing(mut act: impl FnMut() + Send + 'static) -> UnderAttack {
        let mut attack = UnderAttack::default();
        attack.spawn(move || {
            act();
            std::thread::park_timeout(PAUSE);
        });
        attack
    }

    fn spawn(&mut self, mut act: impl FnMut() + Send + 'static) {
        let stop = self.stop.clone();
        self.threads.push(std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                act();
            }
        }));
    }
}

impl Drop for UnderAttack {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.connections.clear();
        let ended = self.threads.drain(..).map(JoinHandle::join).all(|ended| ended.is_ok());
        assert!(ended || std::thread::panicking(), "an attacker got an answer that it must not get");
    }
}
