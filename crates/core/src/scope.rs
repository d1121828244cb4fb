//! The queues that a token may access. Jobs in other queues do not exist for its holder.

use std::fmt;
use std::sync::Arc;

use crate::bounds::SCOPE_QUEUES;
use crate::name::{NameError, QueueName};

/// Queues by name, or by a prefix: `mail`, `mail-*`. An empty list means every queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope(Arc<[Box<str>]>);

/// Why a list is not a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScopeError {
    /// More entries than the limit.
    TooMany(usize),
    /// An entry that cannot be the name of a queue.
    Name(NameError),
}

impl fmt::Display for ScopeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScopeError::TooMany(given) => {
                write!(f, "queues has {given} entries, the limit is {SCOPE_QUEUES}")
            }
            ScopeError::Name(error) => write!(f, "queues: {error}"),
        }
    }
}

impl std::error::Error for ScopeError {}

impl Scope {
    /// The scope of these entries, each a queue or a prefix followed by `*`.
    ///
    /// # Errors
    /// There are too many, or one could never match.
    pub fn new<T: AsRef<str>>(entries: &[T]) -> Result<Scope, ScopeError> {
        if entries.len() > SCOPE_QUEUES {
            return Err(ScopeError::TooMany(entries.len()));
        }
        let mut checked = entries.iter().map(|entry| check(entry.as_ref())).collect::<Result<Vec<_>, _>>()?;
        checked.sort();
        checked.dedup();
        Ok(Scope(checked.into()))
    }

    /// Whether every queue is accessible.
    pub fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this queue is accessible.
    pub fn reaches(&self, queue: &str) -> bool {
        let matches = |entry: &str| match entry.strip_suffix('*') {
            Some(beginning) => queue.starts_with(beginning),
            None => queue == entry,
        };
        self.is_all() || self.0.iter().any(|entry| matches(entry))
    }

    /// Whether every queue that `other` reaches is accessible.
    pub fn covers(&self, other: &Scope) -> bool {
        let covered = |wanted: &str| {
            self.entries().any(|entry| match (entry.strip_suffix('*'), wanted.strip_suffix('*')) {
                (Some(beginning), _) => wanted.starts_with(beginning),
                (None, wanted_prefix) => wanted_prefix.is_none() && entry == wanted,
            })
        };
        match (self.is_all(), other.is_all()) {
            (true, _) => true,
            (false, true) => covered("*"),
            (false, false) => other.entries().all(covered),
        }
    }

    /// The entries, in order.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(AsRef::as_ref)
    }
}

fn check(entry: &str) -> Result<Box<str>, ScopeError> {
    let name = entry.strip_suffix('*').unwrap_or(entry);
    // A star alone means every queue.
    if entry != "*" {
        QueueName::new(name).map_err(ScopeError::Name)?;
    }
    Ok(entry.into())
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_reaches_what_it_names_and_what_begins_so() {
        let scope = Scope::new(&["mail", "ci-*"]).unwrap();
        for queue in ["mail", "ci-", "ci-fast"] {
            assert!(scope.reaches(queue), "{queue}");
        }
        for queue in ["mail2", "mai", "ci", "default", ""] {
            assert!(!scope.reaches(queue), "{queue}");
        }
        assert_eq!(scope.to_string(), "ci-*, mail");
        assert!(Scope::default().reaches("anything") && Scope::default().is_all());
        assert!(Scope::new(&["*"]).unwrap().reaches("anything"));
    }

    #[test]
    fn a_scope_covers_another_that_reaches_no_further() {
        let scope = |entries: &[&str]| Scope::new(entries).unwrap();
        let own = scope(&["mail", "ci-*"]);
        for within in [&["mail"][..], &["ci-*"], &["ci-fast", "mail"], &["ci-f*"], &["ci-"]] {
            assert!(own.covers(&scope(within)), "{within:?}");
        }
        for beyond in [&[][..], &["*"], &["mail*"], &["ci*"], &["mail", "x"], &["ci"]] {
            assert!(!own.covers(&scope(beyond)), "{beyond:?}");
        }
        for all in [scope(&[]), scope(&["*"])] {
            assert!(all.covers(&own) && all.covers(&scope(&[])) && all.covers(&scope(&["*"])));
        }
    }

    #[test]
    fn entries_that_could_never_match_are_refused() {
        for bad in ["", "a b", "a*b", "**", "-a", "a/*"] {
            assert!(matches!(Scope::new(&[bad]), Err(ScopeError::Name(_))), "{bad:?}");
        }
        let many = vec!["a"; SCOPE_QUEUES + 1];
        assert_eq!(Scope::new(&many).unwrap_err().to_string(), "queues has 65 entries, the limit is 64");
    }
}
