//! Numbers for Prometheus. Each counts what this process saw since it started; labels are bounded.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: &'static str,
    status: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

/// All of them.
pub(crate) struct Metrics {
    registry: Registry,
    /// Jobs that were made by a submit.
    pub enqueued: Counter<u64, AtomicU64>,
    /// Attempts handed to workers.
    pub assigned: Counter<u64, AtomicU64>,
    /// Bytes added to logs.
    pub log_bytes: Counter<u64, AtomicU64>,
    /// Streams of events and logs that are open.
    pub live_clients: Gauge,
    /// Long polls that wait.
    pub waiting: Gauge,
    workers: Gauge,
    held: Gauge,
    reported: Family<OutcomeLabels, Counter>,
    requests: Family<RequestLabels, Counter>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut metrics = Metrics {
            registry: Registry::with_prefix("jobhall"),
            enqueued: Counter::default(),
            assigned: Counter::default(),
            log_bytes: Counter::default(),
            live_clients: Gauge::default(),
            waiting: Gauge::default(),
            workers: Gauge::default(),
            held: Gauge::default(),
            reported: Family::default(),
            requests: Family::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let to = &mut self.registry;
        to.register("build", "Which version runs", Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]));
        to.register("jobs_enqueued", "Jobs made by submits", self.enqueued.clone());
        to.register("attempts_assigned", "Attempts handed to workers", self.assigned.clone());
        to.register("attempts_reported", "Outcomes that workers reported", self.reported.clone());
        to.register("log_bytes", "Bytes added to logs", self.log_bytes.clone());
        to.register("live_clients", "Open streams of events and logs", self.live_clients.clone());
        to.register("vacancies_waiting", "Long polls that wait", self.waiting.clone());
        to.register("workers", "Workers that wait or have an attempt", self.workers.clone());
        to.register("attempts_held", "Attempts in the hands of workers", self.held.clone());
        to.register("http_requests", "Requests by route and status", self.requests.clone());
    }

    /// A request was answered. The route is the pattern, so there are as many labels as routes.
    pub(crate) fn request(&self, route: &'static str, status: u16) {
        self.requests.get_or_create(&RequestLabels { route, status: status.into() }).inc();
    }

    /// An attempt ended.
    pub(crate) fn outcome(&self, outcome: &'static str) {
        self.reported.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    /// The text that Prometheus reads.
    pub(crate) fn text(&self, workers: usize, held: usize) -> String {
        self.workers.set(i64::try_from(workers).unwrap_or(i64::MAX));
        self.held.set(i64::try_from(held).unwrap_or(i64::MAX));
        let mut text = String::new();
        // Writing into a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// Counts one as long as it lives.
pub(crate) struct Counted(Gauge);

impl Counted {
    pub(crate) fn new(gauge: &Gauge) -> Counted {
        gauge.inc();
        Counted(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}
