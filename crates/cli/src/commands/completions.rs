//! `jobhall completions`: shell completions for commands and flags.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::args::Cli;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  jobhall completions bash > ~/.local/share/bash-completion/completions/jobhall
  jobhall completions zsh > ~/.zfunc/_jobhall
  jobhall completions fish > ~/.config/fish/completions/jobhall.fish";

/// Arguments of `completions`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

pub fn run(args: &CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "jobhall", &mut script);
    output::print_bytes(&script)?;
    Ok(Exit::Ok)
}
