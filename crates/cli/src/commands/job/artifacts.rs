//! `jobhall job artifacts` and `jobhall job artifact`: listing and downloading the artifacts of a job.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use jobhall_client::{ArtifactReader, ClientError};

use crate::commands::job::about;
use crate::commands::until_interrupted;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::progress::{LARGE_BYTES, Progress};
use crate::output::{human, print_bytes};

/// Arguments of `job artifacts`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  jobhall job artifacts 17\n  jobhall job artifacts 17 --attempt 1 --json"
)]
pub struct ArtifactsArgs {
    /// The job
    pub id: u64,
    /// Number or id of the attempt, such as 17-2 [default: the last]
    #[arg(long, value_name = "N")]
    pub attempt: Option<String>,
}

pub async fn list(context: &Context, args: &ArtifactsArgs) -> Outcome {
    let client = context.client()?;
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let page = client.artifacts(args.id, args.attempt.as_deref(), cursor.as_deref()).await;
        let page = page.map_err(|error| about(args.id, error))?;
        all.extend(page.items);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    context.output.list(&all, || human::artifacts(&all))?;
    Ok(Exit::Ok)
}

const EXAMPLES: &str = "\
Examples:
  jobhall job artifact 17 report/index.html -o index.html
  jobhall job artifact 17 result | jq .

The bytes are checked against the stored digest. The file is created only if they match.";

/// Arguments of `job artifact`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ArtifactArgs {
    /// The job
    pub id: u64,
    /// The artifact
    pub name: String,
    /// Output file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Number or id of the attempt, such as 17-2 [default: the last]
    #[arg(long, value_name = "N")]
    pub attempt: Option<String>,
}

pub async fn get(context: &Context, args: &ArtifactArgs) -> Outcome {
    let client = context.client()?;
    let reader = client.read_artifact(args.id, args.attempt.as_deref(), &args.name);
    let trouble = |error| trouble(args.id, error);
    let mut transfer = Transfer::new(context, reader, &trouble);
    match &args.output {
        Some(path) => until_interrupted(save(&mut transfer, path)).await?,
        None => until_interrupted(transfer.copy(&mut print_bytes)).await?,
    }
    Ok(Exit::Ok)
}

/// A download.
pub struct Transfer<'a> {
    context: &'a Context,
    reader: ArtifactReader,
    trouble: &'a dyn Fn(ClientError) -> Failure,
    progress: Option<Progress>,
    done: u64,
}

impl<'a> Transfer<'a> {
    /// A download whose errors are explained by `trouble`.
    pub fn new(
        context: &'a Context,
        reader: ArtifactReader,
        trouble: &'a dyn Fn(ClientError) -> Failure,
    ) -> Transfer<'a> {
        Transfer { context, reader, trouble, progress: None, done: 0 }
    }

    pub async fn copy(&mut self, write: &mut impl FnMut(&[u8]) -> Outcome<()>) -> Outcome<()> {
        while let Some(bytes) = self.reader.next().await.map_err(self.trouble)? {
            write(&bytes)?;
            self.done += bytes.len() as u64;
            self.tell();
        }
        if let Some(progress) = &self.progress {
            progress.finish();
        }
        Ok(())
    }

    fn tell(&mut self) {
        if let Some(size) = self.reader.size().filter(|size| *size >= LARGE_BYTES) {
            let output = &self.context.output;
            self.progress.get_or_insert_with(|| output.progress(size, "download")).set(self.done, "");
        }
    }
}

/// Writes under a temporary name until the download is complete and verified, so that a partial file is never used.
pub async fn save(transfer: &mut Transfer<'_>, path: &Path) -> Outcome<()> {
    let failed = |error: std::io::Error| {
        Failure::new(Exit::Unexpected, format!("failed to write {}", path.display())).why(error.to_string())
    };
    let part = Part::new(path).map_err(failed)?;
    transfer.copy(&mut |bytes| (&part.file).write_all(bytes).map_err(failed)).await?;
    part.finish(path).map_err(failed)
}

fn trouble(id: u64, error: ClientError) -> Failure {
    let fix = format!("list the artifacts with `jobhall job artifacts {id}`");
    let unknown = error.code() == Some(jobhall_protocol::Code::NotFound);
    let failure = about(id, error);
    if unknown { failure.fix(fix) } else { failure }
}

/// A partial file; removed on drop.
struct Part {
    path: PathBuf,
    file: File,
}

impl Part {
    fn new(whole: &Path) -> std::io::Result<Part> {
        let mut name = whole.file_name().unwrap_or_default().to_owned();
        name.push(format!(".part-{:016x}", rand::random::<u64>()));
        let path = whole.with_file_name(name);
        let file = File::create_new(&path)?;
        Ok(Part { path, file })
    }

    fn finish(self, whole: &Path) -> std::io::Result<()> {
        self.file.sync_all()?;
        std::fs::rename(&self.path, whole)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // After the rename there is no file to remove.
        let _ = std::fs::remove_file(&self.path);
    }
}
