//! What is configured, kept in memory and in the store.

use std::collections::HashMap;

use jobhall_core::{TypeConfig, TypeName};
use jobhall_store::{Conflict, Setting, SettingKind, SettingWrite, StoreError, Unit};

use crate::answer::{Answer, Refused};
use crate::desk::{Desk, ROUNDS};
use crate::effect::Ticket;
use crate::settle::Pending;

/// A change of a type's configuration on its way.
#[derive(Debug)]
pub(crate) struct SettingPending {
    job_type: TypeName,
    rev: u32,
    config: TypeConfig,
    pub ticket: Ticket,
    rounds: u8,
}

impl Desk {
    /// What is configured for a type, or what it would have.
    pub fn type_config(&self, job_type: &TypeName) -> TypeConfig {
        self.types.get(job_type).map_or_else(|| TypeConfig::of(job_type), |(_, config)| *config)
    }

    /// The types that are known, because someone submitted a job of theirs or configured them.
    pub fn types(&self) -> Vec<TypeName> {
        let mut types: Vec<_> = self.types.keys().cloned().collect();
        types.sort();
        types
    }

    pub(crate) fn learn_type(&mut self, setting: &Setting) -> Result<(), StoreError> {
        let wrong = |why: String| {
            StoreError::new(format!("the stored type {:?} is not readable: {why}", setting.name))
        };
        let name = TypeName::new(&setting.name).map_err(|error| wrong(error.to_string()))?;
        let config = serde_json::from_str(&setting.value).map_err(|error| wrong(error.to_string()))?;
        self.types.insert(name, (setting.rev, config));
        Ok(())
    }

    pub(crate) fn set_type(&mut self, job_type: TypeName, config: TypeConfig, ticket: Ticket, rounds: u8) {
        if let Err(error) = config.check() {
            return self.answer(ticket, Err(Refused::Retry(error)));
        }
        if rounds > ROUNDS {
            return self.answer(ticket, Err(Refused::Contended));
        }
        let expected = self.types.get(&job_type).map_or(0, |(rev, _)| *rev);
        let unit = Unit { settings: vec![write(&job_type, expected, &config)], ..Unit::default() };
        let pending = SettingPending { job_type, rev: expected + 1, config, ticket, rounds };
        self.send(unit, Pending::Setting(Box::new(pending)));
    }

    pub(crate) fn setting_stored(&mut self, pending: SettingPending) {
        self.types.insert(pending.job_type, (pending.rev, pending.config));
        self.answer(pending.ticket, Ok(Answer::Noted));
    }

    pub(crate) fn setting_refused(&mut self, pending: SettingPending, conflicts: Vec<Conflict>) {
        for conflict in conflicts {
            if let Conflict::Setting { stored: Some(setting), .. } = conflict
                && let Err(error) = self.learn_type(&setting)
            {
                let refused = Refused::Storage { full: false, message: error.to_string() };
                return self.answer(pending.ticket, Err(refused));
            }
        }
        let SettingPending { job_type, config, ticket, rounds, .. } = pending;
        self.set_type(job_type, config, ticket, rounds + 1);
    }
}

fn write(job_type: &TypeName, expected: u32, config: &TypeConfig) -> SettingWrite {
    let value = serde_json::to_string(config).expect("a type's configuration is plain data");
    SettingWrite { kind: SettingKind::Type, name: job_type.as_str().to_owned(), expected, value: Some(value) }
}

/// A type registers itself when it is first submitted.
pub(crate) fn first_use<'a>(
    types: &HashMap<TypeName, (u32, TypeConfig)>,
    used: impl Iterator<Item = &'a TypeName>,
) -> Vec<SettingWrite> {
    let mut new: Vec<&TypeName> = used.filter(|job_type| !types.contains_key(job_type)).collect();
    new.sort();
    new.dedup();
    new.into_iter().map(|job_type| write(job_type, 0, &TypeConfig::of(job_type))).collect()
}
