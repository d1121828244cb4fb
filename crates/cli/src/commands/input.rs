//! `jobhall input`: results and artifacts of the jobs that a job comes after, from inside that job.

use std::path::PathBuf;

use clap::Args;
use jobhall_client::ClientError;
use jobhall_protocol::{Code, InputName};

use crate::commands::job::{Transfer, save};
use crate::commands::progress::own_attempt;
use crate::commands::until_interrupted;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::human;
use crate::output::print_bytes;

const EXAMPLES: &str = "\
Examples, in the script of a job that comes after others:
  jobhall input                                    lists the inputs
  jobhall input 0 | jq .rows                       the result of the first job in `after`
  jobhall input 0 --artifact model.bin -o model.bin
  jobhall input parent --artifact source.tar       what the job that called this one has stored

The file $JOBHALL_INPUTS has the same list as JSON, with results up to 1 MiB in all.";

/// Arguments of `input`. Variables set by the worker identify the job and authorize the request.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct InputArgs {
    /// Position in `after`, from 0, or `parent` [default: list all inputs]
    #[arg(value_name = "N", value_parser = name)]
    pub n: Option<InputName>,
    /// Read this artifact instead of the result
    #[arg(long, value_name = "NAME", requires = "n")]
    pub artifact: Option<String>,
    /// Output file [default: standard output]
    #[arg(short, long, value_name = "FILE", requires = "n")]
    pub output: Option<PathBuf>,
}

fn name(text: &str) -> Result<InputName, String> {
    text.parse().map_err(|error: jobhall_protocol::FieldError| error.to_string())
}

pub async fn run(context: &Context, args: &InputArgs) -> Outcome {
    let attempt = own_attempt()?;
    let client = context.client()?;
    let Some(n) = args.n else {
        let inputs = client.inputs(&attempt, None).await?;
        context.output.list(&inputs, || human::inputs(&inputs))?;
        return Ok(Exit::Ok);
    };
    let reader = match &args.artifact {
        Some(name) => client.read_input_artifact(&attempt, n, name),
        None if n == InputName::PARENT => {
            return Err(Failure::usage("the parent still runs and has no result")
                .fix("name one of its artifacts with --artifact; `jobhall input` lists them"));
        }
        None => client.read_input(&attempt, n),
    };
    let mut transfer = Transfer::new(context, reader, &trouble);
    if let Some(path) = &args.output {
        until_interrupted(save(&mut transfer, path)).await?;
        return Ok(Exit::Ok);
    }
    let mut last = b'\n';
    let mut show = |bytes: &[u8]| {
        last = bytes.last().copied().unwrap_or(last);
        print_bytes(bytes)
    };
    until_interrupted(transfer.copy(&mut show)).await?;
    if args.artifact.is_none() && last != b'\n' {
        print_bytes(b"\n")?;
    }
    Ok(Exit::Ok)
}

fn trouble(error: ClientError) -> Failure {
    let unknown = error.code() == Some(Code::NotFound);
    let failure = Failure::from(error);
    if unknown { failure.fix("list the inputs with `jobhall input`") } else { failure }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser as _;

    #[test]
    fn ground_6_an_artifact_and_a_file_belong_to_one_input() {
        let parse = |words: &[&str]| {
            Cli::try_parse_from(["jobhall", "input"].into_iter().chain(words.iter().copied()))
        };
        match parse(&["parent", "--artifact", "a", "-o", "b"]).unwrap().command {
            Command::Input(args) => assert_eq!(args.n, Some(InputName::PARENT)),
            other => panic!("{other:?}"),
        }
        for bad in [&["--artifact", "a"][..], &["-o", "b"], &["first"], &["-1"], &["0", "1"]] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
        let error = parse(&["first"]).unwrap_err().to_string();
        assert!(error.contains("\"first\" is not an input: give a position from 0, or parent"), "{error}");
    }
}
