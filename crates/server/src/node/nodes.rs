//! The list of the nodes of a hall. The caller that assembles the server supplies the source of the list.

use std::fmt;
use std::sync::Arc;

use jobhall_protocol::Node;
use jobhall_store::{Later, StoreError};

type Ask = dyn Fn() -> Later<Result<Vec<Node>, StoreError>> + Send + Sync;

/// Lists the nodes of a hall.
#[derive(Clone)]
pub struct Nodes(Arc<Ask>);

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nodes(…)")
    }
}

impl Nodes {
    /// Creates a list that this function reads.
    pub fn new(ask: impl Fn() -> Later<Result<Vec<Node>, StoreError>> + Send + Sync + 'static) -> Nodes {
        Nodes(Arc::new(ask))
    }

    /// The nodes, by name.
    pub(crate) async fn list(&self) -> Result<Vec<Node>, StoreError> {
        let mut nodes = (self.0)().await?;
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(nodes)
    }
}
