//! One bucket of a limit: the jobs that have a place in it, the tokens left of its rate, and the jobs that wait.
//!
//! Jobs that do not fit wait here in the order of jobs. The first that does not fit blocks all jobs behind it, new
//! ones too, so that a heavy job is not overtaken forever. Of each class, one job at a time is released to look for a
//! vacancy: if it finds none, the others of its class would find none either.

use std::collections::BTreeMap;

use jobhall_core::JobId;
use jobhall_core::limits::{Limit, Places, Tokens};

use super::rules::RuleId;
use crate::api::time::Mono;
use crate::matching::board::{ClassId, Rank};

/// Why a job cannot enter a bucket now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hindrance {
    /// Not enough places are free.
    Places,
    /// Its tokens will be available at this time.
    Tokens(Mono),
    /// Another job precedes it and does not fit.
    Behind(JobId),
}

/// A bucket. See the module's documentation.
#[derive(Debug)]
pub(crate) struct Bucket {
    pub rule: RuleId,
    /// The value of the limit's expression for its jobs; none: no value, or there is no expression.
    pub value: Option<Box<str>>,
    pub concurrency: Option<u32>,
    pub places: Places,
    pub tokens: Option<Box<Tokens>>,
    /// The job that took tokens last.
    last: Option<JobId>,
    /// Number of open jobs that belong to it, in any state.
    pub members: usize,
    /// If it has no jobs: when its rate is full again.
    pub idle_until: Option<Mono>,
    /// Whether it is among the spare buckets kept without jobs.
    pub spare: bool,
    /// The waiting jobs. Most buckets have none, so the list is allocated only when needed.
    line: Option<Box<Line>>,
}

/// The jobs that wait in a bucket.
#[derive(Debug, Default)]
struct Line {
    /// The waiting jobs, with their weights.
    waiting: BTreeMap<ClassId, BTreeMap<Rank, u32>>,
    /// By class, the job that was released last.
    out: BTreeMap<ClassId, JobId>,
    /// The first job that did not fit, and when it will have its tokens if it waits for those.
    first: Option<(Rank, Option<Mono>)>,
}

impl Bucket {
    pub fn new(rule: RuleId, value: Option<Box<str>>, limit: &Limit, tokens: Option<Box<Tokens>>) -> Bucket {
        Bucket {
            rule,
            value,
            concurrency: limit.concurrency,
            places: Places::default(),
            tokens,
            last: None,
            members: 0,
            idle_until: None,
            spare: false,
            line: None,
        }
    }

    /// Whether any job waits here.
    pub fn has_waiting(&self) -> bool {
        self.line.is_some()
    }

    /// When the first waiting job will have its tokens.
    pub fn due(&self) -> Option<Mono> {
        self.line.as_ref()?.first?.1
    }

    /// Whether more is taken than the limit allows.
    pub fn is_exceeded(&self) -> bool {
        self.concurrency.is_some_and(|limit| self.places.taken() > u64::from(limit))
    }

    /// Whether this job has a place here that is not borrowed.
    pub fn has_free_place_of(&self, lender: JobId) -> bool {
        self.places.has(lender) && self.places.lent_to(lender).is_none()
    }

    /// Returns a lender whose place a job of this weight can borrow.
    fn lender(&self, weight: u32, lenders: &[JobId]) -> Option<JobId> {
        let limit = self.concurrency?;
        lenders.iter().copied().find(|&lender| self.places.fits_on(lender, weight, limit))
    }

    /// Returns why a job that can borrow no place cannot enter.
    fn full(&self, weight: u32, now: Mono) -> Option<Hindrance> {
        if self.concurrency.is_some_and(|limit| !self.places.fits(weight, limit)) {
            return Some(Hindrance::Places);
        }
        self.without_tokens(weight, now)
    }

    fn without_tokens(&self, weight: u32, now: Mono) -> Option<Hindrance> {
        let at = self.tokens.as_ref().map_or(now.0, |tokens| tokens.ready_at(weight, now.0));
        (at > now.0).then_some(Hindrance::Tokens(Mono(at)))
    }

    /// Returns why this job cannot enter now. A job that can borrow a place does not wait behind others.
    pub fn hindrance(&self, rank: Rank, weight: u32, lenders: &[JobId], now: Mono) -> Option<Hindrance> {
        if self.lender(weight, lenders).is_some() {
            return self.without_tokens(weight, now);
        }
        let first = self.line.as_ref().and_then(|line| line.first);
        let before = first.filter(|(first, _)| *first < rank);
        self.full(weight, now).or_else(|| before.map(|(first, _)| Hindrance::Behind(first.id)))
    }

    /// Takes what a claim needs. There must be no hindrance.
    pub fn take(&mut self, id: JobId, weight: u32, lenders: &[JobId], now: Mono) {
        self.occupy(id, weight, self.lender(weight, lenders));
        if let Some(tokens) = &mut self.tokens {
            tokens.take(weight, now.0);
            self.last = Some(id);
        }
    }

    /// Takes the place of a leased job, whether or not there is room.
    pub fn occupy_leased(&mut self, id: JobId, weight: u32, lenders: &[JobId]) {
        let mut lenders = lenders.iter().copied().filter(|_| self.concurrency.is_some());
        self.occupy(id, weight, lenders.find(|&lender| self.has_free_place_of(lender)));
    }

    fn occupy(&mut self, id: JobId, weight: u32, lender: Option<JobId>) {
        match lender {
            Some(lender) => self.places.take_on(lender, id, weight),
            None => self.places.take(id, weight),
        }
    }

    /// Returns what a failed claim took. Its tokens are returned only if no other job took any after it: later jobs
    /// also used what was refilled meanwhile, and both together could exceed the burst. Returns the job whose place it
    /// had borrowed.
    pub fn give_back(&mut self, id: JobId, weight: u32, now: Mono) -> Option<JobId> {
        let free = self.places.leave(id);
        if let Some(tokens) = self.tokens.as_mut().filter(|_| self.last == Some(id)) {
            tokens.give_back(weight, now.0);
            self.last = None;
        }
        free
    }

    /// Queues a job here.
    pub fn wait(&mut self, class: ClassId, rank: Rank, weight: u32, why: Hindrance) {
        let line = self.line.get_or_insert_default();
        line.waiting.entry(class).or_default().insert(rank, weight);
        let due = match why {
            Hindrance::Behind(_) => return,
            Hindrance::Tokens(at) => Some(at),
            Hindrance::Places => None,
        };
        if line.first.is_none_or(|(first, _)| rank < first) {
            line.first = Some((rank, due));
        }
    }

    /// The jobs that wait here before this rank, with their weights, of at most `classes` classes.
    pub fn before(&self, rank: Rank, classes: usize) -> impl Iterator<Item = (JobId, u32)> {
        let classes = self.line.iter().flat_map(move |line| line.waiting.values().take(classes));
        classes.flat_map(move |of_class| of_class.range(..rank)).map(|(rank, weight)| (rank.id, *weight))
    }

    /// The jobs that were released last, one of each class. They may have been taken since.
    pub fn last_out(&self, classes: usize) -> impl Iterator<Item = JobId> {
        self.line.iter().flat_map(move |line| line.out.values().take(classes)).copied()
    }

    /// The number of classes of the waiting jobs.
    pub fn classes(&self) -> usize {
        self.line.as_ref().map_or(0, |line| line.waiting.len())
    }

    /// Removes a waiting job.
    pub fn wait_no_more(&mut self, class: ClassId, rank: Rank) {
        let Some(line) = &mut self.line else { return };
        if let Some(of_class) = line.waiting.get_mut(&class) {
            of_class.remove(&rank);
            if of_class.is_empty() {
                line.waiting.remove(&class);
                line.out.remove(&class);
            }
        }
        if line.first.is_some_and(|(first, _)| first == rank) {
            line.first = None;
        }
        if line.waiting.is_empty() {
            self.line = None;
        }
    }

    /// Returns the next job that may look for a vacancy. `looks` returns whether a released job is still looking.
    pub fn next_out(&mut self, looks: &impl Fn(JobId) -> bool, now: Mono) -> Option<(Rank, ClassId)> {
        let mut line = self.line.take()?;
        line.first = None;
        let next = self.next_of(&mut line, looks, now);
        self.line = Some(line);
        next
    }

    fn next_of(&self, line: &mut Line, looks: &impl Fn(JobId) -> bool, now: Mono) -> Option<(Rank, ClassId)> {
        let out = &line.out;
        let lines = line.waiting.iter().filter(|(class, _)| !out.get(class).is_some_and(|&id| looks(id)));
        let firsts =
            lines.filter_map(|(class, of_class)| of_class.first_key_value().map(|first| (first, class)));
        let ((&rank, &weight), &class) = firsts.min()?;
        let due = match self.full(weight, now) {
            None => return Some((rank, class)),
            Some(Hindrance::Tokens(due)) => Some(due),
            Some(_) => None,
        };
        line.first = Some((rank, due));
        None
    }

    /// Records that a job was released to look for a vacancy.
    pub fn mark_out(&mut self, class: ClassId, id: JobId) {
        if let Some(line) = &mut self.line {
            line.out.insert(class, id);
        }
    }
}
