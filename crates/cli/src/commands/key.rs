//! `jobhall key`: the key file of a hall.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use jobhall_protocol::{Span, Timestamp};
use jobhall_server::{EarlierKey, HallKeys};
use serde::Serialize;

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::hall_key::{self, unusable};

const EXAMPLES: &str = "\
Examples:
  jobhall key show
  jobhall key rotate --overlap 24h
  jobhall key rotate --key-file /etc/jobhall/hall.key

The key file (hall.key in the data directory) protects the tokens of running jobs and the trust
between nodes. Every node of a hall has a copy of it.";

const ROTATE: &str = "\
Examples:
  jobhall key rotate --overlap 24h
  jobhall key rotate --overlap 0s --key-file /etc/jobhall/hall.key   the old key is known to someone

Run it on one node, then copy the file to all others before the overlap ends. A running server reads
a changed file within seconds. During the overlap nodes with either key work together. A job that
began before the rotation and runs longer than the overlap can no longer use its token, and the
worker of `jobhall up` on several nodes is started again when the overlap ends.";

/// The commands of `key`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum KeyCommand {
    /// Show the identifiers of the keys in the key file
    #[command(after_help = "Example:\n  jobhall key show --json")]
    Show(FileArgs),
    /// Put a new key into the key file; the old one stays valid for a while
    #[command(after_help = ROTATE)]
    Rotate {
        #[command(flatten)]
        file: FileArgs,
        /// How long the old key stays valid
        #[arg(long, value_name = "SPAN", default_value = "24h")]
        overlap: Span,
    },
}

/// The key file.
#[derive(Debug, Args)]
pub struct FileArgs {
    /// Key file [env: JOBHALL_KEY_FILE] [default: hall.key in the data directory]
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
}

impl FileArgs {
    fn path(&self, context: &Context) -> Outcome<PathBuf> {
        let named = hall_key::named(self.key_file.as_deref(), &context.settings)?;
        Ok(named.unwrap_or_else(|| context.settings.data.value.join(hall_key::FILE)))
    }
}

#[derive(Debug, Serialize)]
struct Shown {
    file: PathBuf,
    id: String,
    earlier: Vec<Earlier>,
}

#[derive(Debug, Serialize)]
struct Earlier {
    id: String,
    valid_until: Timestamp,
}

impl Shown {
    fn new(file: PathBuf, keys: &HallKeys) -> Shown {
        let earlier = |EarlierKey { id, until }| Earlier { id, valid_until: Timestamp(until) };
        Shown { file, id: keys.id(), earlier: keys.earlier().into_iter().map(earlier).collect() }
    }

    fn text(&self) -> String {
        let current = format!("{}  current", self.id);
        let earlier = self.earlier.iter().map(|key| format!("\n{}  valid until {}", key.id, key.valid_until));
        earlier.fold(current, |text, line| text + &line)
    }
}

pub fn run(context: &Context, command: &KeyCommand) -> Outcome {
    match command {
        KeyCommand::Show(args) => {
            let path = args.path(context)?;
            let keys = HallKeys::read(&path).map_err(unusable)?.ok_or_else(|| absent(&path))?;
            let shown = Shown::new(path, &keys);
            context.output.one(&shown, || shown.text())?;
        }
        KeyCommand::Rotate { file, overlap } => {
            let path = file.path(context)?;
            if !path.exists() {
                return Err(absent(&path));
            }
            let shown = Shown::new(path.clone(), &HallKeys::rotate(&path, overlap.0).map_err(unusable)?);
            context.output.one(&shown, || shown.text())?;
            let path = path.display();
            context.output.say(&format!("{path} has a new key; copy it to every other node of the hall"));
        }
    }
    Ok(Exit::Ok)
}

fn absent(path: &std::path::Path) -> Failure {
    Failure::new(Exit::NotFound, format!("there is no key file {}", path.display()))
        .why("the first start of a server creates it")
        .fix("name the data directory with --data DIR, or the file with --key-file FILE")
}
