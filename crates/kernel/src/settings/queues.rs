//! The configuration of queues, kept in memory and in the store.

use std::sync::Arc;

use jobhall_core::{QueueConfig, QueueConfigError, QueueName};
use jobhall_store::{Conflict, Setting, SettingKind, SettingWrite, StoreError, Unit};

use crate::api::answer::Rejected;
use crate::api::ticket::Ticket;
use crate::commits::settle::Pending;
use crate::kernel::{Kernel, ROUNDS};
use crate::limits::LimitOf;

/// Maximum number of configured queues.
const QUEUES: usize = 10_000;

/// A change of a queue's configuration in flight.
#[derive(Debug)]
pub(crate) struct QueuePending {
    queue: QueueName,
    rev: u32,
    config: Option<QueueConfig>,
    expected: Option<u32>,
    pub ticket: Ticket<u32>,
    rounds: u8,
}

impl Kernel {
    /// The configuration of a queue, or the default.
    pub fn queue_config(&self, queue: &QueueName) -> Arc<QueueConfig> {
        self.settings.queues.get(queue).map_or_else(Arc::default, |(_, config)| config.clone())
    }

    /// All configured queues, with revisions and contents.
    pub(crate) fn all_queue_configs(&self) -> Vec<(QueueName, u32, QueueConfig)> {
        let configs = self.settings.queues.iter();
        configs.map(|(name, (rev, config))| (name.clone(), *rev, (**config).clone())).collect()
    }

    pub(crate) fn learn_queue(&mut self, setting: &Setting, known: bool) -> Result<(), StoreError> {
        let wrong = |why: String| {
            StoreError::new(format!("the stored queue {:?} is not readable: {why}", setting.name))
        };
        let name = QueueName::new(&setting.name).map_err(|error| wrong(error.to_string()))?;
        let config = serde_json::from_str(&setting.value).map_err(|error| wrong(error.to_string()))?;
        self.keep_queue(name, setting.rev, Some(config), known);
        Ok(())
    }

    /// Stores the configuration of a queue in memory, and applies it. A configured queue is known, whether or not it
    /// has jobs.
    fn keep_queue(&mut self, name: QueueName, rev: u32, config: Option<QueueConfig>, known: bool) {
        let config = config.map(Arc::new);
        let before = match &config {
            Some(config) => self.settings.queues.insert(name.clone(), (rev, config.clone())),
            None => self.settings.queues.remove(&name),
        };
        match (before.is_some(), config.is_some()) {
            (false, true) => {
                self.board.queues_mut().enter(&name);
            }
            (true, false) => self.board.queues_mut().leave_by_name(&name),
            _ => {}
        }
        let config = config.unwrap_or_default();
        let (old, new) =
            (before.map(|(_, config)| config.retention()).unwrap_or_default(), config.retention());
        self.settings.counted_queues += usize::from(new.keep_count.is_some());
        self.settings.counted_queues -= usize::from(old.keep_count.is_some());
        self.rule_changed(old, new, true);
        self.apply_limits(&LimitOf::Queue(name), &config.limits, config.paused, known);
    }

    pub(crate) fn set_queue(
        &mut self,
        queue: QueueName,
        config: Option<QueueConfig>,
        expected: Option<u32>,
        ticket: Ticket<u32>,
        rounds: u8,
    ) {
        if let Err(refused) = self.check_queue(&queue, config.as_ref()) {
            return self.answer(ticket, Err(refused));
        }
        if rounds > ROUNDS {
            return self.answer(ticket, Err(Rejected::Contended));
        }
        let rev = self.settings.queues.get(&queue).map_or(0, |(rev, _)| *rev);
        if expected.is_some_and(|expected| expected != rev) {
            return self.answer(ticket, Err(Rejected::QueueChanged { queue, rev }));
        }
        if config.is_none() && rev == 0 {
            return self.answer(ticket, Ok(0));
        }
        let unit = Unit { settings: vec![write(&queue, rev, config.as_ref())], ..Unit::default() };
        let rev = if config.is_some() { rev + 1 } else { 0 };
        let pending = QueuePending { queue, rev, config, expected, ticket, rounds };
        self.send(unit, Pending::Queue(Box::new(pending)));
    }

    fn check_queue(&self, queue: &QueueName, config: Option<&QueueConfig>) -> Result<(), Rejected> {
        config.map_or(Ok(()), QueueConfig::check)?;
        let given = self.settings.queues.len() + usize::from(!self.settings.queues.contains_key(queue));
        if config.is_some() && given > QUEUES {
            let (given, most) = (given as u64, QUEUES as u64);
            return Err(Rejected::Bound { field: "configured queues", given, least: 0, most });
        }
        Ok(())
    }

    pub(crate) fn queue_stored(&mut self, pending: QueuePending) {
        let QueuePending { queue, rev, config, ticket, .. } = pending;
        self.keep_queue(queue, rev, config, false);
        self.answer(ticket, Ok(rev));
    }

    pub(crate) fn queue_conflicted(&mut self, pending: QueuePending, conflicts: Vec<Conflict>) {
        let QueuePending { queue, config, expected, ticket, rounds, .. } = pending;
        for conflict in conflicts {
            let Conflict::Setting { stored, .. } = conflict else { continue };
            let learned = match stored {
                Some(setting) => self.learn_queue(&setting, false),
                None => {
                    self.keep_queue(queue.clone(), 0, None, false);
                    Ok(())
                }
            };
            if let Err(error) = learned {
                let refused = Rejected::Storage { full: false, message: error.to_string() };
                return self.answer(ticket, Err(refused));
            }
        }
        self.set_queue(queue, config, expected, ticket, rounds + 1);
    }
}

impl From<QueueConfigError> for Rejected {
    fn from(error: QueueConfigError) -> Rejected {
        match error {
            QueueConfigError::Limits(error) => Rejected::Limit(error),
            QueueConfigError::Retention(error) => error.into(),
        }
    }
}

fn write(queue: &QueueName, expected: u32, config: Option<&QueueConfig>) -> SettingWrite {
    let value =
        config.map(|config| serde_json::to_string(config).expect("a queue's configuration is plain data"));
    SettingWrite { kind: SettingKind::Queue, name: queue.as_str().to_owned(), expected, value }
}
