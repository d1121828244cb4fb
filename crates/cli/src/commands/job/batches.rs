//! Submits the jobs of a file (one per line) in batches; each batch is atomic.

use std::io::{BufRead as _, BufReader, Read};

use jobhall_client::Client;
use jobhall_protocol::{After, SubmitJob, Submitted};

use crate::commands::job::duplicate::Duplicate;
use crate::commands::job::submit::check;
use crate::context::Context;
use crate::failure::{Failure, Outcome};

/// Maximum number of jobs in one request.
const BATCH: usize = 500;

/// Submits all jobs of a file that was already read and validated. A reference such as `"#0"` counts jobs in the file,
/// not in the batch.
pub async fn submit(
    context: &Context,
    client: &Client,
    mut jobs: Vec<SubmitJob>,
    key: &str,
) -> Outcome<Vec<Submitted>> {
    let mut progress = context.output.progress(jobs.len() as u64, "submitting");
    let mut submitted = Vec::with_capacity(jobs.len());
    let all = jobs.len();
    for (number, batch) in jobs.chunks_mut(BATCH).enumerate() {
        batch.iter_mut().for_each(|job| place(job, &submitted));
        let answer = client.submit_many(batch, Some(&format!("{key}-{number}"))).await;
        let answer = answer.map_err(|error| broken_off(error.into(), submitted.len(), all, key))?;
        submitted.extend(answer);
        progress.set(submitted.len() as u64, "");
    }
    progress.finish();
    context.output.say(&format!("{} jobs submitted", submitted.len()));
    Ok(submitted)
}

/// Replaces references to jobs of earlier batches by their ids, and the others by positions in this batch.
fn place(job: &mut SubmitJob, made: &[Submitted]) {
    for after in &mut job.after {
        if let After::Position(at) = *after {
            *after = match made.get(at) {
                Some(made) => After::Job(made.id),
                None => After::Position(at - made.len()),
            };
        }
    }
}

/// Explains how to continue without submitting a job twice.
fn broken_off(failure: Failure, done: usize, all: usize, key: &str) -> Failure {
    let again =
        format!("repeat the command with --idempotency-key {key}: submitted jobs are not submitted twice");
    let fix = failure.fix.clone().map_or(again.clone(), |fix| format!("{fix}; then {again}"));
    failure.while_doing(&format!("{done} of {all} jobs were submitted")).fix(fix)
}

/// The jobs of a file.
pub struct Lines {
    pub jobs: Vec<SubmitJob>,
    /// Whether each job joins a pending one only because neither its line nor the command line says otherwise.
    pub implicit: Vec<bool>,
}

/// Reads and validates the jobs of a file. `on_duplicate` applies to the lines that do not name it themselves.
pub fn read(from: &str, on_duplicate: Option<Duplicate>) -> Outcome<Lines> {
    let mut lines = open(from)?;
    if let Some(given) = on_duplicate {
        let unnamed = lines.jobs.iter_mut().zip(&mut lines.implicit).filter(|(_, implicit)| **implicit);
        unnamed.for_each(|(job, implicit)| (job.on_duplicate, *implicit) = (given.into(), false));
    }
    Ok(lines)
}

fn open(from: &str) -> Outcome<Lines> {
    if from == "-" {
        return parse(std::io::stdin().lock(), "standard input");
    }
    let file = std::fs::File::open(from)
        .map_err(|error| Failure::usage(format!("failed to open {from}")).why(error.to_string()))?;
    parse(file, from)
}

/// The field of a line that the user may have left out.
#[derive(serde::Deserialize)]
struct Named {
    on_duplicate: Option<serde::de::IgnoredAny>,
}

fn parse(source: impl Read, name: &str) -> Outcome<Lines> {
    let (mut jobs, mut implicit) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(BufReader::new(source).lines()) {
        let wrong = |why: String| Failure::usage(format!("{name}:{number}: not a job")).why(why);
        let line = line.map_err(|error| wrong(error.to_string()))?;
        if line.trim().is_empty() {
            continue;
        }
        let job: SubmitJob = serde_json::from_str(&line).map_err(|error| wrong(error.to_string()))?;
        let named: Named = serde_json::from_str(&line).map_err(|error| wrong(error.to_string()))?;
        check(&job).map_err(|failure| wrong(failure.what))?;
        earlier(&job, jobs.len()).map_err(wrong)?;
        jobs.push(job);
        implicit.push(named.on_duplicate.is_none());
    }
    if jobs.is_empty() {
        return Err(Failure::new(crate::exit::Exit::Nothing, format!("{name} contains no jobs")));
    }
    Ok(Lines { jobs, implicit })
}

/// A job can only depend on jobs that precede it in the file.
fn earlier(job: &SubmitJob, at: usize) -> Result<(), String> {
    let late = job.after.iter().find(|after| matches!(after, After::Position(before) if *before >= at));
    late.map_or(Ok(()), |late| Err(format!("after: {late} is not an earlier job; this one is #{at}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;
    use jobhall_protocol::OnDuplicate;

    #[test]
    fn places_are_those_of_the_file() {
        let text = "{\"type\":\"a\"}\n{\"type\":\"b\",\"after\":[\"#0\"]}\n{\"type\":\"c\",\"after\":[\"#0\",\"#1\",9]}";
        let mut jobs = parse(text.as_bytes(), "f").unwrap().jobs;
        let made = Submitted { id: 70, disposition: "created".to_owned(), params_differ: false };
        // The first job was submitted in the previous batch.
        place(&mut jobs[2], &[made]);
        assert_eq!(jobs[2].after, [After::Job(70), After::Position(0), After::Job(9)]);
        for text in
            ["{\"type\":\"a\",\"after\":[\"#0\"]}", "{\"type\":\"a\",\"after\":[\"#1\"]}\n{\"type\":\"b\"}"]
        {
            let failure = parse(text.as_bytes(), "f").err().unwrap();
            assert!(
                failure.why.as_ref().unwrap().contains("not an earlier job; this one is #0"),
                "{failure}"
            );
        }
    }

    #[test]
    fn each_line_is_a_job() {
        let text = "{\"type\":\"a\"}\n\n{\"type\":\"b\",\"params\":{\"n\":1}}\n";
        let jobs = parse(text.as_bytes(), "f").unwrap().jobs;
        assert_eq!(jobs.iter().map(|job| job.job_type.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn the_choice_of_the_command_line_applies_to_lines_without_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.jsonl");
        std::fs::write(&file, "{\"type\":\"a\",\"on_duplicate\":\"join\"}\n{\"type\":\"b\"}").unwrap();
        let file = file.to_str().unwrap();
        assert_eq!(read(file, None).unwrap().implicit, [false, true]);
        let lines = read(file, Some(Duplicate::RunAgain)).unwrap();
        assert_eq!(lines.implicit, [false, false]);
        let chosen: Vec<_> = lines.jobs.iter().map(|job| job.on_duplicate).collect();
        assert_eq!(chosen, [OnDuplicate::Join, OnDuplicate::RunAgain]);
    }

    #[test]
    fn a_wrong_line_is_named_and_nothing_is_submitted() {
        for (text, line, why) in [
            ("{\"type\":\"a\"}\n{\"tpye\":\"b\"}", 2, "unknown field `tpye`"),
            ("{\"type\":\"a b\"}", 1, "type has the character"),
            ("nonsense", 1, "expected"),
        ] {
            let failure = parse(text.as_bytes(), "f").err().unwrap();
            assert_eq!(failure.what, format!("f:{line}: not a job"));
            assert!(failure.why.as_ref().unwrap().contains(why), "{failure}");
        }
        assert_eq!(parse("\n".as_bytes(), "f").err().unwrap().exit, Exit::Nothing);
    }

    #[test]
    fn a_bulk_that_broke_off_says_how_to_go_on() {
        let failure = broken_off(Failure::usage("no"), 500, 1200, "k");
        assert_eq!(failure.what, "500 of 1200 jobs were submitted: no");
        assert!(failure.fix.unwrap().contains("--idempotency-key k"));
    }
}
