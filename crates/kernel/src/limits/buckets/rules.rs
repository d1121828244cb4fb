//! Rules: the limits of queues and types, and how their changes apply to the buckets.

use std::collections::HashMap;
use std::fmt;

use jobhall_core::limits::{Limit, Tokens};
use jobhall_core::{QueueName, TypeName};

use super::{BucketId, Limits};
use crate::api::time::Mono;

/// The owner of a limit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitOf {
    /// A queue.
    Queue(QueueName),
    /// A type.
    Type(TypeName),
}

impl fmt::Display for LimitOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitOf::Queue(name) => write!(f, "queue {name}"),
            LimitOf::Type(name) => write!(f, "type {name}"),
        }
    }
}

/// The number of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RuleId(pub u64);

/// A limit with its buckets.
#[derive(Debug)]
pub(crate) struct Rule {
    pub of: LimitOf,
    pub limit: Limit,
    /// The initial tokens of a bucket.
    pub fresh: Option<Box<Tokens>>,
    pub buckets: HashMap<Value, BucketId>,
}

/// The value of a limit's expression for a job. Most values are short and are stored inline.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Value {
    /// No value, or there is no expression.
    Nothing,
    /// This many of these bytes.
    Short(u8, [u8; Value::SHORT]),
    Long(Box<str>),
}

impl Value {
    const SHORT: usize = 22;

    pub fn of(text: Option<&str>) -> Value {
        let Some(text) = text else { return Value::Nothing };
        let mut bytes = [0; Value::SHORT];
        match (bytes.get_mut(..text.len()), u8::try_from(text.len())) {
            (Some(room), Ok(length)) => {
                room.copy_from_slice(text.as_bytes());
                Value::Short(length, bytes)
            }
            _ => Value::Long(text.into()),
        }
    }
}

impl Limits {
    /// Sets the limits of a queue or type. A limit that existed before, which is one with the same expression, keeps
    /// the state of its buckets. `known` means that they applied before a restart: the tokens taken then are unknown,
    /// so their rates start without tokens.
    pub fn configure(&mut self, of: &LimitOf, limits: &[Limit], known: bool, now: Mono) {
        self.version += 1;
        self.last = None;
        let mut before = self.rules_of(of);
        let mut after = Vec::with_capacity(limits.len());
        for limit in limits {
            let same = |id: &RuleId| self.rules.get(id).is_some_and(|rule| rule.limit.by == limit.by);
            match before.iter().position(same) {
                Some(at) => {
                    let id = before.remove(at);
                    self.change(id, limit, now);
                    after.push(id);
                }
                None => after.push(self.add_rule(of, limit, known, now)),
            }
        }
        for id in before {
            self.remove_rule(id);
        }
        let none = after.is_empty();
        match of {
            LimitOf::Queue(name) if none => self.of_queue.remove(name),
            LimitOf::Queue(name) => self.of_queue.insert(name.clone(), after),
            LimitOf::Type(name) if none => self.of_type.remove(name),
            LimitOf::Type(name) => self.of_type.insert(name.clone(), after),
        };
    }

    /// Whether a queue or type has exactly these limits.
    pub fn has(&self, of: &LimitOf, limits: &[Limit]) -> bool {
        let known = self.rules_of(of);
        let known = known.iter().filter_map(|id| self.rules.get(id)).map(|rule| &rule.limit);
        known.eq(limits)
    }

    fn rules_of(&self, of: &LimitOf) -> Vec<RuleId> {
        let known = match of {
            LimitOf::Queue(name) => self.of_queue.get(name),
            LimitOf::Type(name) => self.of_type.get(name),
        };
        known.cloned().unwrap_or_default()
    }

    fn add_rule(&mut self, of: &LimitOf, limit: &Limit, known: bool, now: Mono) -> RuleId {
        self.next += 1;
        let id = RuleId(self.next);
        let begin = if known { Tokens::empty } else { Tokens::full };
        let fresh = limit.rate.map(|rate| Box::new(begin(rate, now.0)));
        let rule = Rule { of: of.clone(), limit: limit.clone(), fresh, buckets: HashMap::new() };
        self.rules.insert(id, rule);
        id
    }

    fn change(&mut self, id: RuleId, limit: &Limit, now: Mono) {
        let Some(rule) = self.rules.get_mut(&id).filter(|rule| rule.limit != *limit) else { return };
        rule.limit = limit.clone();
        change_tokens(&mut rule.fresh, limit, now);
        let mut ids: Vec<BucketId> = rule.buckets.values().copied().collect();
        ids.sort_unstable();
        for id in ids {
            let Some(bucket) = self.buckets.get_mut(&id) else { continue };
            bucket.concurrency = limit.concurrency;
            change_tokens(&mut bucket.tokens, limit, now);
            self.settle_idle(id, now);
            self.mark_dirty(id);
        }
    }

    /// Removes a limit with its buckets; jobs that belong to them get another share.
    fn remove_rule(&mut self, id: RuleId) {
        let Some(rule) = self.rules.remove(&id) else { return };
        for bucket in rule.buckets.into_values() {
            self.remove_bucket(bucket);
        }
    }
}

fn change_tokens(tokens: &mut Option<Box<Tokens>>, limit: &Limit, now: Mono) {
    *tokens = match (tokens.take(), limit.rate) {
        (Some(mut tokens), Some(rate)) => {
            tokens.change(rate, now.0);
            Some(tokens)
        }
        (None, Some(rate)) => Some(Box::new(Tokens::full(rate, now.0))),
        (_, None) => None,
    };
}
