//! Routes of recipes.

use jobhall_protocol as wire;
use jobhall_protocol::{Code, Page};

use super::super::super::recipes::RecipesQuery;
use super::super::Row;
use super::{JSON, LOCATION, get, part, post, put};

/// Problems of a state, which depends on what is stored, and on the jobs of checks.
const READ: &[Code] = &[Code::Conflict, Code::Unavailable, Code::StorageFull];

pub(super) fn all() -> Vec<Row> {
    vec![
        get("/api/v1/recipes", "listRecipes", "List recipes with their states, by key")
            .query::<RecipesQuery>()
            .gives::<Page<wire::Recipe>>("A page")
            .telling(&[("Link", "Address of the next page, with rel=\"next\"")])
            .problems(READ),
        post("/api/v1/recipes", "makeRecipes", "Make the values of recipes that are not ready")
            .takes::<wire::MakeRecipes>()
            .gives::<Page<wire::MadeRecipe>>("What became of each, in the order of the keys")
            .problems(&[Code::NotFound, Code::Conflict, Code::Unavailable, Code::StorageFull]),
        get("/api/v1/recipes/{*key}", "recipe", "Show a recipe with its state; its key may contain slashes")
            .gives::<wire::Recipe>("The recipe")
            .problems(&[Code::NotFound, Code::Conflict, Code::Unavailable, Code::StorageFull]),
        put("/api/v1/recipes/{*key}", "putRecipe", "Bind a key to a query; data under the key comes first")
            .takes::<wire::PutRecipe>()
            .gives::<wire::Recipe>("The key had a recipe before")
            .telling(LOCATION)
            .answers_with(201, "A new recipe", Some((JSON, part::<wire::Recipe>)))
            .telling(LOCATION)
            .problems(&[
                Code::QuerySyntax,
                Code::QueryTooLarge,
                Code::Conflict,
                Code::Unavailable,
                Code::StorageFull,
            ]),
        Row::new("DELETE", "/api/v1/recipes/{*key}", "removeRecipe", "Remove a recipe; made values stay")
            .answers_with(204, "Removed", None)
            .problems(&[Code::NotFound, Code::Conflict, Code::Unavailable, Code::StorageFull]),
    ]
}
