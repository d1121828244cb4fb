//! What can be wrong with a query, where, and what was probably meant.

use std::fmt;

use super::{LINK_DEPTH_MAX, STEPS_MAX, Span};

/// What is wrong, and the part of the text that it concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryError {
    pub span: Span,
    pub kind: QueryErrorKind,
}

impl QueryError {
    pub(super) fn new(span: Span, kind: QueryErrorKind) -> QueryError {
        QueryError { span, kind }
    }

    /// The message with the column of this text, from 1.
    #[must_use]
    pub fn message(&self, text: &str) -> String {
        format!("column {}: {}", self.span.column(text), self.kind)
    }
}

/// What can be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryErrorKind {
    Empty,
    TooLong { bytes: usize, most: usize },
    TooManySteps,
    TooDeep,
    EmptyPart,
    CommandExpected { found: char },
    CommandTooLong { most: usize },
    CommandCharacter { found: char },
    Unexpected { found: char },
    UnknownEscape { found: String },
    BadPercent,
    NotUtf8,
    Nul,
    UnclosedLink,
    EmptyLink,
    LinkInText,
    EndWithoutLink,
    SourceNotFirst,
    KeyNotClosed { key: String },
    BadKey { why: &'static str },
    FileNotLast,
    BadFile,
    BadWorker { why: String },
    NobodyDesignated,
    UnclosedQuote,
    EmptyStage,
    BadHead { found: String },
    UnknownCommand { name: String, nearest: Vec<String>, file: Option<String> },
    TooManyArguments { command: String, most: usize, given: usize, meant: Option<String> },
    MissingArgument { command: String, argument: String, least: usize, given: usize },
    BadArgument { command: String, argument: String, found: String, expected: String },
    LinkExpected { command: String, argument: String },
    LinkNotAllowed { command: String, argument: String },
    DashNotAllowed { command: String, argument: String, found: String },
    UnknownSource { key: String, nearest: Vec<String> },
    FormatNotOffered { command: String, found: String, offered: Vec<String> },
    NotSerialisable { command: String },
    ValueStays { command: String, consumer: String },
    MainElsewhere { command: String },
    InRecipe { key: String, kind: Box<QueryErrorKind> },
    RecipeCycle { keys: Vec<String> },
    RecipesTooDeep,
}

impl QueryErrorKind {
    /// The code of the problem on the wire.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            QueryErrorKind::TooLong { .. } => "query_too_long",
            QueryErrorKind::TooManySteps | QueryErrorKind::TooDeep | QueryErrorKind::RecipesTooDeep => {
                "query_too_large"
            }
            QueryErrorKind::UnknownCommand { .. } => "unknown_command",
            QueryErrorKind::TooManyArguments { .. }
            | QueryErrorKind::MissingArgument { .. }
            | QueryErrorKind::BadArgument { .. }
            | QueryErrorKind::LinkExpected { .. }
            | QueryErrorKind::LinkNotAllowed { .. }
            | QueryErrorKind::DashNotAllowed { .. } => "wrong_argument",
            QueryErrorKind::MainElsewhere { .. } => "wrong_place",
            QueryErrorKind::UnknownSource { .. } => "unknown_source",
            QueryErrorKind::RecipeCycle { .. } => "recipe_cycle",
            QueryErrorKind::InRecipe { kind, .. } => kind.code(),
            QueryErrorKind::FormatNotOffered { .. } => "format_not_offered",
            QueryErrorKind::NotSerialisable { .. } | QueryErrorKind::ValueStays { .. } => "not_serialisable",
            _ => "query_syntax",
        }
    }
}

impl fmt::Display for QueryErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use QueryErrorKind as Kind;
        match self {
            Kind::Empty => f.write_str("the query is empty; it needs a command, as in count-10/head-3"),
            Kind::TooLong { bytes, most } => write!(f, "the query has {bytes} bytes, the limit is {most}"),
            Kind::TooManySteps => {
                write!(f, "this step is one too many: a query has at most {STEPS_MAX}, with those of its links")
            }
            Kind::TooDeep => write!(f, "links are nested deeper than the limit of {LINK_DEPTH_MAX}"),
            Kind::EmptyPart => f.write_str("nothing stands between two slashes"),
            Kind::CommandExpected { found } => {
                write!(f, "a command begins with a lower-case letter or \"_\", not with {found:?}")
            }
            Kind::CommandTooLong { most } => {
                write!(f, "the name of a command has at most {most} characters")
            }
            Kind::CommandCharacter { found } => {
                write!(f, "the name of a command has letters, digits and \"_\", not {found:?}")
            }
            Kind::Unexpected { found: ' ' } => f.write_str(
                "a space is written ~. in this form; for words between spaces use the pipe form: 'clean | head 3'",
            ),
            Kind::Unexpected { found } => {
                write!(f, "{found:?} is not allowed here; in an argument it is written {}", hex(*found))
            }
            Kind::UnknownEscape { found } => {
                write!(f, "{found:?} is no escape; \"~\" itself is written ~~, and any byte ~x with two hex digits")
            }
            Kind::BadPercent => f.write_str("two hex digits follow \"%\""),
            Kind::NotUtf8 => f.write_str("these bytes are not UTF-8"),
            Kind::Nul => f.write_str("no argument may contain a NUL byte"),
            Kind::UnclosedLink => f.write_str("this link does not end; ~E ends it"),
            Kind::EmptyLink => f.write_str("this link has no query"),
            Kind::LinkInText => f.write_str("a link is a whole argument; nothing precedes ~X~ or follows ~E"),
            Kind::EndWithoutLink => f.write_str("~E ends a link, and none begins before it"),
            Kind::SourceNotFirst => f.write_str("-R/ stands at the beginning of a query only"),
            Kind::KeyNotClosed { key } => {
                write!(f, "/- ends the key of a source: -R/{key}/-")
            }
            Kind::BadKey { why } => write!(f, "the key of a source {why}"),
            Kind::FileNotLast => {
                f.write_str("a part with \".\" is a file name, which stands at the end of a query only")
            }
            Kind::BadFile => {
                f.write_str("a file name ends in \".\" and an extension of up to 16 letters and digits")
            }
            Kind::BadWorker { why } => write!(f, "{why}"),
            Kind::NobodyDesignated => f.write_str("-on-WORKER/ is followed by the command that it is for"),
            Kind::UnclosedQuote => f.write_str("the quote that begins here does not end"),
            Kind::EmptyStage => f.write_str("nothing stands before or after this \"|\""),
            Kind::BadHead { found } => {
                write!(f, "{found:?} stands alone before the first \"|\": @FILE, source:KEY or -")
            }
            Kind::UnknownCommand { name, nearest, file } => unknown_command(f, name, nearest, file.as_deref()),
            Kind::TooManyArguments { command, most, given, meant } => {
                too_many(f, command, *most, *given, meant.as_deref())
            }
            Kind::MissingArgument { command, argument, least, given } => {
                write!(f, "{command} takes at least {}, {given} given: {argument} is missing", count(*least))
            }
            Kind::BadArgument { command, argument, found, expected } => {
                write!(f, "{argument} of {command} is {expected}, not {found:?}")
            }
            Kind::LinkExpected { command, argument } => {
                write!(f, "{argument} of {command} is a query: ~X~…~E")
            }
            Kind::LinkNotAllowed { command, argument } => {
                write!(f, "{argument} of {command} is not a query, so no ~X~…~E can stand here")
            }
            Kind::DashNotAllowed { command, argument, found } => write!(
                f,
                "{argument} of {command} may not begin with \"-\", as {found:?} does: a program would take it for an \
                 option (its declaration can allow it: dash = true)"
            ),
            Kind::UnknownSource { key, nearest } => unknown_source(f, key, nearest),
            Kind::FormatNotOffered { command, found, offered } => {
                write!(f, "{command} cannot make {found:?}; it offers {}", offered.join(", "))
            }
            Kind::NotSerialisable { command } => {
                write!(f, "the value of {command} cannot leave its worker; add a command that makes bytes of it")
            }
            Kind::ValueStays { command, consumer } => write!(
                f,
                "the value of {command} cannot leave its worker, and {consumer} runs in another place"
            ),
            Kind::MainElsewhere { command } => {
                write!(f, "{command} runs on the main worker only, so no other worker can be designated")
            }
            Kind::InRecipe { key, kind } => write!(f, "in the recipe of {key:?}: {kind}"),
            Kind::RecipeCycle { keys } => {
                write!(f, "these recipes need each other, so none can be made: {}", keys.join(" -> "))
            }
            Kind::RecipesTooDeep => {
                write!(f, "recipes are nested deeper than the limit of {}", super::RECIPE_DEPTH_MAX)
            }
        }
    }
}

fn count(arguments: usize) -> String {
    if arguments == 1 { "1 argument".to_owned() } else { format!("{arguments} arguments") }
}

fn hex(c: char) -> String {
    c.encode_utf8(&mut [0; 4]).bytes().map(|byte| format!("~x{byte:02x}")).collect()
}

fn unknown_command(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    nearest: &[String],
    file: Option<&str>,
) -> fmt::Result {
    write!(f, "there is no command {name:?}")?;
    if !nearest.is_empty() {
        write!(f, "; did you mean {}?", nearest.join(" or "))?;
    }
    match file {
        Some(file) => write!(f, "; in a file name \"-\" is written ~_: {file}"),
        None => Ok(()),
    }
}

fn unknown_source(f: &mut fmt::Formatter<'_>, key: &str, nearest: &[String]) -> fmt::Result {
    write!(f, "there is no source {key:?}")?;
    if nearest.is_empty() {
        return Ok(());
    }
    let nearest: Vec<String> = nearest.iter().map(|key| format!("{key:?}")).collect();
    write!(f, "; did you mean {}?", nearest.join(" or "))
}

fn too_many(
    f: &mut fmt::Formatter<'_>,
    command: &str,
    most: usize,
    given: usize,
    meant: Option<&str>,
) -> fmt::Result {
    if most == 0 {
        return write!(f, "{command} takes no arguments, {given} given");
    }
    write!(f, "{command} takes {}, {given} given; a dash inside an argument is written ~_", count(most))?;
    meant.map_or(Ok(()), |meant| write!(f, ": {meant}"))
}
