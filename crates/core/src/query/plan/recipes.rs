//! Recipes: a key without data stands for the value of a query. The chain of a recipe goes on in the chain that begins
//! with its key, so both mean the same, and a value is stored once for all who name it.

use super::super::error::{QueryError, QueryErrorKind as Kind};
use super::super::{Hasher, Query, STEPS_MAX, Source, SourceKey};
use super::{Chain, From, Planner, write_source};

/// Maximum depth of recipes that begin with the keys of other recipes.
pub const RECIPE_DEPTH_MAX: usize = 32;
/// Maximum depth of recipes and links together.
const NESTED_MAX: usize = 64;

impl<D: Hasher> Planner<'_, D> {
    /// The beginning of a chain: nothing, data, or the value of a recipe.
    pub(super) fn start(&mut self, source: Option<&Source>) -> Result<Chain<D>, QueryError> {
        let mut hasher = self.empty.clone();
        let Some(source) = source else {
            write_source(&mut hasher, None);
            return Ok(Chain { hasher, value: None, text: String::new() });
        };
        let text = Query { source: Some(source.clone()), ..Query::default() }.text();
        if let Some(digest) = self.facts.data(&source.key) {
            write_source(&mut hasher, Some(digest));
            return Ok(Chain { hasher, value: Some(From::Source(source.key.clone(), digest)), text });
        }
        let chain = self.recipe(source)?;
        Ok(Chain { text, ..chain })
    }

    /// The chain of the recipe of a key, which is planned once.
    fn recipe(&mut self, source: &Source) -> Result<Chain<D>, QueryError> {
        let key = &source.key;
        if let Some(chain) = self.recipes.get(key) {
            return Ok(chain.clone());
        }
        let Some(query) = self.facts.recipe(key) else {
            let kind = Kind::UnknownSource { key: key.to_string(), nearest: Vec::new() };
            return Err(QueryError::new(source.span, kind));
        };
        if let Some(at) = self.making.iter().position(|making| making == key) {
            let keys = self.making[at..].iter().chain([key]).map(SourceKey::to_string).collect();
            return Err(QueryError::new(source.span, Kind::RecipeCycle { keys }));
        }
        if self.making.len() >= RECIPE_DEPTH_MAX {
            return Err(QueryError::new(source.span, Kind::RecipesTooDeep));
        }
        if self.recipes.len() >= STEPS_MAX {
            return Err(QueryError::new(source.span, Kind::TooManySteps));
        }
        let outer = self.span;
        self.span = outer.or(Some(source.span));
        self.making.push(key.clone());
        let chain = self.nested(source.span, |planner| {
            let start = planner.start(query.source.as_ref())?;
            planner.chain(&query, start)
        });
        self.making.pop();
        self.span = outer;
        let chain = chain.map_err(|error| within(error, source))?;
        self.recipes.insert(key.clone(), chain.clone());
        Ok(chain)
    }

    /// Plans what is one level deeper.
    pub(super) fn nested<T>(
        &mut self,
        span: super::Span,
        plan: impl FnOnce(&mut Self) -> Result<T, QueryError>,
    ) -> Result<T, QueryError> {
        if self.depth >= NESTED_MAX {
            return Err(QueryError::new(span, Kind::RecipesTooDeep));
        }
        self.depth += 1;
        let planned = plan(self);
        self.depth -= 1;
        planned
    }
}

/// An error in a recipe, at the place where its key stands. The recipe whose text is wrong is named.
fn within(error: QueryError, source: &Source) -> QueryError {
    let kind = match error.kind {
        kind @ (Kind::InRecipe { .. } | Kind::RecipeCycle { .. } | Kind::RecipesTooDeep) => kind,
        kind => Kind::InRecipe { key: source.key.to_string(), kind: Box::new(kind) },
    };
    QueryError::new(source.span, kind)
}
