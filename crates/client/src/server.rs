//! The server as a whole: its workers, types and health.

use jobhall_protocol::{
    Node, Page, Queue, QueueSettings, Retention, SetQueue, SetRetention, SetType, Stats, TypeSettings, Worker,
};
use reqwest::Method;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::ClientError;
use crate::http::call::{Call, Client, parse};

/// The response to a liveness check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alive {
    /// The version of the server, if it returns one.
    pub version: Option<String>,
    /// The server's clock, from the HTTP date of its reply.
    pub date: Option<String>,
}

/// A value with the entity tag of its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned<T> {
    /// The value.
    pub value: T,
    /// The version tag, if the server returns one.
    pub version: Option<String>,
}

impl Client {
    /// Whether the server is alive. Needs no token.
    ///
    /// # Errors
    /// The server could not be reached.
    pub async fn livez(&self) -> Result<Alive, ClientError> {
        let response = self.send(&self.top(Method::GET, &["livez"])).await?;
        let header = |name: &str| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
        let (date, named) = (header("date"), header("jobhall-version"));
        let body = self.body(response).await?;
        let told = serde_json::from_slice::<Value>(&body).ok();
        let told = told.and_then(|body| Some(body.get("version")?.as_str()?.to_owned()));
        Ok(Alive { version: told.or(named), date })
    }

    /// Whether the server accepts work. Needs no token.
    ///
    /// # Errors
    /// A check failed, which the error names; or the server could not be reached.
    pub async fn readyz(&self) -> Result<(), ClientError> {
        let response = self.send(&self.top(Method::GET, &["readyz"])).await?;
        self.body(response).await.map(drop)
    }

    /// All known workers.
    ///
    /// # Errors
    /// The server could not be reached.
    pub async fn workers(&self) -> Result<Vec<Worker>, ClientError> {
        self.whole_list("workers").await
    }

    /// Pauses a worker: it takes no new jobs until it is resumed.
    ///
    /// # Errors
    /// The worker is not known, or the server could not be reached.
    pub async fn pause_worker(&self, name: &str) -> Result<Worker, ClientError> {
        self.read(&self.api(Method::POST, &["workers", name, "pause"])).await
    }

    /// Resumes a worker that is paused.
    ///
    /// # Errors
    /// The worker is not known or drains, or the server could not be reached.
    pub async fn resume_worker(&self, name: &str) -> Result<Worker, ClientError> {
        self.read(&self.api(Method::POST, &["workers", name, "resume"])).await
    }

    /// Lets the process of a worker finish its jobs and exit.
    ///
    /// # Errors
    /// The worker is not known, is not connected or cannot be drained, or the server could not be reached.
    pub async fn drain_worker(&self, name: &str) -> Result<Worker, ClientError> {
        self.read(&self.api(Method::POST, &["workers", name, "drain"])).await
    }

    /// The nodes of the hall, by name.
    ///
    /// # Errors
    /// The server could not be reached.
    pub async fn nodes(&self) -> Result<Vec<Node>, ClientError> {
        self.whole_list("nodes").await
    }

    /// All known queues.
    ///
    /// # Errors
    /// The server could not be reached.
    pub async fn queues(&self) -> Result<Vec<Queue>, ClientError> {
        self.whole_list("queues").await
    }

    /// One queue.
    ///
    /// # Errors
    /// The queue does not exist, or the server could not be reached.
    pub async fn queue(&self, name: &str) -> Result<Queue, ClientError> {
        self.read(&self.api(Method::GET, &["queues", name])).await
    }

    /// The settings of a queue, with their version.
    ///
    /// # Errors
    /// The queue does not exist, or the server could not be reached.
    pub async fn queue_settings(&self, name: &str) -> Result<Versioned<Queue>, ClientError> {
        self.versioned(&self.api(Method::GET, &["queues", name])).await
    }

    /// Changes the settings of a queue; missing fields are unchanged. With a version, only that version is changed.
    ///
    /// # Errors
    /// The settings are invalid, the version differs, or the server could not be reached.
    pub async fn set_queue(
        &self,
        name: &str,
        settings: &SetQueue,
        version: Option<&str>,
    ) -> Result<Versioned<QueueSettings>, ClientError> {
        let call = self.api(Method::PUT, &["queues", name]).json(settings)?;
        let call = match version {
            Some(version) => call.header("if-match", version),
            None => call,
        };
        self.versioned(&call).await
    }

    /// Resets a queue to its defaults.
    ///
    /// # Errors
    /// The queue was never configured, or the server could not be reached.
    pub async fn reset_queue(&self, name: &str) -> Result<(), ClientError> {
        self.send(&self.api(Method::DELETE, &["queues", name])).await.map(drop)
    }

    /// Statistics of the hall.
    ///
    /// # Errors
    /// The server could not be reached, or this token may not read.
    pub async fn stats(&self) -> Result<Stats, ClientError> {
        self.read(&self.api(Method::GET, &["stats"])).await
    }

    /// The server's rule for completed jobs, with its version.
    ///
    /// # Errors
    /// The server could not be reached, or this token may not read.
    pub async fn retention(&self) -> Result<Versioned<Retention>, ClientError> {
        self.versioned(&self.api(Method::GET, &["retention"])).await
    }

    /// Changes the server's rule for completed jobs; missing fields are unchanged. With a version, only that version is
    /// changed.
    ///
    /// # Errors
    /// The rule is invalid, the version differs, or the server could not be reached.
    pub async fn set_retention(
        &self,
        rule: &SetRetention,
        version: Option<&str>,
    ) -> Result<Versioned<Retention>, ClientError> {
        let call = self.api(Method::PUT, &["retention"]).json(rule)?;
        let call = match version {
            Some(version) => call.header("if-match", version),
            None => call,
        };
        self.versioned(&call).await
    }

    /// All types with their settings.
    ///
    /// # Errors
    /// The server could not be reached.
    pub async fn types(&self) -> Result<Vec<TypeSettings>, ClientError> {
        self.whole_list("types").await
    }

    /// The settings of a type.
    ///
    /// # Errors
    /// The type does not exist, or the server could not be reached.
    pub async fn type_settings(&self, name: &str) -> Result<Versioned<TypeSettings>, ClientError> {
        self.versioned(&self.api(Method::GET, &["types", name])).await
    }

    /// Changes the settings of a type; missing fields are unchanged. With a version, only that version is changed.
    ///
    /// # Errors
    /// The settings are invalid, the version differs, or the server could not be reached.
    pub async fn set_type(
        &self,
        name: &str,
        settings: &SetType,
        version: Option<&str>,
    ) -> Result<Versioned<TypeSettings>, ClientError> {
        let call = self.api(Method::PUT, &["types", name]).json(settings)?;
        let call = match version {
            Some(version) => call.header("if-match", version),
            None => call,
        };
        self.versioned(&call).await
    }

    /// Resets a type to its defaults.
    ///
    /// # Errors
    /// The type does not exist, or the server could not be reached.
    pub async fn reset_type(&self, name: &str) -> Result<(), ClientError> {
        self.send(&self.api(Method::DELETE, &["types", name])).await.map(drop)
    }

    pub(crate) async fn versioned<T: DeserializeOwned>(
        &self,
        call: &Call,
    ) -> Result<Versioned<T>, ClientError> {
        let response = self.send(call).await?;
        let version = response.headers().get("etag").and_then(|tag| Some(tag.to_str().ok()?.to_owned()));
        Ok(Versioned { value: parse(&self.body(response).await?)?, version })
    }

    pub(crate) async fn whole_list<T: DeserializeOwned>(&self, noun: &str) -> Result<Vec<T>, ClientError> {
        let (mut all, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let pairs: Vec<_> = cursor.iter().map(|cursor| ("cursor", cursor.clone())).collect();
            let page: Page<T> = self.read(&self.api(Method::GET, &[noun]).query(&pairs)).await?;
            all.extend(page.items);
            match page.next_cursor {
                Some(next) => cursor = Some(next),
                None => return Ok(all),
            }
        }
    }
}
