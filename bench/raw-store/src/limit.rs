//! The theoretical limit of a baseline, and whether the baseline comes close enough to represent the store.
//!
//! A slow baseline would make every engine look fast. A baseline is therefore valid only if it reaches 70 % of `B /
//! (B × CPU per job + commits × sync)`: the CPU time of a job measured by the spike on the same kind of machine, plus
//! the current duration of a sync.

use crate::rows::Mode;

/// The share of the limit that a baseline must reach.
pub const VALID_SHARE: f64 = 0.7;

/// Microseconds of CPU per job, measured by the spike before the engine was written (2 vCPU Xeon 2.8 GHz, SQLite
/// FULL, queue in memory, 300 B params), with batches of 10, 100 and 1,000.
///
/// | mode | figures of the spike | used here |
/// |---|---|---|
/// | sep | "queue in memory": 9–11 at 100, 6–7 at 1,000 | the middle |
/// | mixed | "queue in memory, equal-width rows": 6.3 at 100, 5.0 at 1,000 | the same |
/// | fused | "one table": 7–10 at 100, 5–6 at 1,000; without a queue index none | the lower end: it had one |
/// | fused-mixed | none; it does less than mixed | that of mixed |
///
/// The spike has no figures for 10: these are extrapolated from those for 1,000 and 100.
const CPU_US: [(Mode, [f64; 3]); 4] = [
    (Mode::Sep, [13.5, 10.0, 6.5]),
    (Mode::Mixed, [7.6, 6.3, 5.0]),
    (Mode::Fused, [9.0, 7.0, 5.0]),
    (Mode::FusedMixed, [7.6, 6.3, 5.0]),
];

/// CPU per job in microseconds, interpolated between the batches of the table on a logarithmic scale, constant
/// outside.
pub fn cpu_us(mode: Mode, batch: f64) -> f64 {
    let row = CPU_US.iter().find(|(of, _)| *of == mode);
    let [at_10, at_100, at_1000] = row.map_or([0.0; 3], |(_, figures)| *figures);
    let decades = batch.max(1.0).log10().clamp(1.0, 3.0);
    if decades < 2.0 {
        at_10 + (at_100 - at_10) * (decades - 1.0)
    } else {
        at_100 + (at_1000 - at_100) * (decades - 2.0)
    }
}

/// Life cycles per second that the mode could reach with this batch and sync.
pub fn lives_per_second(mode: Mode, batch: f64, fdatasync_us: f64) -> f64 {
    let us = batch * cpu_us(mode, batch) + mode.commits_per_batch() * fdatasync_us;
    batch / us * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_lie_between_those_of_the_table() {
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(close(cpu_us(Mode::Mixed, 100.0), 6.3));
        assert!(close(cpu_us(Mode::Mixed, 1_000.0), 5.0));
        assert!(close(cpu_us(Mode::Mixed, 100.0 * 10.0_f64.sqrt()), 5.65));
        assert!(close(cpu_us(Mode::Sep, 10.0), 13.5));
        assert!(close(cpu_us(Mode::Sep, 1.0), 13.5) && close(cpu_us(Mode::Sep, 1e6), 6.5));
    }

    #[test]
    fn the_limit_counts_every_commit() {
        let mixed = lives_per_second(Mode::Mixed, 100.0, 100.0);
        assert!((mixed - 100.0 / 730e-6).abs() < 1.0, "{mixed}");
        let sep = lives_per_second(Mode::Sep, 100.0, 100.0);
        assert!((sep - 100.0 / 1_300e-6).abs() < 1.0, "{sep}");
    }
}
