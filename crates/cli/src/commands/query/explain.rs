//! `jobhall query --explain`: how a query would be answered. Nothing runs.

use jobhall_client::{Client, ClientError};
use jobhall_protocol::{QueryCheck, QueryPlan, QueryStep};

use crate::output::human;
use crate::output::table::Table;

/// How the steps would be answered, for people.
pub fn table(plan: &QueryPlan) -> Table {
    let mut table = Table::new(&["STEP", "ANSWER", "JOB", "~WHY"]);
    for step in &plan.steps {
        let job = step.job.map_or_else(String::new, |job| job.to_string());
        table.row([
            format!("{}@{}", step.command, step.version).into(),
            answer(step).into(),
            job.into(),
            why(step).into(),
        ]);
    }
    table
}

/// Why it is missing, and what its check has answered.
fn why(step: &QueryStep) -> String {
    let check = step.check.as_ref().map(check);
    step.why.iter().cloned().chain(check).collect::<Vec<_>>().join("; ")
}

fn check(check: &QueryCheck) -> String {
    let ms = |ms: Option<u64>| human::length(ms.unwrap_or(0).cast_signed());
    match (&check.answer, &check.error) {
        (_, Some(error)) => format!("its check failed {} ago: {error}", ms(check.age_ms)),
        (Some(answer), None) => {
            let took = check.took_ms.unwrap_or(0);
            format!("its check answered {answer:?} {} ago, in {took} ms", ms(check.age_ms))
        }
        (None, None) => "its check has not been run".to_owned(),
    }
}

fn answer(step: &QueryStep) -> String {
    match (step.cache.as_str(), step.age_s) {
        ("hit", Some(age)) => format!("hit, made {} ago", human::length(age.cast_signed() * 1_000)),
        ("joined", _) => format!("pending: {}", step.state.as_deref().unwrap_or_default()),
        ("missing", _) if step.workers.is_empty() => "would run; no connected worker has it".to_owned(),
        ("missing", _) => format!("would run on {}", step.workers.join(", ")),
        ("not_needed", _) => "not needed".to_owned(),
        (other, _) => other.to_owned(),
    }
}

/// Whether the value of a query is stored.
pub async fn is_cached(client: &Client, canonical: &str) -> Result<bool, ClientError> {
    let plan = client.explain_query(canonical).await?;
    Ok(plan.steps.last().is_some_and(|last| last.cache == "hit"))
}
