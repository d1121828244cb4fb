//! `jobhall source`: data that queries begin with.

pub mod upload;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use jobhall_client::{ClientError, media_type_of};
use jobhall_core::query::SourceKey;
use jobhall_protocol::{Code, Source};

use crate::commands::job::{Transfer, save};
use crate::commands::until_interrupted;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::print_bytes;
use crate::output::table::Table;

use upload::Data;

/// The commands of `source`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum SourceCommand {
    /// Put a file under a key; what was under the key is replaced
    Put(PutArgs),
    /// Read the data of a source
    Get(GetArgs),
    /// List sources, by key
    List(ListArgs),
    /// Remove sources; the values that were made from them stay
    Remove(RemoveArgs),
}

const EXAMPLES: &str = "\
Examples:
  jobhall source put sales.csv data/sales.csv
  jobhall query 'source:sales.csv | clean | by region'
  jobhall query '@data/sales.csv | clean | by region'    without a key: stored under its digest";

const PUT: &str = "\
Examples:
  jobhall source put sales.csv data/sales.csv
  pg_dump shop | jobhall source put shop/dump.sql -
  jobhall source put 2026/sales sales.bin --media-type application/x-sales

Queries whose first part is -R/KEY/-/ receive the data. Other data under the key are another value;
the same data again find the values that were made from them before.";

/// Arguments of `source put`.
#[derive(Debug, Args)]
#[command(after_help = PUT)]
pub struct PutArgs {
    /// Key, such as sales.csv or 2026/sales.csv
    pub key: String,
    /// File, or - for standard input
    pub file: PathBuf,
    /// Media type [default: from the extension of the file, or of the key]
    #[arg(long, value_name = "TYPE")]
    pub media_type: Option<String>,
}

/// Arguments of `source get`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  jobhall source get sales.csv | head\n  jobhall source get sales.csv -o copy.csv\n\n\
The bytes are checked against the stored digest. The file is created only if they match."
)]
pub struct GetArgs {
    /// Key
    pub key: String,
    /// Output file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Arguments of `source list`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  jobhall source list\n  jobhall source list 2026/ --json")]
pub struct ListArgs {
    /// Only keys that begin with this text
    pub prefix: Option<String>,
}

/// Arguments of `source remove`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  jobhall source remove sales.csv\n  jobhall source remove a.csv b.csv")]
pub struct RemoveArgs {
    /// Keys
    #[arg(required = true)]
    pub keys: Vec<String>,
}

pub async fn run(context: &Context, command: &SourceCommand) -> Outcome {
    match command {
        SourceCommand::Put(args) => put(context, args).await,
        SourceCommand::Get(args) => get(context, args).await,
        SourceCommand::List(args) => list(context, args).await,
        SourceCommand::Remove(args) => remove(context, args).await,
    }
}

async fn put(context: &Context, args: &PutArgs) -> Outcome {
    check(&args.key)?;
    let data = if args.file.as_os_str() == "-" {
        Data::stdin()?
    } else {
        Data::file(&args.file).map_err(|failure| swapped(args, failure))?
    };
    let named = match args.file.extension() {
        Some(_) => args.file.to_string_lossy(),
        None => args.key.as_str().into(),
    };
    let media_type = args.media_type.as_deref().unwrap_or_else(|| media_type_of(&named));
    let source = until_interrupted(data.put(context, &args.key, media_type, None)).await?;
    context.output.one(&source, || format!("{} {} bytes {}", source.key, source.size, source.digest))?;
    Ok(Exit::Ok)
}

/// The fix for arguments in the wrong order.
fn swapped(args: &PutArgs, failure: Failure) -> Failure {
    if PathBuf::from(&args.key).is_file() {
        return failure.fix("the key comes before the file: jobhall source put KEY FILE");
    }
    failure
}

/// Checks a key before anything is sent.
fn check(key: &str) -> Outcome<()> {
    let wrong = |why| {
        Failure::usage(format!("the key of a source {why}: {key:?}")).fix("use a key such as 2026/sales.csv")
    };
    SourceKey::new(key).map(drop).map_err(wrong)
}

async fn get(context: &Context, args: &GetArgs) -> Outcome {
    check(&args.key)?;
    let trouble = |error| trouble(error);
    let mut transfer = Transfer::new(context, context.client()?.read_source(&args.key), &trouble);
    match &args.output {
        Some(path) => until_interrupted(save(&mut transfer, path)).await?,
        None => until_interrupted(transfer.copy(&mut print_bytes)).await?,
    }
    Ok(Exit::Ok)
}

fn trouble(error: ClientError) -> Failure {
    let unknown = error.code() == Some(Code::NotFound);
    let failure = Failure::from(error);
    if unknown { failure.fix("list the sources with `jobhall source list`") } else { failure }
}

async fn list(context: &Context, args: &ListArgs) -> Outcome {
    let all = context.client()?.sources(args.prefix.as_deref().unwrap_or_default()).await?;
    context.output.list(&all, || table(&all))?;
    Ok(Exit::Ok)
}

fn table(sources: &[Source]) -> Table {
    let mut table = Table::new(&["~KEY", "SIZE", "~TYPE", "AT", "~DIGEST"]);
    for source in sources {
        table.row([
            source.key.as_str().into(),
            source.size.to_string().into(),
            source.media_type.as_str().into(),
            source.at.to_string().into(),
            source.digest.as_str().into(),
        ]);
    }
    table
}

async fn remove(context: &Context, args: &RemoveArgs) -> Outcome {
    let client = context.client()?;
    args.keys.iter().try_for_each(|key| check(key))?;
    for key in &args.keys {
        client.remove_source(key).await.map_err(trouble)?;
        context.output.say(&format!("removed {key}"));
    }
    Ok(Exit::Ok)
}
