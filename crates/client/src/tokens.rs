//! Tokens and the audit log.

use jobhall_protocol::{Act, CreateToken, CreatedToken, Join, Moved, Page, Progress, Token};
use reqwest::Method;

use crate::call::Client;
use crate::error::ClientError;

impl Client {
    /// All tokens, without their secrets.
    ///
    /// # Errors
    /// This token is not allowed to, or the server could not be reached.
    pub async fn tokens(&self) -> Result<Vec<Token>, ClientError> {
        self.whole_list("tokens").await
    }

    /// Creates a token; its secret is returned only here.
    ///
    /// # Errors
    /// The request is wrong, the name is taken, or the server could not be reached.
    pub async fn create_token(&self, wanted: &CreateToken) -> Result<CreatedToken, ClientError> {
        self.read(&self.api(Method::POST, &["tokens"]).json(wanted)?).await
    }

    /// Takes a token away.
    ///
    /// # Errors
    /// There is no such token, or the server could not be reached.
    pub async fn revoke_token(&self, id: &str) -> Result<(), ClientError> {
        self.send(&self.api(Method::DELETE, &["tokens", id])).await.map(drop)
    }

    /// Exchanges the join token that this client shows for a worker's own credential. Not repeated: it works once.
    ///
    /// # Errors
    /// It was used or is too old, the name is taken, or the server could not be reached.
    pub async fn join(&self, name: &str) -> Result<CreatedToken, ClientError> {
        let join = Join { name: name.to_owned() };
        self.read(&self.api(Method::POST, &["join"]).json(&join)?).await
    }

    /// A page of what was done, newest first.
    ///
    /// # Errors
    /// This token is not allowed to, or the server could not be reached.
    pub async fn audit(&self, limit: usize, cursor: Option<&str>) -> Result<Page<Act>, ClientError> {
        let cursor = cursor.map(|cursor| ("cursor", cursor.to_owned()));
        let pairs: Vec<_> = [("limit", limit.to_string())].into_iter().chain(cursor).collect();
        self.read(&self.api(Method::GET, &["audit"]).query(&pairs)).await
    }

    /// Tells how far the attempt is that this client's token belongs to.
    ///
    /// # Errors
    /// The attempt has ended, or the server could not be reached.
    pub async fn own_progress(&self, attempt: &str, progress: &Progress) -> Result<Moved, ClientError> {
        self.read(&self.api(Method::POST, &["attempts", attempt, "progress"]).json(progress)?).await
    }
}
