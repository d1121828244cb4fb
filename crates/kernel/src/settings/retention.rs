//! The rules for completed jobs: the server's is kept here and in the store, the others belong to types and queues.

use jobhall_core::retention::Rule;
use jobhall_core::{QueueName, Retention, RetentionError, TypeName};
use jobhall_store::{Conflict, Setting, SettingKind, SettingWrite, StoreError, Unit};

use crate::api::answer::Rejected;
use crate::api::ticket::Ticket;
use crate::commits::settle::Pending;
use crate::kernel::{Kernel, ROUNDS};
use crate::settings::Settings;
use crate::upkeep::CountOf;

/// The name of the setting.
const NAME: &str = "server";

/// A change of the server's rule in flight.
#[derive(Debug)]
pub(crate) struct RetentionPending {
    rev: u32,
    rule: Retention,
    expected: Option<u32>,
    pub ticket: Ticket<u32>,
    rounds: u8,
}

/// The write that stores the server's rule. A rule without numbers is stored too: it is not replaced by the default.
pub fn retention_write(rule: &Retention, expected: u32) -> SettingWrite {
    let value = Some(serde_json::to_string(rule).expect("a rule is plain data"));
    SettingWrite { kind: SettingKind::Retention, name: NAME.to_owned(), expected, value }
}

impl From<RetentionError> for Rejected {
    fn from(RetentionError { field, given, most }: RetentionError) -> Rejected {
        Rejected::Bound { field, given, least: 0, most }
    }
}

impl Settings {
    /// The rule for the jobs of a type in a queue.
    pub fn rule(&self, job_type: &TypeName, queue: &QueueName) -> Rule {
        let queue = self.queues.get(queue).map(|(_, config)| config.clone()).unwrap_or_default();
        let is_reserved = self.reserved.of(job_type).is_some();
        Rule::of(is_reserved, self.type_config(job_type), &queue, self.retention.1)
    }

    /// Which jobs the number of a rule counts together with these.
    pub fn count_of(&self, job_type: &TypeName, queue: &QueueName) -> CountOf {
        let per_queue = self.counted_queues > 0 && self.rule(job_type, queue).counts_queue;
        (job_type.clone(), per_queue.then(|| queue.clone()))
    }

    /// How many jobs are kept of those that are counted together; none: all.
    pub fn keep_count(&self, (job_type, queue): &CountOf) -> Option<u64> {
        match queue {
            Some(queue) => self.queues.get(queue)?.1.keep_count,
            None => {
                let own = self.types.get(job_type).and_then(|(_, config)| config.keep_count);
                own.or(self.retention.1.keep_count.filter(|_| self.reserved.of(job_type).is_none()))
            }
        }
    }

    /// Whether the number of a queue counts its jobs apart.
    pub fn counts_queues(&self) -> bool {
        self.counted_queues > 0
    }

    /// Whether a type has its own number.
    pub fn has_count(&self, job_type: &TypeName) -> bool {
        self.types.get(job_type).is_some_and(|(_, config)| config.keep_count.is_some())
    }

    /// The shortest time that a rule keeps jobs; none if no rule has a time.
    pub fn shortest_keep_ms(&self) -> Option<u64> {
        self.rules().filter_map(|rule| rule.keep_ms).min()
    }

    /// Whether some rule removes completed jobs.
    pub fn removes_jobs(&self) -> bool {
        self.rules().any(|rule| rule.is_set())
    }

    fn rules(&self) -> impl Iterator<Item = Retention> + '_ {
        let types = self.types.values().map(|(_, config)| config.retention());
        let queues = self.queues.values().map(|(_, config)| config.retention());
        types.chain(queues).chain([self.retention.1])
    }
}

impl Kernel {
    /// The server's rule with its revision; 0: it was never set.
    pub fn retention(&self) -> (u32, Retention) {
        self.settings.retention
    }

    /// The rule of a type or queue has changed. `regroups`: whether its number decides which jobs are counted together.
    pub(super) fn rule_changed(&mut self, before: Retention, after: Retention, regroups: bool) {
        if before == after {
            return;
        }
        if regroups && before.keep_count.is_some() != after.keep_count.is_some() {
            self.count_again();
        }
        self.rules_changed();
    }

    fn keep_retention(&mut self, rev: u32, rule: Retention) {
        self.settings.retention = (rev, rule);
        self.rules_changed();
    }

    pub(crate) fn learn_retention(&mut self, setting: &Setting) -> Result<(), StoreError> {
        let rule = serde_json::from_str(&setting.value).map_err(|error| {
            StoreError::new(format!("the stored rule for completed jobs is not readable: {error}"))
        })?;
        self.keep_retention(setting.rev, rule);
        Ok(())
    }

    pub(crate) fn set_retention(
        &mut self,
        rule: Retention,
        expected: Option<u32>,
        ticket: Ticket<u32>,
        rounds: u8,
    ) {
        if let Err(error) = rule.check() {
            return self.answer(ticket, Err(error.into()));
        }
        if rounds > ROUNDS {
            return self.answer(ticket, Err(Rejected::Contended));
        }
        let rev = self.settings.retention.0;
        if expected.is_some_and(|expected| expected != rev) {
            return self.answer(ticket, Err(Rejected::RetentionChanged { rev }));
        }
        let unit = Unit { settings: vec![retention_write(&rule, rev)], ..Unit::default() };
        let pending = RetentionPending { rev: rev + 1, rule, expected, ticket, rounds };
        self.send(unit, Pending::Retention(Box::new(pending)));
    }

    pub(crate) fn retention_stored(&mut self, pending: &RetentionPending) {
        self.keep_retention(pending.rev, pending.rule);
        self.answer(pending.ticket, Ok(pending.rev));
    }

    pub(crate) fn retention_conflicted(&mut self, pending: &RetentionPending, conflicts: Vec<Conflict>) {
        for conflict in conflicts {
            let Conflict::Setting { stored, .. } = conflict else { continue };
            let learned = match stored {
                Some(setting) => self.learn_retention(&setting),
                None => {
                    self.keep_retention(0, Retention::default());
                    Ok(())
                }
            };
            if let Err(error) = learned {
                let refused = Rejected::Storage { full: false, message: error.to_string() };
                return self.answer(pending.ticket, Err(refused));
            }
        }
        self.set_retention(pending.rule, pending.expected, pending.ticket, pending.rounds + 1);
    }
}
