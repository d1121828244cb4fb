//! Explains why a job waits for a limit: the owner of the limit, the jobs that use it, and the expected change.

use std::fmt;

use jobhall_core::limits::Limit;
use jobhall_core::{JobId, Time};

use crate::explain::Why;
use crate::jobs::entry::{Entry, Placed};
use crate::jobs::load::rank;
use crate::kernel::Kernel;
use crate::limits::{BucketId, Hindrance, LimitOf};

/// Maximum number of jobs named as using a limit.
const NAMED: usize = 5;

/// The limit that a job waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitWhy {
    /// The owner of the limit.
    pub of: LimitOf,
    /// The limit.
    pub limit: Limit,
    /// The value of its expression for the job; none: no value, or there is no expression.
    pub value: Option<String>,
    /// The weight of the job.
    pub weight: u32,
    /// The sum of the weights in use.
    pub taken: u64,
    /// The first of the jobs that use it.
    pub by: Vec<JobId>,
    /// The number of jobs that use it.
    pub jobs: usize,
    /// What exactly is missing.
    pub missing: Missing,
}

/// What a job lacks to pass a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Places: other jobs have to end first.
    Places,
    /// Tokens, which will be available at this time.
    Tokens(Time),
    /// This job precedes it and does not fit yet.
    Behind(JobId),
}

impl Kernel {
    /// Returns why a job is withheld from all workers, whether or not any match.
    pub(crate) fn why_reserved(&self, id: JobId, entry: &Entry) -> Vec<Why> {
        let mut why = Vec::new();
        if let Some(class) = self.board.class(entry.class) {
            let (queue, job_type) = self.board.is_paused(class);
            why.extend(queue.then(|| Why::Paused(LimitOf::Queue(class.queue.clone()))));
            why.extend(job_type.then(|| Why::Paused(LimitOf::Type(class.job_type.clone()))));
        }
        why.extend(entry.status.get().hold.then_some(Why::OnHold));
        if let Placed::Limited(at) = entry.placed() {
            why.extend(self.why_bucket(id, entry, at).map(|limited| Why::Limited(Box::new(limited))));
        }
        why
    }

    /// Why a job waits in this bucket.
    fn why_bucket(&self, id: JobId, entry: &Entry, at: BucketId) -> Option<LimitWhy> {
        let (of, limit, bucket) = self.admission.limits().look(at)?;
        let weight = entry.share().get()?.weight;
        let missing = match self.admission.limits().hindrance(at, rank(id, entry), weight, self.env.mono()) {
            Some(Hindrance::Tokens(due)) => {
                Missing::Tokens(self.env.wall().plus_ms(due.0.saturating_sub(self.env.mono().0)))
            }
            Some(Hindrance::Behind(first)) => Missing::Behind(first),
            Some(Hindrance::Places) | None => Missing::Places,
        };
        let holders = bucket.places.holders();
        Some(LimitWhy {
            of: of.clone(),
            limit: limit.clone(),
            value: bucket.value.as_deref().map(str::to_owned),
            weight,
            taken: bucket.places.taken(),
            by: holders.iter().map(|(id, _)| *id).take(NAMED).collect(),
            jobs: holders.len(),
            missing,
        })
    }
}

impl LimitWhy {
    /// The limit by its owner, expression and value.
    fn name(&self) -> String {
        match (&self.limit.by, &self.value) {
            (None, _) => format!("a limit of {}", self.of),
            (Some(by), Some(value)) => format!("a limit of {} for {by} = {value:?}", self.of),
            (Some(by), None) => format!("a limit of {} for jobs without {by}", self.of),
        }
    }

    fn holders(&self) -> String {
        let named: Vec<_> = self.by.iter().map(ToString::to_string).collect();
        let more = self.jobs.saturating_sub(self.by.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{} {}{more}", if self.jobs == 1 { "job" } else { "jobs" }, named.join(", "))
    }

    /// Describes it in words; `moment` formats a time.
    pub fn words(&self, moment: impl Fn(Time) -> String) -> String {
        let name = self.name();
        match (self.missing, self.limit.concurrency, self.limit.rate) {
            (Missing::Places, Some(most), _) => {
                let heavy = if u64::from(self.weight) > u64::from(most) {
                    ", more than the limit, so it runs alone"
                } else {
                    ""
                };
                let (taken, holders) = (self.taken, self.holders());
                format!(
                    "{name} allows {most} at once: {taken} taken by {holders}; this job weighs {}{heavy}",
                    self.weight
                )
            }
            (Missing::Tokens(at), _, Some(rate)) => {
                let per = rate.per_ms;
                format!(
                    "{name} allows {} starts in {per} ms: this job can start at {}",
                    rate.count,
                    moment(at)
                )
            }
            (Missing::Behind(first), ..) => {
                format!("{name}: job {first} precedes it and does not fit yet")
            }
            (Missing::Places | Missing::Tokens(_), ..) => format!("{name} was changed a moment ago"),
        }
    }
}

impl fmt::Display for LimitWhy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words(|at| format!("{} ms", at.as_ms())))
    }
}
