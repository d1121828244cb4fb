//! Queries: the grammar of their text, what a command declares, and which steps a query consists of.
//!
//! A query is a chain of commands that is safe in a URL. Each step receives the value of the step before it.
//!
//! ```text
//! -R/sales.csv/-/clean/between-2026~_01~_01-2026~_02~_01/by-region/report.csv
//! └── source ──┘ └───┘ └─ a command, two arguments ────┘ └───────┘ └─ file ─┘
//! ```
//!
//! ```text
//! query   = [ "-R/" key "/-" ] *( "/" part ) [ "/" file ]
//! key     = name *( "/" name )                      a name is text in which "-" needs no escape
//! part    = [ "-on-" arg "/" ] command *( "-" arg )
//! command = [a-z_] [A-Za-z0-9_]{0,47}
//! arg     = text | "~X~" [ "/" ] query "~E"         from nothing with "/", else from the input of this step
//! file    = the last part, with "." and without "-"
//! text    = *( character | escape )
//! escape  = ~~ "~" | ~_ "-" | ~I ~/ "/" | ~. " " | ~0…~9 "-0"…"-9" | ~xHH a byte
//!         | ~H "https://" | ~h "http://" | ~f "file://" | ~P "://"
//! ```
//!
//! Text and meaning differ. The *canonical text* is syntax alone: every text that is read as the same tree has it, and
//! a client can make it. The *meaning* needs the declarations of the commands: `head` and `head-10` differ in their text
//! and are the same query if 10 is the default. Two queries mean the same exactly if their [`Identity`] is equal, and
//! the identity is what values are stored under.
//!
//! ```text
//! text ── parse ──▶ Query ── plan (declarations, facts) ──▶ nodes, each with an identity and a place
//! ```
//!
//! This module makes the bytes of which an identity is the hash; it does not hash ([`Hasher`]).

mod arguments;
mod asked;
mod content;
mod declaration;
mod error;
mod expiry;
mod facts;
mod identity;
mod mode;
mod nearest;
mod params;
mod parse;
mod pipe;
mod plan;
mod render;
mod span;
mod text;

#[cfg(test)]
mod tests;

pub use arguments::{Parameter, ParameterType, Typed};
pub use asked::{ASKED_BYTES_MAX, ASKED_MAX, AskedQueries};
pub use content::content_identity;
pub use declaration::{
    Check, DECLARED_BYTES_MAX, Declaration, DeclarationError, ENTRIES_MAX, PARAMETERS_MAX,
};
pub use error::{QueryError, QueryErrorKind};
pub use expiry::Expiry;
pub use facts::Facts;
pub use identity::{
    Hasher, IDENTITY_CHARS, Identity, SourceDigest, SourceDigestError, VERSION_BYTES_MAX, Version,
};
pub use mode::{Kept, Modes, Place, Ruling, rule};
pub use nearest::nearest;
pub use params::{
    Argument as ArgumentParam, CheckParam, INLINE_VALUE_BYTES, NodeParams, Place as InputPlace, SourceParam,
    StepParams, StoredValue,
};
pub use parse::{COMMAND_CHARS_MAX, CommandName, SourceKey, TEXT_BYTES_MAX, URL_BYTES_MAX};
pub use pipe::{Pipe, PipeHead, is_pipe};
pub use plan::{
    Commands, Declared, Input, Node, Plan, PlannedCheck, PlannedStep, RECIPE_DEPTH_MAX, StepCheck, StepInput,
    identify, plan,
};
pub use span::Span;

use crate::name::WorkerName;

/// Maximum number of steps of a query, with those of its links.
pub const STEPS_MAX: usize = 256;
/// Maximum depth of links in links.
pub const LINK_DEPTH_MAX: usize = 16;

/// A query as it was read. Where its parts stood in the text is not compared.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Query {
    /// The data that the first step receives.
    pub source: Option<Source>,
    pub steps: Vec<Step>,
    /// The name of the download; its extension is the format of the value.
    pub file: Option<FileName>,
}

/// The stored data that a query begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub key: SourceKey,
    pub span: Span,
}

/// The file name at the end of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileName {
    pub name: String,
    pub span: Span,
}

impl FileName {
    /// What follows the last dot.
    #[must_use]
    pub fn extension(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or_default()
    }
}

/// One command with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The only worker that may run it.
    pub on: Option<WorkerName>,
    pub command: CommandName,
    pub arguments: Vec<Argument>,
    pub span: Span,
}

/// One argument of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    pub given: Given,
    pub span: Span,
}

/// What stands in the place of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    Text(String),
    Link(Link),
}

/// A query whose value is an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Whether it begins with nothing or with its own source, and not with the input of the step that it is given to.
    pub absolute: bool,
    pub query: Query,
}
