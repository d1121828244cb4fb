//! Groups: create, follow and end them.

use std::time::Duration;

use jobhall_protocol::{Cancel, CreateGroup, Group, Page};
use reqwest::Method;

use crate::backoff::Backoff;
use crate::call::{Call, Client};
use crate::error::ClientError;

/// Interval between two reads of a followed group.
const LOOK: Duration = Duration::from_millis(250);

/// A followed group. It continues after lost connections and restarts of the server.
#[derive(Debug)]
pub struct GroupFollow {
    client: Client,
    id: u64,
    looked: bool,
    ended: bool,
}

impl GroupFollow {
    /// The current group, or none if its end was already returned.
    ///
    /// # Errors
    /// The group does not exist, or the server was unreachable for too long.
    pub async fn next(&mut self) -> Result<Option<Group>, ClientError> {
        if self.ended {
            return Ok(None);
        }
        if self.looked {
            tokio::time::sleep(LOOK).await;
        }
        let group = self.look().await?;
        (self.looked, self.ended) = (true, group.completed_at.is_some());
        Ok(Some(group))
    }

    async fn look(&self) -> Result<Group, ClientError> {
        let mut patience = Backoff::of_a_stream();
        loop {
            match self.client.group(self.id).await {
                Err(error) if error.is_transient() => match patience.pause() {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => return Err(error),
                },
                answer => return answer,
            }
        }
    }
}

impl Client {
    /// Creates a group with its jobs, all or nothing. With an idempotency key it is repeated when no reply arrives.
    ///
    /// # Errors
    /// The server refused it or could not be reached.
    pub async fn create_group(&self, group: &CreateGroup, key: Option<&str>) -> Result<Group, ClientError> {
        self.read(&keyed(self.api(Method::POST, &["groups"]).json(group)?, key)).await
    }

    /// One group with the counts of its members.
    ///
    /// # Errors
    /// The group does not exist, or the server could not be reached.
    pub async fn group(&self, id: u64) -> Result<Group, ClientError> {
        self.read(&self.api(Method::GET, &["groups", &id.to_string()])).await
    }

    /// A page of groups, newest first.
    ///
    /// # Errors
    /// The server could not be reached.
    pub async fn groups(&self, limit: u32, cursor: Option<&str>) -> Result<Page<Group>, ClientError> {
        let cursor = cursor.map(|cursor| ("cursor", cursor.to_owned()));
        let pairs: Vec<_> = [("limit", limit.to_string())].into_iter().chain(cursor).collect();
        self.read(&self.api(Method::GET, &["groups"]).query(&pairs)).await
    }

    /// Closes a group to new jobs. Idempotent.
    ///
    /// # Errors
    /// The group does not exist, or the server could not be reached.
    pub async fn close_group(&self, id: u64) -> Result<Group, ClientError> {
        self.read(&self.of_group(id, "close").repeatable()).await
    }

    /// Cancels all jobs of a group. Idempotent.
    ///
    /// # Errors
    /// The group has already ended, or the server could not be reached.
    pub async fn cancel_group(&self, id: u64, why: &Cancel) -> Result<Group, ClientError> {
        self.read(&self.of_group(id, "cancel").json(why)?.repeatable()).await
    }

    /// Creates a new group from the failed jobs of an ended one, and returns it. With an idempotency key it is
    /// repeated when no reply arrives.
    ///
    /// # Errors
    /// The group has not ended, no job failed, or the server could not be reached.
    pub async fn retry_group(&self, id: u64, key: Option<&str>) -> Result<Group, ClientError> {
        self.read(&keyed(self.of_group(id, "retry"), key)).await
    }

    /// Follows a group to its end.
    #[must_use]
    pub fn follow_group(&self, id: u64) -> GroupFollow {
        GroupFollow { client: self.clone(), id, looked: false, ended: false }
    }

    fn of_group(&self, id: u64, verb: &str) -> Call {
        self.api(Method::POST, &["groups", &id.to_string(), verb])
    }
}

fn keyed(call: Call, key: Option<&str>) -> Call {
    match key {
        Some(key) => call.header("idempotency-key", key).repeatable(),
        None => call,
    }
}
