//! Prometheus metrics of the server: requests and connections. Metrics of jobs and workers come from the engine
//! (`exposition`). Counters start at zero with the process; the number of labels is bounded.

pub(crate) mod disk_usage;
pub(crate) mod exposition;
pub(crate) mod figures;
pub(crate) mod queries;

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use exposition::Exposition;
use queries::QueryMetrics;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: &'static str,
    status: u32,
}

pub(crate) struct Metrics {
    registry: Registry,
    /// Bytes appended to logs.
    pub log_bytes: Counter<u64, AtomicU64>,
    /// Open streams of events and logs.
    pub live_clients: Gauge,
    /// Waiting long polls.
    pub waiting: Gauge,
    pub connections: Gauge,
    /// Inbox rows that became jobs.
    pub inbox_taken: Counter<u64, AtomicU64>,
    /// Inbox rows that were set aside.
    pub inbox_refused: Counter<u64, AtomicU64>,
    requests: Family<RequestLabels, Counter>,
    pub queries: QueryMetrics,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut metrics = Metrics {
            registry: Registry::with_prefix("jobhall"),
            log_bytes: Counter::default(),
            live_clients: Gauge::default(),
            waiting: Gauge::default(),
            connections: Gauge::default(),
            inbox_taken: Counter::default(),
            inbox_refused: Counter::default(),
            requests: Family::default(),
            queries: QueryMetrics::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let to = &mut self.registry;
        to.register(
            "build",
            "Version of the server",
            Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]),
        );
        to.register("log_bytes", "Bytes added to logs", self.log_bytes.clone());
        to.register("live_clients", "Open streams of events and logs", self.live_clients.clone());
        to.register("vacancies_waiting", "Waiting long polls", self.waiting.clone());
        to.register("connections", "Open connections", self.connections.clone());
        to.register("inbox_taken", "Inbox rows submitted as jobs", self.inbox_taken.clone());
        to.register("inbox_refused", "Inbox rows refused", self.inbox_refused.clone());
        to.register("http_requests", "HTTP requests by route and status", self.requests.clone());
        self.queries.register(to);
    }

    /// Counts a request. The label is the pattern of the route, so the number of labels is the number of routes.
    pub(crate) fn request(&self, route: &'static str, status: u16) {
        self.requests.get_or_create(&RequestLabels { route, status: status.into() }).inc();
    }

    /// Counts a request of a route whose counters are known.
    pub(crate) fn request_of(&self, route: &'static str, status: u16, counters: &StatusCounters) {
        let new = || self.requests.get_or_create_owned(&RequestLabels { route, status: status.into() });
        counters.of(status, new).inc();
    }

    /// The metrics of this node, without those of the leader.
    pub(crate) fn own_text(&self) -> String {
        let mut text = String::new();
        // Writing into a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    /// All metrics in the text format of Prometheus.
    pub(crate) fn text(&self, exposition: Exposition) -> String {
        let mut counted = Registry::with_prefix("jobhall");
        counted.register_collector(Box::new(exposition));
        let mut text = String::new();
        // Writing into a string cannot fail.
        let _ = encode_registry(&mut text, &counted).and_then(|()| encode(&mut text, &self.registry));
        text
    }
}

/// The counters of one route by status, found without a lock or a hash. A route answers with few statuses, so they are
/// a list; the most common one is usually the first.
#[derive(Default)]
pub(crate) struct StatusCounters(OnceLock<Box<StatusCounter>>);

struct StatusCounter {
    status: u16,
    counter: Counter,
    others: StatusCounters,
}

impl StatusCounters {
    fn of(&self, status: u16, new: impl Fn() -> Counter) -> &Counter {
        let mut list = self;
        loop {
            let others = StatusCounters::default;
            let first =
                list.0.get_or_init(|| Box::new(StatusCounter { status, counter: new(), others: others() }));
            if first.status == status {
                return &first.counter;
            }
            list = &first.others;
        }
    }
}

/// Increments a gauge as long as the value exists.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_counters_are_those_of_the_route_and_the_status() {
        let (metrics, first, second) =
            (Metrics::default(), StatusCounters::default(), StatusCounters::default());
        for status in [200, 404, 200, 503, 404, 200] {
            metrics.request_of("/a", status, &first);
        }
        metrics.request_of("/b", 200, &second);
        metrics.request("/a", 404);
        let text = metrics.own_text();
        for (route, status, count) in [("/a", 200, 3), ("/a", 404, 3), ("/a", 503, 1), ("/b", 200, 1)] {
            let line =
                format!("jobhall_http_requests_total{{route=\"{route}\",status=\"{status}\"}} {count}\n");
            assert!(text.contains(&line), "{line}{text}");
        }
    }
}
