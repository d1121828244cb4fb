//! `jobhall group`: creating and following groups of jobs.

use std::time::Duration;

use clap::{Args, Subcommand};
use jobhall_client::{Client, ClientError};
use jobhall_protocol::{CancelGroup, Code, CreateGroup, Group, Span, Submitted};

use crate::commands::job::{Duplicate, batches, duplicate, random_key};
use crate::commands::until_interrupted;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::human::{age, now_ms, why};
use crate::output::state;
use crate::output::table::{Table, clean};

const EXAMPLES: &str = "\
Examples:
  jobhall group create --name nightly --from jobs.jsonl --wait
  id=$(jobhall group create --fields id); jobhall job submit report --group $id; jobhall group close $id
  jobhall group wait 17 && echo all jobs succeeded
  jobhall group retry 17 --wait               run the failed jobs again";

/// The commands of `group`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum GroupCommand {
    /// Create a group, with jobs from a file or empty
    Create(CreateArgs),
    /// List groups, newest first
    #[command(
        after_help = "Examples:\n  jobhall group list --limit 10\n  jobhall group list --tag main --owner ci"
    )]
    List {
        /// Only groups with this tag
        #[arg(long, value_name = "TAG")]
        tag: Option<String>,
        /// Only groups of this owner
        #[arg(long, value_name = "NAME")]
        owner: Option<String>,
        /// Maximum number of entries
        #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
    },
    /// Show a group and the states of its jobs
    #[command(after_help = "Example:\n  jobhall group show 17")]
    Show {
        /// The group
        id: u64,
    },
    /// Close a group: it accepts no more jobs and ends with its last one
    #[command(after_help = "Example:\n  jobhall group close 17")]
    Close {
        /// The group
        id: u64,
    },
    /// Cancel all jobs of a group
    #[command(
        after_help = "Examples:\n  jobhall group cancel 17 --reason 'wrong input'\n  jobhall group cancel 17 --fail --reason 'too many failures'"
    )]
    Cancel {
        /// The group
        id: u64,
        /// Reason, shown in the errors of the jobs
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Stop it as failed: the group ends as failed and not as cancelled
        #[arg(long)]
        fail: bool,
    },
    /// Create a new group from the failed jobs of an ended one
    #[command(after_help = "Examples:\n  jobhall group retry 17\n  jobhall group retry 17 --wait")]
    Retry {
        /// The group
        id: u64,
        /// Wait until the new group has ended; the exit code reports its outcome
        #[arg(long)]
        wait: bool,
    },
    /// Wait until a group has ended; the exit code reports its outcome
    #[command(after_help = "Example:\n  jobhall group wait 17 --timeout 10m")]
    Wait {
        /// The group
        id: u64,
        /// Stop waiting after this time, such as 10m; the jobs continue
        #[arg(long, value_name = "SPAN")]
        timeout: Option<Span>,
    },
}

/// Arguments of `group create`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  jobhall group create --name nightly --from jobs.jsonl --wait
  jobhall group create --owner ci --tag main        an empty group, for `job submit --group`")]
pub struct CreateArgs {
    /// Name of the group
    #[arg(long)]
    pub name: Option<String>,
    /// Owner
    #[arg(long)]
    pub owner: Option<String>,
    /// Tag for filtering (repeatable)
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
    /// File with one job per line, or - for standard input; the group is closed after them
    #[arg(long, value_name = "FILE.jsonl")]
    pub from: Option<String>,
    /// If a job with the key of one of them is pending [default: join if the params are the same, else exit with 6];
    /// see `jobhall job submit --help`
    #[arg(long, value_name = "WHAT", requires = "from")]
    pub on_duplicate: Option<Duplicate>,
    /// Leave the group open for more jobs
    #[arg(long, requires = "from", conflicts_with = "wait")]
    pub open: bool,
    /// Wait until it has ended; the exit code reports its outcome
    #[arg(long, requires = "from")]
    pub wait: bool,
    /// Makes it safe to repeat the command after a lost reply [default: a random one]
    #[arg(long, value_name = "TEXT")]
    pub idempotency_key: Option<String>,
}

pub async fn run(context: &Context, command: &GroupCommand) -> Outcome {
    let client = context.client()?;
    let group = match command {
        GroupCommand::Create(args) => return create(context, &client, args).await,
        GroupCommand::List { tag, owner, limit } => {
            return list(context, &client, tag.as_deref(), owner.as_deref(), *limit).await;
        }
        GroupCommand::Wait { id, timeout } => return wait(context, &client, *id, *timeout).await,
        GroupCommand::Retry { id, wait } => return retry(context, &client, *id, *wait).await,
        GroupCommand::Show { id } => client.group(*id).await.map_err(unseen)?,
        GroupCommand::Close { id } => client.close_group(*id).await.map_err(unseen)?,
        GroupCommand::Cancel { id, reason, fail } => {
            let error = reason.clone().map(|reason| jobhall_protocol::Failure {
                reason,
                explanation: String::new(),
                data: None,
            });
            client.cancel_group(*id, &CancelGroup { error, fails: *fail }).await.map_err(unseen)?
        }
    };
    context.output.one(&group, || told(&group, now_ms()))?;
    Ok(Exit::Ok)
}

/// Creates the group first and then submits its jobs in batches, so the file can have any length.
async fn create(context: &Context, client: &Client, args: &CreateArgs) -> Outcome {
    let key = args.idempotency_key.clone().unwrap_or_else(random_key);
    let lines = args.from.as_deref().map(|from| batches::read(from, args.on_duplicate)).transpose()?;
    let CreateArgs { name, owner, tags, .. } = args;
    let (name, owner, tags) = (name.clone(), owner.clone(), tags.clone());
    let asked = CreateGroup { name, owner, tags, ..CreateGroup::default() };
    let mut group = client.create_group(&asked, Some(&key)).await?;
    let mut refused = None;
    if let Some(batches::Lines { mut jobs, implicit }) = lines {
        jobs.iter_mut().for_each(|job| job.group = Some(group.id));
        let submitted = batches::submit(context, client, jobs, &key).await?;
        refused = duplicate::check_many(context, &implicit, &submitted).err();
        let is_member = |one: &Submitted| ["created", "superseding"].contains(&one.disposition.as_str());
        let is_empty = !submitted.iter().any(is_member);
        group = if refused.is_some() && is_empty {
            drop_empty(client, group.id).await?
        } else if args.open {
            client.group(group.id).await?
        } else {
            client.close_group(group.id).await?
        };
    }
    if args.wait && refused.is_none() {
        context.output.say(&format!("group {} created", group.id));
        return wait(context, client, group.id, None).await;
    }
    let state = if group.state == "cancelled" { "cancelled: no job of it was submitted" } else { "created" };
    context.output.one(&group, || format!("group {} {state}", group.id))?;
    refused.map_or(Ok(Exit::Ok), Err)
}

/// Cancels a group of which every job was refused: closed, it would count as succeeded.
async fn drop_empty(client: &Client, id: u64) -> Outcome<Group> {
    let error = jobhall_protocol::Failure {
        reason: "no_jobs".to_owned(),
        explanation: "pending jobs have the keys of all its jobs".to_owned(),
        data: None,
    };
    Ok(client.cancel_group(id, &CancelGroup { error: Some(error), fails: false }).await?)
}

async fn list(
    context: &Context,
    client: &Client,
    tag: Option<&str>,
    owner: Option<&str>,
    limit: u32,
) -> Outcome {
    let groups = first_groups(client, tag, owner, limit).await?;
    if groups.is_empty() && tag.is_none() && owner.is_none() {
        context.output.say("no groups yet; create one with `jobhall group create`");
    }
    context.output.list(&groups, || table(&groups, now_ms()))?;
    Ok(Exit::Ok)
}

/// The newest of the groups with this tag and owner. A page of them may be short although there are more.
async fn first_groups(
    client: &Client,
    tag: Option<&str>,
    owner: Option<&str>,
    limit: u32,
) -> Outcome<Vec<Group>> {
    let (mut groups, mut cursor) = (Vec::new(), None);
    loop {
        let left = limit - u32::try_from(groups.len()).unwrap_or(limit);
        let page = client.groups(tag, owner, left, cursor.as_deref()).await?;
        groups.extend(page.items);
        cursor = page.next_cursor;
        if cursor.is_none() || groups.len() >= limit as usize {
            return Ok(groups);
        }
    }
}

async fn retry(context: &Context, client: &Client, id: u64, waits: bool) -> Outcome {
    let group = client.retry_group(id, Some(&random_key())).await.map_err(unseen)?;
    if waits {
        context.output.say(&format!("group {} created", group.id));
        return wait(context, client, group.id, None).await;
    }
    context.output.one(&group, || told(&group, now_ms()))?;
    Ok(Exit::Ok)
}

async fn wait(context: &Context, client: &Client, id: u64, timeout: Option<Span>) -> Outcome {
    let ended = until_interrupted(ended(context, client, id, timeout)).await?;
    context.output.one(&ended, || told(&ended, now_ms()))?;
    Ok(verdict(&ended))
}

async fn ended(context: &Context, client: &Client, id: u64, timeout: Option<Span>) -> Outcome<Group> {
    let (mut follow, mut last) = (client.follow_group(id), None);
    let mut progress = context.output.progress(0, "waiting");
    let all = async {
        while let Some(group) = follow.next().await.map_err(unseen)? {
            progress.grow(group.counts.total);
            progress.set(group.counts.completed(), &failures(&group));
            last = Some(group);
        }
        Ok::<_, Failure>(())
    };
    let ended = match timeout {
        Some(span) => tokio::time::timeout(Duration::from_millis(span.0), all).await,
        None => Ok(all.await),
    };
    progress.finish();
    match (ended, last) {
        (Ok(all), last) => {
            all?;
            last.ok_or_else(|| {
                Failure::new(Exit::Unexpected, format!("the event stream ended before group {id} did"))
            })
        }
        (Err(_), last) => Err(late(id, last.as_ref())),
    }
}

fn late(id: u64, last: Option<&Group>) -> Failure {
    let failure = Failure::new(Exit::TimedOut, format!("group {id} has not ended within the timeout"));
    match last {
        Some(group) if !group.closed => {
            failure.why("it is open for more jobs").fix(format!("close it with `jobhall group close {id}`"))
        }
        Some(group) => failure
            .why(format!("{} of its jobs are pending, {} active", group.counts.pending, group.counts.active))
            .fix(format!("see `jobhall job list --group {id}`")),
        None => failure,
    }
}

fn unseen(error: ClientError) -> Failure {
    let unknown = error.code() == Some(Code::NotFound);
    let failure = Failure::from(error);
    if unknown { failure.fix("list the groups with `jobhall group list`") } else { failure }
}

fn verdict(group: &Group) -> Exit {
    match group.state.as_str() {
        "succeeded" => Exit::Ok,
        "cancelled" => Exit::Cancelled,
        _ => Exit::Failed,
    }
}

fn failures(group: &Group) -> String {
    match group.counts.failed + group.counts.crashed {
        0 => String::new(),
        failed => format!("{failed} failed"),
    }
}

fn table(groups: &[Group], now_ms: i64) -> Table {
    let headings = ["ID", "STATE", "~NAME", "~OWNER", "JOBS", "COMPLETED", "FAILED", "AGE"];
    let mut table = Table::new(&headings);
    for group in groups {
        table.row([
            group.id.to_string().into(),
            state::cell(&group.state),
            group.name.as_deref().unwrap_or("").into(),
            group.owner.as_deref().unwrap_or("").into(),
            group.counts.total.to_string().into(),
            group.counts.completed().to_string().into(),
            (group.counts.failed + group.counts.crashed).to_string().into(),
            age(group.created_at, now_ms).into(),
        ]);
    }
    table
}

fn told(group: &Group, now_ms: i64) -> String {
    let counts = &group.counts;
    let standing = [
        ("pending", counts.pending),
        ("active", counts.active),
        ("succeeded", counts.succeeded),
        ("failed", counts.failed),
        ("crashed", counts.crashed),
        ("cancelled", counts.cancelled),
    ];
    let standing: Vec<_> =
        standing.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{n} {name}")).collect();
    let jobs = match standing.is_empty() {
        true => counts.total.to_string(),
        false => format!("{}: {}", counts.total, standing.join(", ")),
    };
    let facts = [
        ("group", Some(group.id.to_string())),
        ("state", Some(state::text(&group.state))),
        ("name", group.name.as_deref().map(clean)),
        ("owner", group.owner.as_deref().map(clean)),
        ("tags", Some(clean(&group.tags.join(", "))).filter(|tags| !tags.is_empty())),
        ("jobs", Some(jobs)),
        ("closed", Some(if group.closed { "yes" } else { "no, it accepts more jobs" }.to_owned())),
        ("cancelled", group.error.as_ref().map(why).map(|why| clean(&why))),
        ("retry of", group.retry_of.map(|id| id.to_string())),
        ("created", Some(format!("{} ({} ago)", group.created_at, age(group.created_at, now_ms)))),
        ("completed", group.completed_at.map(|at| format!("{at} ({} ago)", age(at, now_ms)))),
    ];
    facts.into_iter().filter_map(|(name, value)| Some(format!("{name:<10} {}\n", value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(state: &str) -> Group {
        let at = "2026-11-15T09:43:00.250Z";
        let counts = serde_json::json!({"total": 7, "pending": 1, "active": 0, "succeeded": 3, "failed": 2,
            "crashed": 1, "cancelled": 0});
        let group = serde_json::json!({"id": 9, "name": "night\nly", "owner": null, "tags": ["a", "b"],
            "state": state, "closed": false, "cancel_requested": false, "counts": counts, "retry_of": 3,
            "created_at": at, "completed_at": null});
        serde_json::from_value(group).unwrap()
    }

    #[test]
    fn a_group_is_told_with_how_its_members_stand() {
        let group = group("running");
        let text = told(&group, group.created_at.0.as_ms() + 60_000);
        for line in [
            "jobs       7: 1 pending, 3 succeeded, 2 failed, 1 crashed",
            "closed     no, it accepts more jobs",
            "name       night ly",
            "tags       a, b",
            "retry of   3",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert_eq!(failures(&group), "3 failed");
        assert!(table(&[group], 0).render(None).contains("night ly"));
    }

    #[test]
    fn the_exit_code_is_the_verdict() {
        let exits = ["succeeded", "failed", "cancelled"].map(|state| verdict(&group(state)).code());
        assert_eq!(exits, [0, 100, 101]);
    }

    #[test]
    fn whoever_waits_too_long_hears_what_to_do() {
        let open = late(9, Some(&group("running")));
        assert_eq!(open.fix.unwrap(), "close it with `jobhall group close 9`");
        let closed = late(9, Some(&Group { closed: true, ..group("running") }));
        assert_eq!(closed.why.unwrap(), "1 of its jobs are pending, 0 active");
    }
}
