//! What an operator has ordered of a worker: to take no new jobs, or to finish its jobs and exit. It is stored, so that
//! it outlives the worker's sessions, a restart and a change of the leader.
//!
//! A vacancy of a paused worker has no free slots. A worker that drains withdraws its credit itself, as it does after a
//! signal: an attempt that waits for sub-jobs lends its slot to them, and the worker could not finish otherwise.

use jobhall_core::WorkerName;
use jobhall_store::{Conflict, Setting, SettingKind, SettingWrite, StoreError, Unit};
use serde::{Deserialize, Serialize};

use crate::api::answer::{Noted, Rejected};
use crate::api::ticket::Ticket;
use crate::commits::settle::Pending;
use crate::kernel::{AgendaItem, Kernel, ROUNDS};
use crate::matching::Fleet;
use crate::matching::board::Board;

/// Maximum number of workers with a configuration.
const WORKERS: usize = 10_000;

/// What an operator has ordered of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerConfig {
    /// Whether it takes no new jobs until it is resumed.
    pub paused: bool,
    /// The process that finishes its jobs and exits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draining: Option<String>,
}

/// A change of what is ordered of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerChange {
    /// It takes no new jobs.
    Pause,
    /// It takes jobs again; nothing is ordered any more.
    Resume,
    /// This process of it finishes its jobs and exits.
    Drain(String),
    /// This process of it has exited, or is replaced by another one.
    Drained(String),
}

impl WorkerConfig {
    fn after(&self, change: &WorkerChange) -> WorkerConfig {
        let mut config = self.clone();
        match change {
            WorkerChange::Pause => config.paused = true,
            WorkerChange::Resume => config = WorkerConfig::default(),
            WorkerChange::Drain(process) => config.draining = Some(process.clone()),
            WorkerChange::Drained(process) if config.draining.as_ref() == Some(process) => {
                config.draining = None;
            }
            WorkerChange::Drained(_) => {}
        }
        config
    }
}

/// A change in flight.
#[derive(Debug)]
pub(crate) struct WorkerPending {
    worker: WorkerName,
    rev: u32,
    config: WorkerConfig,
    change: WorkerChange,
    pub ticket: Ticket<Noted>,
    rounds: u8,
}

impl Fleet {
    pub(super) fn config(&self, worker: &WorkerName) -> WorkerConfig {
        self.configs.get(worker).map(|(_, config)| config.clone()).unwrap_or_default()
    }

    /// Applies the configuration of a worker to its sessions and vacancies.
    fn apply_config(&mut self, worker: &WorkerName, board: &mut Board) {
        let WorkerConfig { paused, draining } = self.config(worker);
        let sessions = self.workers.get(worker).map(|state| state.sessions.clone()).unwrap_or_default();
        for session in sessions {
            let Some(state) = self.sessions.get_mut(&session) else { continue };
            (state.paused, state.draining) = (paused, draining.is_some());
            for id in &state.vacancies {
                let Some(vacancy) = self.vacancies.get_mut(id) else { continue };
                vacancy.paused = paused;
                if paused {
                    board.unpark(vacancy.profile, (vacancy.turn, *id));
                }
            }
        }
    }
}

impl Kernel {
    /// The configuration of this worker, or of every worker that has one.
    pub(crate) fn worker_configs(&self, worker: Option<&WorkerName>) -> Vec<(WorkerName, WorkerConfig)> {
        let wanted = |name: &WorkerName| worker.is_none_or(|worker| worker == name);
        let configs = self.fleet.configs.iter().filter(|(name, _)| wanted(name));
        configs.map(|(name, (_, config))| (name.clone(), config.clone())).collect()
    }

    pub(crate) fn learn_worker(&mut self, setting: &Setting) -> Result<(), StoreError> {
        let wrong = |why: String| {
            StoreError::new(format!("the stored worker {:?} is not readable: {why}", setting.name))
        };
        let name = WorkerName::new(&setting.name).map_err(|error| wrong(error.to_string()))?;
        let config = serde_json::from_str(&setting.value).map_err(|error| wrong(error.to_string()))?;
        self.keep_worker(&name, setting.rev, config);
        Ok(())
    }

    /// Stores the configuration of a worker in memory, and applies it.
    fn keep_worker(&mut self, worker: &WorkerName, rev: u32, config: WorkerConfig) {
        if config == WorkerConfig::default() {
            self.fleet.configs.remove(worker);
        } else {
            self.fleet.configs.insert(worker.clone(), (rev, config));
        }
        self.fleet.apply_config(worker, &mut self.board);
        // What was reserved there, or avoided other workers because of it, may go elsewhere.
        self.keep_elsewhere(worker);
        self.reconsider();
        self.agenda.push(AgendaItem::Refill(worker.clone()));
    }

    pub(crate) fn change_worker(
        &mut self,
        worker: WorkerName,
        change: WorkerChange,
        ticket: Ticket<Noted>,
        rounds: u8,
    ) {
        if rounds > ROUNDS {
            return self.answer(ticket, Err(Rejected::Contended));
        }
        let (rev, before) = self.fleet.configs.get(&worker).cloned().unwrap_or_default();
        let config = before.after(&change);
        if config == before {
            return self.answer(ticket, Ok(Noted));
        }
        let given = self.fleet.configs.len() + usize::from(rev == 0);
        if given > WORKERS {
            let (given, most) = (given as u64, WORKERS as u64);
            let refused = Rejected::Bound { field: "paused workers", given, least: 0, most };
            return self.answer(ticket, Err(refused));
        }
        let unit = Unit { settings: vec![write(&worker, rev, &config)], ..Unit::default() };
        let pending = WorkerPending { worker, rev: rev + 1, config, change, ticket, rounds };
        self.send(unit, Pending::Worker(Box::new(pending)));
    }

    pub(crate) fn worker_stored(&mut self, pending: WorkerPending) {
        let WorkerPending { worker, rev, config, ticket, .. } = pending;
        self.keep_worker(&worker, rev, config);
        self.answer(ticket, Ok(Noted));
    }

    pub(crate) fn worker_conflicted(&mut self, pending: WorkerPending, conflicts: Vec<Conflict>) {
        let WorkerPending { worker, change, ticket, rounds, .. } = pending;
        for conflict in conflicts {
            let Conflict::Setting { stored, .. } = conflict else { continue };
            let learned = match stored {
                Some(setting) => self.learn_worker(&setting),
                None => {
                    self.keep_worker(&worker, 0, WorkerConfig::default());
                    Ok(())
                }
            };
            if let Err(error) = learned {
                let refused = Rejected::Storage { full: false, message: error.to_string() };
                return self.answer(ticket, Err(refused));
            }
        }
        self.change_worker(worker, change, ticket, rounds + 1);
    }
}

/// The configuration of a worker of which nothing is ordered is removed.
fn write(worker: &WorkerName, expected: u32, config: &WorkerConfig) -> SettingWrite {
    let value = (*config != WorkerConfig::default())
        .then(|| serde_json::to_string(config).expect("a worker's configuration is plain data"));
    SettingWrite { kind: SettingKind::Worker, name: worker.as_str().to_owned(), expected, value }
}
