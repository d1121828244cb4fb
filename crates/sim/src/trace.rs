//! The trace of a run: one line per event, each with the jobs it concerns, and a hash over all lines.

use std::collections::BTreeSet;

use jobhall_core::JobId;

use crate::random::mix;

/// One recorded event.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub at_ms: u64,
    pub jobs: Vec<JobId>,
    pub text: String,
}

#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// Whether lines are kept.
    pub keep: bool,
    pub lines: Vec<Line>,
    pub hash: u64,
    pub events: u64,
}

impl Trace {
    /// Records an event by numbers that identify it.
    pub fn stir(&mut self, numbers: &[u64]) {
        self.events += 1;
        for &number in numbers {
            self.hash = mix(self.hash.wrapping_mul(31).wrapping_add(number));
        }
    }

    /// Records an event as text, if lines are kept.
    pub fn note(&mut self, at_ms: u64, jobs: &[JobId], text: impl FnOnce() -> String) {
        if self.keep {
            self.lines.push(Line { at_ms, jobs: jobs.to_vec(), text: text() });
        }
    }

    /// The lines about these jobs, and those about none; all if no job is named.
    pub fn about(&self, jobs: &[JobId]) -> Vec<String> {
        let wanted: BTreeSet<_> = jobs.iter().collect();
        let fits = |line: &&Line| {
            wanted.is_empty() || line.jobs.is_empty() || line.jobs.iter().any(|id| wanted.contains(id))
        };
        self.lines.iter().filter(fits).map(|line| format!("{:>9} ms  {}", line.at_ms, line.text)).collect()
    }
}
