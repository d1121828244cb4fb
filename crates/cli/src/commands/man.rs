//! `jobhall man`: the manual.

use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory as _};
use clap_mangen::Man;

use crate::args::Cli;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  jobhall man | man -l -
  jobhall man --dir ~/.local/share/man/man1";

/// Arguments of `man`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ManArgs {
    /// Write a page per command into this directory
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Prints the page of the program, or writes all pages.
pub fn run(args: &ManArgs) -> Outcome {
    let mut root = Cli::command();
    root.build();
    match &args.dir {
        None => output::print_bytes(&page(&root)?)?,
        Some(directory) => {
            std::fs::create_dir_all(directory).map_err(|error| unwritable(directory, &error))?;
            write_all(&root, "jobhall", directory)?;
        }
    }
    Ok(Exit::Ok)
}

fn page(command: &Command) -> Outcome<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    Ok(page)
}

fn write_all(command: &Command, name: &str, directory: &Path) -> Outcome<()> {
    let path = directory.join(format!("{name}.1"));
    std::fs::write(&path, page(command)?).map_err(|error| unwritable(&path, &error))?;
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown.into_iter().try_for_each(|sub| write_all(sub, &format!("{name}-{}", sub.get_name()), directory))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Unexpected, format!("failed to write {}", path.display())).why(error.to_string())
}
