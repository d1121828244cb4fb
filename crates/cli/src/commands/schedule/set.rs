//! `jobhall schedule set`.

use clap::{Args, ValueEnum};
use jobhall_core::schedule;
use jobhall_protocol::{SetSchedule, Span, SubmitJob, Timestamp};

use crate::commands::job::submit;
use crate::commands::text_of;
use crate::failure::{Failure, Outcome};

const EXAMPLES: &str = r#"Examples:
  jobhall schedule set nightly --cron '0 3 * * *' --zone Europe/Berlin --type report
  jobhall schedule set poll --every 5m --jitter 30s --type poll --params '{"feed":1}'
  jobhall schedule set nightly --catch-up all --overlap allow
  jobhall schedule set nightly --job '{"type":"report","key":"nightly","retry":{"max_attempts":3}}'
  jobhall schedule set nightly --cron '0 4 * * *' --if-match '"3-0a1b2c3d"'      only if it is still that version"#;

/// Arguments of `schedule set`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SetArgs {
    /// The schedule
    pub name: String,
    /// Cron expression, such as '0 3 * * mon-fri', or @hourly, @daily, @weekly, @monthly, @yearly
    #[arg(long, value_name = "LINE", conflicts_with_all = ["every", "anchor"])]
    pub cron: Option<String>,
    /// Interval between ticks, such as 5m
    #[arg(long, value_name = "SPAN")]
    pub every: Option<Span>,
    /// Time of one tick, from which intervals are counted [default: 1970]
    #[arg(long, value_name = "TIME", value_parser = submit::moment)]
    pub anchor: Option<Timestamp>,
    /// Time zone of the cron expression, such as Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,
    /// Maximum delay of a job after its tick
    #[arg(long, value_name = "SPAN")]
    pub jitter: Option<Span>,
    /// Missed ticks: drop them, create a job for the last one, or for all [default: one]
    #[arg(long, value_name = "WHICH")]
    pub catch_up: Option<CatchUp>,
    /// A tick while the last job is not completed: skip it, or create a job anyway [default: skip]
    #[arg(long, value_name = "WHAT")]
    pub overlap: Option<Overlap>,
    /// Job type
    #[arg(long = "type", value_name = "TYPE")]
    pub job_type: Option<String>,
    /// Job key
    #[arg(long, requires = "job_type")]
    pub key: Option<String>,
    /// Queue name
    #[arg(long, requires = "job_type")]
    pub queue: Option<String>,
    /// Parameters for the worker: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", requires = "job_type")]
    pub params: Option<String>,
    /// The whole job, as for a submission: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", conflicts_with = "job_type")]
    pub job: Option<String>,
    /// Change only this version, as shown by `schedule show`
    #[arg(long, value_name = "VERSION")]
    pub if_match: Option<String>,
}

/// Handling of missed ticks. The variants have no doc comments, which would change the layout of the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CatchUp {
    None,
    One,
    All,
}

/// Handling of a tick while the previous job is not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Overlap {
    Skip,
    Allow,
}

impl SetArgs {
    /// The request. Rejects what the server would reject, before it is sent.
    pub fn given(&self) -> Outcome<SetSchedule> {
        let given = SetSchedule {
            cron: self.cron.clone(),
            every: self.every,
            anchor: self.anchor,
            zone: self.zone.clone(),
            jitter: self.jitter,
            catch_up: self.catch_up.map(|which| match which {
                CatchUp::None => schedule::CatchUp::None,
                CatchUp::One => schedule::CatchUp::One,
                CatchUp::All => schedule::CatchUp::All,
            }),
            overlap: self.overlap.map(|what| match what {
                Overlap::Skip => schedule::Overlap::Skip,
                Overlap::Allow => schedule::Overlap::Allow,
            }),
            paused: None,
            job: self.template()?,
        };
        if serde_json::to_string(&given).is_ok_and(|text| text == "{}") {
            return Err(Failure::usage("nothing to set").fix("see `jobhall help schedule set`"));
        }
        given.checked().map_err(|error| Failure::usage(error.to_string()))?;
        Ok(given)
    }

    fn template(&self) -> Outcome<Option<SubmitJob>> {
        let job = match (&self.job, &self.job_type) {
            (Some(text), _) => {
                let text = text_of(text, "job")?;
                serde_json::from_str(&text).map_err(|error| {
                    Failure::usage("job is not what `job submit` takes").why(error.to_string())
                })?
            }
            (None, Some(job_type)) => SubmitJob {
                key: self.key.clone(),
                queue: self.queue.clone(),
                params: self.params.as_deref().map(submit::params).transpose()?,
                ..SubmitJob::new(job_type)
            },
            (None, None) => return Ok(None),
        };
        submit::check(&job)?;
        Ok(Some(job))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use crate::commands::schedule::ScheduleCommand;
    use clap::Parser as _;

    fn parse(words: &[&str]) -> Result<SetArgs, clap::Error> {
        let words = ["jobhall", "schedule", "set", "s"].into_iter().chain(words.iter().copied());
        match Cli::try_parse_from(words)?.command {
            Command::Schedule(ScheduleCommand::Set(args)) => Ok(*args),
            other => panic!("{other:?}"),
        }
    }

    fn json(words: &[&str]) -> serde_json::Value {
        serde_json::to_value(parse(words).unwrap().given().unwrap()).unwrap()
    }

    #[test]
    fn flags_become_a_request() {
        assert_eq!(
            json(&["--cron", "0 3 * * *", "--zone", "Europe/Berlin", "--type", "t", "--params", "{\"n\":1}"]),
            serde_json::json!({"cron": "0 3 * * *", "zone": "Europe/Berlin",
                "job": {"type": "t", "params": {"n": 1}, "on_duplicate": "join"}})
        );
        assert_eq!(
            json(&["--every", "5m", "--jitter", "30s", "--catch-up", "all", "--overlap", "allow"]),
            serde_json::json!({"every": "5m", "jitter": "30s", "catch_up": "all", "overlap": "allow"})
        );
        assert_eq!(
            json(&["--job", r#"{"type":"t","priority":7}"#]),
            serde_json::json!({"job": {"type": "t", "priority": 7, "on_duplicate": "join"}})
        );
    }

    #[test]
    fn what_cannot_work_is_refused_before_anything_travels() {
        assert!(parse(&["--cron", "@daily", "--every", "5m"]).is_err());
        assert!(parse(&["--every", "5"]).is_err());
        assert!(parse(&["--params", "{}"]).is_err(), "params need a type");
        for (words, said) in [
            (&[][..], "nothing to set"),
            (&["--cron", "61 * * * *"][..], "cron: \"61\" is not a valid minute at column 1"),
            (&["--zone", "Berlin"][..], "zone: \"Berlin\" is not a time zone; did you mean Europe/Berlin?"),
            (&["--every", "1ms"][..], "every 1 ms is outside 1000 to"),
            (&["--job", "{"][..], "job is not what `job submit` takes"),
            (&["--type", "a b"][..], "type has the character"),
        ] {
            let failure = parse(words).unwrap().given().unwrap_err();
            assert!(failure.what.starts_with(said), "{failure}");
        }
    }
}
