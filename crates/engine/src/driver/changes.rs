//! Engine methods that configure types, queues and schedules, and that change waiting jobs.

use std::sync::Arc;

use jobhall_core::{JobId, QueueConfig, QueueName, ScheduleName, Submitted, TypeConfig, TypeName};

use super::{Engine, gone, unexpected};
use jobhall_kernel::Edit;
use jobhall_kernel::{Answer, Rejected};
use jobhall_kernel::{Request, Shown};
use jobhall_kernel::{ScheduleConfig, ShownSchedule};

impl Engine {
    /// The configuration of every known type: name, revision, content.
    pub async fn types(&self) -> Result<Vec<(TypeName, u32, TypeConfig)>, Rejected> {
        match self.ask(Request::Types).await? {
            Answer::Types(types) => Ok(types),
            other => Err(unexpected(&other)),
        }
    }

    /// Configures a type, or removes its configuration; returns the new revision. See [`Request::SetType`].
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

    /// Creates, changes or removes a schedule; returns the new version. See [`Request::SetSchedule`].
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

    /// Creates the job of a schedule now.
    pub async fn run_schedule(&self, name: ScheduleName) -> Result<Submitted, Rejected> {
        match self.ask(Request::RunSchedule(name)).await? {
            Answer::Submitted(submitted) => submitted.first().copied().ok_or_else(gone),
            other => Err(unexpected(&other)),
        }
    }

    /// The configuration of every configured queue: name, revision, content.
    pub async fn queue_configs(&self) -> Result<Vec<(QueueName, u32, QueueConfig)>, Rejected> {
        match self.ask(Request::QueueConfigs).await? {
            Answer::QueueConfigs(configs) => Ok(configs),
            other => Err(unexpected(&other)),
        }
    }

    /// Configures a queue, or removes its configuration; returns the new revision. See [`Request::SetQueue`].
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

    /// Changes a job that no worker holds, and returns it as it is then.
    pub async fn edit(&self, id: JobId, edit: Edit) -> Result<Shown, Rejected> {
        self.change(id, Request::Edit { id, edit: Box::new(edit) }).await
    }

    /// Runs a job immediately. See [`Request::RunNow`].
    pub async fn run_now(&self, id: JobId) -> Result<Shown, Rejected> {
        self.change(id, Request::RunNow(id)).await
    }

    /// Holds a job: it is not claimed.
    pub async fn hold(&self, id: JobId) -> Result<Shown, Rejected> {
        self.change(id, Request::Hold(id)).await
    }

    /// Releases a held job.
    pub async fn release(&self, id: JobId) -> Result<Shown, Rejected> {
        self.change(id, Request::Release(id)).await
    }
}
