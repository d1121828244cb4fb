//! Settings, kept in memory and in the store.

use std::collections::HashMap;
use std::sync::Arc;

use jobhall_core::{TypeConfig, TypeConfigError, TypeName};
use jobhall_store::{Conflict, Setting, SettingKind, SettingWrite, StoreError, Unit};

use crate::api::answer::Rejected;
use crate::api::ticket::Ticket;
use crate::commits::settle::Pending;
use crate::kernel::{Kernel, ROUNDS};
use crate::limits::LimitOf;

/// A change of a type's configuration in flight.
#[derive(Debug)]
pub(crate) struct SettingPending {
    job_type: TypeName,
    rev: u32,
    config: Option<TypeConfig>,
    expected: Option<u32>,
    pub ticket: Ticket<u32>,
    rounds: u8,
}

impl Kernel {
    /// The configuration of a type, or the default.
    pub fn type_config(&self, job_type: &TypeName) -> Arc<TypeConfig> {
        let known = self.settings.types.get(job_type).map(|(_, config)| config.clone());
        known.unwrap_or_else(|| Arc::new(TypeConfig::of(job_type)))
    }

    /// The known types: those configured, or with a submitted job.
    pub fn types(&self) -> Vec<TypeName> {
        let mut types: Vec<_> = self.settings.types.keys().cloned().collect();
        types.sort();
        types
    }

    /// The same with revisions and contents.
    pub(crate) fn all_types(&self) -> Vec<(TypeName, u32, TypeConfig)> {
        let mut types: Vec<_> = self
            .settings
            .types
            .iter()
            .map(|(name, (rev, config))| (name.clone(), *rev, (**config).clone()))
            .collect();
        types.sort_by(|one, other| one.0.cmp(&other.0));
        types
    }

    pub(crate) fn learn_type(&mut self, setting: &Setting, known: bool) -> Result<(), StoreError> {
        let wrong = |why: String| {
            StoreError::new(format!("the stored type {:?} is not readable: {why}", setting.name))
        };
        let name = TypeName::new(&setting.name).map_err(|error| wrong(error.to_string()))?;
        let config = serde_json::from_str(&setting.value).map_err(|error| wrong(error.to_string()))?;
        self.keep_type(name, setting.rev, Some(config), known);
        Ok(())
    }

    /// Stores the configuration of a type in memory, and applies it.
    fn keep_type(&mut self, name: TypeName, rev: u32, config: Option<TypeConfig>, known: bool) {
        let config = config.map(Arc::new);
        match &config {
            Some(config) => self.settings.types.insert(name.clone(), (rev, config.clone())),
            None => self.settings.types.remove(&name),
        };
        let (limits, paused) =
            config.as_ref().map_or((&[][..], false), |config| (&config.limits, config.paused));
        self.apply_limits(&LimitOf::Type(name), limits, paused, known);
    }

    pub(crate) fn set_type(
        &mut self,
        job_type: TypeName,
        config: Option<TypeConfig>,
        expected: Option<u32>,
        ticket: Ticket<u32>,
        rounds: u8,
    ) {
        if let Err(error) = config.as_ref().map_or(Ok(()), TypeConfig::check) {
            return self.answer(ticket, Err(error.into()));
        }
        if rounds > ROUNDS {
            return self.answer(ticket, Err(Rejected::Contended));
        }
        let rev = self.settings.types.get(&job_type).map_or(0, |(rev, _)| *rev);
        if expected.is_some_and(|expected| expected != rev) {
            return self.answer(ticket, Err(Rejected::Changed { job_type, rev }));
        }
        if config.is_none() && rev == 0 {
            return self.answer(ticket, Ok(0));
        }
        let unit = Unit { settings: vec![write(&job_type, rev, config.as_ref())], ..Unit::default() };
        let rev = if config.is_some() { rev + 1 } else { 0 };
        let pending = SettingPending { job_type, rev, config, expected, ticket, rounds };
        self.send(unit, Pending::Setting(Box::new(pending)));
    }

    pub(crate) fn setting_stored(&mut self, pending: SettingPending) {
        let SettingPending { job_type, rev, config, ticket, .. } = pending;
        self.keep_type(job_type, rev, config, false);
        self.answer(ticket, Ok(rev));
    }

    pub(crate) fn setting_conflicted(&mut self, pending: SettingPending, conflicts: Vec<Conflict>) {
        let SettingPending { job_type, config, expected, ticket, rounds, .. } = pending;
        for conflict in conflicts {
            let Conflict::Setting { stored, .. } = conflict else { continue };
            let learned = match stored {
                Some(setting) => self.learn_type(&setting, false),
                None => {
                    self.keep_type(job_type.clone(), 0, None, false);
                    Ok(())
                }
            };
            if let Err(error) = learned {
                let refused = Rejected::Storage { full: false, message: error.to_string() };
                return self.answer(ticket, Err(refused));
            }
        }
        self.set_type(job_type, config, expected, ticket, rounds + 1);
    }
}

impl From<TypeConfigError> for Rejected {
    fn from(error: TypeConfigError) -> Rejected {
        match error {
            TypeConfigError::Retry(error) => Rejected::Retry(error),
            TypeConfigError::Timeouts(error) => Rejected::Timeouts(error),
            TypeConfigError::Limits(error) => Rejected::Limit(error),
            TypeConfigError::Outside { field, given, most } => {
                Rejected::Bound { field, given, least: 0, most }
            }
        }
    }
}

fn write(job_type: &TypeName, expected: u32, config: Option<&TypeConfig>) -> SettingWrite {
    let value =
        config.map(|config| serde_json::to_string(config).expect("a type's configuration is plain data"));
    SettingWrite { kind: SettingKind::Type, name: job_type.as_str().to_owned(), expected, value }
}

/// Registers a type when a job of it is first submitted.
pub(crate) fn first_use<'a>(
    types: &HashMap<TypeName, (u32, Arc<TypeConfig>)>,
    used: impl Iterator<Item = &'a TypeName>,
) -> Vec<SettingWrite> {
    let mut new: Vec<&TypeName> = used.filter(|job_type| !types.contains_key(job_type)).collect();
    new.sort();
    new.dedup();
    new.into_iter().map(|job_type| write(job_type, 0, Some(&TypeConfig::of(job_type)))).collect()
}
