//! What became of a recipe: whether its value is there, is being made, or is that of an earlier state of the world, and
//! then why.

use jobhall_core::query::{Input, Plan, Query, Source, SourceKey, Span, StoredValue};
use jobhall_core::{Job, JobId, State, Time, TimeSpan};

use crate::ask::{Planned, Warmth};
use crate::cache::{expires_at, now};
use crate::checks::said;
use crate::job::{self, Manner};
use crate::promise::{CHAIN, params};
use crate::steps::difference;
use crate::{Error, Queries};

use super::StoredRecipe;

/// Where the value of a recipe is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecipeState {
    /// It is stored and current.
    Ready,
    /// A value was made, and is not that of today.
    Stale,
    /// It is being made.
    Making,
    /// The last attempt to make it failed, or it cannot be planned.
    Failed,
    /// It was not made yet.
    Recipe,
}

/// A recipe with its state.
#[derive(Clone, Debug)]
pub struct RecipeStatus {
    pub recipe: StoredRecipe,
    pub state: RecipeState,
    pub why: Option<String>,
    /// Whether there is data under the key, which comes before the recipe.
    pub has_data: bool,
    /// Whether it cannot be made now: its query is wrong, or a check has failed.
    pub is_blocked: bool,
    /// The job that has made the value, or that is to make it.
    pub job: Option<JobId>,
    pub value: Option<StoredValue>,
    pub made_at: Option<Time>,
    pub expires_at: Option<Time>,
}

impl RecipeStatus {
    fn new(recipe: &StoredRecipe, state: RecipeState, why: Option<String>) -> RecipeStatus {
        let (job, value, made_at, expires_at) = (None, None, None, None);
        let (has_data, is_blocked) = (false, false);
        let recipe = recipe.clone();
        RecipeStatus { recipe, state, why, has_data, is_blocked, job, value, made_at, expires_at }
    }

    fn of(recipe: &StoredRecipe, state: RecipeState, why: Option<String>, job: &Job) -> RecipeStatus {
        let value = match &job.status.state {
            State::Succeeded(success) => StoredValue::parse(success.value.as_str()),
            _ => None,
        };
        RecipeStatus {
            job: Some(job.id),
            made_at: value.as_ref().and_then(|_| job.status.state.ended_at()),
            expires_at: value.as_ref().and_then(|_| expires_at(job)),
            value,
            ..RecipeStatus::new(recipe, state, why)
        }
    }
}

/// The query that is the value of a key.
fn of_key(key: &SourceKey) -> Query {
    let source = Source { key: key.clone(), span: Span::default() };
    Query { source: Some(source), ..Query::default() }
}

impl Queries {
    /// The state of a recipe. Checks are run only if `compute` says so, and nothing else is.
    ///
    /// # Errors
    /// The store cannot be read, or the kernel refuses.
    pub async fn recipe_status(&self, recipe: &StoredRecipe, compute: bool) -> Result<RecipeStatus, Error> {
        if self.source(&recipe.key).await?.is_some() {
            let why = Some("data was put under this key".to_owned());
            let status = RecipeStatus::new(recipe, RecipeState::Ready, why);
            return Ok(RecipeStatus { has_data: true, ..status });
        }
        let query = of_key(&recipe.key);
        let planned = match compute {
            true => self.plan_checked(&query, true, &Manner::background()).await,
            false => self.plan(&query).await.map(|planned| (planned, None)),
        };
        match planned {
            Err(Error::Query(error)) => {
                let status = RecipeStatus::new(recipe, RecipeState::Failed, Some(error.kind.to_string()));
                Ok(RecipeStatus { is_blocked: true, ..status })
            }
            Err(error) => Err(error),
            Ok((_, Some(check))) => {
                let job = self.0.promises.shared.job(check).await?;
                let failed = format!("the check of {} failed", params(&job)?.query);
                let status = RecipeStatus::of(recipe, RecipeState::Failed, Some(failed), &job);
                Ok(RecipeStatus { is_blocked: true, ..status })
            }
            Ok((planned, None)) => self.status_of(recipe, &planned).await,
        }
    }

    async fn status_of(&self, recipe: &StoredRecipe, planned: &Planned) -> Result<RecipeStatus, Error> {
        let status = |state, why| RecipeStatus::new(recipe, state, why);
        let why = match planned.warmth.last() {
            // The key stands for other stored data.
            None => return Ok(status(RecipeState::Ready, None)),
            Some(Warmth::Hit(job, _)) => return Ok(RecipeStatus::of(recipe, RecipeState::Ready, None, job)),
            Some(Warmth::Expired(_, at)) => {
                let ago = TimeSpan(now().since(*at) / 1_000 * 1_000);
                Some(format!("its value expired {ago} ago"))
            }
            Some(Warmth::Missing(Some(_))) => Some("its value cannot be read".to_owned()),
            Some(Warmth::Missing(None) | Warmth::NotNeeded(_)) => None,
        };
        let last = match recipe.made {
            Some(made) => self.jobs(&[made]).await?.pop(),
            None => None,
        };
        let Some(last) = last else {
            let removed = recipe.made.map(|_| "its value was removed".to_owned());
            return Ok(status(RecipeState::Recipe, removed));
        };
        let same = match planned.plan.nodes.last() {
            Some(node) => job::key(node)?.is_some_and(|key| last.spec.key.as_ref() == Some(&key)),
            None => false,
        };
        let (state, why) = match (same, &last.status.state) {
            (true, State::Succeeded(_)) => {
                (RecipeState::Stale, why.or_else(|| Some("its value was removed".to_owned())))
            }
            (true, State::Failed(end) | State::Crashed(end) | State::Cancelled(end)) => {
                (RecipeState::Failed, Some(said(&end.failure)))
            }
            (true, _) => (RecipeState::Making, None),
            (false, State::Succeeded(_)) => {
                (RecipeState::Stale, Some(self.what_changed(&last, &planned.plan).await?))
            }
            (false, _) => (RecipeState::Recipe, Some("it has changed since it failed".to_owned())),
        };
        Ok(RecipeStatus::of(recipe, state, why, &last))
    }

    /// What has changed since a job has made the value of a plan: the first difference, from the last step back.
    async fn what_changed(&self, made: &Job, plan: &Plan) -> Result<String, Error> {
        let (mut made, mut at) = (made.clone(), plan.nodes.len().checked_sub(1));
        for _ in 0..CHAIN {
            let Some(node) = at.and_then(|at| plan.nodes.get(at)) else { break };
            let before = params(&made)?;
            if let Some(why) = difference(&before, node) {
                return Ok(why);
            }
            if before.query != node.text {
                break;
            }
            let inputs = node.inputs.iter().filter_map(|input| match input {
                Input::Node(at) => Some(*at),
                Input::Source(..) => None,
            });
            let mut inputs = inputs.zip(before.inputs.iter().zip(&made.spec.after));
            let changed = inputs.find(|(at, (before, _))| plan.nodes[*at].identity != **before);
            let Some((input, (_, job))) = changed else { break };
            match self.jobs(&[*job]).await?.pop() {
                Some(job) => (made, at) = (job, Some(input)),
                None => return Ok(format!("the value of {} has changed", plan.nodes[input].text)),
            }
        }
        Ok("its recipe has changed".to_owned())
    }
}
