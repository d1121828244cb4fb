//! The answer to a query: its value, and how each step was answered for this request.

use jobhall_client::{Client, ClientError, Evaluated, LargeValue, QueryValue};
use jobhall_core::base64;
use jobhall_core::query::URL_BYTES_MAX;
use jobhall_protocol::{Code, QueryPromise, QueryStep};
use serde::Serialize;

use super::tree::{self, Tree};
use crate::failure::Failure;
use crate::output::Output;

/// How long one request waits for a value, in seconds.
const WAIT_S: u64 = 20;
/// How often a query is asked for again because its commands have changed.
const ASKED_AGAIN: usize = 10;
/// A step whose job was created for this request.
const PENDING: &str = "pending";

/// A value with its steps.
pub struct Answer {
    value: Found,
    media_type: String,
    size: u64,
    cache: String,
    /// None for a value that was stored, if the steps were not wanted.
    pub promise: Option<QueryPromise>,
}

/// A value, in memory or to be read.
enum Found {
    Value(QueryValue),
    Large(Box<LargeValue>),
    /// It was read.
    Taken,
}

/// The answer as one document.
#[derive(Serialize)]
pub struct Document<'a> {
    query: &'a str,
    identity: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    media_type: &'a str,
    size: u64,
    cache: &'a str,
    steps: &'a [QueryStep],
}

/// How a query is asked.
#[derive(Clone, Copy, Debug)]
pub struct Manner<'a> {
    /// Whether the steps of a value that is stored are wanted.
    pub with_steps: bool,
    /// What is computed anew.
    pub refresh: Option<&'a str>,
}

/// Asks for a query and waits for its value as long as it takes; asked again while the files of its commands change.
pub async fn ask(
    client: &Client,
    output: &Output,
    canonical: &str,
    manner: Manner<'_>,
) -> Result<Answer, ClientError> {
    for _ in 0..ASKED_AGAIN {
        match once(client, output, canonical, manner).await {
            Err(error) if error.code() == Some(Code::VersionChanged) => {}
            answer => return answer,
        }
    }
    once(client, output, canonical, manner).await
}

async fn once(
    client: &Client,
    output: &Output,
    canonical: &str,
    Manner { with_steps, refresh }: Manner<'_>,
) -> Result<Answer, ClientError> {
    let first = match refresh {
        Some(refresh) => Evaluated::Promise(Box::new(client.refresh_query(canonical, refresh).await?)),
        None if canonical.len() <= URL_BYTES_MAX => client.evaluate(canonical, 0).await?,
        None => Evaluated::Promise(Box::new(client.submit_query(canonical).await?)),
    };
    let promise = match first {
        Evaluated::Value(value) if !with_steps => return Ok(Answer::of(Found::Value(value), None)),
        Evaluated::Large(value) if !with_steps => return Ok(Answer::of(Found::Large(value), None)),
        // It is stored, so this creates no job.
        Evaluated::Value(_) | Evaluated::Large(_) => client.submit_query(canonical).await?,
        Evaluated::Promise(promise) => *promise,
    };
    let mut tree = Tree::new(client, output, &promise);
    let value = tokio::select! {
        value = waited(client, promise.id) => value,
        never = tree.follow() => match never {},
    };
    tree.end().await;
    let value = value?;
    let steps = if promise.steps.iter().any(|step| step.cache != "hit") {
        ended(promise.steps.clone(), &client.query_steps(promise.id).await?)
    } else {
        promise.steps.clone()
    };
    Ok(Answer::of(value, Some(QueryPromise { steps, ..promise })))
}

/// The value of a promise, however long it takes.
async fn waited(client: &Client, promise: u64) -> Result<Found, ClientError> {
    loop {
        match client.promised(promise, WAIT_S).await? {
            Evaluated::Value(value) => return Ok(Found::Value(value)),
            Evaluated::Large(value) => return Ok(Found::Large(value)),
            Evaluated::Promise(_) => {}
        }
    }
}

/// The failure of a document that would have a value which is not read into memory.
pub fn too_large() -> Failure {
    Failure::usage("the value is too large to be part of a document").fix("write it to a file with -o FILE")
}

/// The steps as they were answered for this request, with what has become of their jobs since.
pub fn ended(asked: Vec<QueryStep>, now: &[QueryStep]) -> Vec<QueryStep> {
    let of = |step: &QueryStep| {
        let same = |other: &&QueryStep| other.job == step.job && other.command == step.command;
        now.iter().find(same).cloned()
    };
    asked
        .into_iter()
        .map(|step| match of(&step) {
            Some(now) if step.cache == PENDING => now,
            Some(now) => QueryStep { cache: step.cache, ..now },
            None => step,
        })
        .collect()
}

impl Answer {
    fn of(value: Found, promise: Option<QueryPromise>) -> Answer {
        let (media_type, size, cache) = match &value {
            Found::Value(value) => (value.media_type.clone(), value.bytes.len() as u64, value.cache.clone()),
            Found::Large(value) => (value.media_type.clone(), value.size, value.cache.clone()),
            Found::Taken => (String::new(), 0, String::new()),
        };
        let last = promise.as_ref().and_then(|promise| promise.steps.last());
        let cache = last.map_or(cache, |last| last.cache.clone());
        Answer { value, media_type, size, cache, promise }
    }

    /// The bytes of a value that is in memory.
    pub fn bytes(&self) -> &[u8] {
        match &self.value {
            Found::Value(value) => &value.bytes,
            Found::Large(_) | Found::Taken => &[],
        }
    }

    /// A value that is not in memory, to be read now.
    pub fn take_large(&mut self) -> Option<LargeValue> {
        match std::mem::replace(&mut self.value, Found::Taken) {
            Found::Large(value) => Some(*value),
            other => {
                self.value = other;
                None
            }
        }
    }

    /// The document; the value is in this file, if one is named.
    pub fn document<'a>(&'a self, canonical: &'a str, file: Option<String>) -> Document<'a> {
        let bytes = if file.is_some() { &[][..] } else { self.bytes() };
        let text = std::str::from_utf8(bytes).ok().filter(|_| file.is_none());
        Document {
            query: canonical,
            identity: self.promise.as_ref().map_or("", |promise| &promise.identity),
            value: text,
            base64: (text.is_none() && file.is_none()).then(|| base64::encode(bytes)),
            file,
            media_type: &self.media_type,
            size: self.size,
            cache: &self.cache,
            steps: self.promise.as_ref().map_or(&[], |promise| &promise.steps),
        }
    }

    /// A line such as `3 steps: 1 computed, 2 hits; 14 bytes of text/csv, 2.1 s`.
    pub fn summary(&self, steps: usize, ms: u64) -> String {
        let words: Vec<&str> = match &self.promise {
            Some(promise) => promise.steps.iter().map(|step| step.cache.as_str()).collect(),
            None => vec!["hit"; steps],
        };
        let known = [("computed", "computed"), ("skipped", "skipped"), ("joined", "joined"), ("hit", "hits")];
        let counted = known.iter().filter_map(|(word, many)| {
            match words.iter().filter(|known| *known == word).count() {
                0 => None,
                1 => Some(format!("1 {word}")),
                count => Some(format!("{count} {many}")),
            }
        });
        let counted = counted.collect::<Vec<_>>().join(", ");
        let plural = if words.len() == 1 { "" } else { "s" };
        let (size, media_type) = (self.size, &self.media_type);
        let took = tree::took(ms);
        let steps = match words.len() {
            0 => String::new(),
            count => format!("{count} step{plural}: {counted}; "),
        };
        format!("{steps}{size} bytes of {media_type}, {took}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(cache: &str, job: u64) -> QueryStep {
        let json = serde_json::json!({
            "query": "a", "identity": "i", "command": "a", "version": "1", "cache": cache, "job": job,
        });
        serde_json::from_value(json).unwrap()
    }

    fn answer(bytes: &'static [u8], steps: Vec<QueryStep>) -> Answer {
        let json = serde_json::json!({ "id": 3, "query": "a", "identity": "i", "state": "succeeded" });
        let promise: QueryPromise = serde_json::from_value(json).unwrap();
        let (media_type, cache) = ("text/csv".to_owned(), "computed".to_owned());
        let value = QueryValue { bytes: bytes.into(), media_type, cache };
        Answer::of(Found::Value(value), Some(QueryPromise { steps, ..promise }))
    }

    #[test]
    fn a_step_is_shown_as_it_was_answered_for_this_request() {
        let asked = vec![step("hit", 1), step("joined", 2), step("pending", 3), step("pending", 4)];
        let now = vec![step("computed", 1), step("computed", 2), step("skipped", 3), step("computed", 4)];
        let words: Vec<String> = ended(asked, &now).into_iter().map(|step| step.cache).collect();
        assert_eq!(words, ["hit", "joined", "skipped", "computed"]);
    }

    #[test]
    fn the_last_line_counts_the_steps_by_how_they_were_answered() {
        let steps = vec![step("computed", 1), step("hit", 2), step("hit", 3)];
        let line = answer(b"a\n", steps).summary(3, 12);
        assert_eq!(line, "3 steps: 1 computed, 2 hits; 2 bytes of text/csv, 12 ms");
        let hit = Answer { promise: None, ..answer(b"", Vec::new()) };
        assert_eq!(hit.summary(1, 2_100), "1 step: 1 hit; 0 bytes of text/csv, 2.1 s");
    }

    #[test]
    fn a_value_is_text_in_the_document_if_it_can_be() {
        let of = |answer: &Answer, file: Option<&str>| {
            serde_json::to_value(answer.document("a", file.map(str::to_owned))).unwrap()
        };
        let text = of(&answer(b"a\n", Vec::new()), None);
        assert_eq!((&text["value"], text.get("base64")), (&serde_json::json!("a\n"), None));
        let binary = of(&answer(b"\xff\x00", Vec::new()), None);
        assert_eq!((binary.get("value"), &binary["base64"]), (None, &serde_json::json!("/wA=")));
        let file = of(&answer(b"a\n", Vec::new()), Some("out.csv"));
        assert_eq!(
            (file.get("value"), file.get("base64"), &file["size"]),
            (None, None, &serde_json::json!(2))
        );
        assert_eq!(file["file"], "out.csv");
    }
}
