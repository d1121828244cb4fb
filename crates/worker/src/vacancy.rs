//! The vacancy loop: every slot asks for a job, does it, and asks again; one beat keeps all leases alive.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jobhall_client::{Client, ClientError};
use jobhall_core::needs::SelectorError;
use jobhall_protocol::{EXEC, HeldAttempt, Renewals, Vacancy, WorkerFile};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::abilities::{abilities, cpus};
use crate::attempt::{Attempt, Order};
use crate::slots::Slots;

/// How long one request for a job may wait.
const WAIT_S: u64 = 20;
/// Time between two beats at most: a cancel is heard by the next one.
const BEAT: Duration = Duration::from_secs(2);
/// An attempt whose lease could not be renewed is stopped this long before the lease ends.
const MARGIN: Duration = Duration::from_secs(5);
/// Pauses while the hall cannot be reached.
const AWAY: Duration = Duration::from_secs(1);

/// How a worker is told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shutdown {
    /// Go on.
    None,
    /// Take no more jobs, finish those at hand.
    Drain,
    /// Stop everything now.
    Now,
}

/// What a worker works with.
pub struct WorkerOptions {
    /// The way to the hall, with the worker's credential.
    pub client: Client,
    /// Who it is and what it runs.
    pub file: WorkerFile,
    /// How it runs commands.
    pub slots: Slots,
    /// When it is to end.
    pub shutdown: watch::Receiver<Shutdown>,
}

/// Attempts at hand, with the way to tell each what to do.
type Held = Arc<Mutex<BTreeMap<String, Holding>>>;

struct Holding {
    lease: String,
    lease_ms: u64,
    renewed: Instant,
    order: Arc<watch::Sender<Order>>,
}

/// Works until told to end; an error if the worker's file makes no sense.
pub async fn run(options: WorkerOptions) -> Result<(), SelectorError> {
    let WorkerOptions { client, file, slots, shutdown } = options;
    let vacancy = Vacancy { slots: 1, wait_s: WAIT_S, abilities: abilities(&file)?, accepts: accepts(&file) };
    let count = file.slots.unwrap_or_else(cpus).max(1);
    let (file, held) = (Arc::new(file), Held::default());
    let beat = tokio::spawn(beat(client.clone(), held.clone(), shutdown.clone()));
    let mut loops = JoinSet::new();
    for _ in 0..count {
        let one = OneSlot {
            client: client.clone(),
            file: file.clone(),
            slots: slots.clone(),
            vacancy: vacancy.clone(),
            held: held.clone(),
            shutdown: shutdown.clone(),
        };
        loops.spawn(one.run());
    }
    while loops.join_next().await.is_some() {}
    beat.abort();
    Ok(())
}

/// The jobs this worker takes: those of its types, and `exec` where it is allowed.
fn accepts(file: &WorkerFile) -> String {
    let mut types: Vec<&str> = file.types.keys().map(String::as_str).collect();
    if file.allow_exec {
        types.push(EXEC);
    }
    if types.is_empty() {
        "type in (none-configured)".to_owned()
    } else {
        format!("type in ({})", types.join(","))
    }
}

struct OneSlot {
    client: Client,
    file: Arc<WorkerFile>,
    slots: Slots,
    vacancy: Vacancy,
    held: Held,
    shutdown: watch::Receiver<Shutdown>,
}

impl OneSlot {
    async fn run(mut self) {
        while *self.shutdown.borrow() == Shutdown::None {
            let slot = self.slots.acquire().await;
            let assigned = tokio::select! {
                assigned = self.client.vacancies(&self.vacancy) => assigned,
                _ = self.shutdown.changed() => continue,
            };
            match assigned {
                Ok(assignments) => {
                    let mut slot = Some(slot);
                    for assigned in assignments.attempts {
                        let slot = match slot.take() {
                            Some(slot) => slot,
                            None => self.slots.acquire().await,
                        };
                        self.attempt(assigned, slot).await;
                    }
                }
                Err(error) => self.away(&error).await,
            }
        }
    }

    async fn attempt(&self, assigned: jobhall_protocol::Assigned, slot: crate::slots::Slot) {
        let (order, orders) = watch::channel(Order::Go);
        let order = Arc::new(order);
        let id = assigned.id.clone();
        let holding = Holding {
            lease: assigned.lease.clone(),
            lease_ms: assigned.lease_ms,
            renewed: Instant::now(),
            order: order.clone(),
        };
        lock(&self.held).insert(id.clone(), holding);
        let (client, file) = (self.client.clone(), self.file.clone());
        Attempt { client, file, assigned, order: orders, lost: order }.run(slot).await;
        lock(&self.held).remove(&id);
    }

    async fn away(&mut self, error: &ClientError) {
        tracing::warn!(%error, "the hall gave no job");
        let _ = tokio::time::timeout(AWAY, self.shutdown.changed()).await;
    }
}

fn lock(held: &Held) -> std::sync::MutexGuard<'_, BTreeMap<String, Holding>> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Renews all leases, passes on cancels, and stops what could not be renewed in time.
async fn beat(client: Client, held: Held, mut shutdown: watch::Receiver<Shutdown>) {
    loop {
        let _ = tokio::time::timeout(BEAT, shutdown.changed()).await;
        if *shutdown.borrow() == Shutdown::Now {
            for holding in lock(&held).values() {
                holding.order.send_replace(Order::Lost);
            }
            return;
        }
        let attempts: Vec<_> = lock(&held)
            .iter()
            .map(|(id, holding)| HeldAttempt { id: id.clone(), lease: holding.lease.clone() })
            .collect();
        if attempts.is_empty() {
            continue;
        }
        let asked = Instant::now();
        match client.renew(&Renewals { attempts }).await {
            Ok(renewed) => {
                let mut held = lock(&held);
                tell(&mut held, &renewed.lost, Order::Lost);
                tell(&mut held, &renewed.cancel, Order::Cancel);
                for id in renewed.kept.iter().chain(&renewed.cancel) {
                    if let Some(holding) = held.get_mut(id) {
                        holding.renewed = asked;
                    }
                }
            }
            Err(_) => stop_overdue(&mut lock(&held)),
        }
    }
}

fn tell(held: &mut BTreeMap<String, Holding>, ids: &[String], order: Order) {
    for holding in ids.iter().filter_map(|id| held.get(id)) {
        holding.order.send_if_modified(|current| {
            let rises = order > *current;
            *current = order.max(*current);
            rises
        });
    }
}

/// A worker that cannot reach the hall stops what it has before the hall gives it to another.
fn stop_overdue(held: &mut BTreeMap<String, Holding>) {
    for holding in held.values() {
        let lease = Duration::from_millis(holding.lease_ms);
        if holding.renewed.elapsed() + MARGIN.min(lease / 2) >= lease {
            holding.order.send_replace(Order::Lost);
        }
    }
}
