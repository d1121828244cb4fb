//! `jobhall events`: a live stream of events.

use clap::Args;
use jobhall_client::Event;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::commands::until_interrupted;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::output::table::clean;
use crate::output::{Format, state};

const EXAMPLES: &str = "\
Examples:
  jobhall events
  jobhall events --job 17
  jobhall events --jsonl --after 1042      continue after that event";

/// Arguments of `events`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct EventsArgs {
    /// Only events of this job
    #[arg(long, value_name = "ID")]
    pub job: Option<u64>,
    /// Only events of the jobs of this group
    #[arg(long, value_name = "ID", conflicts_with = "job")]
    pub group: Option<u64>,
    /// Continue after the event with this id
    #[arg(long, value_name = "EVENT")]
    pub after: Option<String>,
}

/// An event as a line of JSON.
#[derive(Debug, Serialize)]
struct Line<'a> {
    id: &'a str,
    event: &'a str,
    data: Option<Box<RawValue>>,
}

/// Prints events until the stream ends or Ctrl-C.
pub async fn run(context: &Context, args: &EventsArgs) -> Outcome {
    let (client, after) = (context.client()?, args.after.as_deref());
    let mut events = match args.group {
        Some(group) => client.group_events(group, after),
        None => client.events(args.job, after),
    };
    let watch = async {
        while let Some(event) = events.next().await? {
            print(context, &event)?;
        }
        Ok(Exit::Ok)
    };
    until_interrupted(watch).await
}

fn print(context: &Context, event: &Event) -> Outcome<()> {
    if context.output.format == Format::Human && context.output.fields.is_empty() {
        return context.output.line(&told(event));
    }
    let data = serde_json::from_str(&event.data).ok();
    let data = data.or_else(|| serde_json::value::to_raw_value(&event.data).ok());
    context.output.each(&Line { id: &event.id, event: &event.name, data })
}

/// A change of a job or group as text; any other event unchanged.
fn told(event: &Event) -> String {
    match serde_json::from_str::<jobhall_protocol::Change>(&event.data) {
        Ok(change) => {
            let (kind, state) = (clean(&event.name), state::text(&clean(&change.state)));
            format!("{:>10}  {kind} {}  {state}", event.id, change.id)
        }
        Err(_) => format!("{:>10}  {}  {}", event.id, clean(&event.name), clean(&event.data)),
    }
}
