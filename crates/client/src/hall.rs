//! The hall as a whole: its workers, types and health.

use jobhall_protocol::{Page, SetType, TypeSettings, Worker};
use reqwest::Method;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::call::Client;
use crate::error::ClientError;

/// A sign of life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alive {
    /// The version of the hall, if it tells.
    pub version: Option<String>,
    /// The hall's clock, as the HTTP date of its answer.
    pub date: Option<String>,
}

impl Client {
    /// Whether the hall is there. Needs no token.
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

    /// All workers the hall knows.
    ///
    /// # Errors
    /// The hall could not be reached.
    pub async fn workers(&self) -> Result<Vec<Worker>, ClientError> {
        self.whole_list("workers").await
    }

    /// All types and what is configured for them.
    ///
    /// # Errors
    /// The hall could not be reached.
    pub async fn types(&self) -> Result<Vec<TypeSettings>, ClientError> {
        self.whole_list("types").await
    }

    /// Configures a type; what is missing in the settings stays as it is.
    ///
    /// # Errors
    /// The settings are wrong, or the hall could not be reached.
    pub async fn set_type(&self, name: &str, settings: &SetType) -> Result<TypeSettings, ClientError> {
        self.read(&self.api(Method::PUT, &["types", name]).json(settings)?).await
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
