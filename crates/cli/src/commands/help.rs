//! `jobhall help`: the help of a command, and topics that belong to no command.

use clap::{Args, Command, CommandFactory as _};

use crate::args::Cli;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::suggest;

const EXAMPLES: &str = "\
Examples:
  jobhall help job submit
  jobhall help exit-codes";

/// The topic that explains the exit codes.
const EXIT_CODES: &str = "exit-codes";

/// Arguments of `help`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct HelpArgs {
    /// A command, or `exit-codes`
    pub topic: Vec<String>,
}

pub fn run(args: &HelpArgs) -> Outcome {
    let text = match args.topic.as_slice() {
        [topic] if topic == EXIT_CODES => Exit::table(),
        topic => of_command(topic)?,
    };
    output::print(text.trim_end())?;
    Ok(Exit::Ok)
}

fn of_command(topic: &[String]) -> Outcome<String> {
    let mut root = Cli::command();
    root.build();
    let mut command = &mut root;
    for word in topic {
        let names: Vec<String> =
            command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
        let names = names.iter().map(String::as_str).chain([EXIT_CODES]);
        let hint = suggest::hint(word, names);
        let found: Option<&mut Command> = command.find_subcommand_mut(word);
        command = found.ok_or_else(|| Failure::usage(format!("there is no command {word:?}{hint}")))?;
    }
    Ok(command.render_long_help().ansi().to_string())
}
