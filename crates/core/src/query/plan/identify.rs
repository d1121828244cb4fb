//! The identity of a query without its plan, for a value that may be in memory.

use super::super::arguments::resolve;
use super::super::error::{QueryError, QueryErrorKind as Kind};
use super::super::{Commands, Hasher, Identity, Kept, Query, Typed, rule};
use super::{Sources, begin, check_place, digest, format, write_format, write_source, write_step};
use crate::name::QueueName;

/// The identity that the value of a query is stored under: that of the last node of [`super::plan`], if the value of that
/// node is shared. None if it is not shared, if a step has a link or a value that stays on its worker, and if the query is
/// wrong: a plan then says more.
#[must_use]
pub fn identify<D: Hasher>(
    query: &Query,
    mut hasher: D,
    queue: &QueueName,
    commands: &Commands,
    sources: Sources<'_>,
) -> Option<Identity> {
    begin(&mut hasher, queue);
    let source = query.source.as_ref().map(|source| digest(sources, source)).transpose().ok()?;
    write_source(&mut hasher, source);
    let (mut volatile, mut leave, mut shared) = (false, true, false);
    for (at, step) in query.steps.iter().enumerate() {
        let declared = commands.get(&step.command)?;
        let declaration = &declared.declaration;
        let no_link = |_: &_| Err::<(), _>(QueryError::new(step.span, Kind::EmptyLink));
        let arguments: Vec<Typed<()>> = resolve(declaration, step, no_link).ok()?;
        write_step(&mut hasher, declared, step, &arguments, &[]);
        let last = at + 1 == query.steps.len();
        let file = query.file.as_ref().filter(|_| last);
        let format = file.map(|file| format(declaration, file)).transpose().ok()?.flatten();
        write_format(&mut hasher, format.as_deref());
        check_place(declaration, step).ok()?;
        let ruling = rule(declaration.modes, volatile, None);
        leave &= declaration.modes.serialisable || format.is_some();
        (volatile, shared) = (ruling.volatile, ruling.kept == Kept::Shared);
    }
    (leave && shared).then(|| hasher.identity())
}
