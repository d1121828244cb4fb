//! Prometheus metrics of the engine. Queue names are labels, so their number is bounded; the remaining queues are
//! reported together under a name that no queue can have.

use std::fmt;

use jobhall_core::Time;
use jobhall_engine::{ByOutcome, Counts, Histogram, Tally};
use jobhall_protocol::Disk;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::metrics::figures::seconds;
use crate::metrics::queries::CacheFigures;

/// The label for all queues without their own label.
const OTHERS: &str = "(others)";

/// A snapshot of all values.
#[derive(Debug)]
pub(crate) struct Exposition {
    pub counts: Counts,
    pub disk: Option<Disk>,
    pub cache: CacheFigures,
    pub now: Time,
}

impl Collector for Exposition {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        let counts = &self.counts;
        counter(&mut to, "jobs_enqueued", "Jobs created by submit, retry or follow-up", counts.submitted)?;
        counter(&mut to, "attempts_assigned", "Attempts assigned to workers", counts.wait.count)?;
        outcomes(&mut to, "jobs_finished", "Jobs completed by outcome", &counts.completed)?;
        outcomes(&mut to, "attempts_ended", "Attempts ended by outcome", &counts.attempts)?;
        let wait = "Time from when a job became ready until it was assigned";
        histogram(&mut to, "job_wait_seconds", wait, &counts.wait, 1_000)?;
        let run = "Time from when an attempt was accepted until it ended";
        histogram(&mut to, "job_run_seconds", run, &counts.run, 1_000)?;
        let commit = "Time from when a commit was sent until it was durable";
        histogram(&mut to, "db_tx_seconds", commit, &counts.commit, 1_000_000)?;
        self.workers(&mut to)?;
        self.queues(&mut to)?;
        self.disk(&mut to)?;
        self.cache.encode(&mut to)
    }
}

impl Exposition {
    fn workers(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let force = &self.counts.workforce;
        let workers = [("idle", force.idle), ("busy", force.busy), ("awaited", force.awaited)];
        by_state(to, "workers", "Workers by state", workers)?;
        let slots = [("free", force.free_slots), ("busy", force.busy_slots)];
        by_state(to, "worker_slots", "Worker slots by state", slots)
    }

    /// The queues that have a label.
    fn labelled(&self) -> impl Iterator<Item = (&str, &Tally)> {
        let others = Some((OTHERS, &self.counts.others)).filter(|(_, tally)| tally.open() > 0);
        self.counts.queues.iter().map(|(name, tally)| (name.as_str(), tally)).chain(others)
    }

    fn queues(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut jobs =
            to.encode_descriptor("queue_jobs", "Open jobs by queue and state", None, MetricType::Gauge)?;
        for (queue, tally) in self.labelled() {
            for (state, n) in tally.states() {
                let labels = [("queue", queue), ("state", state.as_str())];
                ConstGauge::new(n).encode(jobs.encode_family(&labels)?)?;
            }
        }
        let help = "Ready jobs";
        let mut ready = to.encode_descriptor("queue_ready_jobs", help, None, MetricType::Gauge)?;
        for (queue, tally) in self.labelled() {
            ConstGauge::new(tally.ready).encode(ready.encode_family(&[("queue", queue)])?)?;
        }
        let help = "Time for which the oldest ready job has been ready; 0 if none is ready";
        let name = "queue_oldest_ready_seconds";
        let mut oldest = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (queue, tally) in self.labelled() {
            let ms = tally.oldest_ready.map_or(0, |since| self.now.since(since));
            ConstGauge::new(seconds(ms, 1_000)).encode(oldest.encode_family(&[("queue", queue)])?)?;
        }
        Ok(())
    }

    /// Values that the system does not provide are omitted.
    fn disk(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(disk) = &self.disk else { return Ok(()) };
        gauge(to, "store_bytes", "Size of the store on disk in bytes", disk.store_bytes)?;
        gauge(to, "disk_free_bytes", "Free bytes on the file system of the store", disk.free_bytes)
    }
}

fn counter(to: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    ConstCounter::new(value).encode(to.encode_descriptor(name, help, None, MetricType::Counter)?)
}

fn gauge(to: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    ConstGauge::new(value).encode(to.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

fn outcomes(to: &mut DescriptorEncoder<'_>, name: &str, help: &str, by: &ByOutcome) -> fmt::Result {
    let mut family = to.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (outcome, n) in by.iter() {
        ConstCounter::new(n).encode(family.encode_family(&[("outcome", outcome.as_str())])?)?;
    }
    Ok(())
}

fn by_state<const N: usize>(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: [(&str, u64); N],
) -> fmt::Result {
    let mut family = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (state, n) in values {
        ConstGauge::new(n).encode(family.encode_family(&[("state", state)])?)?;
    }
    Ok(())
}

fn histogram(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    of: &Histogram,
    units_per_s: u64,
) -> fmt::Result {
    let bound = |units: Option<u64>| units.map_or(f64::INFINITY, |units| seconds(units, units_per_s));
    let buckets: Vec<_> = of.buckets().map(|(units, n)| (bound(units), n)).collect();
    let mut metric = to.encode_descriptor(name, help, None, MetricType::Histogram)?;
    metric.encode_histogram::<NoLabelSet>(seconds(of.sum, units_per_s), of.count, &buckets, None)
}
