//! Explains why a job waits for a limit: the owner of the limit, the jobs that use it, and the expected change.

use jobhall_core::limits::Limit;
use jobhall_core::{JobId, Time};

use crate::explain::{Format, Why};
use crate::jobs::entry::{Entry, Placed};
use crate::jobs::load::rank;
use crate::kernel::Kernel;
use crate::limits::{Bucket, BucketId, Hindrance, LimitOf};
use crate::matching::board::Rank;

/// Maximum number of jobs named as using a limit.
const NAMED: usize = 5;
/// Maximum number of preceding jobs that are counted, and of their classes.
const COUNTED: usize = 1_000;

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
    /// The jobs that wait for the limit before this one.
    pub ahead: Ahead,
    /// When the limit admits the job after those ahead; none if the limit has no rate and the type no expected duration.
    pub start: Option<ExpectedStart>,
}

/// The jobs that wait for a limit before another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ahead {
    /// The number of jobs that were counted.
    pub jobs: usize,
    /// Whether there may be more.
    pub more: bool,
}

/// When a limit admits a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedStart {
    /// At this time.
    At(Time),
    /// At about this time, if every job takes as long as its type is expected to.
    About(Time),
    /// Not before this time: other limits apply too, or not all jobs ahead were counted.
    NotBefore(Time),
}

/// What a job lacks to pass a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Places: other jobs have to end first.
    Places,
    /// Tokens, which will be available later.
    Tokens,
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
        let share = entry.share().get()?;
        let weight = share.weight;
        let (ahead, ahead_weight) = self.ahead(bucket, rank(id, entry));
        let by_rate = bucket.tokens.as_ref().map(|tokens| {
            let all = u32::try_from(ahead_weight + u64::from(weight)).unwrap_or(u32::MAX);
            let (now, due) = (self.env.mono().0, tokens.ready_at(all, self.env.mono().0));
            let at = self.env.wall().plus_ms(due.saturating_sub(now));
            let alone = share.buckets.len() == 1 && bucket.concurrency.is_none() && !ahead.more;
            if alone { ExpectedStart::At(at) } else { ExpectedStart::NotBefore(at) }
        });
        let start = by_rate.or_else(|| self.start_by_duration(entry, bucket, ahead));
        let missing = match self.admission.limits().hindrance(at, rank(id, entry), weight, self.env.mono()) {
            Some(Hindrance::Tokens(_)) => Missing::Tokens,
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
            ahead,
            start,
        })
    }

    /// When a place is expected to be free for a job, from the expected duration of its type.
    fn start_by_duration(&self, entry: &Entry, bucket: &Bucket, ahead: Ahead) -> Option<ExpectedStart> {
        let expected_ms = self.settings.type_config(&self.board.class(entry.class)?.job_type).expected_ms?;
        let left = |id: JobId| expected_ms.saturating_sub(self.worked_ms(id).unwrap_or(0));
        let left = bucket.places.holders().iter().map(|(id, _)| left(*id)).collect();
        let at = self.env.wall().plus_ms(free_in_ms(left, expected_ms, ahead.jobs)?);
        Some(if ahead.more { ExpectedStart::NotBefore(at) } else { ExpectedStart::About(at) })
    }

    /// The jobs that wait for a bucket before this rank, and the sum of their weights. A job that was released and has
    /// found no vacancy yet is ahead too.
    fn ahead(&self, bucket: &Bucket, before: Rank) -> (Ahead, u64) {
        let out = bucket.last_out(COUNTED).filter_map(|id| {
            let entry = self.jobs.get(id).filter(|entry| entry.placed() == Placed::Ready)?;
            (rank(id, entry) < before).then_some((id, entry.share().get()?.weight))
        });
        let all = bucket.before(before, COUNTED).chain(out).take(COUNTED + 1);
        let (jobs, weight) = all.fold((0, 0), |(jobs, sum), (_, weight)| (jobs + 1, sum + u64::from(weight)));
        let more = jobs > COUNTED || bucket.classes() > COUNTED;
        (Ahead { jobs: jobs.min(COUNTED), more }, weight)
    }
}

/// In how many milliseconds the job behind so many others gets a place: the jobs that have the places end after the
/// times `left_ms`, every other one takes `expected_ms`.
fn free_in_ms(mut left_ms: Vec<u64>, expected_ms: u64, ahead: usize) -> Option<u64> {
    left_ms.sort_unstable();
    let rounds = u64::try_from(ahead.checked_div(left_ms.len())?).ok()?;
    let first = left_ms.get(ahead.checked_rem(left_ms.len())?)?;
    Some(first.saturating_add(rounds.saturating_mul(expected_ms)))
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

    /// The weight of the job, if it matters.
    fn heavy(&self, most: u32) -> String {
        match self.weight {
            1 => String::new(),
            weight if weight > most => {
                format!("; this job weighs {weight}, more than the limit, so it runs alone")
            }
            weight => format!("; this job weighs {weight}"),
        }
    }

    fn holders(&self) -> String {
        // The jobs are left out for a caller that may not see them.
        if self.by.is_empty() {
            return format!("{} {}", self.jobs, if self.jobs == 1 { "job" } else { "jobs" });
        }
        let named: Vec<_> = self.by.iter().map(ToString::to_string).collect();
        let more = self.jobs.saturating_sub(self.by.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{} {}{more}", if self.jobs == 1 { "job" } else { "jobs" }, named.join(", "))
    }

    /// Describes it in words.
    #[must_use]
    pub fn words(&self, format: Format) -> String {
        format!("{}; {}", self.cause(format), self.line(format))
    }

    /// The place in line, and the expected start if it is known.
    fn line(&self, format: Format) -> String {
        let ahead = match self.ahead {
            Ahead { jobs, more: true } => format!("more than {jobs} jobs are ahead of it"),
            Ahead { jobs: 0, .. } => "it is next".to_owned(),
            Ahead { jobs: 1, .. } => "1 job is ahead of it".to_owned(),
            Ahead { jobs, .. } => format!("{jobs} jobs are ahead of it"),
        };
        match self.start {
            None => ahead,
            Some(ExpectedStart::At(at)) => format!("{ahead}, expected start {}", (format.time)(at)),
            Some(ExpectedStart::About(at)) => {
                format!("{ahead}, expected start at about {}", (format.time)(at))
            }
            Some(ExpectedStart::NotBefore(at)) => {
                format!("{ahead}, expected start not before {}", (format.time)(at))
            }
        }
    }

    fn cause(&self, format: Format) -> String {
        let name = self.name();
        match (self.missing, self.limit.concurrency, self.limit.rate) {
            (Missing::Places, Some(most), _) => {
                let (taken, holders) = (self.taken, self.holders());
                format!("{name} allows {most} at once: {taken} taken by {holders}{}", self.heavy(most))
            }
            (Missing::Tokens, _, Some(rate)) => {
                let (starts, per) = (rate.count, (format.duration)(rate.per_ms));
                let starts = if starts == 1 { "1 start".to_owned() } else { format!("{starts} starts") };
                format!("{name} allows {starts} per {per}")
            }
            (Missing::Behind(first), ..) => {
                format!("{name}: job {first} precedes it and does not fit yet")
            }
            (Missing::Places | Missing::Tokens, ..) => format!("{name} was changed a moment ago"),
        }
    }
}
