//! Submits whose key is held by a pending job: other params are never dropped silently.

use clap::ValueEnum;
use jobhall_client::{Client, JobFilter};
use jobhall_core::Json;
use jobhall_protocol::{Job, OnDuplicate, SubmitJob, Submitted};

use crate::commands::job::wait;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

/// How many positions a message names.
const NAMED: usize = 20;

const CHOICES: &str = "run-again (yours runs after it), supersede (it is cancelled, then yours runs), \
                       join (its params count), or reject";

/// How to handle a pending job with the same key; see [`OnDuplicate`]. The variants have no doc comments: with them,
/// clap would print every option of the help on two lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Duplicate {
    Join,
    Reject,
    Supersede,
    RunAgain,
}

impl From<Duplicate> for OnDuplicate {
    fn from(duplicate: Duplicate) -> OnDuplicate {
        match duplicate {
            Duplicate::Join => OnDuplicate::Join,
            Duplicate::Reject => OnDuplicate::Reject,
            Duplicate::Supersede => OnDuplicate::Supersede,
            Duplicate::RunAgain => OnDuplicate::RunAgain,
        }
    }
}

/// What the job is submitted with: a join changes nothing, so its answer can still be refused here.
pub fn wire(given: Option<Duplicate>) -> OnDuplicate {
    given.map_or(OnDuplicate::Join, OnDuplicate::from)
}

/// Refuses a join with other params, unless joining was requested.
pub fn check(context: &Context, given: Option<Duplicate>, submitted: &Submitted) -> Outcome<()> {
    let id = submitted.id;
    if !submitted.params_differ {
        return Ok(());
    }
    if given.is_some() {
        context.output.say(&note(id));
        return Ok(());
    }
    Err(refusal(id, CHOICES))
}

/// What is said about a requested join with other params.
pub fn note(id: u64) -> String {
    format!("note: job {id} has this key and other params; yours were not submitted")
}

/// The refusal of a join with other params; `choices` are the values of `--on-duplicate`.
pub fn refusal(id: u64, choices: &str) -> Failure {
    let what = format!("job {id} has this key and other params; yours were NOT submitted");
    Failure::new(Exit::Conflict, what)
        .why("a key has at most one pending job")
        .fix(format!("repeat with --on-duplicate {choices}; see `jobhall job show {id}`"))
}

/// The same for many jobs; `implicit` tells for each whether it joins only because nothing else was requested.
pub fn check_many(context: &Context, implicit: &[bool], submitted: &[Submitted]) -> Outcome<()> {
    let differ = || submitted.iter().enumerate().filter(|(_, one)| one.params_differ);
    let refused: Vec<_> = differ().filter(|(at, _)| implicit.get(*at).copied().unwrap_or(true)).collect();
    let joined = differ().count() - refused.len();
    if joined > 0 {
        context.output.say(&format!(
            "note: {joined} of {} jobs joined a job with other params; theirs were not submitted",
            submitted.len()
        ));
    }
    if refused.is_empty() {
        return Ok(());
    }
    let mut named: Vec<_> =
        refused.iter().take(NAMED).map(|(at, one)| format!("#{at} (job {})", one.id)).collect();
    if refused.len() > NAMED {
        named.push(format!("and {} more", refused.len() - NAMED));
    }
    let created = submitted.iter().filter(|one| one.disposition == "created").count();
    let what = format!(
        "{} of {} jobs have the key of a pending job with other params; theirs were NOT submitted: {}",
        refused.len(),
        submitted.len(),
        named.join(", ")
    );
    Err(Failure::new(Exit::Conflict, what)
        .why(format!(
            "a key has at most one pending job; the others were submitted ({created} jobs were created)"
        ))
        .fix(format!("submit only these again, from a file of their own, with --on-duplicate {CHOICES}")))
}

/// Waits for the end of the job that has the key, and returns the job that `run-again` creates then.
pub async fn follow_up(client: &Client, holder: u64, asked: &SubmitJob) -> Outcome<u64> {
    let ended = wait::one(client, holder).await?;
    if ended.state == "cancelled" {
        let what = format!("job {holder} was cancelled, and with it the run that was to follow it");
        return Err(Failure::new(Exit::Cancelled, what).fix("submit the job again"));
    }
    let filter = JobFilter {
        job_type: Some(asked.job_type.clone()),
        key: asked.key.clone(),
        created_after: ended.completed_at,
        ..JobFilter::default()
    };
    let (mut jobs, mut next) = (client.all_jobs(filter), None::<Job>);
    while let Some(job) = jobs.next().await? {
        if job.id > holder && next.as_ref().is_none_or(|next| job.id < next.id) {
            next = Some(job);
        }
    }
    let next = next.ok_or_else(|| {
        Failure::new(Exit::Unexpected, format!("the job that follows job {holder} was not found"))
            .why("it may have ended and been deleted")
    })?;
    if same_params(asked, &next) {
        return Ok(next.id);
    }
    let what = format!("job {} follows job {holder} with other params; yours did NOT run", next.id);
    Err(Failure::new(Exit::Conflict, what)
        .why("a later run-again request for this key replaced them")
        .fix("submit the job again"))
}

fn same_params(asked: &SubmitJob, job: &Job) -> bool {
    let asked = asked.params.as_ref().map_or("{}", |params| params.get());
    Json::trusted(asked).same_value(&Json::trusted(job.params.get()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::Parser as _;

    fn joined(id: u64, params_differ: bool) -> Submitted {
        Submitted { id, disposition: "joined".to_owned(), params_differ }
    }

    fn context() -> Context {
        Context::new(&Cli::try_parse_from(["jobhall", "--quiet", "--data", "/none", "stats"]).unwrap())
            .unwrap()
    }

    #[test]
    fn a_join_with_other_params_is_refused_unless_it_was_requested() {
        let context = context();
        let failure = check(&context, None, &joined(13, true)).unwrap_err();
        assert_eq!(failure.exit, Exit::Conflict);
        assert_eq!(failure.what, "job 13 has this key and other params; yours were NOT submitted");
        for word in ["--on-duplicate", "run-again", "supersede", "join", "reject"] {
            assert!(failure.fix.as_ref().unwrap().contains(word), "{failure}");
        }
        assert!(check(&context, None, &joined(13, false)).is_ok());
        assert!(check(&context, Some(Duplicate::Join), &joined(13, true)).is_ok());
    }

    #[test]
    fn of_many_jobs_the_refused_positions_are_named() {
        let context = context();
        let created = Submitted { id: 1, disposition: "created".to_owned(), params_differ: false };
        let answers = [created, joined(2, true), joined(3, false), joined(4, true)];
        let failure = check_many(&context, &[true, true, true, false], &answers).unwrap_err();
        assert!(failure.what.starts_with("1 of 4 jobs have the key"), "{failure}");
        assert!(failure.what.ends_with("#1 (job 2)"), "{failure}");
        assert!(failure.why.unwrap().contains("1 jobs were created"));
        assert!(check_many(&context, &[false; 4], &answers).is_ok());
        let many: Vec<_> = (1..=30).map(|id| joined(id, true)).collect();
        let failure = check_many(&context, &[true; 30], &many).unwrap_err();
        assert!(failure.what.ends_with("#19 (job 20), and 10 more"), "{failure}");
    }
}
