//! `jobhall query` in a command of a query that runs: the token of its process asks for its attempt. While it waits, the
//! slot of its worker is free for what it waits for.

use std::path::{Path, PathBuf};

use jobhall_client::{Client, ClientError};
use jobhall_core::base64;
use jobhall_core::query::Query;
use jobhall_protocol::{Code, SubQuery, SubQueryState};
use jobhall_worker::ASKED_FILE;
use serde::Serialize;

use super::QueryArgs;
use super::{failed, here};
use crate::commands::call;
use crate::commands::job::{Transfer, save};
use crate::commands::progress::own_attempt;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::Format;
use crate::output::print_bytes;

/// The tokens of the processes of jobs begin with this.
const JOB_TOKEN: &str = "jh_job_";
/// How often a query is asked for again because the files of its commands have changed.
const ASKED_AGAIN: usize = 10;

/// Largest value that an attempt remembers.
const KNOWN_BYTES_MAX: usize = 1 << 20;

/// The answer as one document.
#[derive(Serialize)]
struct Document<'a> {
    query: &'a str,
    identity: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    media_type: Option<&'a str>,
    size: Option<u64>,
}

/// The attempt of this process, if it asks with the token of a job.
pub fn attempt(context: &Context) -> Option<String> {
    let token = context.settings.token.as_ref()?;
    token.value.starts_with(JOB_TOKEN).then(|| own_attempt().ok()).flatten()
}

pub async fn ask(
    context: &Context,
    args: &QueryArgs,
    attempt: &str,
    query: &Query,
    is_local: bool,
) -> Outcome {
    let refused = [
        (args.explain, "--explain is not available"),
        (args.no_wait, "--no-wait is not available"),
        (args.cached, "--cached is not available"),
        (args.meta, "--meta is not available"),
        (args.refresh.is_some(), "--refresh is not available"),
        (args.each.is_some(), "--each is not available"),
        (is_local, "local data cannot be sent"),
    ];
    if let Some((_, what)) = refused.iter().find(|(given, _)| *given) {
        let failure = Failure::usage(format!("{what} in a command that runs"));
        return Err(failure.fix("ask for commands, or for data that is stored: jobhall source put"));
    }
    note_asked();
    let (client, canonical) = (context.client()?, query.text());
    let answered = Answered::of(&canonical);
    let answer = match answered.as_ref().and_then(Answered::read) {
        Some(answer) => answer,
        None => until_ready(&client, attempt, &canonical).await?,
    };
    let answer = match answer.answer {
        SubQueryState::Inline => here::run(context, attempt, &canonical, &answer).await?,
        SubQueryState::Ready | SubQueryState::Pending => answer,
    };
    let Some(bytes) = bytes(&answer)? else {
        return large(context, args, attempt, &canonical, &answer).await;
    };
    if let Some(answered) = answered.as_ref().filter(|_| bytes.len() <= KNOWN_BYTES_MAX) {
        answered.write(&answer);
    }
    if let Some(path) = &args.output {
        std::fs::write(path, &bytes).map_err(|error| {
            Failure::usage(format!("failed to write {}", path.display())).why(error.to_string())
        })?;
    } else if context.output.format == Format::Human {
        context.output.raw(&bytes)?;
    }
    document(context, args, &canonical, &answer)
}

fn document(context: &Context, args: &QueryArgs, query: &str, answer: &SubQuery) -> Outcome {
    if context.output.format != Format::Human {
        let is_part = args.output.is_none();
        let document = Document {
            query,
            identity: &answer.identity,
            value: answer.text.as_deref().filter(|_| is_part),
            base64: answer.base64.as_deref().filter(|_| is_part),
            file: args.output.as_ref().map(|path| path.display().to_string()),
            media_type: answer.media_type.as_deref(),
            size: answer.size,
        };
        context.output.one(&document, String::new)?;
    }
    Ok(Exit::Ok)
}

/// Asks, and waits as long as it takes; asked again while the files of the commands change.
async fn until_ready(client: &Client, attempt: &str, canonical: &str) -> Outcome<SubQuery> {
    let mut again = ASKED_AGAIN;
    loop {
        match once(client, attempt, canonical).await? {
            Err(error) if error.code() == Some(Code::VersionChanged) && again > 0 => again -= 1,
            answer => return answer.map_err(failed),
        }
    }
}

async fn once(client: &Client, attempt: &str, canonical: &str) -> Outcome<Result<SubQuery, ClientError>> {
    here::check(canonical)?;
    let mut answer = match client.ask_within(attempt, canonical, &here::names()).await {
        Ok(answer) => answer,
        Err(error) => return Ok(Err(error)),
    };
    while let (SubQueryState::Pending, Some(job)) = (answer.answer, answer.job) {
        call::wait(client, attempt, Some(vec![job])).await?;
        answer = match client.asked_within(attempt, job).await {
            Ok(answer) => answer,
            Err(error) => return Ok(Err(error)),
        };
    }
    if answer.answer == SubQueryState::Inline && !answer.jobs.is_empty() {
        call::wait(client, attempt, Some(answer.jobs.clone())).await?;
    }
    Ok(Ok(answer))
}

/// The value, if it is part of the answer.
fn bytes(answer: &SubQuery) -> Outcome<Option<Vec<u8>>> {
    match (&answer.text, &answer.base64) {
        (Some(text), _) => Ok(Some(text.clone().into_bytes())),
        (None, Some(text)) => match base64::decode(text) {
            Some(bytes) => Ok(Some(bytes)),
            None => {
                Err(Failure::new(Exit::Unexpected, "the server answered with a value that is not base64"))
            }
        },
        (None, None) => Ok(None),
    }
}

/// Reads a value that is not part of the answer.
async fn large(
    context: &Context,
    args: &QueryArgs,
    attempt: &str,
    canonical: &str,
    answer: &SubQuery,
) -> Outcome {
    let is_document = context.output.format != Format::Human;
    if is_document && args.output.is_none() {
        return Err(super::answer::too_large());
    }
    let reader = context.client()?.read_own_value(attempt, &answer.identity);
    let mut transfer = Transfer::new(context, reader, &failed);
    match args.output.as_deref() {
        Some(path) => save(&mut transfer, path).await?,
        None => transfer.copy(&mut print_bytes).await?,
    }
    document(context, args, canonical, answer)
}

/// Leaves word for the worker that the value of this step depends on more than its identity.
fn note_asked() {
    let result = std::env::var_os("JOBHALL_RESULT").map(PathBuf::from);
    if let Some(directory) = result.as_deref().and_then(Path::parent) {
        let _not_a_worker_on_this_machine = std::fs::write(directory.join(ASKED_FILE), "");
    }
}

/// An answer that this attempt has had before: a file in its own temporary directory, which is removed with it. The same
/// text is then answered without the server, and with the same value.
struct Answered(PathBuf);

impl Answered {
    fn of(canonical: &str) -> Option<Answered> {
        let directory = PathBuf::from(std::env::var_os("TMPDIR")?);
        let result = PathBuf::from(std::env::var_os("JOBHALL_RESULT")?);
        // Another directory may be that of other users.
        let is_own = directory.parent().is_some_and(|parent| Some(parent) == result.parent());
        let name = format!("jobhall-query-{}", blake3::hash(canonical.as_bytes()).to_hex());
        is_own.then(|| Answered(directory.join(name)))
    }

    fn read(&self) -> Option<SubQuery> {
        let answer: SubQuery = serde_json::from_slice(&std::fs::read(&self.0).ok()?).ok()?;
        (answer.answer == SubQueryState::Ready).then_some(answer)
    }

    /// Keeps an answer. A failure costs no more than a request.
    fn write(&self, answer: &SubQuery) {
        let part = self.0.with_extension(std::process::id().to_string());
        let written = |path: &Path| std::fs::write(path, serde_json::to_vec(answer).ok()?).ok();
        if written(&part).and_then(|()| std::fs::rename(&part, &self.0).ok()).is_none() {
            let _ = std::fs::remove_file(&part);
        }
    }
}
