//! From a query to the jobs that make its value.
//!
//! The transcript of a chain is one stream of fields, each with its length before it, so that no two different chains
//! have the same bytes:
//!
//! ```text
//! domain · queue · digest of the source, or nothing ·
//!     for each step: command, version, designated worker, what its check answered, each argument that counts (its name
//!     with its text, or with the identity of its link) ·
//! format
//! ```
//!
//! The identity of a step is the hash of the stream up to its end. A link that begins with the input of its step goes
//! on from a copy of the stream.
//!
//! Steps with equal identities are one step, so a volatile input that is used twice runs once. A *node* is what one job
//! runs: one step, and the steps before it that it *carries*. A step is carried if its value may not be kept and all that
//! receive the value run in the same job; so the value is made where it is used.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::arguments::resolve;
use super::error::{QueryError, QueryErrorKind as Kind};
use super::nearest::nearest;
use super::text::escape_argument;
use super::{
    CommandName, Declaration, Facts, FileName, Given, Hasher, Identity, Kept, Link, Place, Query, Ruling,
    STEPS_MAX, SourceDigest, SourceKey, Span, Step, Typed, Version, rule,
};
use crate::name::QueueName;

mod checks;
mod identify;
mod nodes;
mod recipes;

pub use checks::{PlannedCheck, StepCheck};
pub use identify::identify;
pub use recipes::RECIPE_DEPTH_MAX;

use checks::{check_of, write_check};

/// Changes if the transcript does, so that an old value never answers for a new meaning.
const DOMAIN: &[u8] = b"jobhall.query.1";

/// A declaration with the version of what it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    pub declaration: Declaration,
    pub version: Version,
}

/// The commands that a query may use.
pub type Commands = BTreeMap<CommandName, Arc<Declared>>;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The node with this number.
    Node(usize),
    /// Stored data.
    Source(SourceKey, SourceDigest),
}

/// Where a step of a node has a value from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepInput {
    /// An earlier step of the same node, by its number.
    Step(usize),
    /// An input of the node, by its number there.
    Input(usize),
}

/// One step, ready to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedStep {
    pub identity: Identity,
    pub declared: Arc<Declared>,
    /// One for each parameter.
    pub arguments: Vec<Typed<StepInput>>,
    /// None for a step that begins with nothing.
    pub input: Option<StepInput>,
    pub format: Option<String>,
    pub check: Option<StepCheck>,
    /// Whether its value is kept on the worker that made it.
    pub stays: bool,
    /// Where it stands in the text that was planned; that of its key for a step of a recipe.
    pub span: Span,
    /// The canonical text up to its end.
    pub text: String,
}

/// What one job runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Of its last step.
    pub identity: Identity,
    pub kept: Kept,
    pub place: Place,
    /// In the order in which they run. All but the last are carried.
    pub steps: Vec<PlannedStep>,
    pub inputs: Vec<Input>,
    /// The canonical text up to its last step.
    pub text: String,
}

/// How the value of a query is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Each after those that it depends on.
    pub nodes: Vec<Node>,
    /// What has the value of the query.
    pub value: Input,
    pub file: Option<FileName>,
    pub checks: Vec<PlannedCheck>,
    /// What has the values of the recipes that are used, by key.
    pub recipes: Vec<(SourceKey, Input)>,
}

/// Plans a query. `hasher` has seen nothing yet; `queue` separates the values of one set of users from others.
///
/// # Errors
/// An unknown command or source, an argument of the wrong type, or a value that cannot be handed on.
pub fn plan<D: Hasher>(
    query: &Query,
    mut hasher: D,
    queue: &QueueName,
    commands: &Commands,
    facts: &dyn Facts,
) -> Result<Plan, QueryError> {
    begin(&mut hasher, queue);
    let mut planner = Planner::new(commands, facts, hasher);
    let start = planner.start(query.source.as_ref())?;
    let end = planner.chain(query, start)?;
    let Some(value) = end.value else { return Err(QueryError::new(Span::default(), Kind::Empty)) };
    if let From::Step(last) = value {
        planner.check_leaves(last)?;
    }
    let mut recipes = Vec::new();
    for (key, chain) in planner.recipes {
        recipes.extend(chain.value.map(|value| (key, value)));
    }
    let plan = nodes::group(&planner.steps, &value, &recipes, query.file.clone())?;
    Ok(Plan { checks: planner.checks, ..plan })
}

/// Where a value comes from, before steps are grouped to nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum From {
    Step(usize),
    Source(SourceKey, SourceDigest),
}

/// A step with everything it depends on; equal steps are one.
#[derive(Clone, Debug)]
struct Found {
    identity: Identity,
    declared: Arc<Declared>,
    arguments: Vec<Typed<From>>,
    input: Option<From>,
    format: Option<String>,
    check: Option<StepCheck>,
    ruling: Ruling,
    span: Span,
    text: String,
}

impl Found {
    fn inputs(&self) -> impl Iterator<Item = &From> {
        let links = self.arguments.iter().filter_map(|argument| match argument {
            Typed::Link(from) => Some(from),
            Typed::Text(_) => None,
        });
        self.input.iter().chain(links)
    }

    /// Whether its value is bytes, by itself or in the format that was asked for.
    fn leaves(&self) -> bool {
        self.declared.declaration.modes.serialisable || self.format.is_some()
    }

    fn command(&self) -> String {
        self.declared.declaration.name.to_string()
    }
}

/// A chain up to one of its steps.
#[derive(Clone)]
struct Chain<D> {
    hasher: D,
    value: Option<From>,
    text: String,
}

struct Planner<'a, D> {
    commands: &'a Commands,
    facts: &'a dyn Facts,
    /// The hasher of a chain that begins.
    empty: D,
    steps: Vec<Found>,
    known: BTreeMap<Identity, usize>,
    checks: Vec<PlannedCheck>,
    /// The recipes that were planned.
    recipes: BTreeMap<SourceKey, Chain<D>>,
    /// The recipes that are being planned, the outermost first.
    making: Vec<SourceKey>,
    /// How many links and recipes are being planned.
    depth: usize,
    /// Where the key of the outermost of these recipes stands.
    span: Option<Span>,
}

impl<'a, D: Hasher> Planner<'a, D> {
    fn new(commands: &'a Commands, facts: &'a dyn Facts, empty: D) -> Planner<'a, D> {
        Planner {
            commands,
            facts,
            empty,
            steps: Vec::new(),
            known: BTreeMap::new(),
            checks: Vec::new(),
            recipes: BTreeMap::new(),
            making: Vec::new(),
            depth: 0,
            span: None,
        }
    }
}

impl<D: Hasher> Planner<'_, D> {
    fn chain(&mut self, query: &Query, mut chain: Chain<D>) -> Result<Chain<D>, QueryError> {
        for (at, step) in query.steps.iter().enumerate() {
            let file = query.file.as_ref().filter(|_| at + 1 == query.steps.len());
            self.step(step, file, at + 1 == query.steps.len(), &mut chain)?;
        }
        Ok(chain)
    }

    fn step(
        &mut self,
        step: &Step,
        file: Option<&FileName>,
        last: bool,
        chain: &mut Chain<D>,
    ) -> Result<(), QueryError> {
        let Some(declared) = self.commands.get(&step.command).cloned() else {
            return Err(self.unknown(step, last));
        };
        let before = chain.clone();
        let mut links = Vec::new();
        let arguments = resolve(&declared.declaration, step, |link| {
            let end = self.link(link, &before, step.span)?;
            links.push(end.hasher.identity());
            end.value.ok_or_else(|| QueryError::new(step.span, Kind::EmptyLink))
        })?;
        let place = rule(declared.declaration.modes, false, step.on.as_ref()).place;
        let check = check_of(&self.empty, self.facts, &declared, step, &arguments, &place);
        write_step(&mut chain.hasher, &declared, step, check.as_ref(), &arguments, &links);
        let format = file.map(|file| format(&declared.declaration, file)).transpose()?.flatten();
        write_format(&mut chain.hasher, format.as_deref());
        append_text(step, &mut chain.text);
        let identity = chain.hasher.identity();
        let input = before.value;
        let check = check.map(|check| self.checked(check));
        if self.steps.len() >= STEPS_MAX && !self.known.contains_key(&identity) {
            return Err(QueryError::new(step.span, Kind::TooManySteps));
        }
        let found = self.known.get(&identity).copied().unwrap_or_else(|| {
            let feeds = input.iter().chain(arguments.iter().filter_map(|argument| match argument {
                Typed::Link(from) => Some(from),
                Typed::Text(_) => None,
            }));
            let volatile = feeds.into_iter().any(|from| self.is_volatile(from));
            let ruling = rule(declared.declaration.modes, volatile, step.on.as_ref());
            let (text, span) = (chain.text.clone(), self.span.unwrap_or(step.span));
            self.steps.push(Found {
                identity,
                declared,
                arguments,
                input,
                format,
                check,
                ruling,
                span,
                text,
            });
            self.known.insert(identity, self.steps.len() - 1);
            self.steps.len() - 1
        });
        check_place(&self.steps[found].declared.declaration, step)?;
        chain.value = Some(From::Step(found));
        Ok(())
    }

    fn is_volatile(&self, from: &From) -> bool {
        matches!(from, From::Step(step) if self.steps[*step].ruling.volatile)
    }

    fn link(&mut self, link: &Link, input: &Chain<D>, span: Span) -> Result<Chain<D>, QueryError> {
        self.nested(span, |planner| {
            let start =
                if link.absolute { planner.start(link.query.source.as_ref())? } else { input.clone() };
            planner.chain(&link.query, start)
        })
    }

    /// The check of a step. The plan has each check once.
    fn checked(&mut self, check: PlannedCheck) -> StepCheck {
        let of_step = StepCheck { identity: check.identity, answer: check.answer };
        if self.checks.iter().all(|known| known.identity != check.identity) {
            self.checks.push(check);
        }
        of_step
    }

    fn check_leaves(&self, last: usize) -> Result<(), QueryError> {
        let step = &self.steps[last];
        if step.leaves() {
            return Ok(());
        }
        Err(QueryError::new(step.span, Kind::NotSerialisable { command: step.command() }))
    }

    fn unknown(&self, step: &Step, last: bool) -> QueryError {
        let name = step.command.as_str();
        let nearest = nearest(name, self.commands.keys().map(CommandName::as_str));
        let file = if last { meant_file(step) } else { None };
        let name = name.to_owned();
        QueryError::new(step.span, Kind::UnknownCommand { name, nearest, file })
    }
}

/// A command of the main worker cannot run on a designated one.
fn check_place(declaration: &Declaration, step: &Step) -> Result<(), QueryError> {
    if declaration.modes.mainthread && step.on.is_some() {
        let command = step.command.to_string();
        return Err(QueryError::new(step.span, Kind::MainElsewhere { command }));
    }
    Ok(())
}

/// The file name that was meant by a last step such as `report-2026.csv`.
fn meant_file(step: &Step) -> Option<String> {
    let mut name = step.command.to_string();
    for argument in &step.arguments {
        let Given::Text(text) = &argument.given else { return None };
        name.push('-');
        name.push_str(text);
    }
    let mut text = String::new();
    escape_argument(&name, &mut text);
    (!step.arguments.is_empty() && FileName::check(name, step.span).is_ok()).then_some(text)
}

/// The format that a file name chooses; none if the command offers none, as the name then only names the download.
fn format(declaration: &Declaration, file: &FileName) -> Result<Option<String>, QueryError> {
    let found = file.extension().to_ascii_lowercase();
    if declaration.formats.is_empty() {
        return Ok(None);
    }
    if declaration.formats.contains(&found) {
        return Ok(Some(found));
    }
    let (command, offered) = (declaration.name.to_string(), declaration.formats.clone());
    Err(QueryError::new(file.span, Kind::FormatNotOffered { command, found, offered }))
}

fn append_text(step: &Step, text: &mut String) {
    let alone = Query { steps: vec![step.clone()], ..Query::default() };
    if !text.is_empty() {
        text.push('/');
    }
    text.push_str(&alone.text());
}

/// The beginning of every transcript.
fn begin<D: Hasher>(hasher: &mut D, queue: &QueueName) {
    field(hasher, DOMAIN);
    field(hasher, queue.as_str().as_bytes());
}

fn write_source<D: Hasher>(hasher: &mut D, digest: Option<SourceDigest>) {
    match digest {
        Some(digest) => {
            hasher.update(&[1]);
            hasher.update(&digest.0);
        }
        None => hasher.update(&[0]),
    }
}

fn write_format<D: Hasher>(hasher: &mut D, format: Option<&str>) {
    if let Some(format) = format {
        hasher.update(&[3]);
        field(hasher, format.as_bytes());
    }
}

fn write_step<D: Hasher, L>(
    hasher: &mut D,
    declared: &Declared,
    step: &Step,
    check: Option<&PlannedCheck>,
    arguments: &[Typed<L>],
    links: &[Identity],
) {
    hasher.update(&[2]);
    field(hasher, step.command.as_str().as_bytes());
    field(hasher, declared.version.as_str().as_bytes());
    match &step.on {
        Some(worker) => {
            hasher.update(&[1]);
            field(hasher, worker.as_str().as_bytes());
        }
        None => hasher.update(&[0]),
    }
    write_check(hasher, check);
    let mut links = links.iter();
    for (parameter, argument) in declared.declaration.args.iter().zip(arguments) {
        let link = if matches!(argument, Typed::Link(_)) { links.next() } else { None };
        if parameter.ignore {
            continue;
        }
        hasher.update(&[4]);
        field(hasher, parameter.name.as_bytes());
        match (argument, link) {
            (Typed::Link(_), Some(identity)) => {
                hasher.update(&[1]);
                field(hasher, identity.bytes());
            }
            (Typed::Link(_), None) => hasher.update(&[2]),
            (Typed::Text(text), _) => {
                hasher.update(&[0]);
                field(hasher, text.as_bytes());
            }
        }
    }
    hasher.update(&[5]);
}

fn field<D: Hasher>(hasher: &mut D, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}
