//! The jobs of a run. Each has a unique tag and leaves traces: lines in one file for every execution, a log with
//! known content, and a result with the tag.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jobhall_core::{AttemptId, Failure, Job, Json, Report, Time};
use jobhall_protocol::{BackoffKind, OnDuplicate, Retry, Span, SubmitJob, Timestamp};
use rand::RngExt as _;
use rand::rngs::StdRng;
use serde_json::json;
use serde_json::value::to_raw_value;

use super::record::job_id;

/// The type that workers of the test execute themselves.
pub const OWN: &str = "own";
/// The type with a command in the worker file.
const TYPED: &str = "typed";
const KEYS: u64 = 6;

/// The file for lines of executions.
pub fn traces(folder: &Path) -> PathBuf {
    folder.join("traces")
}

/// Writes the worker file and returns its path.
pub fn worker_file(folder: &Path) -> PathBuf {
    let traces = traces(folder).display().to_string();
    let script = format!(
        "echo \"start $JOBHALL_JOB $JOBHALL_CLAIM\" >> {traces}; cat; echo '{{\"typed\":true}}' > $JOBHALL_RESULT; \
         echo \"end $JOBHALL_JOB $JOBHALL_CLAIM 0\" >> {traces}"
    );
    let text = format!("slots = 2\nallow = [\"exec\"]\n[types.{TYPED}]\nrun = {:?}\n", ["sh", "-c", &script]);
    let path = folder.join("worker.toml");
    std::fs::write(&path, text).unwrap();
    path
}

pub fn job(random: &mut StdRng, tag: &str, folder: &Path, keyed: bool) -> SubmitJob {
    let (job_type, params) = match random.random_range(0..10) {
        0..2 => ("exec", exec(random, tag, folder)),
        2 => (TYPED, json!({ "tag": tag })),
        3 => (OWN, json!({ "tag": tag, "not_before": soon(random).as_ms() })),
        _ => (OWN, json!({ "tag": tag })),
    };
    let mut job = SubmitJob::new(job_type);
    job.run_at = params["not_before"].as_i64().map(|ms| Timestamp(Time::from_ms(ms).unwrap()));
    job.params = Some(to_raw_value(&params).unwrap());
    job.priority = Some([50, 100, 100, 200][random.random_range(0..4)]);
    job.retry = Some(Retry {
        max_attempts: Some(random.random_range(1..=3)),
        backoff: Some(BackoffKind::Constant),
        delay: Some(Span(random.random_range(1..200))),
        ..Retry::default()
    });
    // A follow-up of the same key runs immediately, regardless of the start time of the previous job.
    if keyed && job.run_at.is_none() && random.random_range(0..3) == 0 {
        job.key = Some(format!("key-{}", random.random_range(0..KEYS)));
        job.on_duplicate = [
            OnDuplicate::Join,
            OnDuplicate::Join,
            OnDuplicate::Reject,
            OnDuplicate::Supersede,
            OnDuplicate::RunAgain,
        ][random.random_range(0..5)];
    }
    job
}

/// A script that prints its tag several times, and then bytes that are not text.
fn exec(random: &mut StdRng, tag: &str, folder: &Path) -> serde_json::Value {
    let traces = traces(folder).display().to_string();
    let lines = random.random_range(0..40);
    let code = [0, 0, 0, 3][random.random_range(0..4)];
    let nap = ["", "", "", "sleep 0.1;", "sleep 0.1;", "sleep 1;"][random.random_range(0..6)];
    let script = format!(
        "echo \"start $JOBHALL_JOB $JOBHALL_CLAIM\" >> {traces}; \
         i=0; while [ $i -lt {lines} ]; do echo \"{tag} $i\"; i=$((i+1)); done; {nap} printf '\\000\\377\\n'; \
         echo '{{\"tag\":\"{tag}\"}}' > $JOBHALL_RESULT; \
         echo \"end $JOBHALL_JOB $JOBHALL_CLAIM {code}\" >> {traces}; exit {code}"
    );
    json!({ "script": script, "env": { "TAG": tag, "LINES": lines.to_string() } })
}

/// The tag of a job, from its params.
pub fn tag(job: &Job) -> String {
    let params: serde_json::Value = serde_json::from_str(job.spec.params.as_str()).unwrap();
    let tag = params["tag"].as_str().or_else(|| params["env"]["TAG"].as_str());
    tag.unwrap_or_else(|| panic!("job {} has no tag: {params}", job.id)).to_owned()
}

/// A time in the next seconds.
fn soon(random: &mut StdRng) -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let now = Time::from_ms(i64::try_from(since.as_millis()).unwrap()).unwrap();
    now.plus_ms(random.random_range(0..3_000))
}

/// The earliest start time of a job, if it has one; a manual retry runs immediately.
pub fn not_before(job: &Job) -> Option<Time> {
    if job.spec.retry_of.is_some() {
        return None;
    }
    let params: serde_json::Value = serde_json::from_str(job.spec.params.as_str()).unwrap();
    params["not_before"].as_i64().map(|ms| Time::from_ms(ms).unwrap())
}

/// Whether workers of the test execute it.
pub fn is_own(job: &Job) -> bool {
    job.spec.job_type.as_str() == OWN
}

/// The log of every complete execution of a job.
pub fn log(job: &Job) -> Vec<u8> {
    if job.spec.job_type.as_str() == TYPED {
        return job.spec.params.as_str().as_bytes().to_vec();
    }
    let params: serde_json::Value = serde_json::from_str(job.spec.params.as_str()).unwrap();
    let lines: u64 = params["env"]["LINES"].as_str().unwrap().parse().unwrap();
    let tag = tag(job);
    let mut log: Vec<u8> = (0..lines).flat_map(|line| format!("{tag} {line}\n").into_bytes()).collect();
    log.extend_from_slice(b"\0\xff\n");
    log
}

/// The report that the worker must send after an execution that ended with this code.
pub fn report(job: &Job, code: i32) -> Report {
    let typed = job.spec.job_type.as_str() == TYPED;
    let value = if typed { json!({ "typed": true }) } else { json!({ "tag": tag(job) }) };
    match code {
        0 => Report::Succeeded(Json::value(&value.to_string()).unwrap()),
        code => Report::Failed(Failure::new(&format!("exit_{code}"), format!("exit code {code}")), None),
    }
}

/// Executions by their traces: which began, and the exit codes of those that ended.
#[derive(Clone, Debug, Default)]
pub struct Traces {
    pub began: BTreeMap<AttemptId, u32>,
    pub ended: BTreeMap<AttemptId, i32>,
}

impl Traces {
    pub fn read(folder: &Path) -> Traces {
        let mut found = Traces::default();
        for line in std::fs::read_to_string(traces(folder)).unwrap_or_default().lines() {
            let words: Vec<_> = line.split(' ').collect();
            let attempt = |words: &[&str]| AttemptId {
                job: job_id(words[1].parse().unwrap()),
                claim: words[2].parse().unwrap(),
            };
            match words[0] {
                "start" => *found.began.entry(attempt(&words)).or_default() += 1,
                "end" => {
                    found.ended.insert(attempt(&words), words[3].parse().unwrap());
                }
                other => panic!("an unknown trace: {other}"),
            }
        }
        found
    }
}
