//! The commands: records of kind `q.command`, one for each name, with the version that is current. The last declaration
//! is current; values of other versions stay, because the version is part of their key.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use jobhall_core::query::{CommandName, Commands, Declaration, Declared, Version};
use jobhall_core::{Key, RecordKind};
use jobhall_engine::{Engine, NewRecord, NewRecordGroup, Rejected};
use jobhall_store::RecordFilter;
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, MutexGuard};

use crate::asked::fresh::Fresh;
use crate::{Error, Queries};

/// The kind of the records.
const KIND: &str = "q.command";
/// Records read at once.
const PAGE: usize = 1_000;
/// Maximum number of commands of a hall.
pub(crate) const COMMANDS_MAX: usize = 10_000;
/// How often a declaration is decided again because a record has changed.
const TRIES: usize = 3;

/// The content of a record.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: Version,
    declaration: Declaration,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<Origin>,
}

/// Where a declaration was made: someone on the same machine can compare the files with what is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    pub worker: String,
    pub machine: String,
    pub files: Vec<DeclaredFile>,
}

/// A file of a command, as its worker has read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredFile {
    pub path: String,
    pub place: String,
    pub stat: String,
    pub digest: String,
}

/// A declaration, and where it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaring {
    pub declared: Declared,
    pub origin: Option<Origin>,
}

/// The commands that are current, with the revs of their records.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub commands: Commands,
    origins: BTreeMap<CommandName, Arc<Origin>>,
    revs: BTreeMap<CommandName, u32>,
}

impl Known {
    /// Where the current declaration of a command was made, if that is known.
    #[must_use]
    pub fn origin(&self, name: &CommandName) -> Option<&Origin> {
        self.origins.get(name).map(Arc::as_ref)
    }
}

pub(crate) struct Registry {
    engine: Engine,
    /// None until it was read.
    known: RwLock<Option<Arc<Known>>>,
    /// One reader or writer of records at a time.
    turn: Mutex<()>,
    fresh: Arc<Fresh>,
}

impl Registry {
    pub fn new(engine: Engine, fresh: Arc<Fresh>) -> Registry {
        Registry { engine, known: RwLock::new(None), turn: Mutex::new(()), fresh }
    }

    pub async fn known(&self) -> Result<Arc<Known>, Error> {
        if let Some(known) = self.in_memory() {
            return Ok(known);
        }
        let turn = self.turn.lock().await;
        match self.in_memory() {
            Some(known) => Ok(known),
            None => self.read(&turn).await,
        }
    }

    /// The commands, if they were read.
    pub fn in_memory(&self) -> Option<Arc<Known>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn read(&self, _turn: &MutexGuard<'_, ()>) -> Result<Arc<Known>, Error> {
        let (mut known, mut after) = (Known::default(), None);
        loop {
            let page = self.engine.record_page(RecordFilter::of(kind()?), after, PAGE).await?;
            for record in page.records {
                let damaged = |error: String| Error::Damaged(format!("the command {}: {error}", record.key));
                let stored: Stored =
                    serde_json::from_str(&record.value).map_err(|error| damaged(error.to_string()))?;
                let Stored { version, declaration, origin } = stored;
                known.origins.extend(origin.map(|origin| (declaration.name.clone(), Arc::new(origin))));
                known.revs.insert(declaration.name.clone(), record.rev);
                known.commands.insert(declaration.name.clone(), Arc::new(Declared { declaration, version }));
            }
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        let known = Arc::new(known);
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Some(known.clone());
        self.fresh.rise();
        Ok(known)
    }

    /// Makes these declarations current, all or none, and returns how many were not.
    async fn declare(&self, declaring: &[Declaring]) -> Result<usize, Error> {
        let turn = self.turn.lock().await;
        let mut known = match self.in_memory() {
            Some(known) => known,
            None => self.read(&turn).await?,
        };
        for _ in 0..TRIES {
            let changed: Vec<&Declaring> = declaring.iter().filter(|one| !is_known(&known, one)).collect();
            if changed.is_empty() {
                return Ok(0);
            }
            let is_new = |one: &&&Declaring| !known.commands.contains_key(&one.declared.declaration.name);
            let new = changed.iter().filter(is_new).count();
            if known.commands.len() + new > COMMANDS_MAX {
                let message = format!("a hall has at most {COMMANDS_MAX} commands");
                return Err(Error::Refused(message));
            }
            let others = changed.iter().filter(|one| !is_current(&known, &one.declared)).count();
            let records = changed.iter().map(|one| record(&known, one)).collect::<Result<_, _>>()?;
            let written = self.engine.write_records(records).await;
            // After a commit whose result is unknown the records are read as well.
            known = self.read(&turn).await?;
            match written {
                Ok(()) => return Ok(others),
                Err(Rejected::RecordChanged(_)) => {}
                Err(refused) => return Err(refused.into()),
            }
        }
        Err(Rejected::Contended.into())
    }
}

fn kind() -> Result<RecordKind, Error> {
    RecordKind::new(KIND).map_err(|error| Error::Damaged(error.to_string()))
}

fn is_current(known: &Known, declared: &Declared) -> bool {
    known.commands.get(&declared.declaration.name).is_some_and(|current| **current == *declared)
}

/// Whether there is nothing to write.
fn is_known(known: &Known, declaring: &Declaring) -> bool {
    let name = &declaring.declared.declaration.name;
    is_current(known, &declaring.declared) && known.origin(name) == declaring.origin.as_ref()
}

fn record(known: &Known, declaring: &Declaring) -> Result<NewRecord, Error> {
    let Declaring { declared, origin } = declaring;
    let damaged = |error: &dyn std::fmt::Display| Error::Damaged(error.to_string());
    let name = &declared.declaration.name;
    let (version, declaration) = (declared.version.clone(), declared.declaration.clone());
    let stored = Stored { version, declaration, origin: origin.clone() };
    Ok(NewRecord {
        kind: kind()?,
        key: Key::new(name.as_str()).map_err(|error| damaged(&error))?,
        expected: known.revs.get(name).copied().unwrap_or(0),
        group: NewRecordGroup::Keep,
        value: Some(serde_json::to_string(&stored).map_err(|error| damaged(&error))?),
    })
}

impl Queries {
    /// The commands that are current.
    pub async fn commands(&self) -> Result<Arc<Known>, Error> {
        self.0.registry.known().await
    }

    /// Makes these declarations current, in one commit, and returns how many have changed.
    ///
    /// # Errors
    /// A declaration is wrong or a name is declared twice; then none has changed.
    pub async fn declare(&self, declared: Vec<Declared>) -> Result<usize, Error> {
        let declaring = declared.into_iter().map(|declared| Declaring { declared, origin: None });
        self.declare_from(declaring.collect()).await
    }

    /// The same with where each declaration was made. Those who wait for a step of another version that has not begun are
    /// planned again.
    ///
    /// # Errors
    /// As [`Queries::declare`].
    pub async fn declare_from(&self, declaring: Vec<Declaring>) -> Result<usize, Error> {
        let mut checked = BTreeMap::new();
        for Declaring { declared: Declared { declaration, version }, origin } in declaring {
            let declaration = declaration.checked().map_err(|error| Error::Refused(error.to_string()))?;
            let name = declaration.name.clone();
            let declared = Declared { declaration, version };
            if checked.insert(name.clone(), Declaring { declared, origin }).is_some() {
                return Err(Error::Refused(format!("the command {name} is declared twice")));
            }
        }
        let changed = self.0.registry.declare(&checked.into_values().collect::<Vec<_>>()).await?;
        if changed > 0 {
            self.look_again();
        }
        Ok(changed)
    }
}
