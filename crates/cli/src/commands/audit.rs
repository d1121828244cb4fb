//! `jobhall audit`: the audit log.

use clap::Args;
use jobhall_protocol::Act;

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::output::table::Table;

const EXAMPLES: &str = "\
Examples:
  jobhall audit
  jobhall audit --limit 500 --json";

/// Maximum number of entries per request.
const PAGE: usize = 500;

/// Arguments of `audit`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct AuditArgs {
    /// Maximum number of entries, newest first
    #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub limit: u32,
}

pub async fn run(context: &Context, args: &AuditArgs) -> Outcome {
    let client = context.client()?;
    let wanted = args.limit as usize;
    let (mut acts, mut cursor) = (Vec::new(), None::<String>);
    while acts.len() < wanted {
        let page = client.audit(PAGE.min(wanted - acts.len()), cursor.as_deref()).await?;
        acts.extend(page.items);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    context.output.list(&acts, || table(&acts))?;
    Ok(Exit::Ok)
}

fn table(acts: &[Act]) -> Table {
    let mut table = Table::new(&["AT", "WHO", "ACT", "SUBJECT", "~DETAIL"]);
    for act in acts {
        table.row([
            act.at.to_string().into(),
            (&act.who).into(),
            (&act.act).into(),
            (&act.subject).into(),
            (&act.detail).into(),
        ]);
    }
    table
}
