//! Statistics of the hall.

use std::sync::Arc;

use axum::extract::{Extension, State};
use jobhall_protocol::{Asker, Disk, Stats, Timestamp};
use prometheus_client::metrics::gauge::Gauge;

use super::retention;
use crate::auth::tokens::Identity;
use crate::error::{self, Answer};
use crate::metrics::figures;
use crate::server::app::{App, now};

pub(super) async fn stats(State(app): State<Arc<App>>, Extension(who): Extension<Identity>) -> Answer {
    let counts = app.engine.counts().await?;
    let (rev, rule) = app.engine.retention().await?;
    let disk = app.disk_usage.look_at_all().await;
    let now = now();
    Ok(error::ok(&Stats {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        time: Timestamp(now),
        uptime_ms: u64::try_from(app.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        jobs: figures::states(&counts.open),
        ready: counts.open.ready,
        oldest_ready_ms: counts.open.oldest_ready.map(|since| now.since(since)),
        totals: figures::totals(&counts),
        submitted: figures::rates(counts.submitted_lately),
        completed: figures::rates(counts.completed_lately),
        wait: figures::durations(&counts.wait, 1),
        run: figures::durations(&counts.run, 1),
        commit: figures::durations(&counts.commit, 1_000),
        workers: figures::workforce(&counts),
        kept: Some(figures::kept(&counts, retention::shown(rev, rule))),
        disk: known(disk),
        connections: whole(&app.metrics.connections),
        live_clients: whole(&app.metrics.live_clients),
        token: Asker { name: who.name.clone(), role: format!("{:?}", who.role).to_lowercase() },
    }))
}

/// The disk usage without the blobs; if it cannot be read, the error is logged.
pub(super) async fn disk(app: &App) -> Option<Disk> {
    known(app.disk_usage.look().await)
}

fn known(disk: std::io::Result<Disk>) -> Option<Disk> {
    disk.inspect_err(|error| tracing::warn!(%error, "failed to read the disk usage")).ok()
}

fn whole(gauge: &Gauge) -> u64 {
    u64::try_from(gauge.get()).unwrap_or(0)
}
