//! Engine methods that configure types, queues and schedules.

use std::sync::Arc;

use jobhall_core::{QueueConfig, QueueName, ScheduleName, Submitted, TypeConfig, TypeName};

use super::{Engine, gone};
use jobhall_kernel::{HallRequest, Rejected, TypedRequest};
use jobhall_kernel::{ScheduleConfig, ShownSchedule};

impl Engine {
    /// The configuration of every known type: name, revision, content.
    pub async fn types(&self) -> Result<Vec<(TypeName, u32, TypeConfig)>, Rejected> {
        self.ask(|to| TypedRequest::Hall(HallRequest::Types { to })).await
    }

    /// Configures a type, or removes its configuration; returns the new revision. See [`HallRequest::SetType`].
    pub async fn set_type(
        &self,
        job_type: TypeName,
        config: Option<TypeConfig>,
        expected: Option<u32>,
    ) -> Result<u32, Rejected> {
        self.ask(move |to| TypedRequest::Hall(HallRequest::SetType { job_type, config, expected, to })).await
    }

    /// All schedules, by name.
    pub async fn schedules(&self) -> Result<Vec<ShownSchedule>, Rejected> {
        self.ask(|to| TypedRequest::Hall(HallRequest::Schedules { to })).await
    }

    /// Creates, changes or removes a schedule; returns the new version. See [`HallRequest::SetSchedule`].
    pub async fn set_schedule(
        &self,
        name: ScheduleName,
        config: Option<Arc<ScheduleConfig>>,
        expected: Option<u32>,
    ) -> Result<u32, Rejected> {
        self.ask(move |to| TypedRequest::Hall(HallRequest::SetSchedule { name, config, expected, to })).await
    }

    /// Creates the job of a schedule now.
    pub async fn run_schedule(&self, name: ScheduleName) -> Result<Submitted, Rejected> {
        let submitted = self.ask(|to| TypedRequest::Hall(HallRequest::RunSchedule { name, to })).await?;
        submitted.first().copied().ok_or_else(gone)
    }

    /// The configuration of every configured queue: name, revision, content.
    pub async fn queue_configs(&self) -> Result<Vec<(QueueName, u32, QueueConfig)>, Rejected> {
        self.ask(|to| TypedRequest::Hall(HallRequest::QueueConfigs { to })).await
    }

    /// Configures a queue, or removes its configuration; returns the new revision. See [`HallRequest::SetQueue`].
    pub async fn set_queue(
        &self,
        queue: QueueName,
        config: Option<QueueConfig>,
        expected: Option<u32>,
    ) -> Result<u32, Rejected> {
        self.ask(move |to| TypedRequest::Hall(HallRequest::SetQueue { queue, config, expected, to })).await
    }
}
