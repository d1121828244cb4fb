//! `jobhall recipe make` and `watch`: one request for all recipes, and their ends as they come.

use std::collections::BTreeMap;
use std::time::Duration;

use jobhall_client::Client;
use jobhall_protocol::{Cancel, Code, MadeRecipe, MakeRecipes, RECIPES_MADE_MAX, RecipeState};

use super::file::RecipeFile;
use super::{MakeArgs, WatchArgs, status, trouble};
use crate::commands::query::edited::wait_until_all_declared;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::output::human;
use crate::output::table::Table;

/// The reasons of a job that has no value because a file of its command has changed, or the data that its check speaks of.
const CHANGED: [&str; 2] = ["version_changed", "check_changed"];
/// How often a recipe is made again because its commands have changed.
const AGAIN: usize = 10;

pub async fn run(context: &Context, args: &MakeArgs) -> Outcome {
    let client = context.client()?;
    let file = RecipeFile::read(&args.from)?;
    if !args.dry_run {
        file.send(context).await?;
    }
    wait_until_all_declared(&client).await?;
    let keys = chosen(&client, &file, &args.keys, args.all).await?;
    let (unsent, keys) = if args.dry_run { unsent(&client, &file, keys).await? } else { (Vec::new(), keys) };
    let mut made = request(&client, &keys, args.dry_run).await?;
    made.extend(unsent);
    if !args.dry_run {
        until_made(context, &client, &mut made, args.keep_going).await?;
    }
    context.output.list(&made, || table(&made, args.dry_run))?;
    let failed = made.iter().filter(|one| one.state == RecipeState::Failed).count();
    let open = made.iter().any(|one| one.state != RecipeState::Ready);
    Ok(if failed > 0 || (open && !args.dry_run) { Exit::Failed } else { Exit::Ok })
}

/// Looks at the recipes again and again, and makes those that are not ready. What failed is made again after a change.
pub async fn watch(context: &Context, args: &WatchArgs) -> Outcome {
    let client = context.client()?;
    let mut told: BTreeMap<String, (RecipeState, Option<String>)> = BTreeMap::new();
    loop {
        let file = RecipeFile::read(&args.from)?;
        file.send(context).await?;
        let keys = chosen(&client, &file, &args.keys, args.all).await?;
        let now = request(&client, &keys, true).await?;
        let is_due = |one: &&MadeRecipe| matches!(one.state, RecipeState::Stale | RecipeState::Recipe);
        let due: Vec<String> = now.iter().filter(is_due).map(|one| one.key.clone()).collect();
        for one in now {
            let state = (one.state, one.why.clone());
            if told.get(&one.key) != Some(&state) {
                context.output.line(&line(&one))?;
                told.insert(one.key, state);
            }
        }
        if !due.is_empty() {
            request(&client, &due, false).await?;
        }
        tokio::time::sleep(Duration::from_millis(args.interval.0.max(100))).await;
    }
}

fn line(one: &MadeRecipe) -> String {
    match &one.why {
        Some(why) => format!("{} {}: {why}", one.key, one.state.as_str()),
        None => format!("{} {}", one.key, one.state.as_str()),
    }
}

async fn chosen(client: &Client, file: &RecipeFile, keys: &[String], all: bool) -> Outcome<Vec<String>> {
    if !keys.is_empty() {
        return Ok(keys.to_vec());
    }
    if all {
        return Ok(client.recipes("").await?.into_iter().map(|recipe| recipe.key).collect());
    }
    if file.recipes.is_empty() { Err(status::nothing()) } else { Ok(file.keys()) }
}

/// The recipes of the file that the server does not have, and the keys of the others.
async fn unsent(
    client: &Client,
    file: &RecipeFile,
    keys: Vec<String>,
) -> Outcome<(Vec<MadeRecipe>, Vec<String>)> {
    let (mut unsent, mut known) = (Vec::new(), Vec::new());
    for key in keys {
        let is_in_file = file.recipes.iter().any(|(named, _)| *named == key);
        match client.recipe(&key).await {
            Err(error) if is_in_file && error.code() == Some(Code::NotFound) => {
                let why = Some("it is sent first".to_owned());
                unsent.push(MadeRecipe { key, state: RecipeState::Recipe, why, promise: None, runs: 0 });
            }
            // What is not known is refused with its name.
            _ => known.push(key),
        }
    }
    Ok((unsent, known))
}

async fn request(client: &Client, keys: &[String], dry_run: bool) -> Outcome<Vec<MadeRecipe>> {
    let mut made = Vec::with_capacity(keys.len());
    for keys in keys.chunks(RECIPES_MADE_MAX) {
        let asked = MakeRecipes { keys: keys.to_vec(), dry_run };
        made.extend(client.make_recipes(&asked).await.map_err(trouble)?);
    }
    Ok(made)
}

/// Waits until all are made. The first failure cancels what was created for the others, unless they are to go on.
async fn until_made(
    context: &Context,
    client: &Client,
    made: &mut [MadeRecipe],
    keep_going: bool,
) -> Outcome<()> {
    let pending = |one: &&mut MadeRecipe| one.state == RecipeState::Making;
    let mut progress = context.output.progress(made.len() as u64, "making recipes");
    for _ in 0..AGAIN {
        let failed = made.iter().any(|one| one.state == RecipeState::Failed);
        if failed && !keep_going {
            give_up(client, made).await;
            break;
        }
        let promises: Vec<u64> = made.iter_mut().filter(pending).filter_map(|one| one.promise).collect();
        if promises.is_empty() {
            break;
        }
        let (mut ends, mut changed) = (client.ends(promises), Vec::new());
        while let Some(job) = ends.next().await? {
            let error = job.error.as_ref();
            let is_changed = error.is_some_and(|error| CHANGED.contains(&error.reason.as_str()));
            for one in made.iter_mut().filter(|one| one.promise == Some(job.id)) {
                if is_changed {
                    changed.push(one.key.clone());
                    continue;
                }
                one.state = if job.state == "succeeded" { RecipeState::Ready } else { RecipeState::Failed };
                one.why = error.map(human::why);
                context.output.detail(&line(one));
            }
            let done = made.iter().filter(|one| one.state != RecipeState::Making).count();
            progress.set(done as u64, "");
            if !keep_going && made.iter().any(|one| one.state == RecipeState::Failed) {
                break;
            }
        }
        for again in request(client, &changed, false).await? {
            if let Some(one) = made.iter_mut().find(|one| one.key == again.key) {
                *one = again;
            }
        }
    }
    progress.finish();
    Ok(())
}

/// Cancels the jobs that were created for recipes that are not made yet.
async fn give_up(client: &Client, made: &mut [MadeRecipe]) {
    let why = Cancel::default();
    for one in made.iter_mut().filter(|one| one.state == RecipeState::Making) {
        one.state = RecipeState::Recipe;
        one.why = Some("another recipe failed; --keep-going makes the others".to_owned());
        if let Some(promise) = one.promise.filter(|_| one.runs > 0) {
            // It may have ended, or someone else may hold it.
            let _ = client.cancel(promise, &why).await;
        }
    }
}

fn table(made: &[MadeRecipe], dry_run: bool) -> Table {
    let steps = if dry_run { "WOULD RUN" } else { "RAN" };
    let mut table = Table::new(&["KEY", "STATE", steps, "JOB", "~WHY"]);
    for one in made {
        table.row([
            one.key.as_str().into(),
            one.state.as_str().into(),
            one.runs.to_string().into(),
            one.promise.map_or_else(String::new, |job| job.to_string()).into(),
            one.why.as_deref().unwrap_or_default().into(),
        ]);
    }
    table
}
