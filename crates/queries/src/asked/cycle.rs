//! Commands that wait for themselves. The kernel fails the youngest of the jobs that wait for each other, and names them
//! by their numbers; here they are named by their queries.

use jobhall_core::Failure;

use crate::Error;
use crate::promise::{Shared, params};

/// The reason of a job that the kernel has failed because it waited for itself.
const REASON: &str = "wait_cycle";
const WAITS_FOR: &str = " waits for ";

impl Shared {
    /// The failure, with the queries in the place of jobs that wait for each other.
    pub(crate) async fn with_queries(&self, failure: Failure) -> Result<Failure, Error> {
        if failure.reason != REASON {
            return Ok(failure);
        }
        let mut named = Vec::new();
        for words in failure.explanation.split(WAITS_FOR) {
            let id =
                words.strip_prefix("job ").and_then(|id| jobhall_core::JobId::new(id.parse().ok()?).ok());
            let job = match id {
                Some(id) => self.job(id).await,
                None => return Ok(failure),
            };
            named.push(match job {
                Ok(job) => params(&job)?.query,
                Err(Error::NoSuchPromise(_)) => words.to_owned(),
                Err(error) => return Err(error),
            });
        }
        Ok(Failure { explanation: named.join(WAITS_FOR), ..failure })
    }
}
