//! Requests whose answer is the job that they change: once the request is answered, the driver asks for the job in the
//! same step, so the caller waits for one trip.

use jobhall_core::{JobId, Submitted};
use jobhall_kernel::{Answer, Rejected, Request, Shown, Ticket};
use tokio::sync::oneshot;

use super::{Driver, Reply, unexpected};

/// The job after the request, and how it was submitted if the request submits one.
pub(super) type Changed = (Option<Submitted>, Shown);

/// The destination of such an answer.
pub(super) struct JobReply {
    pub to: oneshot::Sender<Result<Changed, Rejected>>,
    /// The job; none until it is submitted.
    pub job: Option<JobId>,
    pub submitted: Option<Submitted>,
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
