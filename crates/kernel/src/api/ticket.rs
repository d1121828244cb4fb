//! Tickets: each identifies a pending request by a number, and carries the type of its answer.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

/// Identifies a request whose answer, of type `T`, is pending.
pub struct Ticket<T>(u64, PhantomData<fn() -> T>);

impl<T> Ticket<T> {
    /// The ticket with this number.
    pub fn new(number: u64) -> Ticket<T> {
        Ticket(number, PhantomData)
    }

    /// Its number.
    pub fn number(self) -> u64 {
        self.0
    }
}

// Derived implementations would require them of `T`.
impl<T> Clone for Ticket<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ticket<T> {}

impl<T> PartialEq for Ticket<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Eq for Ticket<T> {}

impl<T> PartialOrd for Ticket<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Ticket<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl<T> Hash for Ticket<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl<T> fmt::Debug for Ticket<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({})", self.0)
    }
}
