//! Counts of what occurred: a run without refusals proves nothing about refusals.

use std::collections::BTreeMap;
use std::fmt;

/// Counts by group and kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    counts: BTreeMap<(&'static str, String), u64>,
}

impl Tally {
    pub(crate) fn add(&mut self, group: &'static str, kind: impl Into<String>) {
        *self.counts.entry((group, kind.into())).or_default() += 1;
    }

    /// Adds the counts of another run.
    pub fn merge(&mut self, other: &Tally) {
        for (kind, count) in &other.counts {
            *self.counts.entry(kind.clone()).or_default() += count;
        }
    }

    pub fn count(&self, group: &str, kind: &str) -> u64 {
        let mut found = self.counts.iter().filter(|((g, k), _)| *g == group && k == kind);
        found.next().map_or(0, |(_, &count)| count)
    }

    pub fn total(&self, group: &str) -> u64 {
        self.counts.iter().filter(|((g, _), _)| *g == group).map(|(_, count)| count).sum()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = "";
        for ((group, kind), count) in &self.counts {
            if *group != last {
                writeln!(f, "{group}")?;
                last = group;
            }
            writeln!(f, "  {count:>10}  {kind}")?;
        }
        Ok(())
    }
}

/// The first word of a value's debug form: the name of its variant.
pub(crate) fn variant(value: &impl fmt::Debug) -> String {
    let text = format!("{value:?}");
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}
