//! `jobhall token`: creating, listing and revoking tokens.

use clap::{Args, Subcommand};
use jobhall_protocol::{CreateToken, Span, Token, TokenKind, TokenRole};

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::table::Table;
use crate::suggest;

const EXAMPLES: &str = "\
Examples:
  jobhall token create ci --role client --queue 'ci-*' --expires 90d
  jobhall token create --join              for `jobhall worker --join`; valid once, for one hour
  jobhall token create --join --uses 20 --expires 90d --queue 'ci-*'    for many workers
  jobhall token list
  jobhall token revoke ci";

/// The commands of `token`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum TokenCommand {
    /// Create a token; it is printed only once
    Create(CreateArgs),
    /// List the tokens, without their secrets
    #[command(after_help = "Example:\n  jobhall token list --json")]
    List,
    /// Revoke a token and close its connections
    #[command(after_help = "Examples:\n  jobhall token revoke ci\n  jobhall token revoke 5f2c9e017ab3d846")]
    Revoke {
        /// Name or id of the token
        #[arg(value_name = "TOKEN")]
        which: String,
    },
}

/// Arguments of `token create`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CreateArgs {
    /// Name of the token; for a worker, the worker's name
    #[arg(required_unless_present = "join")]
    pub name: Option<String>,
    /// Role of the token
    #[arg(long, value_parser = ["viewer", "client", "worker", "admin"], required_unless_present = "join")]
    pub role: Option<String>,
    /// Create a join token, which a worker exchanges for its own
    #[arg(long, conflicts_with = "role")]
    pub join: bool,
    /// How many workers can join with it [default: 1, within an hour]
    #[arg(long, value_name = "N", requires = "join", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub uses: Option<u32>,
    /// Limit it to this queue, or to those with this prefix (`ci-*`); may be repeated
    #[arg(long = "queue", value_name = "QUEUE")]
    pub queues: Vec<String>,
    /// Lifetime, such as 90d [default: unlimited; a join token: 1h]
    #[arg(long, value_name = "SPAN")]
    pub expires: Option<Span>,
}

impl CreateArgs {
    fn wanted(&self) -> CreateToken {
        let role = match self.role.as_deref() {
            Some("viewer") => TokenRole::Viewer,
            Some("client") => TokenRole::Client,
            Some("admin") => TokenRole::Admin,
            _ => TokenRole::Worker,
        };
        CreateToken {
            name: self.name.clone(),
            role,
            kind: if self.join { TokenKind::Join } else { TokenKind::Plain },
            queues: self.queues.clone(),
            uses: self.uses,
            expires_in: self.expires,
        }
    }
}

pub async fn run(context: &Context, command: &TokenCommand) -> Outcome {
    let client = context.client()?;
    match command {
        TokenCommand::Create(args) => {
            let made = client.create_token(&args.wanted()).await?;
            context.output.one(&made, || format!("{}\n", made.secret))?;
            context.output.say("this token is not shown again");
        }
        TokenCommand::List => {
            let tokens = client.tokens().await?;
            context.output.list(&tokens, || table(&tokens))?;
        }
        TokenCommand::Revoke { which } => {
            let tokens = client.tokens().await?;
            let found = known(&tokens, which)?;
            client.revoke_token(&found.id).await?;
            context.output.say(&format!("token {} revoked", found.name));
        }
    }
    Ok(Exit::Ok)
}

fn known<'a>(tokens: &'a [Token], wanted: &str) -> Outcome<&'a Token> {
    let hint = suggest::hint(wanted, tokens.iter().map(|token| token.name.as_str()));
    let unknown = || Failure::new(Exit::NotFound, format!("there is no token {wanted:?}{hint}"));
    tokens.iter().find(|token| token.name == wanted || token.id == wanted).ok_or_else(unknown)
}

fn table(tokens: &[Token]) -> Table {
    let mut table = Table::new(&["NAME", "ROLE", "ID", "QUEUES", "CREATED", "EXPIRES"]);
    for token in tokens {
        let role = match (token.kind, token.role) {
            (TokenKind::Join, _) => format!("join, {} left", token.uses.unwrap_or(1)),
            (_, TokenRole::Viewer) => "viewer".to_owned(),
            (_, TokenRole::Client) => "client".to_owned(),
            (_, TokenRole::Worker) => "worker".to_owned(),
            (_, TokenRole::Admin) => "admin".to_owned(),
        };
        let queues = if token.queues.is_empty() { "all".to_owned() } else { token.queues.join(" ") };
        let expires = token.expires_at.map_or_else(|| "never".to_owned(), |at| at.to_string());
        table.row([
            (&token.name).into(),
            role.into(),
            (&token.id).into(),
            queues.into(),
            token.created_at.to_string().into(),
            expires.into(),
        ]);
    }
    table
}
