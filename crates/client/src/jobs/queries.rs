//! Queries: values, promises and commands.

use std::time::Duration;

use bytes::Bytes;
use jobhall_protocol::{
    AskQuery, CACHE_HEADER, CommandsDeclared, DeclareCommands, KnownCommand, LEASE_HEADER, Page,
    QueryMetadata, QueryPlan, QueryPromise, QueryStep,
};
use reqwest::{Method, Response, StatusCode};
use serde_json::value::RawValue;

use crate::artifacts::{ArtifactReader, Source};
use crate::error::ClientError;
use crate::http::call::{Call, Client, parse};

/// A waiting request is answered within this time more than it asked for.
const MARGIN: Duration = Duration::from_secs(30);

/// Maximum size of a value that is read into memory.
const MEMORY_BYTES: u64 = 16 << 20;

/// The value of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryValue {
    /// The bytes.
    pub bytes: Bytes,
    /// Their media type.
    pub media_type: String,
    /// Where the value comes from: `hit`, `joined` or `computed`.
    pub cache: String,
}

/// A value that is too large to be read into memory.
#[derive(Debug)]
pub struct LargeValue {
    /// Its bytes, in chunks.
    pub reader: ArtifactReader,
    /// Its size in bytes.
    pub size: u64,
    /// Its media type.
    pub media_type: String,
    /// Where it comes from: `hit`, `joined` or `computed`.
    pub cache: String,
}

/// A value, or the promise of one.
#[derive(Debug)]
pub enum Evaluated {
    /// The value is there, and was read.
    Value(QueryValue),
    /// The value is there, and has more than 16 MiB.
    Large(Box<LargeValue>),
    /// It was not there in time.
    Promise(Box<QueryPromise>),
}

impl Client {
    /// Evaluates a query, given by its canonical text, and waits this many seconds for its value.
    ///
    /// # Errors
    /// The query is wrong, one of its steps failed, or the server could not be reached.
    pub async fn evaluate(&self, text: &str, wait_s: u64) -> Result<Evaluated, ClientError> {
        let mut segments = vec!["q"];
        segments.extend(text.split('/'));
        let path = segments.iter().map(|segment| (*segment).to_owned()).collect();
        let source = Source { is_at_top: true, ..Source::hashed(path, text.to_owned()) };
        self.evaluated(self.top(Method::GET, &segments), source, wait_s).await
    }

    /// Waits this many seconds for the value of a promise.
    ///
    /// # Errors
    /// There is no such promise, a step failed, or the server could not be reached.
    pub async fn promised(&self, id: u64, wait_s: u64) -> Result<Evaluated, ClientError> {
        let segments = ["queries", &id.to_string(), "value"];
        let source = Source::hashed(segments.map(str::to_owned).to_vec(), format!("of query {id}"));
        self.evaluated(self.api(Method::GET, &segments), source, wait_s).await
    }

    async fn evaluated(&self, call: Call, source: Source, wait_s: u64) -> Result<Evaluated, ClientError> {
        let limit = Duration::from_secs(wait_s) + MARGIN;
        let call = call.query(&[("wait", wait_s.to_string())]).repeatable().within(Some(limit));
        let response = self.send(&call).await?;
        if response.status() == StatusCode::ACCEPTED {
            return Ok(Evaluated::Promise(Box::new(parse(&self.body(response).await?)?)));
        }
        let (media_type, cache) = (header(&response, "content-type"), header(&response, CACHE_HEADER));
        if let Some(size) = response.content_length().filter(|size| *size > MEMORY_BYTES) {
            let reader = ArtifactReader::begun(self.clone(), source, response)?;
            return Ok(Evaluated::Large(Box::new(LargeValue { reader, size, media_type, cache })));
        }
        Ok(Evaluated::Value(QueryValue { bytes: self.body(response).await?, media_type, cache }))
    }

    /// Asks for a query in the background.
    ///
    /// # Errors
    /// The query is wrong, or the server could not be reached.
    pub async fn submit_query(&self, text: &str) -> Result<QueryPromise, ClientError> {
        self.ask_for(&AskQuery { query: text.to_owned(), refresh: None }).await
    }

    /// The same, with the steps of this command and all that follow them computed anew although their values are stored;
    /// `*` for all steps. A request that is repeated computes them once more.
    ///
    /// # Errors
    /// As [`Client::submit_query`]; also if the query has no step of the command.
    pub async fn refresh_query(&self, text: &str, refresh: &str) -> Result<QueryPromise, ClientError> {
        self.ask_for(&AskQuery { query: text.to_owned(), refresh: Some(refresh.to_owned()) }).await
    }

    async fn ask_for(&self, asked: &AskQuery) -> Result<QueryPromise, ClientError> {
        self.read(&self.api(Method::POST, &["queries"]).json(asked)?.repeatable()).await
    }

    /// What is known of a query without evaluating it.
    ///
    /// # Errors
    /// The query is wrong, or the server could not be reached.
    pub async fn query_metadata(&self, text: &str) -> Result<QueryMetadata, ClientError> {
        let call = self.api(Method::GET, &["queries"]).query(&[("query", text.to_owned())]);
        self.read(&call).await
    }

    /// The promise of this number.
    ///
    /// # Errors
    /// There is no such promise, or the server could not be reached.
    pub async fn promise(&self, id: u64) -> Result<QueryPromise, ClientError> {
        self.read(&self.api(Method::GET, &["queries", &id.to_string()])).await
    }

    /// How a query would be answered, given by its canonical text. Nothing runs.
    ///
    /// # Errors
    /// The query is wrong, or the server could not be reached.
    pub async fn explain_query(&self, text: &str) -> Result<QueryPlan, ClientError> {
        self.read(&self.api(Method::GET, &["queries", "plan"]).query(&[("query", text.to_owned())])).await
    }

    /// The steps of a promise with their jobs.
    ///
    /// # Errors
    /// There is no such promise, or the server could not be reached.
    pub async fn query_steps(&self, id: u64) -> Result<Vec<QueryStep>, ClientError> {
        let call = self.api(Method::GET, &["queries", &id.to_string(), "steps"]);
        let page: Page<QueryStep> = self.read(&call).await?;
        Ok(page.items)
    }

    /// The commands that queries can use.
    ///
    /// # Errors
    /// The token does not reach queries, or the server could not be reached.
    pub async fn commands(&self) -> Result<Vec<KnownCommand>, ClientError> {
        let page: Page<KnownCommand> = self.read(&self.api(Method::GET, &["commands"])).await?;
        Ok(page.items)
    }

    /// The commands with these names, or all if there are none, with the files that a connected worker of this machine has read for them.
    ///
    /// # Errors
    /// As [`Client::commands`].
    pub async fn commands_on(
        &self,
        names: &[String],
        machine: &str,
    ) -> Result<Vec<KnownCommand>, ClientError> {
        let name = (!names.is_empty()).then(|| ("name", names.join(",")));
        let asked: Vec<_> = name.into_iter().chain([("machine", machine.to_owned())]).collect();
        let page: Page<KnownCommand> = self.read(&self.api(Method::GET, &["commands"]).query(&asked)).await?;
        Ok(page.items)
    }

    /// Makes these declarations current.
    ///
    /// # Errors
    /// A declaration is wrong, or the server could not be reached.
    pub async fn declare_commands(&self, given: &DeclareCommands) -> Result<CommandsDeclared, ClientError> {
        self.read(&self.api(Method::PUT, &["commands"]).json(given)?.repeatable()).await
    }

    /// The result of an attempt of a query, if another job has made it from the same bytes.
    ///
    /// # Errors
    /// The lease is lost, or the server could not be reached.
    pub async fn seen_value(&self, attempt: &str, lease: &str) -> Result<Option<Box<RawValue>>, ClientError> {
        let call = self.api(Method::GET, &["attempts", attempt, "seen"]);
        let response = self.send(&call.header(LEASE_HEADER, lease).repeatable()).await?;
        if response.status() == StatusCode::NO_CONTENT {
            return Ok(None);
        }
        parse(&self.body(response).await?).map(Some)
    }
}

fn header(response: &Response, name: &str) -> String {
    let value = response.headers().get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_owned()
}
