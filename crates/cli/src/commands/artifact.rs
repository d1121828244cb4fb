//! `jobhall artifact`: stores files as artifacts, from inside a job.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use clap::{Args, Subcommand};
use jobhall_client::{Upload, UploadError, media_type_of};

use crate::commands::until_interrupted;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::progress::LARGE_BYTES;

/// The commands of `artifact`.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  jobhall artifact put report/index.html out/index.html")]
pub enum ArtifactCommand {
    /// Store a file now, before the job has ended
    Put(PutArgs),
}

const EXAMPLES: &str = "\
Examples:
  jobhall artifact put report/index.html out/index.html
  jobhall artifact put model.bin model.bin --type application/x-model

The command runs inside a job. JOBHALL_SERVER, JOBHALL_TOKEN, JOBHALL_JOB and JOBHALL_CLAIM
identify the attempt. Files in the directory JOBHALL_OUTPUT are stored when the job ends. An
artifact of the same name is replaced.";

/// Arguments of `artifact put`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PutArgs {
    /// Name of the artifact, such as report/index.html
    pub name: String,
    /// File to store
    pub file: PathBuf,
    /// Media type [default: from the extension of the name]
    #[arg(long = "type", value_name = "TYPE")]
    pub media_type: Option<String>,
    /// Attempt, such as 17-1 [default: the current attempt]
    #[arg(long, value_name = "ID")]
    pub attempt: Option<String>,
    /// Lease, for a worker that uses its own token
    #[arg(long, env = "JOBHALL_LEASE", hide_env_values = true, value_name = "LEASE")]
    pub lease: Option<String>,
}

pub async fn run(context: &Context, command: &ArtifactCommand) -> Outcome {
    match command {
        ArtifactCommand::Put(args) => put(context, args).await,
    }
}

async fn put(context: &Context, args: &PutArgs) -> Outcome {
    let attempt = match &args.attempt {
        Some(attempt) => attempt.clone(),
        None => own_attempt(|name| std::env::var(name).ok())?,
    };
    let (file, size) = open(&args.file).map_err(|why| unreadable(&args.file, &why))?;
    let media_type = args.media_type.as_deref().unwrap_or_else(|| media_type_of(&args.name));
    let lease = args.lease.as_deref();
    let upload = Upload { attempt: &attempt, lease, name: &args.name, media_type, file, size };
    let progress = (size >= LARGE_BYTES).then(|| Mutex::new(context.output.progress(size, "upload")));
    let passed = move |bytes| {
        if let Some(progress) = &progress {
            let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
            progress.set(bytes, "");
            if bytes == size {
                progress.finish();
            }
        }
    };
    let client = context.client()?;
    let kept = until_interrupted(async {
        client.put_artifact(upload, passed).await.map_err(|error| match error {
            UploadError::File(error) => unreadable(&args.file, &error),
            UploadError::Client(error) => {
                Failure::from(error).while_doing(&format!("artifact {}", args.name))
            }
        })
    });
    let artifact = kept.await?;
    context
        .output
        .one(&artifact, || format!("{} {} bytes {}", artifact.name, artifact.size, artifact.digest))?;
    Ok(Exit::Ok)
}

fn open(path: &Path) -> std::io::Result<(File, u64)> {
    let file = File::open(path)?;
    let about = file.metadata()?;
    if about.is_file() {
        Ok((file, about.len()))
    } else {
        Err(std::io::Error::other("it is not a plain file"))
    }
}

fn unreadable(path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::usage(format!("failed to read {}", path.display())).why(why.to_string())
}

/// The attempt of this process.
fn own_attempt(variable: impl Fn(&str) -> Option<String>) -> Outcome<String> {
    match (variable("JOBHALL_JOB"), variable("JOBHALL_CLAIM")) {
        (Some(job), Some(claim)) => Ok(format!("{job}-{claim}")),
        _ => Err(Failure::usage("this is not inside a job: JOBHALL_JOB and JOBHALL_CLAIM are not set")
            .fix("name the attempt with --attempt, and its lease with --lease")),
    }
}

#[cfg(test)]
mod tests {
    use super::own_attempt;

    #[test]
    fn an_attempt_is_known_by_its_job_and_claim() {
        let inside = |name: &str| Some(if name == "JOBHALL_JOB" { "17" } else { "2" }.to_owned());
        assert_eq!(own_attempt(inside).unwrap(), "17-2");
        assert!(own_attempt(|_| None).unwrap_err().fix.unwrap().contains("--attempt"));
    }
}
