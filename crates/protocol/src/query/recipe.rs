//! Recipes: how the value of a key is made.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::format::timestamp::Timestamp;
use crate::job::schema;

/// Maximum number of recipes that one request makes.
pub const RECIPES_MADE_MAX: usize = 1_000;

/// A key with the query that makes its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Recipe {
    /// The key, such as `report.csv`. A query begins with `-R/KEY/-/`.
    pub key: String,
    /// The canonical text of the query.
    pub query: String,
    /// A title for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the value is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where the value is.
    pub state: RecipeState,
    /// Why it is stale or has failed, as far as that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Whether data was put under the key. It comes before the recipe until it is removed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub has_data: bool,
    /// The job that has made the value last, or is to make it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u64>,
    /// Media type of the value that was made last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// Size of the value that was made last, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_at: Option<Timestamp>,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// Where the value of a recipe is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecipeState {
    /// It is stored and current.
    Ready,
    /// A value was made, and is not that of today.
    Stale,
    /// It is being made.
    Making,
    /// The last attempt to make it failed, or its query is wrong.
    Failed,
    /// It was not made yet.
    Recipe,
}

impl RecipeState {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            RecipeState::Ready => "ready",
            RecipeState::Stale => "stale",
            RecipeState::Making => "making",
            RecipeState::Failed => "failed",
            RecipeState::Recipe => "recipe",
        }
    }
}

/// How the value of a key is to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PutRecipe {
    /// The text of the query, as in a URL.
    #[schemars(with = "schema::QueryText")]
    pub query: String,
    /// A title for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::CommandText>")]
    pub title: Option<String>,
    /// What the value is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::CommandText>")]
    pub description: Option<String>,
}

/// Which recipes are to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MakeRecipes {
    /// Their keys.
    #[schemars(with = "Vec<schema::SourceKey>", length(max = RECIPES_MADE_MAX))]
    pub keys: Vec<String>,
    /// Only say what would run.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dry_run: bool,
}

/// What became of the request to make a recipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MadeRecipe {
    /// The key.
    pub key: String,
    /// Where the value is now.
    pub state: RecipeState,
    /// Why it is made, or why it cannot be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The promise of the value: the job that has made it or makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<u64>,
    /// How many steps run for it, or would.
    pub runs: usize,
}

/// A recipe in a file: the text of the query, or a table. The query has the form of a URL or of a pipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a recipe is a query, or a table with query, title and description")]
pub enum RecipeLine {
    /// The query alone.
    Query(String),
    /// The query with what is said about it.
    Table(PutRecipe),
}

/// The recipes of a file, by key.
pub type RecipeLines = BTreeMap<String, RecipeLine>;

impl RecipeLine {
    /// The recipe as a table.
    #[must_use]
    pub fn table(&self) -> PutRecipe {
        match self {
            RecipeLine::Query(query) => PutRecipe { query: query.clone(), ..PutRecipe::default() },
            RecipeLine::Table(table) => table.clone(),
        }
    }
}

fn is_false(value: &bool) -> bool {
    !value
}
