//! Submits the jobs of a file (one per line) in batches; each batch is atomic.

use std::io::{BufRead as _, BufReader, Read};

use jobhall_client::Client;
use jobhall_protocol::{After, SubmitJob, Submitted};

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

/// Reads and validates the jobs of a file.
pub fn read(from: &str) -> Outcome<Vec<SubmitJob>> {
    if from == "-" {
        return parse(std::io::stdin().lock(), "standard input");
    }
    let file = std::fs::File::open(from)
        .map_err(|error| Failure::usage(format!("failed to open {from}")).why(error.to_string()))?;
    parse(file, from)
}

fn parse(source: impl Read, name: &str) -> Outcome<Vec<SubmitJob>> {
    let mut jobs = Vec::new();
    for (number, line) in (1..).zip(BufReader::new(source).lines()) {
        let wrong = |why: String| Failure::usage(format!("{name}:{number}: not a job")).why(why);
        let line = line.map_err(|error| wrong(error.to_string()))?;
        if line.trim().is_empty() {
            continue;
        }
        let job: SubmitJob = serde_json::from_str(&line).map_err(|error| wrong(error.to_string()))?;
        check(&job).map_err(|failure| wrong(failure.what))?;
        earlier(&job, jobs.len()).map_err(wrong)?;
        jobs.push(job);
    }
    if jobs.is_empty() {
        return Err(Failure::new(crate::exit::Exit::Nothing, format!("{name} contains no jobs")));
    }
    Ok(jobs)
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

    #[test]
    fn places_are_those_of_the_file() {
        let text = "{\"type\":\"a\"}\n{\"type\":\"b\",\"after\":[\"#0\"]}\n{\"type\":\"c\",\"after\":[\"#0\",\"#1\",9]}";
        let mut jobs = parse(text.as_bytes(), "f").unwrap();
        let made = Submitted { id: 70, disposition: "created".to_owned() };
        // The first job was submitted in the previous batch.
        place(&mut jobs[2], &[made]);
        assert_eq!(jobs[2].after, [After::Job(70), After::Position(0), After::Job(9)]);
        for text in
            ["{\"type\":\"a\",\"after\":[\"#0\"]}", "{\"type\":\"a\",\"after\":[\"#1\"]}\n{\"type\":\"b\"}"]
        {
            let failure = parse(text.as_bytes(), "f").unwrap_err();
            assert!(
                failure.why.as_ref().unwrap().contains("not an earlier job; this one is #0"),
                "{failure}"
            );
        }
    }

    #[test]
    fn each_line_is_a_job() {
        let text = "{\"type\":\"a\"}\n\n{\"type\":\"b\",\"params\":{\"n\":1}}\n";
        let jobs = parse(text.as_bytes(), "f").unwrap();
        assert_eq!(jobs.iter().map(|job| job.job_type.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn a_wrong_line_is_named_and_nothing_is_submitted() {
        for (text, line, why) in [
            ("{\"type\":\"a\"}\n{\"tpye\":\"b\"}", 2, "unknown field `tpye`"),
            ("{\"type\":\"a b\"}", 1, "type has the character"),
            ("nonsense", 1, "expected"),
        ] {
            let failure = parse(text.as_bytes(), "f").unwrap_err();
            assert_eq!(failure.what, format!("f:{line}: not a job"));
            assert!(failure.why.as_ref().unwrap().contains(why), "{failure}");
        }
        assert_eq!(parse("\n".as_bytes(), "f").unwrap_err().exit, Exit::Nothing);
    }

    #[test]
    fn a_bulk_that_broke_off_says_how_to_go_on() {
        let failure = broken_off(Failure::usage("no"), 500, 1200, "k");
        assert_eq!(failure.what, "500 of 1200 jobs were submitted: no");
        assert!(failure.fix.unwrap().contains("--idempotency-key k"));
    }
}
