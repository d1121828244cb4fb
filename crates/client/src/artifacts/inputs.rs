//! Inputs of an attempt: results and artifacts of the jobs that its job comes after, and artifacts of its parent.

use jobhall_protocol::{Input, InputName, LEASE_HEADER, Page};
use reqwest::Method;

use super::{ArtifactReader, Source, segment};
use crate::call::Client;
use crate::error::ClientError;

impl Client {
    /// All inputs of an attempt. The lease is needed unless the token itself identifies the attempt.
    ///
    /// # Errors
    /// The lease is lost, or the server could not be reached.
    pub async fn inputs(&self, attempt: &str, lease: Option<&str>) -> Result<Vec<Input>, ClientError> {
        let (mut all, mut cursor) = (Vec::new(), None);
        loop {
            let pairs: Vec<_> = cursor.map(|cursor| ("cursor", cursor)).into_iter().collect();
            let mut call = self.api(Method::GET, &["attempts", attempt, "inputs"]).query(&pairs);
            if let Some(lease) = lease {
                call = call.header(LEASE_HEADER, lease);
            }
            let page: Page<Input> = self.read(&call.repeatable()).await?;
            all.extend(page.items);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(all);
            }
        }
    }

    /// The result of an input, as the process of a job reads it.
    #[must_use]
    pub fn read_input(&self, attempt: &str, input: InputName) -> ArtifactReader {
        let path = vec!["attempts".to_owned(), attempt.to_owned(), "inputs".to_owned(), input.to_string()];
        let source = Source { path, attempt: None, name: "result".to_owned(), is_hashed: false };
        ArtifactReader::new(self.clone(), source)
    }

    /// An artifact of an input, as the process of a job reads it.
    #[must_use]
    pub fn read_input_artifact(&self, attempt: &str, input: InputName, name: &str) -> ArtifactReader {
        let input = input.to_string();
        let path = ["attempts", attempt, "inputs", &input, "artifacts", &segment(name)];
        let path = path.into_iter().map(str::to_owned).collect();
        let source = Source { path, attempt: None, name: name.to_owned(), is_hashed: true };
        ArtifactReader::new(self.clone(), source)
    }
}
