//! Groups: create, follow and end them.

use std::time::Duration;

use jobhall_protocol::{CancelGroup, CreateGroup, Group, Page};
use reqwest::Method;
use tokio::time::Instant;

use crate::error::ClientError;
use crate::events::Events;
use crate::http::backoff::Backoff;
use crate::http::call::{Call, Client};

/// Shortest time between two reads of a followed group while its jobs change. Its end is told at once.
const LOOK: Duration = Duration::from_secs(1);

/// A followed group. It continues after lost connections and restarts of the server.
#[derive(Debug)]
pub struct GroupFollow {
    client: Client,
    id: u64,
    events: Events,
    /// When the group was last read.
    looked: Option<Instant>,
    ended: bool,
}

impl GroupFollow {
    /// The group after a change, or none if its end was already returned.
    ///
    /// # Errors
    /// The group does not exist, or the server was unreachable for too long.
    pub async fn next(&mut self) -> Result<Option<Group>, ClientError> {
        if self.ended {
            return Ok(None);
        }
        match self.looked {
            // The stream is opened before the group is read, so that nothing between them is missed.
            None => self.events.open().await?,
            Some(looked) => self.change(looked + LOOK).await?,
        }
        let group = self.look().await?;
        (self.looked, self.ended) = (Some(Instant::now()), group.completed_at.is_some());
        Ok(Some(group))
    }

    /// Waits for the end of the group, or for other changes and until this time.
    async fn change(&mut self, until: Instant) -> Result<(), ClientError> {
        let mut changed = false;
        loop {
            let event = match changed {
                false => self.events.next().await,
                true => match tokio::time::timeout_at(until, self.events.next()).await {
                    Ok(event) => event,
                    Err(_) => return Ok(()),
                },
            };
            match event?.map(|event| event.name) {
                Some(name) if name == "group" || name == "reset" => return Ok(()),
                Some(name) => changed |= name == "job",
                None => return Ok(()),
            }
        }
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
        self.read(&self.api(Method::POST, &["groups"]).json(group)?.keyed(key)).await
    }

    /// One group with the counts of its members.
    ///
    /// # Errors
    /// The group does not exist, or the server could not be reached.
    pub async fn group(&self, id: u64) -> Result<Group, ClientError> {
        self.read(&self.api(Method::GET, &["groups", &id.to_string()])).await
    }

    /// A page of the groups with this tag and owner, newest first. A page may be short although the list continues.
    ///
    /// # Errors
    /// The server could not be reached.
    pub async fn groups(
        &self,
        tag: Option<&str>,
        owner: Option<&str>,
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<Page<Group>, ClientError> {
        let given = [("tag", tag), ("owner", owner), ("cursor", cursor)];
        let given = given.into_iter().filter_map(|(name, value)| Some((name, value?.to_owned())));
        let pairs: Vec<_> = [("limit", limit.to_string())].into_iter().chain(given).collect();
        self.read(&self.api(Method::GET, &["groups"]).query(&pairs)).await
    }

    /// Closes a group to new jobs. Idempotent.
    ///
    /// # Errors
    /// The group does not exist, or the server could not be reached.
    pub async fn close_group(&self, id: u64) -> Result<Group, ClientError> {
        self.read(&self.of_group(id, "close").repeatable()).await
    }

    /// Cancels all jobs of a group, which ends as cancelled or as failed. Idempotent.
    ///
    /// # Errors
    /// The group has already ended otherwise, or the server could not be reached.
    pub async fn cancel_group(&self, id: u64, why: &CancelGroup) -> Result<Group, ClientError> {
        self.read(&self.of_group(id, "cancel").json(why)?.repeatable()).await
    }

    /// Creates a new group from the failed jobs of an ended one, and returns it. With an idempotency key it is
    /// repeated when no reply arrives.
    ///
    /// # Errors
    /// The group has not ended, no job failed, or the server could not be reached.
    pub async fn retry_group(&self, id: u64, key: Option<&str>) -> Result<Group, ClientError> {
        self.read(&self.of_group(id, "retry").keyed(key)).await
    }

    /// Follows a group to its end.
    #[must_use]
    pub fn follow_group(&self, id: u64) -> GroupFollow {
        let events = self.group_events(id, None);
        GroupFollow { client: self.clone(), id, events, looked: None, ended: false }
    }

    fn of_group(&self, id: u64, verb: &str) -> Call {
        self.api(Method::POST, &["groups", &id.to_string(), verb])
    }
}
