//! `jobhall move`: moves a hall from SQLite to PostgreSQL, where several nodes can share it.

mod blobs;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use jobhall_core::Time;
use jobhall_protocol::Timestamp;
use jobhall_store::{ExportChunk, Holdings, StoreError};
use jobhall_store_postgres::{Database, Options};
use jobhall_store_sqlite::Export;
use serde::Serialize;
use tokio::runtime::Handle;

use super::until_interrupted;
use crate::context::Context;
use crate::database::{Database as Address, address, masked};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::hall_key;
use crate::output::human::now_ms;
use blobs::{Copied, Shelves};

const EXAMPLES: &str = "\
Examples:
  jobhall move --from sqlite:/var/lib/jobhall --to postgres://jobhall@db.example/jobhall
  jobhall move --from sqlite:/var/lib/jobhall --to @database.url --json   keeps a password out of `ps`

Stop the hall first. Either all data is moved or none; the old data is not changed. No server opens
the old data again unless the file jobs.db.moved beside it is removed.";

/// The file name of the store in a data directory.
const FILE: &str = "jobs.db";

/// Arguments of `move`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct MoveArgs {
    /// Data of a stopped hall: sqlite:DIR, or sqlite:FILE
    #[arg(long, value_name = "STORE")]
    pub from: String,
    /// Empty database: postgres://…, @FILE with the URL, or - for standard input
    #[arg(long, value_name = "STORE")]
    pub to: String,
}

/// The result of a move.
#[derive(Debug, Serialize)]
struct Moved {
    jobs: u64,
    attempts: u64,
    groups: u64,
    links: u64,
    settings: u64,
    idempotency_keys: u64,
    acts: u64,
    records: u64,
    logs: u64,
    artifacts: u64,
}

impl Moved {
    fn new(held: Holdings, copied: Copied) -> Moved {
        let Holdings { jobs, attempts, groups, links, settings, idempotency_keys, acts, blocks: _, records } =
            held;
        let Copied { logs, artifacts } = copied;
        Moved { jobs, attempts, groups, links, settings, idempotency_keys, acts, records, logs, artifacts }
    }
}

pub async fn run(context: &Context, args: &MoveArgs) -> Outcome {
    let file = file_of(&args.from)?;
    let to = url_of(&address(&args.to, "--to")?)?;
    let (held, copied) = until_interrupted(async {
        let export = Export::open(&file, &jobhall_store_sqlite::Options::default()).map_err(source(&file))?;
        move_all(context, export, &file, to).await
    })
    .await?;
    let Copied { logs, artifacts } = copied;
    let told = || format!("moved {held}, {logs} logs, {artifacts} artifacts\n");
    context.output.one(&Moved::new(held, copied), told)?;
    let (from, file) = (&file, file.display());
    context.output.say(&format!("{file} was not changed; no server opens it while {file}.moved exists"));
    context.output.say("the first node uses the admin.token of its data directory, or creates a new one");
    let key = from.with_file_name(hall_key::FILE);
    if key.exists() {
        let key = key.display();
        context.output.say(&format!(
            "every node needs the key of the hall: copy {key} into its data directory, or name it with --key-file"
        ));
    }
    Ok(Exit::Ok)
}

/// The file that `--from` names.
fn file_of(from: &str) -> Outcome<PathBuf> {
    match Address::parse(from).map_err(|why| Failure::usage(format!("--from: {why}")))? {
        Address::Sqlite(path) if path.is_dir() => Ok(path.join(FILE)),
        Address::Sqlite(path) => Ok(path),
        Address::Postgres(_) => {
            Err(Failure::usage("--from: only an embedded store can be moved").fix("give it as sqlite:DIR"))
        }
    }
}

/// The database that `--to` names.
fn url_of(to: &str) -> Outcome<String> {
    match Address::parse(to).map_err(|why| Failure::usage(format!("--to: {why}")))? {
        Address::Postgres(url) => Ok(url),
        Address::Sqlite(_) => Err(Failure::usage("--to: a hall moves into PostgreSQL only")
            .fix("give it as postgres://user@host/name")),
    }
}

fn source(file: &Path) -> impl Fn(StoreError) -> Failure + use<> {
    let what = format!("failed to read the hall in {}", file.display());
    move |error| Failure::new(Exit::Unexpected, &what).why(error.message)
}

fn target(error: StoreError) -> Failure {
    Failure::new(Exit::Unexpected, "nothing was moved").why(error.message)
}

async fn move_all(
    context: &Context,
    mut export: Export,
    file: &Path,
    to: String,
) -> Outcome<(Holdings, Copied)> {
    let unreadable = source(file);
    let whither = format!("{} at {}", masked(&to), now());
    let (held, marks) = (export.holdings().map_err(&unreadable)?, export.marks().map_err(&unreadable)?);
    // No session state is used, so a pooler is allowed.
    let options = Options { pooled: true, readers: 1, ..Options::new(to) };
    let database = aside(move || Database::open(options).map_err(|error| error.message)).await?;
    let import = database.import().await.map_err(target)?;
    let shelves = shelves(file, database.clone()).await?;
    let progress = &mut context.output.progress(held.total(), "moving");
    let (mut moved, mut copied) = (Holdings::default(), Copied::default());
    while let Some(portion) = export.next_portion().map_err(&unreadable)? {
        import.put(&portion).await.map_err(target)?;
        moved.add(&portion);
        if let (Some(shelves), ExportChunk::Jobs(jobs)) = (&shelves, &portion) {
            let claims = jobs.iter().map(|(job, _)| (job.id.get(), job.status.claim)).collect();
            copy(shelves, claims, &mut copied).await?;
        }
        progress.set(moved.total(), &format!("{} jobs", moved.jobs));
    }
    // Marked before the final commit: the old hall must not start again if this process is killed in between.
    let before = export.moved_to().map_err(target)?;
    export.set_moved_to(Some(&whither)).map_err(target)?;
    if let Err(error) = import.finish(marks, held).await {
        // The old hall may start again only if the target is certainly still empty.
        let is_empty = database.import().await.is_ok();
        let is_as_before = is_empty && export.set_moved_to(before.as_deref()).is_ok();
        return Err(if is_as_before { target(error) } else { unknown(file, error) });
    }
    progress.finish();
    Ok((held, copied))
}

/// The final commit of the move failed with an unknown outcome.
fn unknown(file: &Path, error: StoreError) -> Failure {
    let fix = format!(
        "inspect the database; if it contains no jobs, remove {}.moved and move again",
        file.display()
    );
    Failure::new(Exit::Unexpected, "it is not known whether the hall was moved").why(error.message).fix(fix)
}

fn now() -> Timestamp {
    Timestamp(Time::from_ms(now_ms()).unwrap_or(Time::EPOCH))
}

/// The copier of blobs, if the hall has any. Created only after the target is known to be unused.
async fn shelves(file: &Path, database: Database) -> Outcome<Option<Arc<Shelves>>> {
    let directory = file.with_file_name("blobs");
    if !directory.is_dir() {
        return Ok(None);
    }
    let runtime = Handle::current();
    aside(move || Shelves::open(&directory, &database, runtime)).await.map(|shelves| Some(Arc::new(shelves)))
}

async fn copy(shelves: &Arc<Shelves>, claims: Vec<(u64, u32)>, copied: &mut Copied) -> Outcome<()> {
    let shelves = shelves.clone();
    let all = aside(move || {
        claims.into_iter().map(|(job, claims)| shelves.copy(job, claims)).collect::<Result<Vec<_>, _>>()
    })
    .await?;
    for one in all {
        copied.logs += one.logs;
        copied.artifacts += one.artifacts;
    }
    Ok(())
}

/// Runs blocking work on another thread.
async fn aside<T: Send + 'static>(doing: impl FnOnce() -> Result<T, String> + Send + 'static) -> Outcome<T> {
    let done = tokio::task::spawn_blocking(doing).await;
    let done = done.map_err(|error| Failure::new(Exit::Unexpected, error.to_string()))?;
    done.map_err(|why| target(StoreError::new(why)))
}
