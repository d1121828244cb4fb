//! Removes sources that are named by their digest and were not used for a week. It runs as long as this node leads.

use std::sync::Arc;
use std::time::Duration;

use crate::server::app::{App, now};

/// Time between two runs.
const EVERY: Duration = Duration::from_secs(60 * 60);
/// Delay of the first run after the start, so that a server that is restarted often removes them too.
const FIRST: Duration = Duration::from_secs(60);

pub(crate) async fn run(app: Arc<App>) {
    let mut pause = FIRST;
    loop {
        tokio::select! {
            () = app.drained() => return,
            () = tokio::time::sleep(pause) => pause = EVERY,
        }
        match app.queries.remove_unused_sources(now()).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "unused sources removed"),
            Err(error) => tracing::warn!("failed to remove unused sources: {error}"),
        }
    }
}
