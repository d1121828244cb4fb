//! The abilities of a worker: typed facts under sorted names.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::parse;
use super::value::{Fact, Named, Value};
use super::{SERVER, SelectorError, WORKER_BOUNDS};

/// The abilities and resources of a worker, every value within bounds.
///
/// Cheap to clone. Equal, ordered and hashed by content, so that workers with equal abilities can share one.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Abilities(Arc<BTreeMap<Box<str>, Value>>);

impl Abilities {
    /// Parses `os=linux, gpu=2, lang=[rust,python], spot`; an empty text is a worker without abilities.
    ///
    /// # Errors
    /// The first thing wrong with the text, and where.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let abilities = Self(Arc::new(parse::abilities(text)?));
        parse::check_canonical(text, abilities.to_string().len(), WORKER_BOUNDS)?;
        Ok(abilities)
    }

    /// The abilities of the server's own worker.
    #[must_use]
    pub fn of_server() -> Self {
        Self(Arc::new(BTreeMap::from([(SERVER.into(), Value::Flag)])))
    }

    /// The value of an ability.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Names and values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn fact(&self, name: &str) -> Option<Fact<'_>> {
        self.get(name).map(Value::fact)
    }
}

impl fmt::Display for Abilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.iter().enumerate() {
            write!(f, "{}{}", if index == 0 { "" } else { ", " }, Named(name, value))?;
        }
        Ok(())
    }
}
