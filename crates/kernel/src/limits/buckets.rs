//! Buckets of the limits of queues and types, with the open jobs that belong to them or wait for them.
//!
//! A job belongs to the buckets of all limits of its queue and its type: its [`Share`]. A claim acquires all its
//! buckets or none. A job that cannot acquire one leaves the order of ready jobs and waits in that bucket. It returns
//! when a place becomes free or its token is due, which is a deadline: nothing polls.
//!
//! None of this is stored. Places are counted from the leased jobs, also after a restart; a rate then starts without
//! tokens, so it is never exceeded. A bucket without jobs is removed once its rate is full again; a few thousand
//! buckets without a rate are kept.

mod borrowing;
mod bucket;
mod lending;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use jobhall_core::limits::{Limit, Tokens};
use jobhall_core::{JobId, JobSpec, QueueName, TypeName};

use crate::api::time::Mono;
use crate::jobs::ids::IdMap;
use crate::matching::board::{ClassId, Rank};
pub(crate) use bucket::{Bucket, Hindrance};
use lending::Lending;
pub use rules::LimitOf;
use rules::{Rule, RuleId, Value};

/// Maximum number of buckets without jobs that are kept because of their rate.
const IDLE: usize = 1_000_000;
/// Maximum number of buckets without jobs and without a rate that are kept for the next job with the same value.
const SPARES: usize = 4_096;

/// A bucket's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BucketId(u64);

/// The weight of a job, and the buckets to which it applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub weight: u32,
    pub buckets: Vec<BucketId>,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    rules: BTreeMap<RuleId, Rule>,
    of_queue: HashMap<QueueName, Vec<RuleId>>,
    of_type: HashMap<TypeName, Vec<RuleId>>,
    /// The rules of the last lookup: the next job is usually of the same queue and type.
    last: Option<(QueueName, TypeName, Arc<[RuleId]>)>,
    buckets: IdMap<BucketId, Bucket>,
    /// Buckets without jobs, by the time at which their rate is full again.
    idle: BTreeSet<(Mono, BucketId)>,
    /// Buckets without jobs and without a rate, oldest first.
    spares: VecDeque<BucketId>,
    /// Buckets in which a waiting job may now fit.
    dirty: BTreeSet<BucketId>,
    /// The next job of each dirty bucket; it may no longer fit.
    candidates: BTreeSet<(Rank, BucketId)>,
    /// When the first job waiting for tokens can have them, by bucket.
    due: BTreeSet<(Mono, BucketId)>,
    lending: Lending,
    next: u64,
    version: u64,
}

impl Limits {
    /// The version of the limits; it changes with every change of them.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the share of a job; none if it has no limit. The job is counted in it until [`Limits::drop_share`].
    pub fn share(&mut self, spec: &JobSpec, now: Mono) -> Option<Share> {
        let weight = spec.throttle_factor;
        if self.rules.is_empty() || weight == 0 {
            return None;
        }
        let rules = self.rules_for(spec);
        let mut buckets = Vec::with_capacity(rules.len());
        buckets.extend(rules.iter().filter_map(|&rule| self.enter(rule, spec, now)));
        (!buckets.is_empty()).then_some(Share { weight, buckets })
    }

    /// Returns the limits of a job's queue and type.
    fn rules_for(&mut self, spec: &JobSpec) -> Arc<[RuleId]> {
        if let Some((queue, job_type, rules)) = &self.last
            && *queue == spec.queue
            && *job_type == spec.job_type
        {
            return rules.clone();
        }
        let of_queue = self.of_queue.get(&spec.queue).map_or(&[][..], Vec::as_slice);
        let of_type = self.of_type.get(&spec.job_type).map_or(&[][..], Vec::as_slice);
        let rules: Arc<[RuleId]> = of_queue.iter().chain(of_type).copied().collect();
        self.last = Some((spec.queue.clone(), spec.job_type.clone(), rules.clone()));
        rules
    }

    /// Returns the bucket of a limit for a job, creating it if there is none, and counts the job in it.
    fn enter(&mut self, rule: RuleId, spec: &JobSpec, now: Mono) -> Option<BucketId> {
        let known = self.rules.get(&rule)?;
        let text = known.limit.by.as_ref().and_then(|by| by.value(spec));
        let id = match known.buckets.get(&Value::of(text.as_deref())) {
            Some(&id) => id,
            None => self.add_bucket(rule, text.map(Into::into), now)?,
        };
        let bucket = self.buckets.get_mut(&id)?;
        bucket.members += 1;
        if let Some(until) = bucket.idle_until.take() {
            self.idle.remove(&(until, id));
        }
        Some(id)
    }

    fn add_bucket(&mut self, rule: RuleId, value: Option<Box<str>>, now: Mono) -> Option<BucketId> {
        self.forget_idle(now);
        self.next += 1;
        let id = BucketId(self.next);
        let known = self.rules.get_mut(&rule)?;
        known.buckets.insert(Value::of(value.as_deref()), id);
        let tokens = known.fresh.as_ref().map(|fresh| Box::new(fresh.begin(now.0)));
        self.buckets.insert(id, Bucket::new(rule, value, &known.limit, tokens));
        Some(id)
    }

    /// Removes a job from its buckets, except those in its new share. `holder` is the job itself if it may have places
    /// in them. Returns the jobs whose places it had borrowed.
    pub fn drop_share(
        &mut self,
        holder: Option<JobId>,
        share: &Share,
        kept: &[BucketId],
        now: Mono,
    ) -> Vec<JobId> {
        let mut free = Vec::new();
        for &at in &share.buckets {
            let Some(bucket) = self.buckets.get_mut(&at) else { continue };
            bucket.members -= 1;
            if !kept.contains(&at) {
                if let Some(id) = holder {
                    free.extend(bucket.places.leave(id));
                }
                if bucket.has_waiting() {
                    self.dirty.insert(at);
                }
            }
            if bucket.members == 0 {
                self.settle_idle(at, now);
            }
        }
        free
    }

    /// Keeps a bucket without jobs until its rate is full again.
    fn settle_idle(&mut self, id: BucketId, now: Mono) {
        let Some(bucket) = self.buckets.get_mut(&id) else { return };
        if let Some(until) = bucket.idle_until.take() {
            self.idle.remove(&(until, id));
        }
        if bucket.members == 0 {
            if bucket.tokens.is_none() {
                if !std::mem::replace(&mut bucket.spare, true) {
                    self.spare(id);
                }
                return;
            }
            let until = full_at(bucket.tokens.as_deref(), now);
            if until <= now {
                return self.remove_bucket(id);
            }
            bucket.idle_until = Some(until);
            self.idle.insert((until, id));
        }
    }

    /// Keeps a bucket without jobs and with a full rate for the next job with its value, and removes the one kept
    /// longest in exchange.
    fn spare(&mut self, id: BucketId) {
        self.spares.push_back(id);
        if self.spares.len() <= SPARES {
            return;
        }
        let Some(oldest) = self.spares.pop_front() else { return };
        if let Some(bucket) = self.buckets.get_mut(&oldest) {
            bucket.spare = false;
            if bucket.members == 0 && bucket.tokens.is_none() {
                self.remove_bucket(oldest);
            }
        }
    }

    /// Removes buckets whose rate is full again. If there are too many, it also removes the one closest to that, and
    /// new buckets of its limit start with no more tokens than it had: a rate is enforced too strictly rather than
    /// exceeded.
    fn forget_idle(&mut self, now: Mono) {
        while let Some(&(until, id)) = self.idle.first() {
            if until > now && self.idle.len() <= IDLE {
                return;
            }
            if until > now
                && let Some(bucket) = self.buckets.get(&id)
                && let Some(rule) = self.rules.get_mut(&bucket.rule)
                && full_at(rule.fresh.as_deref(), now) < until
            {
                rule.fresh = bucket.tokens.clone();
            }
            self.remove_bucket(id);
        }
    }

    fn remove_bucket(&mut self, id: BucketId) {
        let Some(bucket) = self.buckets.remove(&id) else { return };
        if let Some(until) = bucket.idle_until {
            self.idle.remove(&(until, id));
        }
        if let Some(due) = bucket.due() {
            self.due.remove(&(due, id));
        }
        self.dirty.remove(&id);
        if let Some(rule) = self.rules.get_mut(&bucket.rule) {
            rule.buckets.remove(&Value::of(bucket.value.as_deref()));
        }
    }

    /// Acquires everything a claim needs, or nothing; then it returns the bucket in which the job has to wait, and
    /// why. `lenders` are the jobs whose places it may borrow.
    pub fn take(
        &mut self,
        rank: Rank,
        share: &Share,
        lenders: &[JobId],
        now: Mono,
    ) -> Result<(), (BucketId, Hindrance)> {
        for &at in &share.buckets {
            let Some(bucket) = self.buckets.get(&at) else { continue };
            if let Some(why) = bucket.hindrance(rank, share.weight, lenders, now) {
                return Err((at, why));
            }
        }
        for &at in &share.buckets {
            if let Some(bucket) = self.buckets.get_mut(&at) {
                bucket.take(rank.id, share.weight, lenders, now);
            }
        }
        Ok(())
    }

    /// Takes the places of a job that is already leased.
    pub fn occupy(&mut self, id: JobId, share: &Share) {
        let lenders = self.lending.lenders(id);
        for &at in &share.buckets {
            if let Some(bucket) = self.buckets.get_mut(&at) {
                bucket.occupy_leased(id, share.weight, lenders);
            }
        }
    }

    /// Releases the places of a job that is no longer leased. Returns the jobs whose places it had borrowed.
    pub fn leave(&mut self, id: JobId, share: &Share) -> Vec<JobId> {
        let mut free = Vec::new();
        for &at in &share.buckets {
            if let Some(bucket) = self.buckets.get_mut(&at) {
                free.extend(bucket.places.leave(id));
                if bucket.has_waiting() {
                    self.dirty.insert(at);
                }
            }
        }
        free
    }

    /// Reverts a claim that failed and that was made under this version of the limits. Tokens taken under another
    /// version are not returned, because there may have been none. Returns the jobs whose places it had borrowed.
    pub fn give_back(&mut self, id: JobId, share: &Share, version: u64, now: Mono) -> Vec<JobId> {
        let same = version == self.version;
        let mut free = Vec::new();
        for &at in &share.buckets {
            if let Some(bucket) = self.buckets.get_mut(&at) {
                free.extend(bucket.give_back(id, if same { share.weight } else { 0 }, now));
                self.mark_dirty(at);
            }
        }
        free
    }

    /// Queues a job in this bucket.
    pub fn wait(&mut self, at: BucketId, class: ClassId, rank: Rank, weight: u32, why: Hindrance) {
        self.on_bucket(at, |bucket| bucket.wait(class, rank, weight, why));
    }

    /// Removes a waiting job from this bucket.
    pub fn wait_no_more(&mut self, at: BucketId, class: ClassId, rank: Rank) {
        self.on_bucket(at, |bucket| bucket.wait_no_more(class, rank));
        self.mark_dirty(at);
    }

    /// Changes a bucket, and marks it dirty if the change requires it.
    fn on_bucket<T>(&mut self, at: BucketId, change: impl FnOnce(&mut Bucket) -> T) -> Option<T> {
        let bucket = self.buckets.get_mut(&at)?;
        let before = bucket.due();
        let result = change(bucket);
        let after = bucket.due();
        if before != after {
            before.map(|due| self.due.remove(&(due, at)));
            after.map(|due| self.due.insert((due, at)));
        }
        Some(result)
    }

    /// Marks a bucket in which a waiting job may now fit.
    pub fn mark_dirty(&mut self, at: BucketId) {
        if self.buckets.get(&at).is_some_and(Bucket::has_waiting) {
            self.dirty.insert(at);
        }
    }

    /// The same for all buckets of a share.
    pub fn mark_all_dirty(&mut self, share: &Share) {
        share.buckets.iter().for_each(|&at| self.mark_dirty(at));
    }

    /// When a waiting job will have its tokens.
    pub fn next_due(&self) -> Option<Mono> {
        self.due.first().map(|&(at, _)| at)
    }

    /// Marks the buckets whose first waiting job has its tokens by now.
    pub fn mark_due_dirty(&mut self, now: Mono) {
        while let Some(&(due, at)) = self.due.first().filter(|(due, _)| *due <= now) {
            self.due.remove(&(due, at));
            self.dirty.insert(at);
        }
    }

    /// Returns the next job that may look for a vacancy again, in the order of jobs. `looks` returns whether a job
    /// that was released before is still looking.
    pub fn next_out(&mut self, looks: impl Fn(JobId) -> bool, now: Mono) -> Option<JobId> {
        for at in std::mem::take(&mut self.dirty) {
            self.candidate(at, &looks, now);
        }
        while let Some((rank, at)) = self.candidates.pop_first() {
            // A job released before may have taken what this one needs.
            let first = self.candidate(at, &looks, now);
            if first.is_some_and(|(first, _)| first == rank) {
                self.candidates.remove(&(rank, at));
                self.dirty.insert(at);
                let class = first.map(|(_, class)| class)?;
                self.on_bucket(at, |bucket| bucket.mark_out(class, rank.id));
                return Some(rank.id);
            }
        }
        None
    }

    /// Records the job that a bucket would release next.
    fn candidate(
        &mut self,
        at: BucketId,
        looks: &impl Fn(JobId) -> bool,
        now: Mono,
    ) -> Option<(Rank, ClassId)> {
        let first = self.on_bucket(at, |bucket| bucket.next_out(looks, now)).flatten()?;
        self.candidates.insert((first.0, at));
        Some(first)
    }

    /// Lends the places of a waiting job to the jobs it waits for, one borrower per place at a time.
    pub fn lend(&mut self, lender: JobId, borrowers: &[JobId]) {
        borrowers.iter().for_each(|&borrower| self.lending.lend(lender, borrower));
    }

    /// The jobs that may borrow the places of this job.
    pub fn borrowers(&self, lender: JobId) -> &[JobId] {
        self.lending.borrowers(lender)
    }

    /// Whether this job has a place in a bucket that is not borrowed.
    pub fn has_free_place(&self, at: BucketId, lender: JobId) -> bool {
        self.buckets.get(&at).is_some_and(|bucket| bucket.has_free_place_of(lender))
    }

    /// The jobs whose places this job may borrow.
    pub fn lenders(&self, borrower: JobId) -> Vec<JobId> {
        self.lending.lenders(borrower).to_vec()
    }

    /// Ends the lending of a job that resumes. Jobs that have borrowed its places may keep them.
    pub fn end_lending(&mut self, lender: JobId) {
        self.lending.end(lender);
    }

    /// A job is gone.
    pub fn forget(&mut self, id: JobId) {
        self.lending.forget(id);
    }

    /// Returns the job that has borrowed a place of this job.
    pub fn lent_to(&self, lender: JobId, share: &Share) -> Option<JobId> {
        share.buckets.iter().find_map(|at| self.buckets.get(at)?.places.lent_to(lender))
    }

    /// Returns why a job that waits in a bucket cannot enter it.
    pub fn hindrance(&self, at: BucketId, rank: Rank, weight: u32, now: Mono) -> Option<Hindrance> {
        self.buckets.get(&at)?.hindrance(rank, weight, self.lending.lenders(rank.id), now)
    }

    /// Returns a bucket with its limit and the owner of the limit.
    pub fn look(&self, at: BucketId) -> Option<(&LimitOf, &Limit, &Bucket)> {
        let bucket = self.buckets.get(&at)?;
        let rule = self.rules.get(&bucket.rule)?;
        Some((&rule.of, &rule.limit, bucket))
    }
}

/// When a rate is full again.
fn full_at(tokens: Option<&Tokens>, now: Mono) -> Mono {
    Mono(tokens.map_or(now.0, |tokens| tokens.ready_at(tokens.rate().most(), now.0)))
}
