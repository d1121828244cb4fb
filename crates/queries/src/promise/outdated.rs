//! Steps whose command has changed since they were planned. The version is part of the key of a value, so such a step runs
//! the version that it was planned with or does not run: it ends as [`VERSION_CHANGED`], and the query is planned again.

use std::collections::HashSet;

use jobhall_core::{Failure, Job, JobId};
use jobhall_engine::Rejected;

use crate::promise::{CHAIN, Shared, params};
use crate::{Ended, EndedHow, Error, Queries};

/// The reason of a step whose check had another answer after it ran: its value is that of neither.
pub const CHECK_CHANGED: &str = "check_changed";
/// The reason of a step that did not run because a file of its command has changed since the query was planned.
pub const VERSION_CHANGED: &str = "version_changed";

impl Ended {
    /// Whether a step has no value because its command has changed, or the data that its check speaks of. The next request
    /// plans what is there now.
    #[must_use]
    pub fn is_outdated(&self) -> bool {
        let reasons = [VERSION_CHANGED, CHECK_CHANGED];
        matches!(&self.how, EndedHow::Failure { failure, .. } if reasons.contains(&failure.reason.as_str()))
    }
}

impl Queries {
    /// Looks at all promises that are waited for: the versions of commands have changed.
    pub(crate) fn look_again(&self) {
        let shared = self.0.promises.shared.clone();
        tokio::spawn(async move { shared.look_at_all().await });
    }
}

impl Shared {
    /// Cancels a step that this promise waits for if it has not begun and its command has another version by now. The
    /// workers with the version it was planned with are about to have another one.
    pub(crate) async fn cancel_outdated(&self, promise: JobId) -> Result<(), Error> {
        let (mut open, mut seen) = (vec![promise], HashSet::from([promise]));
        while let Some(id) = open.pop() {
            let job = match self.job(id).await {
                Ok(job) => job,
                Err(Error::NoSuchPromise(_)) => continue,
                Err(error) => return Err(error),
            };
            if job.status.state.is_terminal() || job.status.state.leased().is_some() {
                continue;
            }
            if let Some(command) = self.outdated(&job).await? {
                let why = format!("{command} has another version since this query was planned");
                return match self.engine.cancel(id, Failure::new(VERSION_CHANGED, &why)).await {
                    Ok(_) | Err(Rejected::NoSuchJob(_) | Rejected::Event(_)) => Ok(()),
                    Err(refused) => Err(refused.into()),
                };
            }
            let inputs = job.spec.after.iter().copied().filter(|input| seen.insert(*input));
            open.extend(inputs.take(CHAIN));
            if seen.len() > CHAIN {
                break;
            }
        }
        Ok(())
    }

    /// A command of a job that is current in another version.
    async fn outdated(&self, job: &Job) -> Result<Option<String>, Error> {
        let known = self.registry.known().await?;
        let other = params(job)?.steps.into_iter().find(|step| {
            known.commands.get(&step.command).is_some_and(|current| current.version != step.version)
        });
        Ok(other.map(|step| step.command.to_string()))
    }
}
