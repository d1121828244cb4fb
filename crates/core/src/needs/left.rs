//! What a worker has left while it runs jobs that use some of it.
//!
//! All or nothing: of a job that does not fit, nothing is taken. What is given back was taken before, so the amounts
//! in use never go below zero and what is left never goes above the ability. Only [`Left::occupy`] may take more than
//! there is: it counts an attempt that runs already, on a worker that came back with less than it had.

use std::fmt;

use super::value::Value;
use super::{Abilities, Number, Uses};

/// The numeric abilities of one worker, each with how much of it is in use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Left(Box<[Stock]>);

/// One resource, in thousandths. Wide enough that no number of attempts overflows it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stock {
    name: Box<str>,
    total: i128,
    used: i128,
}

/// One resource that a job would use and of which too little is left.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Shortage {
    /// The resource.
    pub name: Box<str>,
    /// How much the job uses.
    pub asked: Number,
    /// How much is left now.
    pub left: Number,
    /// How much there is in all.
    pub total: Number,
}

impl Left {
    /// All of it, of a worker that runs nothing.
    #[must_use]
    pub fn all(abilities: &Abilities) -> Self {
        let numbers = abilities.iter().filter_map(|(name, value)| match value {
            Value::Number(total) => Some(Stock { name: name.into(), total: wide(*total).max(0), used: 0 }),
            Value::Flag | Value::Word(_) | Value::List(_) => None,
        });
        Self(numbers.collect())
    }

    /// Whether all that a job uses is left now. Does not allocate.
    #[must_use]
    pub fn has(&self, uses: &Uses) -> bool {
        uses.iter().all(|(name, asked)| self.stock(name).is_some_and(|stock| stock.left() >= wide(asked)))
    }

    /// Takes all that a job uses; says false and takes nothing where some of it is not left.
    #[must_use]
    pub fn take(&mut self, uses: &Uses) -> bool {
        let fits = self.has(uses);
        if fits {
            self.occupy(uses);
        }
        fits
    }

    /// Counts what a job uses that runs here already, whether or not so much is left. What the worker does not speak
    /// of is not counted.
    pub fn occupy(&mut self, uses: &Uses) {
        for (name, asked) in uses.iter() {
            if let Some(stock) = self.stock_mut(name) {
                stock.used += wide(asked);
            }
        }
    }

    /// Gives back all that a job used; says false and changes nothing where less than that is in use.
    #[must_use]
    pub fn give_back(&mut self, uses: &Uses) -> bool {
        let known = |name: &str, asked| self.stock(name).is_none_or(|stock| stock.used >= wide(asked));
        if !uses.iter().all(|(name, asked)| known(name, asked)) {
            return false;
        }
        for (name, asked) in uses.iter() {
            if let Some(stock) = self.stock_mut(name) {
                stock.used -= wide(asked);
            }
        }
        true
    }

    /// Of which resources too little is left for a job, by name.
    #[must_use]
    pub fn missing(&self, uses: &Uses) -> Vec<Shortage> {
        let short = uses.iter().filter_map(|(name, asked)| {
            let (left, total) = self.stock(name).map_or((0, 0), |stock| (stock.left(), stock.total));
            let short = left < wide(asked);
            short.then(|| Shortage { name: name.into(), asked, left: narrow(left), total: narrow(total) })
        });
        short.collect()
    }

    /// Every resource with how much of it is in use and how much there is, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Number, Number)> {
        self.0.iter().map(|stock| (&*stock.name, narrow(stock.used), narrow(stock.total)))
    }

    /// Whether nothing is in use.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.0.iter().all(|stock| stock.used == 0)
    }

    fn stock(&self, name: &str) -> Option<&Stock> {
        self.place(name).map(|place| &self.0[place])
    }

    fn stock_mut(&mut self, name: &str) -> Option<&mut Stock> {
        self.place(name).map(|place| &mut self.0[place])
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.0.binary_search_by(|stock| (*stock.name).cmp(name)).ok()
    }
}

impl Stock {
    /// Never below zero, even where more is in use than there is.
    fn left(&self) -> i128 {
        (self.total - self.used).max(0)
    }
}

fn wide(number: Number) -> i128 {
    i128::from(number.thousandths())
}

/// The nearest number that can be written.
fn narrow(thousandths: i128) -> Number {
    let nearest = thousandths.clamp(i128::from(i64::MIN), i128::from(i64::MAX));
    Number::from_thousandths(i64::try_from(nearest).unwrap_or(i64::MAX))
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}: {} of {} left", self.name, self.asked, self.left, self.total)
    }
}
