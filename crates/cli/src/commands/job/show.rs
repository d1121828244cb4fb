//! `jobhall job show` and `jobhall job explain`.

use clap::Args;
use jobhall_protocol::Explanation;

use crate::commands::job::about;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::output::table::clean;
use crate::output::{human, state};

/// Arguments of `job show`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  jobhall job show 17\n  jobhall job show 17 --fields state,result")]
pub struct ShowArgs {
    /// The job
    pub id: u64,
}

pub async fn run(context: &Context, args: &ShowArgs) -> Outcome {
    let job = context.client()?.job(args.id).await.map_err(|error| about(args.id, error))?;
    context.output.one(&job, || human::job(&job, human::now_ms()))?;
    Ok(Exit::Ok)
}

/// Arguments of `job explain`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  jobhall job explain 17\n  jobhall job explain 17 --json")]
pub struct ExplainArgs {
    /// The job
    pub id: u64,
}

/// Explains why a job is not running.
pub async fn explain(context: &Context, args: &ExplainArgs) -> Outcome {
    let explanation = context.client()?.explain(args.id).await.map_err(|error| about(args.id, error))?;
    context.output.one(&explanation, || told(&explanation))?;
    Ok(Exit::Ok)
}

fn told(explanation: &Explanation) -> String {
    let reasons = explanation.reasons.iter().map(|reason| {
        let lines: Vec<String> = reason.text.lines().map(|line| clean(line.trim())).collect();
        let fix = reason.fix.as_ref().map_or(String::new(), |fix| format!("\n    fix: {}", clean(fix)));
        format!("  - {}{fix}\n", lines.join("\n    "))
    });
    format!("job {} is {}\n{}", explanation.id, state::text(&explanation.state), reasons.collect::<String>())
}
