//! Running a query in the command that asks for it: its value may not be kept, so it is made where it is used.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use jobhall_core::base64;
use jobhall_core::query::{InputPlace, NodeParams};
use jobhall_protocol::{SubQuery, SubQueryState};
use jobhall_worker::{OwnCommands, received};

use super::failed;
use crate::commands::job::Transfer;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

/// The variable with the queries that this process is run for, the outermost first; they are separated by spaces, which a
/// canonical text does not have.
const RUNNING: &str = "JOBHALL_RUNNING";
/// Maximum number of queries that are run one within another; more are run by jobs.
const DEPTH_MAX: usize = 16;
/// Largest value that is made here.
const VALUE_BYTES_MAX: u64 = 1 << 30;

fn running() -> Vec<String> {
    let running = std::env::var(RUNNING).unwrap_or_default();
    running.split(' ').filter(|text| !text.is_empty()).map(str::to_owned).collect()
}

/// The commands that this process can run.
pub fn names() -> Vec<String> {
    if running().len() < DEPTH_MAX { OwnCommands::left().names() } else { Vec::new() }
}

/// Refuses a query that this process is run for.
pub fn check(canonical: &str) -> Outcome<()> {
    let mut way = running();
    let Some(at) = way.iter().position(|text| text == canonical) else { return Ok(()) };
    way.drain(..at);
    way.push(canonical.to_owned());
    Err(Failure::new(Exit::Failed, format!("a query that waits for itself: {}", way.join(" asks for "))))
}

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> std::io::Result<Folder> {
        let path = std::env::temp_dir().join(format!("jobhall-here-{}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs the steps of an answer, and returns it with their value.
pub async fn run(context: &Context, attempt: &str, canonical: &str, answer: &SubQuery) -> Outcome<SubQuery> {
    let wrong =
        |error: &dyn std::fmt::Display| Failure::new(Exit::Unexpected, format!("{canonical}: {error}"));
    let node = answer.node.clone().unwrap_or_default();
    let params: NodeParams = serde_json::from_value(node).map_err(|error| wrong(&error))?;
    let folder = Folder::new().map_err(|error| wrong(&error))?;
    for (at, identity) in params.inputs.iter().enumerate() {
        let path = received(&folder.0, InputPlace::Input(at));
        read(context, attempt, &identity.to_string(), &path).await?;
    }
    for (at, source) in params.sources.iter().enumerate() {
        let path = received(&folder.0, InputPlace::Source(at));
        read(context, attempt, &source.digest.to_string(), &path).await?;
    }
    let mut way = running();
    way.push(canonical.to_owned());
    let ran = OwnCommands::left().run(&params, &folder.0, &[(RUNNING, way.join(" "))]);
    let (value, media_type) = ran.map_err(|why| Failure::new(Exit::Failed, why))?;
    let size = fs::metadata(&value).map_err(|error| wrong(&error))?.len();
    if size > VALUE_BYTES_MAX {
        return Err(wrong(&format!("its value has {size} bytes, the limit is {VALUE_BYTES_MAX}")));
    }
    let bytes = fs::read(&value).map_err(|error| wrong(&error))?;
    let (text, base64) = match String::from_utf8(bytes) {
        Ok(text) => (Some(text), None),
        Err(error) => (None, Some(base64::encode(error.as_bytes()))),
    };
    Ok(SubQuery {
        answer: SubQueryState::Ready,
        identity: answer.identity.clone(),
        job: None,
        media_type: Some(media_type),
        size: Some(size),
        text,
        base64,
        node: None,
        jobs: Vec::new(),
    })
}

async fn read(context: &Context, attempt: &str, identity: &str, path: &Path) -> Outcome<()> {
    let wrong =
        |error: std::io::Error| Failure::new(Exit::Unexpected, format!("{}: {error}", path.display()));
    let mut file = File::create(path).map_err(wrong)?;
    let reader = context.client()?.read_own_value(attempt, identity);
    let mut transfer = Transfer::new(context, reader, &failed);
    transfer.copy(&mut |bytes| file.write_all(bytes).map_err(wrong)).await
}
