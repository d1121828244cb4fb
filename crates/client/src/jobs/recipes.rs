//! Recipes: keys of sources with the queries that make their values.

use jobhall_protocol::{MadeRecipe, MakeRecipes, Page, PutRecipe, Recipe};
use reqwest::Method;

use crate::artifacts::segment;
use crate::error::ClientError;
use crate::http::call::Client;

impl Client {
    /// The recipes whose keys begin with this text, by key, with their states.
    ///
    /// # Errors
    /// The token does not reach queries, or the server could not be reached.
    pub async fn recipes(&self, prefix: &str) -> Result<Vec<Recipe>, ClientError> {
        let (mut all, mut cursor) = (Vec::new(), None);
        loop {
            let mut pairs: Vec<_> = cursor.map(|cursor| ("cursor", cursor)).into_iter().collect();
            if !prefix.is_empty() {
                pairs.push(("prefix", prefix.to_owned()));
            }
            let page: Page<Recipe> = self.read(&self.api(Method::GET, &["recipes"]).query(&pairs)).await?;
            all.extend(page.items);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(all);
            }
        }
    }

    /// The recipe of a key, with its state.
    ///
    /// # Errors
    /// There is no such recipe, or the server could not be reached.
    pub async fn recipe(&self, key: &str) -> Result<Recipe, ClientError> {
        self.read(&self.api(Method::GET, &["recipes", &segment(key)])).await
    }

    /// Binds a key to a query.
    ///
    /// # Errors
    /// The key or the query is wrong, or the server could not be reached.
    pub async fn put_recipe(&self, key: &str, recipe: &PutRecipe) -> Result<Recipe, ClientError> {
        self.read(&self.api(Method::PUT, &["recipes", &segment(key)]).json(recipe)?.repeatable()).await
    }

    /// Removes a recipe. Its values stay.
    ///
    /// # Errors
    /// There is no such recipe, or the server could not be reached.
    pub async fn remove_recipe(&self, key: &str) -> Result<(), ClientError> {
        self.send(&self.api(Method::DELETE, &["recipes", &segment(key)])).await.map(drop)
    }

    /// Makes the values of recipes that are not ready, or says what would run.
    ///
    /// # Errors
    /// There is no recipe of one of these keys, or the server could not be reached.
    pub async fn make_recipes(&self, asked: &MakeRecipes) -> Result<Vec<MadeRecipe>, ClientError> {
        let call = self.api(Method::POST, &["recipes"]).json(asked)?.repeatable();
        let page: Page<MadeRecipe> = self.read(&call).await?;
        Ok(page.items)
    }
}
