//! One term of a selector: a name, the condition on it, and whether a fact meets it.

use std::fmt;

use super::Reason;
use super::number::Number;
use super::value::{Fact, Joined, Scalar};

/// The derived order is the canonical order: by name, then as the conditions are listed below.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Term {
    pub(super) name: Box<str>,
    pub(super) condition: Condition,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Condition {
    Exists,
    Absent,
    Equal(Scalar),
    NotEqual(Scalar),
    Compare(Comparison, Number),
    /// Sorted, each entry once, never empty.
    In(Box<[Scalar]>),
    /// Sorted, each entry once, never empty.
    NotIn(Box<[Scalar]>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Comparison {
    AtLeast,
    MoreThan,
    AtMost,
    LessThan,
}

impl Term {
    /// Why this fact (or its absence) does not meet the term; `None` if it does.
    pub(super) fn failure<'a>(&self, fact: Option<Fact<'a>>) -> Option<Reason<Fact<'a>>> {
        match fact {
            None => self.condition.wants_fact().then_some(Reason::Absent),
            Some(has) => self.condition.failure(has),
        }
    }

    /// The number of entries of its list.
    pub(super) fn list_len(&self) -> usize {
        match &self.condition {
            Condition::In(scalars) | Condition::NotIn(scalars) => scalars.len(),
            _ => 0,
        }
    }
}

impl Condition {
    /// Whether an absent ability fails it.
    fn wants_fact(&self) -> bool {
        !matches!(self, Self::Absent | Self::NotEqual(_) | Self::NotIn(_))
    }

    fn failure<'a>(&self, has: Fact<'a>) -> Option<Reason<Fact<'a>>> {
        match self {
            Self::Exists => None,
            Self::Absent => Some(Reason::Present { has }),
            Self::Equal(scalar) => (!has.is(scalar)).then_some(Reason::Different { has }),
            Self::NotEqual(scalar) => has.is(scalar).then_some(Reason::Excluded { has }),
            Self::In(scalars) => (!has.is_one_of(scalars)).then_some(Reason::Different { has }),
            Self::NotIn(scalars) => has.is_one_of(scalars).then_some(Reason::Excluded { has }),
            Self::Compare(comparison, bound) => comparison.failure(has, *bound),
        }
    }
}

impl Comparison {
    fn failure(self, has: Fact<'_>, bound: Number) -> Option<Reason<Fact<'_>>> {
        let Fact::Number(number) = has else {
            return Some(Reason::NotANumber { has });
        };
        match self {
            Self::AtLeast => (number < bound).then_some(Reason::TooSmall { has }),
            Self::MoreThan => (number <= bound).then_some(Reason::TooSmall { has }),
            Self::AtMost => (number > bound).then_some(Reason::TooLarge { has }),
            Self::LessThan => (number >= bound).then_some(Reason::TooLarge { has }),
        }
    }

    pub(super) const fn symbol(self) -> &'static str {
        match self {
            Self::AtLeast => ">=",
            Self::MoreThan => ">",
            Self::AtMost => "<=",
            Self::LessThan => "<",
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, usize::MAX)
    }
}

impl Term {
    /// Writes it with at most this many entries of a list.
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>, entries: usize) -> fmt::Result {
        let name = &self.name;
        match &self.condition {
            Condition::Exists => f.write_str(name),
            Condition::Absent => write!(f, "!{name}"),
            Condition::Equal(scalar) => write!(f, "{name}={scalar}"),
            Condition::NotEqual(scalar) => write!(f, "{name}!={scalar}"),
            Condition::Compare(comparison, bound) => write!(f, "{name}{}{bound}", comparison.symbol()),
            Condition::In(scalars) => write!(f, "{name} in ({})", Joined(scalars, entries)),
            Condition::NotIn(scalars) => write!(f, "{name} notin ({})", Joined(scalars, entries)),
        }
    }
}
