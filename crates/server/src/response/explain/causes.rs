//! The ended jobs that ended a job: its failed dependency, the failed dependency of that one, and so on.

use jobhall_core::JobId;
use jobhall_engine::{EndWhy, Explanation, Why};

use crate::auth::tokens::Identity;
use crate::error::ApiError;
use crate::server::app::App;

/// Maximum number of jobs that are read.
const CHAIN: usize = 20;

/// The jobs from the nearest to the first that failed, as far as the identity may see them.
pub(crate) async fn causes(
    app: &App,
    who: &Identity,
    explanation: &Explanation,
) -> Result<Vec<(JobId, EndWhy)>, ApiError> {
    let mut next = explanation.why.iter().find_map(|why| match why {
        Why::Ended(ended) => ended.dependency,
        _ => None,
    });
    let mut causes = Vec::new();
    while let Some(id) = next.filter(|_| causes.len() < CHAIN) {
        let job = app.store.jobs(vec![id]).await?.into_iter().flatten().next();
        let Some(ended) = job.filter(|job| who.sees(job)).and_then(|job| EndWhy::of(&job)) else { break };
        next = ended.dependency;
        causes.push((id, ended));
    }
    Ok(causes)
}
