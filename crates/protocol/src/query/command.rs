//! Commands: how they are declared in a worker file and on the wire.

use std::collections::BTreeMap;

use jobhall_core::bounds::MAX_ATTEMPTS;
use jobhall_core::needs::{Needs, Uses};
use jobhall_core::query::{
    self, CommandName, Declared, ENTRIES_MAX, Expiry, Modes, PARAMETERS_MAX, Parameter, ParameterType,
    Version,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::command_file::{COMMAND_FILES_MAX, CommandFile};
use crate::Span;
use crate::job::schema;

/// The table of a command: what it runs, its arguments, and how its values are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Command {
    /// Program and arguments. `{NAME}` is the argument of that name, as a whole word or after "="; arguments without a
    /// place are appended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<schema::CommandText>", length(max = ENTRIES_MAX))]
    pub run: Vec<String>,
    /// The arguments, in the order of the query.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = PARAMETERS_MAX))]
    pub args: Vec<CommandArgument>,
    /// A sentence for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::CommandText>")]
    pub help: Option<String>,
    /// Files whose content is part of the version, besides those that `run` names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<schema::CommandText>", length(max = ENTRIES_MAX))]
    pub files: Vec<String>,
    /// Replaces the version that is made of this table and the files.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::CommandVersion>")]
    pub version: Option<String>,
    /// Variables of the process.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, schema::CommandText>")]
    pub env: BTreeMap<String, String>,
    /// Extensions of file names that choose a form of the value; the process finds it in `JOBHALL_FORMAT`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<schema::CommandText>", length(max = ENTRIES_MAX))]
    pub formats: Vec<String>,
    /// Media type of the values; `application/octet-stream` if missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::MediaType>")]
    pub media_type: Option<String>,
    /// Time limit of a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::TimeLimit>")]
    pub timeout: Option<Span>,
    /// How often a failed step is repeated.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(range(max = MAX_ATTEMPTS - 1))]
    pub retries: u16,
    /// When a value is fresh no longer: a duration, or `EOD` with a time zone. Not in force yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Expiry>")]
    pub expires: Option<String>,
    /// A program whose output is part of the identity. Not in force yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<schema::CommandText>>")]
    pub check: Option<Vec<String>>,
    /// Shortest time between two runs of `check`; 10 s if missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::TimeLimit>")]
    pub check_every: Option<Span>,
    /// What a step needs of its worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Needs>")]
    pub needs: Option<String>,
    /// What a step uses of its worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Uses>")]
    pub uses: Option<String>,
    /// Each evaluation computes the value, and the values of what follows.
    #[serde(skip_serializing_if = "is_false")]
    pub volatile: bool,
    /// Each evaluation computes the value; what follows is cached.
    #[serde(skip_serializing_if = "is_false")]
    pub soft_volatile: bool,
    /// The value is cached on its worker only.
    #[serde(skip_serializing_if = "is_false")]
    pub inline: bool,
    /// Whether the value can leave its worker.
    #[serde(skip_serializing_if = "is_true")]
    pub serialisable: bool,
    /// Whether later requests may use the value.
    #[serde(skip_serializing_if = "is_true")]
    pub cacheable: bool,
    /// Run on the main worker, one at a time.
    #[serde(skip_serializing_if = "is_false")]
    pub mainthread: bool,
    /// Whether "--" goes before appended arguments.
    #[serde(skip_serializing_if = "is_true")]
    pub dash_dash: bool,
}

/// An argument of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandArgument {
    /// Its name.
    #[schemars(with = "schema::ArgumentName")]
    pub name: String,
    /// `text`, `int`, `number`, `bool`, `date`, `span`, `one_of` or `link`.
    #[serde(rename = "type", default)]
    pub kind: ArgumentType,
    /// The values to choose from, for `one_of`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<schema::CommandText>", length(max = ENTRIES_MAX))]
    pub values: Vec<String>,
    /// Used if the argument is left out; without one the argument is required.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "scalar")]
    #[schemars(with = "Option<Scalar>")]
    pub default: Option<String>,
    /// A sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::CommandText>")]
    pub help: Option<String>,
    /// Whether the argument does not change what the query means.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ignore: bool,
    /// Whether it may begin with "-".
    #[serde(default, skip_serializing_if = "is_false")]
    pub dash: bool,
}

/// The type of an argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentType {
    /// Any text.
    #[default]
    Text,
    /// A whole number.
    Int,
    /// A number.
    Number,
    /// `true` or `false`.
    Bool,
    /// A day, such as `2026-01-31`.
    Date,
    /// A duration, such as `1h30m`.
    Span,
    /// One of some values.
    OneOf,
    /// The value of another query.
    Link,
}

/// A default, as it is written.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Scalar {
    Bool(bool),
    Int(i64),
    Number(f64),
    Text(#[schemars(with = "schema::CommandText")] String),
}

/// A text that may be written as a number or a truth value.
mod scalar {
    use super::{Deserialize, Scalar};
    use serde::{Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(text: &Option<String>, to: S) -> Result<S::Ok, S::Error> {
        text.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
        let scalar = Option::<Scalar>::deserialize(from)?;
        Ok(scalar.map(|scalar| match scalar {
            Scalar::Bool(truth) => truth.to_string(),
            Scalar::Int(number) => number.to_string(),
            Scalar::Number(number) => number.to_string(),
            Scalar::Text(text) => text,
        }))
    }
}

/// The commands of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeclareCommands {
    /// By name.
    pub commands: BTreeMap<String, DeclaredCommand>,
    /// A name of the machine where their files are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::FileWord>")]
    pub machine: Option<String>,
}

/// A command with its version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeclaredCommand {
    /// The version, which is part of the identity of its values.
    #[schemars(with = "schema::CommandVersion")]
    pub version: String,
    /// The declaration.
    pub command: Command,
    /// The files that it consists of, as they were read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = COMMAND_FILES_MAX))]
    pub files: Vec<CommandFile>,
}

/// How many commands have changed by a declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandsDeclared {
    /// How many were new, or current in another version or with another declaration.
    pub changed: usize,
}

/// A command that queries can use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KnownCommand {
    /// Its name.
    pub name: String,
    /// The version that is current.
    pub version: String,
    /// The connected workers with this version, by name.
    pub workers: Vec<String>,
    /// The declaration.
    pub command: Command,
    /// The files that it consists of, as its worker has read them. Only for a request that names their machine, while that
    /// worker is connected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<CommandFile>,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_true(value: &bool) -> bool {
    *value
}

fn is_zero(value: &u16) -> bool {
    *value == 0
}

impl Default for Command {
    fn default() -> Command {
        Command {
            run: Vec::new(),
            args: Vec::new(),
            help: None,
            files: Vec::new(),
            version: None,
            env: BTreeMap::new(),
            formats: Vec::new(),
            media_type: None,
            timeout: None,
            retries: 0,
            expires: None,
            check: None,
            check_every: None,
            needs: None,
            uses: None,
            volatile: false,
            soft_volatile: false,
            inline: false,
            serialisable: true,
            cacheable: true,
            mainthread: false,
            dash_dash: true,
        }
    }
}

/// The default of `check_every`.
const CHECK_EVERY: Span = Span(10_000);

impl Command {
    /// The declaration of this table, checked.
    ///
    /// # Errors
    /// Names the field, such as `commands.clean.run[1]`.
    pub fn declaration(&self, name: &str) -> Result<query::Declaration, String> {
        let field = |field: &str, why: &dyn ToString| format!("commands.{name}.{field}: {}", why.to_string());
        let command = CommandName::new(name).map_err(|error| format!("commands: {error}"))?;
        let needs = self.needs.as_deref().map(Needs::parse).transpose();
        let uses = self.uses.as_deref().map(Uses::parse).transpose();
        let expires = self.expires.as_deref().map(Expiry::new).transpose();
        let version = self.version.as_deref().map(Version::new).transpose();
        if self.check.is_none() && self.check_every.is_some() {
            return Err(field("check_every", &"needs `check`"));
        }
        let check = self
            .check
            .clone()
            .map(|run| query::Check { run, every_ms: self.check_every.unwrap_or(CHECK_EVERY).0 });
        let declaration = query::Declaration {
            run: self.run.clone(),
            args: self.args.iter().map(CommandArgument::parameter).collect(),
            help: self.help.clone(),
            files: self.files.clone(),
            version: version.map_err(|error| field("version", &error))?,
            env: self.env.clone(),
            formats: self.formats.clone(),
            media_type: self.media_type.clone(),
            timeout_ms: self.timeout.map(|span| span.0),
            retries: self.retries,
            expires: expires.map_err(|error| field("expires", &error))?,
            check,
            needs: needs.map_err(|error| field("needs", &error))?,
            uses: uses.map_err(|error| field("uses", &error))?,
            modes: self.modes(),
            no_dash_dash: !self.dash_dash,
            ..query::Declaration::new(command)
        };
        declaration.checked().map_err(|error| error.to_string())
    }

    fn modes(&self) -> Modes {
        let &Command { volatile, soft_volatile, inline, serialisable, cacheable, mainthread, .. } = self;
        Modes { volatile, soft_volatile, inline, serialisable, cacheable, mainthread }
    }
}

impl CommandArgument {
    fn parameter(&self) -> Parameter {
        let CommandArgument { name, kind, values, default, help, ignore, dash } = self.clone();
        Parameter { name, kind: kind.into(), values, default, help, ignore, dash }
    }
}

macro_rules! both_ways {
    ($($name:ident),*) => {
        impl From<ArgumentType> for ParameterType {
            fn from(kind: ArgumentType) -> ParameterType {
                match kind { $(ArgumentType::$name => ParameterType::$name),* }
            }
        }

        impl From<ParameterType> for ArgumentType {
            fn from(kind: ParameterType) -> ArgumentType {
                match kind { $(ParameterType::$name => ArgumentType::$name),* }
            }
        }
    };
}

both_ways!(Text, Int, Number, Bool, Date, Span, OneOf, Link);

impl From<&query::Declaration> for Command {
    fn from(declaration: &query::Declaration) -> Command {
        let query::Declaration {
            name: _,
            run,
            args,
            help,
            files,
            version,
            env,
            formats,
            media_type,
            timeout_ms,
            retries,
            expires,
            check,
            needs,
            uses,
            modes,
            no_dash_dash,
        } = declaration.clone();
        let argument = |parameter: Parameter| {
            let Parameter { name, kind, values, default, help, ignore, dash } = parameter;
            CommandArgument { name, kind: kind.into(), values, default, help, ignore, dash }
        };
        let Modes { volatile, soft_volatile, inline, serialisable, cacheable, mainthread } = modes;
        Command {
            run,
            args: args.into_iter().map(argument).collect(),
            help,
            files,
            version: version.map(|version| version.to_string()),
            env,
            formats,
            media_type,
            timeout: timeout_ms.map(Span),
            retries,
            expires: expires.map(|expiry| expiry.to_string()),
            check_every: check.as_ref().map(|check| Span(check.every_ms)),
            check: check.map(|check| check.run),
            needs: needs.map(|needs| needs.to_string()),
            uses: uses.map(|uses| uses.to_string()),
            volatile,
            soft_volatile,
            inline,
            serialisable,
            cacheable,
            mainthread,
            dash_dash: !no_dash_dash,
        }
    }
}

impl DeclaredCommand {
    /// The declaration with its version, checked.
    ///
    /// # Errors
    /// As [`Command::declaration`].
    pub fn declared(&self, name: &str) -> Result<Declared, String> {
        let version = Version::new(&self.version);
        let version = version.map_err(|error| format!("commands.{name}.version: {error}"))?;
        Ok(Declared { declaration: self.command.declaration(name)?, version })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = r#"{
        "run": ["python3", "by.py", "{column}", "--rows={rows}"],
        "args": [
            {"name": "column", "type": "one_of", "values": ["region", "month"], "help": "what to sum by"},
            {"name": "rows", "type": "int", "default": 10},
            {"name": "factor", "type": "number", "default": 0.5, "ignore": true},
            {"name": "all", "type": "bool", "default": true}
        ],
        "help": "sums", "files": ["lib.py"], "version": "3", "env": {"LANG": "C"}, "formats": ["csv", "html"],
        "media_type": "text/csv", "timeout": "1m", "retries": 2, "expires": "EOD Europe/Berlin",
        "check": ["stat", "x"], "check_every": "30s", "needs": "gpu>=1", "uses": "gpu=1", "cacheable": false
    }"#;

    #[test]
    fn a_table_is_a_declaration_and_back() {
        let table: Command = serde_json::from_str(FULL).unwrap();
        let declaration = table.declaration("by").unwrap();
        assert_eq!(declaration.args[1].default.as_deref(), Some("10"));
        assert_eq!(declaration.args[2].default.as_deref(), Some("0.5"));
        assert_eq!((declaration.timeout_ms, declaration.retries), (Some(60_000), 2));
        let shown = Command::from(&declaration);
        assert_eq!(shown.declaration("by").unwrap(), declaration);
        let sent = serde_json::to_string(&shown).unwrap();
        assert_eq!(serde_json::from_str::<Command>(&sent).unwrap(), shown);
        let bare: Command = serde_json::from_str(r#"{"run":["sort"]}"#).unwrap();
        assert_eq!(serde_json::to_string(&bare).unwrap(), r#"{"run":["sort"]}"#);
    }

    #[test]
    fn a_wrong_table_names_its_field() {
        let of = |table: &str| {
            let table: Command = serde_json::from_str(table).unwrap();
            table.declaration("by").unwrap_err()
        };
        for (table, message) in [
            (r#"{"needs": "gpu>="}"#, "commands.by.needs: "),
            (r#"{"uses": "gpu"}"#, "commands.by.uses: "),
            (r#"{"expires": "soon"}"#, "commands.by.expires: "),
            (r#"{"version": "a b"}"#, "commands.by.version: "),
            (r#"{"check_every": "1s"}"#, "commands.by.check_every: needs `check`"),
            (
                r#"{"run": ["sh", "-c", "x{a}"], "args": [{"name": "a"}]}"#,
                "commands.by.run[2]: {a} is a whole word",
            ),
        ] {
            assert!(of(table).starts_with(message), "{table}: {}", of(table));
        }
        let table: Command = serde_json::from_str("{}").unwrap();
        assert!(table.declaration("By").unwrap_err().starts_with("commands: \"By\" is no name"));
        assert!(serde_json::from_str::<Command>(r#"{"rum": []}"#).unwrap_err().to_string().contains("`rum`"));
    }
}
