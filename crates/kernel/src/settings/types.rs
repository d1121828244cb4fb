//! The configuration of types, kept in memory and in the store.

use std::sync::Arc;

use jobhall_core::{TypeConfig, TypeConfigError, TypeName};
use jobhall_store::{Conflict, Setting, SettingKind, SettingWrite, StoreError, Unit};

use crate::api::answer::Rejected;
use crate::api::ticket::Ticket;
use crate::commits::settle::Pending;
use crate::kernel::{Kernel, ROUNDS};
use crate::limits::LimitOf;
use crate::settings::{Settings, TYPES};

/// A type, the revision of its configuration (0: not configured) and the configuration.
pub type KnownType = (TypeName, u32, TypeConfig);

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
        self.settings.type_config(job_type).clone()
    }

    /// Known types by name, after this one: those configured, and those used recently.
    pub fn types(&self, after: Option<&TypeName>, limit: usize) -> Vec<KnownType> {
        let all = self.settings.types.keys().chain(self.settings.used.iter().map(|(name, ())| name));
        let mut names: Vec<_> = all.filter(|name| after.is_none_or(|after| *name > after)).collect();
        if limit < names.len() {
            names.select_nth_unstable(limit);
            names.truncate(limit);
        }
        names.sort();
        names.into_iter().filter_map(|name| self.known_type(name)).collect()
    }

    /// The known ones among these types.
    pub(crate) fn types_by_name(&self, names: &[TypeName]) -> Vec<KnownType> {
        names.iter().filter_map(|name| self.known_type(name)).collect()
    }

    fn known_type(&self, name: &TypeName) -> Option<KnownType> {
        let Settings { types, used, .. } = &self.settings;
        let rev = types.get(name).map(|(rev, _)| *rev).or_else(|| used.contains(name).then_some(0))?;
        Some((name.clone(), rev, (*self.type_config(name)).clone()))
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

    /// At start: forgets types whose stored configuration is the default. Earlier versions stored every used type. Returns
    /// the writes that remove them from the store.
    pub fn forget_default_types(&mut self) -> Vec<SettingWrite> {
        let types = self.settings.types.iter();
        let defaults = types.filter(|(name, (_, config))| config == TypeConfig::shared(name));
        let mut defaults: Vec<_> = defaults.map(|(name, (rev, _))| (name.clone(), *rev)).collect();
        defaults.sort();
        for (name, _) in &defaults {
            self.settings.types.remove(name);
            self.settings.used(name);
        }
        defaults.iter().map(|(name, rev)| write(name, *rev, None)).collect()
    }

    /// Stores the configuration of a type in memory, and applies it.
    fn keep_type(&mut self, name: TypeName, rev: u32, config: Option<TypeConfig>, known: bool) {
        let config = config.map(Arc::new);
        let before = match &config {
            Some(config) => self.settings.types.insert(name.clone(), (rev, config.clone())),
            None => self.settings.types.remove(&name),
        };
        let rule = |config: &Option<Arc<TypeConfig>>| {
            config.as_ref().map(|config| config.retention()).unwrap_or_default()
        };
        self.rule_changed(
            rule(&before.map(|(_, config)| config)),
            rule(&config),
            self.settings.counts_queues(),
        );
        self.settings.used.pop(&name);
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
        if let Err(rejected) = self.check_type(&job_type, config.as_ref()) {
            return self.answer(ticket, Err(rejected));
        }
        if rounds > ROUNDS {
            return self.answer(ticket, Err(Rejected::Contended));
        }
        let rev = self.settings.types.get(&job_type).map_or(0, |(rev, _)| *rev);
        if expected.is_some_and(|expected| expected != rev) {
            return self.answer(ticket, Err(Rejected::Changed { job_type, rev }));
        }
        if config.is_none() && rev == 0 {
            self.settings.used.pop(&job_type);
            return self.answer(ticket, Ok(0));
        }
        let unit = Unit { settings: vec![write(&job_type, rev, config.as_ref())], ..Unit::default() };
        let rev = if config.is_some() { rev + 1 } else { 0 };
        let pending = SettingPending { job_type, rev, config, expected, ticket, rounds };
        self.send(unit, Pending::Setting(Box::new(pending)));
    }

    fn check_type(&self, job_type: &TypeName, config: Option<&TypeConfig>) -> Result<(), Rejected> {
        config.map_or(Ok(()), TypeConfig::check)?;
        let types = &self.settings.types;
        let given = types.len() + usize::from(!types.contains_key(job_type));
        if config.is_some() && given > TYPES {
            let (given, most) = (given as u64, TYPES as u64);
            return Err(Rejected::Bound { field: "configured types", given, least: 0, most });
        }
        Ok(())
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
            TypeConfigError::Retention(error) => error.into(),
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
