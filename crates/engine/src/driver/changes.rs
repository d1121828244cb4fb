//! What people change about queues and about jobs that wait, through the engine.

use jobhall_core::{JobId, QueueConfig, QueueName, StateName};

use super::{Engine, unexpected};
use crate::answer::{Answer, Refused};
use crate::edit::Edit;
use crate::request::Request;

impl Engine {
    /// What is configured for every queue that someone configured: name, rev, content.
    pub async fn queue_configs(&self) -> Result<Vec<(QueueName, u32, QueueConfig)>, Refused> {
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
    ) -> Result<u32, Refused> {
        match self.ask(Request::SetQueue { queue, config, expected }).await? {
            Answer::Rev(rev) => Ok(rev),
            other => Err(unexpected(&other)),
        }
    }

    /// Changes a job that no worker has.
    pub async fn edit(&self, id: JobId, edit: Edit) -> Result<StateName, Refused> {
        self.state_after(Request::Edit { id, edit: Box::new(edit) }).await
    }

    /// Has a job run at once. See [`Request::RunNow`].
    pub async fn run_now(&self, id: JobId) -> Result<StateName, Refused> {
        self.state_after(Request::RunNow(id)).await
    }

    /// Keeps a job from being claimed.
    pub async fn hold(&self, id: JobId) -> Result<StateName, Refused> {
        self.state_after(Request::Hold(id)).await
    }

    /// Keeps it no longer.
    pub async fn release(&self, id: JobId) -> Result<StateName, Refused> {
        self.state_after(Request::Release(id)).await
    }

    async fn state_after(&self, request: Request) -> Result<StateName, Refused> {
        match self.ask(request).await? {
            Answer::State(state) => Ok(state),
            other => Err(unexpected(&other)),
        }
    }
}
