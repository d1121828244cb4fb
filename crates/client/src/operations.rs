//! Operations that change many jobs.

use jobhall_protocol::{Operation, Page, StartOperation};
use reqwest::Method;

use crate::error::ClientError;
use crate::http::call::Client;

impl Client {
    /// Starts an operation. It is not repeated when no reply arrives: check the list before you try again.
    ///
    /// # Errors
    /// The server refused it or could not be reached.
    pub async fn start_operation(&self, operation: &StartOperation) -> Result<Operation, ClientError> {
        self.read(&self.api(Method::POST, &["operations"]).json(operation)?).await
    }

    /// The progress of an operation.
    ///
    /// # Errors
    /// The operation does not exist, or the server could not be reached.
    pub async fn operation(&self, id: u64) -> Result<Operation, ClientError> {
        self.read(&self.api(Method::GET, &["operations", &id.to_string()])).await
    }

    /// The newest operations, up to a limit.
    ///
    /// # Errors
    /// The server could not be reached.
    pub async fn operations(&self, limit: u32) -> Result<Vec<Operation>, ClientError> {
        let call = self.api(Method::GET, &["operations"]).query(&[("limit", limit.to_string())]);
        let page: Page<Operation> = self.read(&call).await?;
        Ok(page.items)
    }

    /// Stops an operation. Idempotent.
    ///
    /// # Errors
    /// The operation has already ended, or the server could not be reached.
    pub async fn cancel_operation(&self, id: u64) -> Result<Operation, ClientError> {
        let call = self.api(Method::POST, &["operations", &id.to_string(), "cancel"]);
        self.read(&call.repeatable()).await
    }
}
