//! Recipes: a key of a source with the query that makes its value. A recipe is a record of kind `q.recipe` under the key.
//! Data that is put under the key comes first, until it is removed.
//!
//! The record also names the last job that was to make the value: what the value of today is compared with.

pub(crate) mod status;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock};

use jobhall_core::query::{Query, SourceKey, TEXT_BYTES_MAX};
use jobhall_core::{JobId, Key, RecordKind};
use jobhall_engine::{Engine, NewRecord, NewRecordGroup, Rejected};
use jobhall_store::{Record, RecordFilter};
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, MutexGuard};

use crate::ask::{Found, Planned, Warmth};
use crate::asked::fresh::Fresh;
use crate::job::damaged;
use crate::sources::BY_DIGEST;
use crate::{Error, Queries};

/// The kind of the records.
const KIND: &str = "q.recipe";
/// Records read at once.
const PAGE: usize = 1_000;
/// Maximum number of recipes of a hall.
pub const RECIPES_MAX: usize = 10_000;
/// Longest title and description of a recipe, in bytes.
pub const RECIPE_TEXT_BYTES_MAX: usize = 4_096;
/// How often a change is decided again because the record has changed.
const TRIES: usize = 3;

/// How the value of a key is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecipe {
    pub key: SourceKey,
    pub query: Arc<Query>,
    pub title: Option<String>,
    pub description: Option<String>,
    /// The last job that was to make the value.
    pub made: Option<JobId>,
}

/// The content of a record.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    query: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    made: Option<u64>,
}

/// A recipe, and the rev of its record.
#[derive(Clone, Debug)]
struct Entry {
    recipe: StoredRecipe,
    rev: u32,
}

type Known = BTreeMap<SourceKey, Entry>;

pub(crate) struct Recipes {
    engine: Engine,
    /// None until it was read.
    known: RwLock<Option<Known>>,
    /// One reader or writer of records at a time.
    turn: Mutex<()>,
    fresh: Arc<Fresh>,
}

impl Recipes {
    pub fn new(engine: Engine, fresh: Arc<Fresh>) -> Recipes {
        Recipes { engine, known: RwLock::new(None), turn: Mutex::new(()), fresh }
    }

    /// Reads the records if they were not read.
    pub async fn ready(&self) -> Result<(), Error> {
        if self.is_read() {
            return Ok(());
        }
        let turn = self.turn.lock().await;
        if self.is_read() { Ok(()) } else { self.read(&turn).await }
    }

    fn is_read(&self) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// The query of a recipe, if the recipes were read.
    pub fn query(&self, key: &SourceKey) -> Option<Arc<Query>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        Some(known.as_ref()?.get(key)?.recipe.query.clone())
    }

    fn entry(&self, key: &SourceKey) -> Option<Entry> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).as_ref()?.get(key).cloned()
    }

    fn page(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<StoredRecipe> {
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = known.as_ref() else { return Vec::new() };
        let found = known.range::<str, _>((from, Bound::Unbounded));
        let found = found.take_while(|(key, _)| key.as_str().starts_with(prefix));
        found.take(limit).map(|(_, entry)| entry.recipe.clone()).collect()
    }

    async fn read(&self, _turn: &MutexGuard<'_, ()>) -> Result<(), Error> {
        let (mut known, mut after) = (Known::new(), None);
        loop {
            let page = self.engine.record_page(RecordFilter::of(kind()?), after, PAGE).await?;
            for record in &page.records {
                let entry =
                    entry(record).map_err(|why| damaged(format!("the recipe {}: {why}", record.key)))?;
                known.insert(entry.recipe.key.clone(), entry);
            }
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Some(known);
        self.fresh.rise();
        Ok(())
    }

    /// Changes one recipe to what `change` makes of it; returns what it was and what it is. Nothing is written if it stays
    /// as it is.
    async fn change(
        &self,
        key: &SourceKey,
        change: impl Fn(Option<&StoredRecipe>, usize) -> Result<Option<StoredRecipe>, Error>,
    ) -> Result<(Option<StoredRecipe>, Option<StoredRecipe>), Error> {
        self.ready().await?;
        let turn = self.turn.lock().await;
        for _ in 0..TRIES {
            let before = self.entry(key);
            let count =
                self.known.read().unwrap_or_else(PoisonError::into_inner).as_ref().map_or(0, BTreeMap::len);
            let after = change(before.as_ref().map(|entry| &entry.recipe), count)?;
            let was = before.as_ref().map(|entry| entry.recipe.clone());
            if was == after {
                return Ok((was, after));
            }
            let rev = before.map_or(0, |entry| entry.rev);
            match self.engine.write_records(vec![record(key, rev, after.as_ref())?]).await {
                Ok(()) => {
                    self.apply(key, after.clone(), rev + 1);
                    return Ok((was, after));
                }
                Err(refused) => {
                    // The record has changed, or the result of the commit is unknown.
                    if let Err(error) = self.read(&turn).await {
                        *self.known.write().unwrap_or_else(PoisonError::into_inner) = None;
                        return Err(error);
                    }
                    if !matches!(refused, Rejected::RecordChanged(_)) {
                        return Err(refused.into());
                    }
                }
            }
        }
        Err(Rejected::Contended.into())
    }

    fn apply(&self, key: &SourceKey, recipe: Option<StoredRecipe>, rev: u32) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = known.as_mut() else { return };
        let query = recipe.as_ref().map(|recipe| recipe.query.clone());
        let before = match recipe {
            Some(recipe) => known.insert(key.clone(), Entry { recipe, rev }),
            None => known.remove(key),
        };
        if before.map(|entry| entry.recipe.query) != query {
            self.fresh.rise();
        }
    }
}

fn kind() -> Result<RecordKind, Error> {
    RecordKind::new(KIND).map_err(damaged)
}

fn entry(record: &Record) -> Result<Entry, String> {
    let stored: Stored = serde_json::from_str(&record.value).map_err(|error| error.to_string())?;
    let query = Query::parse(&stored.query, TEXT_BYTES_MAX).map_err(|error| error.message(&stored.query))?;
    let recipe = StoredRecipe {
        key: SourceKey::new(record.key.as_str()).map_err(str::to_owned)?,
        query: Arc::new(query),
        title: stored.title,
        description: stored.description,
        made: stored.made.and_then(|id| JobId::new(id).ok()),
    };
    Ok(Entry { recipe, rev: record.rev })
}

fn record(key: &SourceKey, rev: u32, recipe: Option<&StoredRecipe>) -> Result<NewRecord, Error> {
    let stored = recipe.map(|recipe| Stored {
        query: recipe.query.text(),
        title: recipe.title.clone(),
        description: recipe.description.clone(),
        made: recipe.made.map(JobId::get),
    });
    let value = stored.map(|stored| serde_json::to_string(&stored)).transpose();
    Ok(NewRecord {
        kind: kind()?,
        key: Key::new(key.as_str()).map_err(damaged)?,
        expected: rev,
        group: NewRecordGroup::Keep,
        value: value.map_err(damaged)?,
    })
}

fn check(recipe: &StoredRecipe) -> Result<(), Error> {
    if recipe.key.as_str().starts_with(BY_DIGEST) {
        let why =
            format!("a key that begins with {BY_DIGEST} is the digest of its data, so it has no recipe");
        return Err(Error::Refused(why));
    }
    for (field, text) in [("title", &recipe.title), ("description", &recipe.description)] {
        let given = text.as_deref().unwrap_or_default();
        if given.len() > RECIPE_TEXT_BYTES_MAX || given.contains('\0') {
            let why = format!("{field}: a text has up to {RECIPE_TEXT_BYTES_MAX} bytes and no NUL");
            return Err(Error::Refused(why));
        }
    }
    Ok(())
}

impl Queries {
    /// The recipe of a key.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn recipe(&self, key: &SourceKey) -> Result<Option<StoredRecipe>, Error> {
        self.0.recipes.ready().await?;
        Ok(self.0.recipes.entry(key).map(|entry| entry.recipe))
    }

    /// The recipes whose keys begin with this text, in the order of keys, after another text.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn recipes(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredRecipe>, Error> {
        self.0.recipes.ready().await?;
        Ok(self.0.recipes.page(prefix, after, limit))
    }

    /// Binds a key to a query. The last job of the key stays known. Returns the recipe that the key had before.
    ///
    /// # Errors
    /// The key or a text is not allowed, there are too many recipes, or the store cannot commit.
    pub async fn put_recipe(&self, recipe: StoredRecipe) -> Result<Option<StoredRecipe>, Error> {
        check(&recipe)?;
        let change = |before: Option<&StoredRecipe>, count: usize| {
            if before.is_none() && count >= RECIPES_MAX {
                let why = format!("there are {RECIPES_MAX} recipes, which is the limit; remove some of them");
                return Err(Error::Refused(why));
            }
            Ok(Some(StoredRecipe { made: before.and_then(|before| before.made), ..recipe.clone() }))
        };
        Ok(self.0.recipes.change(&recipe.key, change).await?.0)
    }

    /// Removes a recipe and returns it; none if the key has none.
    ///
    /// # Errors
    /// The store cannot commit.
    pub async fn remove_recipe(&self, key: &SourceKey) -> Result<Option<StoredRecipe>, Error> {
        Ok(self.0.recipes.change(key, |_, _| Ok(None)).await?.0)
    }

    /// Remembers the jobs of the recipes that a request has used.
    pub(crate) fn note_recipes(&self, planned: &Planned, found: Option<&Found>) {
        for (key, job) in jobs_of_recipes(planned, found) {
            let known = self.0.recipes.entry(&key).is_some_and(|entry| entry.recipe.made == Some(job));
            if known {
                continue;
            }
            let queries = self.clone();
            tokio::spawn(async move {
                let made = |before: Option<&StoredRecipe>, _| {
                    // An older job that answers again does not follow the one that was asked for after it.
                    Ok(before.map(|before| StoredRecipe { made: Some(job), ..before.clone() }))
                };
                if let Err(error) = queries.0.recipes.change(&key, made).await {
                    tracing::warn!(%key, "the job of a recipe is not remembered: {error}");
                }
            });
        }
    }
}

/// The job that makes or has made the value of each recipe, as far as there is one.
fn jobs_of_recipes(planned: &Planned, found: Option<&Found>) -> Vec<(SourceKey, JobId)> {
    let job = |at: usize| match planned.warmth.get(at)? {
        Warmth::Hit(job, _) | Warmth::NotNeeded(Some(job)) => Some(job.id),
        Warmth::NotNeeded(None) => None,
        Warmth::Missing(_) | Warmth::Expired(..) => {
            let submitted = found?.jobs.iter().find(|(node, _)| *node == at);
            submitted.map(|(_, submitted)| submitted.id)
        }
    };
    let recipes = planned.plan.recipes.iter();
    recipes
        .filter_map(|(key, value)| match value {
            jobhall_core::query::Input::Node(at) => Some((key.clone(), job(*at)?)),
            jobhall_core::query::Input::Source(..) => None,
        })
        .collect()
}
