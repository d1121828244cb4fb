//! Tokens and the audit log.

use jobhall_protocol::{Act, CreateToken, CreatedToken, Join, Moved, Page, Progress, Token};
use reqwest::Method;

use crate::error::ClientError;
use crate::http::call::Client;

impl Client {
    /// All tokens, without their secrets.
    ///
    /// # Errors
    /// This token may not list tokens, or the server could not be reached.
    pub async fn tokens(&self) -> Result<Vec<Token>, ClientError> {
        self.whole_list("tokens").await
    }

    /// Creates a token. Only this response contains its secret.
    ///
    /// # Errors
    /// The request is invalid, the name is in use, or the server could not be reached.
    pub async fn create_token(&self, wanted: &CreateToken) -> Result<CreatedToken, ClientError> {
        self.read(&self.api(Method::POST, &["tokens"]).json(wanted)?).await
    }

    /// Revokes a token.
    ///
    /// # Errors
    /// The token does not exist, or the server could not be reached.
    pub async fn revoke_token(&self, id: &str) -> Result<(), ClientError> {
        self.send(&self.api(Method::DELETE, &["tokens", id])).await.map(drop)
    }

    /// Exchanges the join token of this client for a worker token. Not repeated: each join uses the join token.
    ///
    /// # Errors
    /// The join token was used or has expired, the name is in use, or the server could not be reached.
    pub async fn join(&self, name: &str) -> Result<CreatedToken, ClientError> {
        let join = Join { name: name.to_owned() };
        self.read(&self.api(Method::POST, &["join"]).json(&join)?).await
    }

    /// A page of the audit log, newest first.
    ///
    /// # Errors
    /// This token may not read the audit log, or the server could not be reached.
    pub async fn audit(&self, limit: usize, cursor: Option<&str>) -> Result<Page<Act>, ClientError> {
        let cursor = cursor.map(|cursor| ("cursor", cursor.to_owned()));
        let pairs: Vec<_> = [("limit", limit.to_string())].into_iter().chain(cursor).collect();
        self.read(&self.api(Method::GET, &["audit"]).query(&pairs)).await
    }

    /// Reports the progress of the attempt that this client's token belongs to.
    ///
    /// # Errors
    /// The attempt has ended, or the server could not be reached.
    pub async fn own_progress(&self, attempt: &str, progress: &Progress) -> Result<Moved, ClientError> {
        self.read(&self.api(Method::POST, &["attempts", attempt, "progress"]).json(progress)?).await
    }
}
