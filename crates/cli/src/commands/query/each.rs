//! `jobhall query --each`: one query for each line of a file. They are computed side by side, and their values are written
//! in the order of the lines.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use jobhall_client::Client;
use jobhall_core::query::{Given, PipeHead, Query, Source, SourceKey, Span, is_pipe};
use tokio::task::JoinSet;

use super::answer::{Answer, Manner, ask};
use super::{QueryArgs, edited, failed, head, large, parse};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::{self, Format};

/// What stands for the line.
const PLACE: &str = "{}";
/// The same in the text of a URL.
const PLACE_IN_URL: &str = "~x7b~x7d";
/// The key of a source until it is that of the line.
const PLACEHOLDER: &str = "line";
/// Maximum size of the file, in bytes.
const FILE_BYTES: u64 = 16 << 20;
/// How many queries are asked at the same time.
const AT_ONCE: usize = 32;

pub async fn run(context: &Context, args: &QueryArgs, template: &str, file: &Path) -> Outcome {
    if !template.contains(PLACE) {
        return Err(Failure::usage("the query has no {} for the lines of --each")
            .fix("write {} where the line belongs, such as 'source:sales.csv | by {}'"));
    }
    let names = args.output.as_deref().map(path_template).transpose()?;
    let lines = read(file)?;
    // All of them are checked before the first is asked.
    for (number, line) in lines.iter().enumerate() {
        of_line(template, line).map_err(|failure| of_number(number, failure))?;
        if let Some(names) = &names {
            path(names, line).map_err(|failure| of_number(number, failure))?;
        }
    }
    let mut progress = context.output.progress(lines.len() as u64, "queries");
    let (mut asked, mut answers, mut begun, mut next) = (JoinSet::new(), BTreeMap::new(), 0, 0);
    let (mut worst, mut failures) = (None, 0);
    let (silent, client) =
        (Context { output: context.output.silent(), ..context.clone() }, context.client()?);
    while next < lines.len() {
        // No value is in memory that comes much later than the next to be written.
        while begun < lines.len().min(next + AT_ONCE) {
            let (context, client, number) = (silent.clone(), client.clone(), begun);
            let (template, line, refresh) = (template.to_owned(), lines[begun].clone(), args.refresh.clone());
            asked.spawn(async move {
                (number, one(&context, &client, &template, &line, refresh.as_deref()).await)
            });
            begun += 1;
        }
        let Some(ended) = asked.join_next().await else { break };
        let (number, answer) = ended.map_err(|error| Failure::new(Exit::Unexpected, error.to_string()))?;
        answers.insert(number, answer);
        while let Some(answer) = answers.remove(&next) {
            let to = names.as_deref().map(|names| path(names, &lines[next])).transpose()?;
            let written = match answer {
                Ok((text, answer)) => write(context, &text, answer, to.as_deref()).await,
                Err(failure) => Err(failure),
            };
            if let Err(failure) = written {
                failures += 1;
                worst = worst.max(Some(failure.exit));
                output::complain(&of_number(next, failure));
            }
            next += 1;
            progress.set(next as u64, "");
        }
    }
    progress.finish();
    match worst {
        None => Ok(Exit::Ok),
        Some(exit) => Err(Failure::new(exit, format!("{failures} of {} queries have no value", lines.len()))),
    }
}

async fn one(
    context: &Context,
    client: &Client,
    template: &str,
    line: &str,
    refresh: Option<&str>,
) -> Outcome<(String, Answer)> {
    let (local, query) = of_line(template, line)?;
    let text = query.text();
    if let Some(local) = local {
        local.send(context).await?;
    }
    edited::wait_until_declared(client, &query).await?;
    let with_steps = context.output.format != Format::Human;
    let manner = Manner { with_steps, refresh };
    let answer = ask(client, &context.output, &text, manner).await.map_err(failed)?;
    Ok((text, answer))
}

async fn write(context: &Context, text: &str, mut answer: Answer, to: Option<&Path>) -> Outcome<()> {
    match (answer.take_large(), to) {
        (Some(_), None) if context.output.format != Format::Human => {
            return Err(super::answer::too_large());
        }
        (Some(value), to) => large::write(context, value, to, &failed).await?,
        (None, Some(path)) => std::fs::write(path, answer.bytes()).map_err(|error| {
            Failure::usage(format!("failed to write {}", path.display())).why(error.to_string())
        })?,
        (None, None) if context.output.format == Format::Human => context.output.raw(answer.bytes())?,
        (None, None) => {}
    }
    if context.output.format != Format::Human {
        let file = to.map(|path| path.display().to_string());
        context.output.each(&answer.document(text, file))?;
    }
    Ok(())
}

/// The lines that are not empty.
fn read(file: &Path) -> Outcome<Vec<String>> {
    let wrong = |why: String| Failure::usage(format!("failed to read {}", file.display())).why(why);
    let mut text = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin().lock().take(FILE_BYTES + 1).read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(FILE_BYTES + 1).read_to_string(&mut text))
    };
    read.map_err(|error| wrong(error.to_string()))?;
    if text.len() as u64 > FILE_BYTES {
        return Err(wrong(format!("it has more than {FILE_BYTES} bytes, which is the limit")));
    }
    Ok(text.lines().map(str::to_owned).filter(|line| !line.is_empty()).collect())
}

/// The query of a line. The line is an argument, or a part of one, and never more than that.
fn of_line(template: &str, line: &str) -> Outcome<(Option<head::Local>, Query)> {
    let (text, source) = match template.strip_prefix("source:{}") {
        Some(rest) => {
            let key = SourceKey::new(line);
            let key =
                key.map_err(|why| Failure::usage(format!("{line:?} is no key of a source: it {why}")))?;
            (format!("source:{PLACEHOLDER}{rest}"), Some(Source { key, span: Span::default() }))
        }
        None if is_pipe(template) => (template.to_owned(), None),
        None => (template.replace(PLACE, PLACE_IN_URL), None),
    };
    let (mut begin, mut query) = parse(&text)?;
    query.source = source.or(query.source);
    if let Some(PipeHead::File(path)) = &mut begin {
        *path = path.replace(PLACE, line);
    }
    fill(&mut query, line);
    head::read(begin.as_ref(), query)
}

fn fill(query: &mut Query, line: &str) {
    for argument in query.steps.iter_mut().flat_map(|step| &mut step.arguments) {
        match &mut argument.given {
            Given::Text(text) => *text = text.replace(PLACE, line),
            Given::Link(link) => fill(&mut link.query, line),
        }
    }
}

fn path_template(output: &Path) -> Outcome<String> {
    let text = output.to_str().filter(|text| text.contains(PLACE));
    text.map(str::to_owned).ok_or_else(|| {
        Failure::usage("-o has no {} for the lines of --each")
            .fix("name a file for each, such as -o 'out/{}.csv'")
    })
}

fn path(names: &str, line: &str) -> Outcome<PathBuf> {
    if line.contains(['/', '\0']) || matches!(line, "." | "..") {
        return Err(Failure::usage(format!("{line:?} cannot be part of the name of a file")));
    }
    Ok(names.replace(PLACE, line).into())
}

fn of_number(number: usize, failure: Failure) -> Failure {
    Failure { what: format!("line {}: {}", number + 1, failure.what), ..failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(template: &str, line: &str) -> String {
        of_line(template, line).map(|(_, query)| query.text()).unwrap_or_else(|failure| failure.what)
    }

    #[test]
    fn a_line_is_an_argument_and_never_more() {
        assert_eq!(text("numbers 9 | head {}", "3"), "numbers-9/head-3");
        assert_eq!(text("numbers-9/head-{}", "3"), "numbers-9/head-3");
        assert_eq!(text("by x{}y", "a | rm -rf"), "by-xa~.~x7c~.rm~.~_rfy");
        assert_eq!(text("by-{}", "a/b-c~"), "by-a~Ib~_c~~");
        assert_eq!(text("join-~X~/by-{}~E", "n"), "join-~X~/by-n~E");
        assert_eq!(text("source:{} | by x", "2026/a.csv"), "-R/2026/a.csv/-/by-x");
        assert_eq!(text("source:{} | by x", "a | by y"), "-R/a~.~x7c~.by~.y/-/by-x", "a key, and no step");
    }

    #[test]
    fn a_line_names_no_other_directory() {
        assert_eq!(path("out/{}.csv", "a b").ok(), Some(PathBuf::from("out/a b.csv")));
        for line in ["../x", "a/b", "..", "."] {
            assert!(path("out/{}.csv", line).is_err(), "{line}");
        }
        assert!(path_template(Path::new("out.csv")).is_err());
    }
}
