//! One bucket of a limit: who has a place in it, what is left of its rate, and who waits for either.
//!
//! Whoever does not fit waits here in the order of jobs. The first that does not fit holds up all behind it, newcomers
//! too, so that a heavy job is not overtaken for ever. Of the jobs of one class only one at a time is let out to look for
//! a vacancy: where none is free the others would look in vain.

use std::collections::BTreeMap;

use jobhall_core::JobId;
use jobhall_core::limits::{Limit, Places, Tokens};

use super::rules::RuleId;
use crate::board::{ClassId, Rank};
use crate::clock::Mono;

/// Why a job does not get into a bucket now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hindrance {
    /// There is not enough room beside those that are in.
    Places,
    /// Its tokens will be there at this moment.
    Tokens(Mono),
    /// Another one, which does not fit, is before it.
    Behind(JobId),
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Bucket {
    pub rule: RuleId,
    /// What the limit's expression has for its jobs; none: it has nothing, or there is no expression.
    pub value: Option<Box<str>>,
    pub concurrency: Option<u32>,
    pub places: Places,
    pub tokens: Option<Box<Tokens>>,
    /// Who took tokens last.
    last: Option<JobId>,
    /// Open jobs that belong here, wherever they are.
    pub members: usize,
    /// While nobody does: when its rate will have nothing to remember.
    pub idle_until: Option<Mono>,
    /// Whether it is among those that are kept without jobs.
    pub spare: bool,
    /// Who waits. Nobody does in most buckets, and there are many: what nobody needs takes no room beside the rest.
    line: Option<Box<Line>>,
}

/// Those that wait in a bucket.
#[derive(Debug, Default)]
struct Line {
    /// Who waits, with its weight.
    waiting: BTreeMap<ClassId, BTreeMap<Rank, u32>>,
    /// Who was let out last of each class.
    out: BTreeMap<ClassId, JobId>,
    /// The first that did not fit, and when it will have its tokens if it waits for those.
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

    /// Whether anyone waits here.
    pub fn has_waiting(&self) -> bool {
        self.line.is_some()
    }

    /// When the first of those that wait will have its tokens.
    pub fn due(&self) -> Option<Mono> {
        self.line.as_ref()?.first?.1
    }

    /// Whether this job has a place here that nobody stands on.
    pub fn has_free_place_of(&self, lender: JobId) -> bool {
        self.places.has(lender) && self.places.lent_to(lender).is_none()
    }

    /// Whose place a job of this weight can stand on.
    fn lender(&self, weight: u32, lenders: &[JobId]) -> Option<JobId> {
        let limit = self.concurrency?;
        lenders.iter().copied().find(|&lender| self.places.fits_on(lender, weight, limit))
    }

    /// What keeps a job out that may stand on nobody's place.
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

    /// What keeps this job out now. On a place that is lent to it, it is in already: it waits behind nobody.
    pub fn hindrance(&self, rank: Rank, weight: u32, lenders: &[JobId], now: Mono) -> Option<Hindrance> {
        if self.lender(weight, lenders).is_some() {
            return self.without_tokens(weight, now);
        }
        let first = self.line.as_ref().and_then(|line| line.first);
        let before = first.filter(|(first, _)| *first < rank);
        self.full(weight, now).or_else(|| before.map(|(first, _)| Hindrance::Behind(first.id)))
    }

    /// Takes what a claim takes. Nothing may hinder it.
    pub fn take(&mut self, id: JobId, weight: u32, lenders: &[JobId], now: Mono) {
        self.occupy(id, weight, lenders);
        if let Some(tokens) = &mut self.tokens {
            tokens.take(weight, now.0);
            self.last = Some(id);
        }
    }

    /// Takes the place of a job that is leased, whether or not there is room.
    pub fn occupy(&mut self, id: JobId, weight: u32, lenders: &[JobId]) {
        match self.lender(weight, lenders) {
            Some(lender) => self.places.take_on(lender, id, weight),
            None => self.places.take(id, weight),
        }
    }

    /// Gives back what a claim took which came to nothing. Its tokens only if nobody took any after it: the others went by
    /// what had come meanwhile, and both together could be more than the burst.
    pub fn give_back(&mut self, id: JobId, weight: u32, now: Mono) {
        self.places.leave(id);
        if let Some(tokens) = self.tokens.as_mut().filter(|_| self.last == Some(id)) {
            tokens.give_back(weight, now.0);
            self.last = None;
        }
    }

    /// A job waits here for what it did not get.
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

    /// A job waits here no longer.
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

    /// The next job that may look for a vacancy. `looks` says whether one that was let out is still looking.
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

    /// A job goes to look for a vacancy.
    pub fn mark_out(&mut self, class: ClassId, id: JobId) {
        if let Some(line) = &mut self.line {
            line.out.insert(class, id);
        }
    }
}
