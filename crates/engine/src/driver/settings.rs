//! Engine methods that configure types, queues and schedules.

use std::sync::Arc;

use jobhall_core::{
    Application, QueueConfig, QueueName, Retention, ScheduleName, Submitted, TypeConfig, TypeName,
};

use super::{Engine, gone};
use jobhall_kernel::{HallRequest, IdempotencyKey, KnownType, Rejected, TypedRequest};
use jobhall_kernel::{ScheduleConfig, ShownSchedule};

impl Engine {
    /// Known types by name, after this one. See [`HallRequest::Types`].
    pub async fn types(&self, after: Option<TypeName>, limit: usize) -> Result<Vec<KnownType>, Rejected> {
        self.ask(move |to| TypedRequest::Hall(HallRequest::Types { after, limit, to })).await
    }

    /// The known ones among these types.
    pub async fn types_by_name(&self, names: Vec<TypeName>) -> Result<Vec<KnownType>, Rejected> {
        self.ask(move |to| TypedRequest::Hall(HallRequest::TypesByName { names, to })).await
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

    /// Schedules by name, after this one. See [`HallRequest::Schedules`].
    pub async fn schedules(
        &self,
        after: Option<ScheduleName>,
        limit: usize,
    ) -> Result<Vec<ShownSchedule>, Rejected> {
        self.ask(move |to| TypedRequest::Hall(HallRequest::Schedules { after, limit, to })).await
    }

    /// The schedule of this name.
    pub async fn schedule(&self, name: ScheduleName) -> Result<Option<ShownSchedule>, Rejected> {
        self.ask(move |to| TypedRequest::Hall(HallRequest::Schedule { name, to })).await
    }

    /// Creates, changes or removes a schedule; returns the new version. See [`HallRequest::SetSchedule`].
    pub async fn set_schedule(
        &self,
        name: ScheduleName,
        config: Option<Arc<ScheduleConfig>>,
        expected: Option<u32>,
        by: Option<Application>,
    ) -> Result<u32, Rejected> {
        self.ask(move |to| TypedRequest::Hall(HallRequest::SetSchedule { name, config, expected, by, to }))
            .await
    }

    /// Creates the job of a schedule now.
    pub async fn run_schedule(
        &self,
        name: ScheduleName,
        key: Option<IdempotencyKey>,
    ) -> Result<Submitted, Rejected> {
        let submitted = self.ask(|to| TypedRequest::Hall(HallRequest::RunSchedule { name, key, to })).await?;
        submitted.first().copied().ok_or_else(gone)
    }

    /// The configuration of every configured queue: name, revision, content.
    pub async fn queue_configs(&self) -> Result<Vec<(QueueName, u32, QueueConfig)>, Rejected> {
        self.ask(|to| TypedRequest::Hall(HallRequest::QueueConfigs { to })).await
    }

    /// The server's rule for completed jobs, with its revision.
    pub async fn retention(&self) -> Result<(u32, Retention), Rejected> {
        self.ask(|to| TypedRequest::Hall(HallRequest::Retention { to })).await
    }

    /// Changes the server's rule for completed jobs; returns the new revision. See [`HallRequest::SetRetention`].
    pub async fn set_retention(&self, rule: Retention, expected: Option<u32>) -> Result<u32, Rejected> {
        self.ask(move |to| TypedRequest::Hall(HallRequest::SetRetention { rule, expected, to })).await
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
