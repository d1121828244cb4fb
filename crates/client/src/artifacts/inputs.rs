//! Inputs of an attempt: results and artifacts of the jobs that its job comes after, and artifacts of its parent.

use jobhall_protocol::{Input, InputName, LEASE_HEADER, Page};
use reqwest::Method;

use super::{ArtifactReader, Source, segment};
use crate::error::ClientError;
use crate::http::call::Client;

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
        let source = Source { is_hashed: false, ..Source::hashed(path, "result".to_owned()) };
        ArtifactReader::new(self.clone(), source)
    }

    /// The result of a sub-job, as the process of its parent reads it.
    #[must_use]
    pub fn read_sub_job_result(&self, attempt: &str, job: u64) -> ArtifactReader {
        let path = ["attempts", attempt, "jobs", &job.to_string(), "result"].map(str::to_owned).to_vec();
        let source = Source { is_hashed: false, ..Source::hashed(path, "result".to_owned()) };
        ArtifactReader::new(self.clone(), source)
    }

    /// An artifact of an input, as the process of a job reads it.
    #[must_use]
    pub fn read_input_artifact(&self, attempt: &str, input: InputName, name: &str) -> ArtifactReader {
        let input = input.to_string();
        let path = ["attempts", attempt, "inputs", &input, "artifacts", &segment(name)];
        let path = path.into_iter().map(str::to_owned).collect();
        ArtifactReader::new(self.clone(), Source::hashed(path, name.to_owned()))
    }

    /// A value that the process of a step has asked for, by its identity, or stored data, by its digest.
    #[must_use]
    pub fn read_own_value(&self, attempt: &str, identity: &str) -> ArtifactReader {
        let path = ["attempts", attempt, "values", identity].map(str::to_owned).to_vec();
        ArtifactReader::new(self.clone(), Source::hashed(path, identity.to_owned()))
    }

    /// A value that a step of a query receives, by its identity, or stored data, by its digest.
    #[must_use]
    pub fn read_value(&self, attempt: &str, lease: &str, identity: &str) -> ArtifactReader {
        let path = ["attempts", attempt, "values", identity].map(str::to_owned).to_vec();
        let lease = Some(lease.to_owned());
        ArtifactReader::new(self.clone(), Source { lease, ..Source::hashed(path, identity.to_owned()) })
    }
}
