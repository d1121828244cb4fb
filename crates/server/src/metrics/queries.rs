//! Metrics of queries and of the cache of their values.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// The results that are counted. Others are not.
const RESULTS: [&str; 5] = ["hit", "joined", "computed", "skipped", "failed"];
/// Upper bounds of the times, in seconds.
const BUCKETS: [f64; 14] =
    [0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 600.0, 3_600.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

pub(crate) struct QueryMetrics {
    /// One for each result, in their order.
    requests: [Counter<u64, AtomicU64>; 5],
    family: Family<ResultLabels, Counter<u64, AtomicU64>>,
    seconds: Histogram,
}

impl Default for QueryMetrics {
    fn default() -> QueryMetrics {
        let family = Family::<ResultLabels, Counter<u64, AtomicU64>>::default();
        let requests = RESULTS.map(|result| family.get_or_create_owned(&ResultLabels { result }));
        QueryMetrics { requests, family, seconds: Histogram::new(BUCKETS) }
    }
}

impl QueryMetrics {
    pub fn register(&self, to: &mut Registry) {
        let help = "Requests for a query that were answered with its value or with the failure of a step";
        to.register("query_requests", help, self.family.clone());
        let help = "Time until such a request was answered";
        to.register("query_seconds", help, self.seconds.clone());
    }

    /// A request was answered with a value, or with the failure of a step.
    pub fn answered(&self, result: &str, took: Duration) {
        if let Some(at) = RESULTS.iter().position(|known| *known == result) {
            self.requests[at].inc();
            self.seconds.observe(took.as_secs_f64());
        }
    }
}

/// The cache at the time of a scrape.
#[derive(Debug)]
pub(crate) struct CacheFigures {
    pub values: u64,
    pub bytes: u64,
    pub evictions: u64,
}

impl CacheFigures {
    pub fn encode(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let gauges = [
            ("cache_values", "Stored values of queries", self.values),
            ("cache_bytes", "Bytes of the stored values of queries", self.bytes),
        ];
        for (name, help, value) in gauges {
            ConstGauge::new(value).encode(to.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        let help = "Values that were removed because of the bounds of the cache";
        let counter = to.encode_descriptor("cache_evictions", help, None, MetricType::Counter)?;
        ConstCounter::new(self.evictions).encode(counter)
    }
}
