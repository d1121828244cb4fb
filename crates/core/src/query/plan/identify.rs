//! The identity of a query without its plan, for a value that may be in memory.

use super::super::arguments::resolve;
use super::super::error::{QueryError, QueryErrorKind as Kind};
use super::super::{Commands, Facts, Hasher, Identity, Kept, Query, Typed, rule};
use super::checks::check_of;
use super::{RECIPE_DEPTH_MAX, begin, check_place, format, write_format, write_source, write_step};
use crate::name::QueueName;

/// The identity that the value of a query is stored under: that of the last node of [`super::plan`], if the value of that
/// node is shared. None if it is not shared, if a step has a link or a value that stays on its worker, if a check has to be
/// run, and if the query is wrong: a plan then says more.
#[must_use]
pub fn identify<D: Hasher>(
    query: &Query,
    mut hasher: D,
    queue: &QueueName,
    commands: &Commands,
    facts: &dyn Facts,
) -> Option<Identity> {
    begin(&mut hasher, queue);
    let walk = Walk { commands, facts, empty: &hasher };
    let chain = walk.chain(query, RECIPE_DEPTH_MAX)?;
    (chain.leave && chain.shared).then(|| chain.hasher.identity())
}

struct Walk<'a, D> {
    commands: &'a Commands,
    facts: &'a dyn Facts,
    empty: &'a D,
}

/// A chain up to one of its steps.
struct Chain<D> {
    hasher: D,
    volatile: bool,
    /// Whether all values leave their workers.
    leave: bool,
    /// Whether the last value is shared.
    shared: bool,
}

impl<D: Hasher> Walk<'_, D> {
    /// The beginning of a chain, with at most this many recipes in each other.
    fn start(&self, query: &Query, recipes: usize) -> Option<Chain<D>> {
        let data = query.source.as_ref().map(|source| self.facts.data(&source.key));
        if let (Some(None), Some(source)) = (data, &query.source) {
            let recipe = self.facts.recipe(&source.key).filter(|_| recipes > 0)?;
            return self.chain(&recipe, recipes - 1);
        }
        let mut hasher = self.empty.clone();
        write_source(&mut hasher, data.flatten());
        Some(Chain { hasher, volatile: false, leave: true, shared: false })
    }

    fn chain(&self, query: &Query, recipes: usize) -> Option<Chain<D>> {
        let mut chain = self.start(query, recipes)?;
        for (at, step) in query.steps.iter().enumerate() {
            let declared = self.commands.get(&step.command)?;
            let declaration = &declared.declaration;
            let no_link = |_: &_| Err::<(), _>(QueryError::new(step.span, Kind::EmptyLink));
            let arguments: Vec<Typed<()>> = resolve(declaration, step, no_link).ok()?;
            let ruling = rule(declaration.modes, chain.volatile, step.on.as_ref());
            let check = check_of(self.empty, self.facts, declared, step, &arguments, &ruling.place);
            if check.as_ref().is_some_and(|check| check.answer.is_none()) {
                return None;
            }
            write_step(&mut chain.hasher, declared, step, check.as_ref(), &arguments, &[]);
            let file = query.file.as_ref().filter(|_| at + 1 == query.steps.len());
            let format = file.map(|file| format(declaration, file)).transpose().ok()?.flatten();
            write_format(&mut chain.hasher, format.as_deref());
            check_place(declaration, step).ok()?;
            chain.leave &= declaration.modes.serialisable || format.is_some();
            (chain.volatile, chain.shared) = (ruling.volatile, ruling.kept == Kept::Shared);
        }
        Some(chain)
    }
}
