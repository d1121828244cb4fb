//! `jobhall recipe`: keys of sources with the queries that make their values.

mod file;
mod make;
mod status;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use jobhall_client::ClientError;
use jobhall_protocol::{Code, PutRecipe, Recipe, Span};

use crate::commands::{embedded, query, until_interrupted};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::human;
use crate::output::table::Table;

use file::RecipeFile;

const EXAMPLES: &str = "\
Examples:
  jobhall recipe make                  send the recipes of .jobhall.toml, and make those that are not ready
  jobhall recipe status                what is ready, and why the rest is not
  jobhall recipe status -q report.csv  exit 104 if it is not ready
  jobhall query source:report.csv      the value; it is made if it is not ready

In .jobhall.toml:
  [recipes]
  \"report.csv\" = 'source:sales.csv | clean | by region'";

/// The commands of `recipe`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum RecipeCommand {
    /// List recipes, by key
    List(ListArgs),
    /// Show a recipe with its state
    Show(ShowArgs),
    /// Show which values are ready, and why the others are not
    Status(StatusArgs),
    /// Make the values that are not ready
    Make(MakeArgs),
    /// Make values again whenever they are no longer ready
    Watch(WatchArgs),
    /// Bind a key to a query
    Put(PutArgs),
    /// Remove recipes; the values that were made stay
    Remove(RemoveArgs),
}

/// The file with the recipes.
#[derive(Debug, Args)]
pub struct FileArgs {
    /// File with a table [recipes] [default: .jobhall.toml in this directory, or above it in this repository]
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Arguments of `recipe list`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  jobhall recipe list\n  jobhall recipe list reports/ --json")]
pub struct ListArgs {
    /// Only keys that begin with this text
    pub prefix: Option<String>,
    #[command(flatten)]
    pub from: FileArgs,
}

/// Arguments of `recipe show`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  jobhall recipe show report.csv")]
pub struct ShowArgs {
    /// Key
    pub key: String,
    #[command(flatten)]
    pub from: FileArgs,
}

/// Arguments of `recipe status`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  jobhall recipe status\n  jobhall recipe status -q report.csv || jobhall recipe make report.csv\n\n\
With -q it prints nothing, and exits with 104 if a value is not ready."
)]
pub struct StatusArgs {
    /// Keys [default: all recipes]
    pub keys: Vec<String>,
    #[command(flatten)]
    pub from: FileArgs,
}

/// Arguments of `recipe make`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  jobhall recipe make\n  jobhall recipe make report.csv --dry-run\n  jobhall recipe make --all --keep-going\n\n\
The recipes of the file are sent first. Recipes that are not in the file stay as they are."
)]
pub struct MakeArgs {
    /// Keys [default: those of the file]
    pub keys: Vec<String>,
    /// All recipes of the server
    #[arg(long, conflicts_with = "keys")]
    pub all: bool,
    /// Show what would run, and make nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Make the others if one fails; without it those that are not made yet are cancelled
    #[arg(long)]
    pub keep_going: bool,
    #[command(flatten)]
    pub from: FileArgs,
}

/// Arguments of `recipe watch`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  jobhall recipe watch\n  jobhall recipe watch report.csv --interval 1m")]
pub struct WatchArgs {
    /// Keys [default: those of the file]
    pub keys: Vec<String>,
    /// All recipes of the server
    #[arg(long, conflicts_with = "keys")]
    pub all: bool,
    /// How often the states are looked at
    #[arg(long, value_name = "SPAN", default_value = "2s")]
    pub interval: Span,
    #[command(flatten)]
    pub from: FileArgs,
}

/// Arguments of `recipe put`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  jobhall recipe put report.csv 'source:sales.csv | clean | by region'\n\n\
Data that is put under the key comes first, until it is removed."
)]
pub struct PutArgs {
    /// Key, such as report.csv
    pub key: String,
    /// The query: the text of a URL, or a pipe of commands
    #[arg(value_name = "QUERY", allow_hyphen_values = true)]
    pub query: String,
    /// A title for people
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// What the value is
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
}

/// Arguments of `recipe remove`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  jobhall recipe remove report.csv")]
pub struct RemoveArgs {
    /// Keys
    #[arg(required = true)]
    pub keys: Vec<String>,
}

pub async fn run(context: &Context, command: &RecipeCommand) -> Outcome {
    embedded::on_any(context, async |context: &Context| on(context, command).await).await
}

async fn on(context: &Context, command: &RecipeCommand) -> Outcome {
    match command {
        RecipeCommand::List(args) => list(context, args).await,
        RecipeCommand::Show(args) => show(context, args).await,
        RecipeCommand::Status(args) => status::run(context, args).await,
        RecipeCommand::Make(args) => until_interrupted(make::run(context, args)).await,
        RecipeCommand::Watch(args) => until_interrupted(make::watch(context, args)).await,
        RecipeCommand::Put(args) => put(context, args).await,
        RecipeCommand::Remove(args) => remove(context, args).await,
    }
}

async fn list(context: &Context, args: &ListArgs) -> Outcome {
    let prefix = args.prefix.as_deref().unwrap_or_default();
    let mut file = RecipeFile::read(&args.from)?;
    file.recipes.retain(|(key, _)| key.starts_with(prefix));
    let all = status::compared(context.client()?.recipes(prefix).await?, &file);
    context.output.list(&all, || table(&all))?;
    Ok(Exit::Ok)
}

fn table(recipes: &[Recipe]) -> Table {
    let mut table = Table::new(&["KEY", "STATE", "SIZE", "MADE", "~QUERY"]);
    let now = human::now_ms();
    for recipe in recipes {
        table.row([
            recipe.key.as_str().into(),
            recipe.state.as_str().into(),
            recipe.size.map_or_else(String::new, human::bytes).into(),
            recipe.made_at.map_or_else(String::new, |at| human::age(at, now)).into(),
            recipe.query.as_str().into(),
        ]);
    }
    table
}

async fn show(context: &Context, args: &ShowArgs) -> Outcome {
    let mut file = RecipeFile::read(&args.from)?;
    file.recipes.retain(|(key, _)| *key == args.key);
    let found = match context.client()?.recipe(&args.key).await {
        Ok(recipe) => vec![recipe],
        Err(error) if error.code() == Some(Code::NotFound) && !file.recipes.is_empty() => Vec::new(),
        Err(error) => return Err(trouble(error)),
    };
    for recipe in status::compared(found, &file) {
        context.output.one(&recipe, || details(&recipe))?;
    }
    Ok(Exit::Ok)
}

fn details(recipe: &Recipe) -> String {
    let facts = [
        ("key", Some(recipe.key.clone())),
        ("title", recipe.title.clone()),
        ("description", recipe.description.clone()),
        ("query", Some(recipe.query.clone())),
        ("state", Some(recipe.state.as_str().to_owned())),
        ("why", recipe.why.clone()),
        ("size", recipe.size.map(human::bytes)),
        ("type", recipe.media_type.clone()),
        ("made", recipe.made_at.map(|at| at.to_string())),
        ("expires", recipe.expires_at.map(|at| at.to_string())),
        ("job", recipe.job.map(|job| job.to_string())),
    ];
    let known = facts.into_iter().filter_map(|(name, fact)| Some(format!("{name:<12} {}", fact?)));
    known.collect::<Vec<_>>().join("\n")
}

async fn put(context: &Context, args: &PutArgs) -> Outcome {
    let query = file::canonical(&args.query)?;
    let recipe = PutRecipe { query, title: args.title.clone(), description: args.description.clone() };
    let put = context.client()?.put_recipe(&args.key, &recipe).await.map_err(query::failed)?;
    context.output.one(&put, || format!("{} {}", put.key, put.query))?;
    Ok(Exit::Ok)
}

async fn remove(context: &Context, args: &RemoveArgs) -> Outcome {
    let client = context.client()?;
    for key in &args.keys {
        client.remove_recipe(key).await.map_err(trouble)?;
        context.output.say(&format!("removed the recipe of {key}"));
    }
    Ok(Exit::Ok)
}

fn trouble(error: ClientError) -> Failure {
    let unknown = error.code() == Some(Code::NotFound);
    let failure = Failure::from(error);
    if unknown { failure.fix("list the recipes with `jobhall recipe list`") } else { failure }
}
