//! `jobhall recipe status`: what is ready, and why the rest is not.

use std::collections::BTreeMap;

use jobhall_protocol::{PutRecipe, Recipe, RecipeState};

use super::file::RecipeFile;
use super::{StatusArgs, trouble};
use crate::commands::query::edited::wait_until_all_declared;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::Format;
use crate::output::table::Table;

pub async fn run(context: &Context, args: &StatusArgs) -> Outcome {
    let file = RecipeFile::read(&args.from)?;
    wait_until_all_declared(&context.client()?).await?;
    let recipes = of_keys(context, &file, &args.keys).await?;
    if !context.output.is_quiet() || context.output.format != Format::Human {
        context.output.list(&recipes, || table(&recipes))?;
    }
    let ready = recipes.iter().all(|recipe| recipe.state == RecipeState::Ready);
    Ok(if context.output.is_quiet() && !ready { Exit::Nothing } else { Exit::Ok })
}

/// The recipes of these keys, or all.
async fn of_keys(context: &Context, file: &RecipeFile, keys: &[String]) -> Outcome<Vec<Recipe>> {
    let client = context.client()?;
    if keys.is_empty() {
        return Ok(compared(client.recipes("").await?, file));
    }
    let mut recipes = Vec::with_capacity(keys.len());
    for key in keys {
        let in_file: Vec<_> = file.recipes.iter().filter(|(known, _)| known == key).cloned().collect();
        let file = RecipeFile { path: file.path.clone(), recipes: in_file };
        let found = match client.recipe(key).await {
            Ok(recipe) => vec![recipe],
            Err(_) if !file.recipes.is_empty() => Vec::new(),
            Err(error) => return Err(trouble(error)),
        };
        recipes.extend(compared(found, &file));
    }
    Ok(recipes)
}

/// The recipes of the server, and those of the file that it does not have. One that is another in the file is stale.
pub fn compared(known: Vec<Recipe>, file: &RecipeFile) -> Vec<Recipe> {
    let mut all: BTreeMap<String, Recipe> =
        known.into_iter().map(|recipe| (recipe.key.clone(), recipe)).collect();
    let name = file.path.as_ref().and_then(|path| path.file_name()).unwrap_or_default().to_string_lossy();
    for (key, recipe) in &file.recipes {
        match all.get_mut(key) {
            Some(known) if known.query == recipe.query => {}
            Some(known) => {
                known.state = RecipeState::Stale;
                known.why =
                    Some(format!("it has another query in {name}, which `jobhall recipe make` sends"));
            }
            None => drop(all.insert(key.clone(), unsent(key, recipe, &name))),
        }
    }
    all.into_values().collect()
}

fn unsent(key: &str, recipe: &PutRecipe, name: &str) -> Recipe {
    let PutRecipe { query, title, description } = recipe.clone();
    Recipe {
        key: key.to_owned(),
        query,
        title,
        description,
        state: RecipeState::Recipe,
        why: Some(format!("it is only in {name}, which `jobhall recipe make` sends")),
        has_data: false,
        job: None,
        media_type: None,
        size: None,
        made_at: None,
        expires_at: None,
    }
}

fn table(recipes: &[Recipe]) -> Table {
    let mut table = Table::new(&["KEY", "STATE", "JOB", "~WHY"]);
    for recipe in recipes {
        table.row([
            recipe.key.as_str().into(),
            recipe.state.as_str().into(),
            recipe.job.map_or_else(String::new, |job| job.to_string()).into(),
            recipe.why.as_deref().unwrap_or_default().into(),
        ]);
    }
    table
}

/// The failure if there is nothing to make.
pub fn nothing() -> Failure {
    Failure::usage("no recipe was given")
        .why("there is no .jobhall.toml with a table [recipes] here")
        .fix("name keys, or give --all for all recipes of the server")
}
