//! `jobhall nodes`: the server processes of the hall.

use clap::Args;
use jobhall_protocol::Node;

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::output::human::{age, now_ms};
use crate::output::table::Table;

const EXAMPLES: &str = "\
Examples:
  jobhall nodes
  jobhall nodes --json --fields name,role";

/// Arguments of `nodes`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct NodesArgs {}

pub async fn run(context: &Context) -> Outcome {
    let nodes = context.client()?.nodes().await?;
    context.output.list(&nodes, || table(&nodes))?;
    Ok(Exit::Ok)
}

fn table(nodes: &[Node]) -> Table {
    let now = now_ms();
    let mut table = Table::new(&["NAME", "ROLE", "URL", "~VERSION", "~SEEN"]);
    for node in nodes {
        table.row([
            (&node.name).into(),
            node.role.as_str().into(),
            (&node.url).into(),
            (&node.version).into(),
            format!("{} ago", age(node.seen_at, now)).into(),
        ]);
    }
    table
}
