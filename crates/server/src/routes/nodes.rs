//! The nodes of the hall.

use std::sync::Arc;

use axum::extract::State;
use jobhall_protocol::Page;

use crate::error::{self, Answer};
use crate::server::app::App;

pub(super) async fn list(State(app): State<Arc<App>>) -> Answer {
    Ok(error::ok(&Page { items: app.nodes.list().await?, next_cursor: None }))
}
