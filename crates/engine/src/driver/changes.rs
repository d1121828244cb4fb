//! What people configure, and what they change about jobs that wait, through the engine.

use std::sync::Arc;

use jobhall_core::{JobId, QueueConfig, QueueName, ScheduleName, StateName, Submitted, TypeConfig, TypeName};

use super::{Engine, gone, unexpected};
use crate::answer::{Answer, Rejected};
use crate::edit::Edit;
use crate::request::Request;
use crate::schedules::{ScheduleConfig, ShownSchedule};

impl Engine {
    /// What is configured for every type that is known: name, rev, content.
    pub async fn types(&self) -> Result<Vec<(TypeName, u32, TypeConfig)>, Rejected> {
        match self.ask(Request::Types).await? {
            Answer::Types(types) => Ok(types),
            other => Err(unexpected(&other)),
        }
    }

    /// Configures a type, or forgets its configuration; the rev it has then. See [`Request::SetType`].
    pub async fn set_type(
        &self,
        job_type: TypeName,
        config: Option<TypeConfig>,
        expected: Option<u32>,
    ) -> Result<u32, Rejected> {
        match self.ask(Request::SetType { job_type, config, expected }).await? {
            Answer::Rev(rev) => Ok(rev),
            other => Err(unexpected(&other)),
        }
    }

    /// All schedules, by name.
    pub async fn schedules(&self) -> Result<Vec<ShownSchedule>, Rejected> {
        match self.ask(Request::Schedules).await? {
            Answer::Schedules(schedules) => Ok(schedules),
            other => Err(unexpected(&other)),
        }
    }

    /// Makes, changes or removes a schedule; the version it has then. See [`Request::SetSchedule`].
    pub async fn set_schedule(
        &self,
        name: ScheduleName,
        config: Option<Arc<ScheduleConfig>>,
        expected: Option<u32>,
    ) -> Result<u32, Rejected> {
        match self.ask(Request::SetSchedule { name, config, expected }).await? {
            Answer::Rev(version) => Ok(version),
            other => Err(unexpected(&other)),
        }
    }

    /// Makes the job of a schedule now.
    pub async fn run_schedule(&self, name: ScheduleName) -> Result<Submitted, Rejected> {
        match self.ask(Request::RunSchedule(name)).await? {
            Answer::Submitted(submitted) => submitted.first().copied().ok_or_else(gone),
            other => Err(unexpected(&other)),
        }
    }

    /// What is configured for every queue that someone configured: name, rev, content.
    pub async fn queue_configs(&self) -> Result<Vec<(QueueName, u32, QueueConfig)>, Rejected> {
        match self.ask(Request::QueueConfigs).await? {
            Answer::QueueConfigs(configs) => Ok(configs),
            other => Err(unexpected(&other)),
        }
    }

    /// Configures a queue, or forgets its configuration; the rev it has then. See [`Request::SetQueue`].
    pub async fn set_queue(
        &self,
        queue: QueueName,
        config: Option<QueueConfig>,
        expected: Option<u32>,
    ) -> Result<u32, Rejected> {
        match self.ask(Request::SetQueue { queue, config, expected }).await? {
            Answer::Rev(rev) => Ok(rev),
            other => Err(unexpected(&other)),
        }
    }

    /// Changes a job that no worker has.
    pub async fn edit(&self, id: JobId, edit: Edit) -> Result<StateName, Rejected> {
        self.state_after(Request::Edit { id, edit: Box::new(edit) }).await
    }

    /// Has a job run at once. See [`Request::RunNow`].
    pub async fn run_now(&self, id: JobId) -> Result<StateName, Rejected> {
        self.state_after(Request::RunNow(id)).await
    }

    /// Keeps a job from being claimed.
    pub async fn hold(&self, id: JobId) -> Result<StateName, Rejected> {
        self.state_after(Request::Hold(id)).await
    }

    /// Keeps it no longer.
    pub async fn release(&self, id: JobId) -> Result<StateName, Rejected> {
        self.state_after(Request::Release(id)).await
    }

    async fn state_after(&self, request: Request) -> Result<StateName, Rejected> {
        match self.ask(request).await? {
            Answer::State(state) => Ok(state),
            other => Err(unexpected(&other)),
        }
    }
}
