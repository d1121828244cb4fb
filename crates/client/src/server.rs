//! The server as a whole: its workers, types and health.

use jobhall_protocol::{Node, Page, Queue, QueueSettings, SetQueue, SetType, Stats, TypeSettings, Worker};
use reqwest::Method;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::call::{Call, Client, parse};
use crate::error::ClientError;

/// A sign of life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alive {
    /// The version of the server, if it returns one.
    pub version: Option<String>,
    /// The server's clock, from the HTTP date of its reply.
    pub date: Option<String>,
}

/// Something with the entity tag that names its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned<T> {
    /// The thing.
    pub value: T,
    /// The version tag, if the server returns one.
    pub version: Option<String>,
}

impl Client {
    /// Whether the server is alive. Needs no token.
    ///
    /// # Errors
    /// It is not.
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
    /// It does not, and says which check failed; or it could not be reached.
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
    /// There is no such queue, or the server could not be reached.
    pub async fn queue(&self, name: &str) -> Result<Queue, ClientError> {
        self.read(&self.api(Method::GET, &["queues", name])).await
    }

    /// What is configured for a queue, by its queue, with the version of the settings.
    ///
    /// # Errors
    /// There is no such queue, or the server could not be reached.
    pub async fn queue_settings(&self, name: &str) -> Result<Versioned<Queue>, ClientError> {
        self.versioned(&self.api(Method::GET, &["queues", name])).await
    }

    /// Configures a queue; what is missing in the settings stays as it is. With a version, only that one is changed.
    ///
    /// # Errors
    /// The settings are wrong, the version differs, or the server could not be reached.
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

    /// Gives a queue its defaults again.
    ///
    /// # Errors
    /// It was never configured, or the server could not be reached.
    pub async fn reset_queue(&self, name: &str) -> Result<(), ClientError> {
        self.send(&self.api(Method::DELETE, &["queues", name])).await.map(drop)
    }

    /// The hall as a whole.
    ///
    /// # Errors
    /// The server could not be reached, or does not let this token read.
    pub async fn stats(&self) -> Result<Stats, ClientError> {
        self.read(&self.api(Method::GET, &["stats"])).await
    }

    /// All types and what is configured for them.
    ///
    /// # Errors
    /// The server could not be reached.
    pub async fn types(&self) -> Result<Vec<TypeSettings>, ClientError> {
        self.whole_list("types").await
    }

    /// What is configured for a type.
    ///
    /// # Errors
    /// There is no such type, or the server could not be reached.
    pub async fn type_settings(&self, name: &str) -> Result<Versioned<TypeSettings>, ClientError> {
        self.versioned(&self.api(Method::GET, &["types", name])).await
    }

    /// Configures a type; what is missing in the settings stays as it is. With a version, only that one is changed.
    ///
    /// # Errors
    /// The settings are wrong, the version differs, or the server could not be reached.
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

    /// Gives a type its defaults again.
    ///
    /// # Errors
    /// There is no such type, or the server could not be reached.
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
