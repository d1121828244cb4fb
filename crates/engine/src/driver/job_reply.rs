//! Requests whose answer is the job that they change: once the request is answered, the driver asks for the job in the
//! same step, so the caller waits for one trip.

use jobhall_core::{Failure, JobId, Submitted};
use jobhall_kernel::{Answer, Rejected, Request, Shown, Submit, Ticket};
use tokio::sync::oneshot;

use super::{Command, Driver, Engine, Reply, gone, unexpected};

/// The job after the request, and how it was submitted if the request submits one.
type Changed = (Option<Submitted>, Shown);

/// The destination of such an answer.
pub(super) struct JobReply {
    pub(super) to: oneshot::Sender<Result<Changed, Rejected>>,
    /// The job; none until it is submitted.
    job: Option<JobId>,
    submitted: Option<Submitted>,
}

impl Engine {
    /// Submits one job, and returns it as it is then.
    pub async fn submit_shown(&self, submit: Submit) -> Result<(Submitted, Shown), Rejected> {
        match self.ask_job(Request::Submit(submit), None).await {
            Ok((submitted, shown)) => Ok((submitted.ok_or_else(gone)?, shown)),
            Err(refused) => Err(self.ended_or_none(refused).await),
        }
    }

    /// Cancels a job, and returns it as it is then.
    pub async fn cancel(&self, id: JobId, failure: Failure) -> Result<Shown, Rejected> {
        self.change(id, Request::Cancel { id, failure }).await
    }

    /// Submits a new job that repeats this completed one, and returns it as it is then.
    pub async fn retry(&self, id: JobId) -> Result<(Submitted, Shown), Rejected> {
        let (submitted, shown) = self.ask_job(Request::Retry { id, name: None }, None).await?;
        Ok((submitted.ok_or_else(gone)?, shown))
    }

    /// Changes a job, and returns it as it is then.
    pub(super) async fn change(&self, id: JobId, request: Request) -> Result<Shown, Rejected> {
        Ok(self.ask_job(request, Some(id)).await?.1)
    }

    /// Sends a request that changes this job or submits one. The answer comes with the job, in one trip.
    async fn ask_job(&self, request: Request, job: Option<JobId>) -> Result<Changed, Rejected> {
        let (to, answer) = oneshot::channel();
        self.send(Command::Ask(request, Reply::Job(Box::new(JobReply { to, job, submitted: None })))).await?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }
}

impl Driver {
    pub(super) fn answer_job(&mut self, mut reply: JobReply, answer: Result<Answer, Rejected>) {
        let result = match answer {
            Err(refused) => Err(refused),
            Ok(Answer::Shown(shown)) => Ok((reply.submitted, *shown)),
            Ok(answer) => {
                if let Answer::Submitted(submitted) = &answer {
                    reply.submitted = submitted.first().copied();
                    reply.job = reply.submitted.map(|submitted| submitted.id);
                }
                match reply.job {
                    Some(id) => return self.show_to(id, reply),
                    None => Err(unexpected(&answer)),
                }
            }
        };
        // The caller may have given up meanwhile.
        let _ = reply.to.send(result);
    }

    fn show_to(&mut self, id: JobId, reply: JobReply) {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.replies.insert(ticket, Reply::Job(Box::new(reply)));
        self.kernel.ask(self.clock.now(), Request::Show(id), ticket);
    }
}
