//! The cache of values of queries.

use jobhall_protocol::{CacheDropped, CachePin, CacheStats, CacheVerified, CachedValue, Page};
use reqwest::Method;

use crate::error::ClientError;
use crate::http::call::Client;

/// Which stored values are removed: exactly one of the first four is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DropValues {
    /// The value of this query, also if it is pinned.
    pub query: Option<String>,
    /// What was made by this command, and what was made from that.
    pub command: Option<String>,
    /// What was made from the data of this source.
    pub source: Option<String>,
    /// All values that are not pinned.
    pub all: bool,
    /// Only count.
    pub dry_run: bool,
}

impl DropValues {
    fn pairs(&self, cursor: Option<&str>) -> Vec<(&'static str, String)> {
        let flag = |set: bool| set.then(|| "true".to_owned());
        let pairs = [
            ("query", self.query.clone()),
            ("command", self.command.clone()),
            ("source", self.source.clone()),
            ("all", flag(self.all)),
            ("dry_run", flag(self.dry_run)),
            ("cursor", cursor.map(str::to_owned)),
        ];
        pairs.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

impl Client {
    /// A page of stored values, newest first, of one command or of all.
    ///
    /// # Errors
    /// The token does not reach queries, or the server could not be reached.
    pub async fn cached_values(
        &self,
        command: Option<&str>,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<Page<CachedValue>, ClientError> {
        let optional = [("command", command), ("cursor", cursor)];
        let optional = optional.into_iter().filter_map(|(name, value)| Some((name, value?.to_owned())));
        let pairs: Vec<_> = std::iter::once(("limit", limit.to_string())).chain(optional).collect();
        self.read(&self.api(Method::GET, &["cache"]).query(&pairs)).await
    }

    /// The stored value of a query; none if it is not stored.
    ///
    /// # Errors
    /// The query is wrong, or the server could not be reached.
    pub async fn cached_value(&self, query: &str) -> Result<Option<CachedValue>, ClientError> {
        let call = self.api(Method::GET, &["cache"]).query(&[("query", query.to_owned())]);
        let page: Page<CachedValue> = self.read(&call).await?;
        Ok(page.items.into_iter().next())
    }

    /// Figures of the cache.
    ///
    /// # Errors
    /// The token does not reach queries, or the server could not be reached.
    pub async fn cache_stats(&self) -> Result<CacheStats, ClientError> {
        self.read(&self.api(Method::GET, &["cache", "stats"])).await
    }

    /// Removes stored values, or counts them. One request removes a bounded number; all are removed by repeating it with
    /// the cursor.
    ///
    /// # Errors
    /// The query is wrong, or the server could not be reached.
    pub async fn drop_values(
        &self,
        which: &DropValues,
        cursor: Option<&str>,
    ) -> Result<CacheDropped, ClientError> {
        self.read(&self.api(Method::DELETE, &["cache"]).query(&which.pairs(cursor)).repeatable()).await
    }

    /// Keeps the value of a query, whether it is stored yet or not.
    ///
    /// # Errors
    /// The query is wrong, or the server could not be reached.
    pub async fn pin_value(&self, query: &str) -> Result<CachePin, ClientError> {
        self.read(&self.api(Method::PUT, &pin(query)).repeatable()).await
    }

    /// Removes a pin, by the text of its query or by its identity.
    ///
    /// # Errors
    /// It is not pinned, or the server could not be reached.
    pub async fn unpin_value(&self, query: &str) -> Result<(), ClientError> {
        self.send(&self.api(Method::DELETE, &pin(query))).await.map(drop)
    }

    /// Reads stored values again; those that are damaged are made again when they are asked for. One request reads a
    /// bounded number.
    ///
    /// # Errors
    /// The server could not be reached.
    pub async fn verify_cache(&self, cursor: Option<&str>) -> Result<CacheVerified, ClientError> {
        let pairs: Vec<_> = cursor.iter().map(|cursor| ("cursor", (*cursor).to_owned())).collect();
        self.read(&self.api(Method::POST, &["cache", "verify"]).query(&pairs).repeatable()).await
    }
}

fn pin(query: &str) -> Vec<&str> {
    ["cache", "pins"].into_iter().chain(query.split('/')).collect()
}
