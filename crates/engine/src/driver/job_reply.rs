//! Requests whose answer is the job that they change: once the request is answered, the driver asks for the job in the
//! same step, so the caller waits for one trip.

use jobhall_core::{Failure, JobId, Report, StateName, Submitted};
use jobhall_kernel::{
    Edit, HallRequest, IdempotencyKey, JobRequest, Rejected, Reply, Shown, Submit, Ticket, TypedRequest,
};
use tokio::sync::oneshot;

use super::{Command, Driver, Engine, gone};

type ShownSender = oneshot::Sender<Result<Shown, Rejected>>;

impl Engine {
    /// Submits one job, and returns it as it is then.
    pub async fn submit_shown(&self, submit: Submit) -> Result<(Submitted, Shown), Rejected> {
        let submitted = self.ask_submitted(|to| TypedRequest::Hall(HallRequest::Submit { submit, to })).await;
        match submitted {
            Err(refused) => Err(self.ended_or_none(refused).await),
            submitted => submitted,
        }
    }

    /// Submits a new job that repeats this completed one, and returns it as it is then.
    pub async fn retry(
        &self,
        id: JobId,
        name: Option<IdempotencyKey>,
    ) -> Result<(Submitted, Shown), Rejected> {
        self.ask_submitted(move |to| TypedRequest::Job(id, JobRequest::Retry { name, to })).await
    }

    /// Cancels a job, and returns it as it is then.
    pub async fn cancel(&self, id: JobId, failure: Failure) -> Result<Shown, Rejected> {
        self.change(id, |to| JobRequest::Cancel { failure, to }).await
    }

    /// Changes a job that no worker holds, and returns it as it is then.
    pub async fn edit(&self, id: JobId, edit: Edit) -> Result<Shown, Rejected> {
        self.change(id, |to| JobRequest::Edit { edit: Box::new(edit), to }).await
    }

    /// Runs a job immediately. See [`JobRequest::RunNow`].
    pub async fn run_now(&self, id: JobId) -> Result<Shown, Rejected> {
        self.change(id, |to| JobRequest::RunNow { to }).await
    }

    /// Holds a job: it is not claimed.
    pub async fn hold(&self, id: JobId) -> Result<Shown, Rejected> {
        self.change(id, |to| JobRequest::Hold { to }).await
    }

    /// Releases a held job.
    pub async fn release(&self, id: JobId) -> Result<Shown, Rejected> {
        self.change(id, |to| JobRequest::Release { to }).await
    }

    /// Reports from outside the outcome of work that continues there, and returns the job as it is then.
    pub async fn complete(&self, id: JobId, attempt: Option<u32>, report: Report) -> Result<Shown, Rejected> {
        self.change(id, move |to| JobRequest::Complete { attempt, report, to }).await
    }

    /// Changes a job, and returns it as it is then.
    async fn change(
        &self,
        id: JobId,
        request: impl FnOnce(Ticket<StateName>) -> JobRequest + Send + 'static,
    ) -> Result<Shown, Rejected> {
        self.ask_then_show(move |to| TypedRequest::Job(id, request(to)), move |_| Some(id)).await
    }

    /// Sends a request that submits one job. The answer comes with the job, in one trip.
    async fn ask_submitted(
        &self,
        request: impl FnOnce(Ticket<Vec<Submitted>>) -> TypedRequest + Send + 'static,
    ) -> Result<(Submitted, Shown), Rejected> {
        let (how, first) = oneshot::channel();
        let shown = self.ask_then_show(request, |submitted: Vec<Submitted>| {
            let submitted = submitted.first().copied()?;
            let _ = how.send(submitted);
            Some(submitted.id)
        });
        let shown = shown.await?;
        Ok((first.await.map_err(|_| gone())?, shown))
    }

    /// Sends a request, and then one for the job that its answer names.
    async fn ask_then_show<T: Reply>(
        &self,
        request: impl FnOnce(Ticket<T>) -> TypedRequest + Send + 'static,
        job: impl FnOnce(T) -> Option<JobId> + Send + 'static,
    ) -> Result<Shown, Rejected> {
        let (to, answer) = oneshot::channel();
        let then = |driver: &mut Driver, result: Result<T, Rejected>| match result {
            Ok(answer) => driver.show_to(job(answer), to),
            Err(refused) => drop(to.send(Err(refused))),
        };
        self.send(Command::Ask(Box::new(|driver, now| driver.ask(now, request, Box::new(then))))).await?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }
}

impl Driver {
    fn show_to(&mut self, job: Option<JobId>, to: ShownSender) {
        // Without a job there is nothing to show: the caller learns that it gets no answer.
        let Some(id) = job else { return };
        let show = |to| TypedRequest::Job(id, JobRequest::Show { to });
        // The caller may have given up meanwhile.
        let waiter =
            |_: &mut Driver, shown: Result<Box<Shown>, Rejected>| drop(to.send(shown.map(|shown| *shown)));
        self.ask(self.clock.now(), show, Box::new(waiter));
    }
}
