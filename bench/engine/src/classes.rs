//! The kernel alone: the time from a vacancy to the decision which job it gets, for various numbers of classes and
//! jobs.
//!
//! There is no store: commits of the kernel are acknowledged immediately, outside the measured time.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jobhall_bench_raw_store::machine::{Sample, median};
use jobhall_core::needs::{Abilities, Accepts, Needs};
use jobhall_core::{Job, JobId, JobSpec, JobStatus, QueueName, Time, TypeName, WorkerName};
use jobhall_engine::{
    Config, Effect, Kernel, Mono, Now, OpenedSession, Request, SessionId, StoreReply, TypedAnswer,
};
use jobhall_store::{Committed, Done, Unit};
use serde_json::{Value, json};

use crate::Failed;
use crate::setup::rounded;

const CLASSES: u64 = 10_000;
const FEW_JOBS: u64 = 1_000;
const MANY_JOBS: u64 = 100_000;
/// Number of vacancies per kernel; fewer than there are jobs.
const VACANCIES: u64 = 500;
/// Number of kernels of each kind, in turns.
const TURNS: usize = 7;
const WAIT_MS: u64 = 600_000;

/// The jobs that wait at a kernel.
#[derive(Clone, Copy)]
struct Waiting {
    classes: u64,
    jobs: u64,
    /// Whether the worker matches only the last class; otherwise it matches all.
    one_suits: bool,
}

/// Times in nanoseconds, medians over many vacancies and kernels.
pub fn measure() -> Result<Value, Failed> {
    let all = |classes, jobs| Waiting { classes, jobs, one_suits: false };
    let kinds = [
        ("one_class_1k_jobs", all(1, FEW_JOBS)),
        ("one_class_10k_jobs", all(1, CLASSES)),
        ("one_class_100k_jobs", all(1, MANY_JOBS)),
        ("classes_10k", all(CLASSES, CLASSES)),
        ("classes_10k_one_suits", Waiting { classes: CLASSES, jobs: CLASSES + VACANCIES, one_suits: true }),
    ];
    let before = Sample::now()?;
    let mut vacancy: Vec<Vec<Duration>> = vec![Vec::new(); kinds.len()];
    let mut session: Vec<Vec<Duration>> = vec![Vec::new(); kinds.len()];
    for _ in 0..TURNS {
        for (at, (_, waiting)) in kinds.iter().enumerate() {
            let (opened, mut times) = one_kernel(*waiting)?;
            session[at].push(opened);
            vacancy[at].append(&mut times);
        }
    }
    let used = Sample::now()?.since(&before);
    let ns = |times: Vec<Vec<Duration>>| -> Vec<f64> {
        times.into_iter().map(|times| median(times).as_secs_f64() * 1e9).collect()
    };
    let (vacancy, session) = (ns(vacancy), ns(session));
    let named = |times: &[f64]| -> Value {
        kinds.iter().zip(times).map(|((name, _), ns)| ((*name).to_owned(), rounded(*ns, 0))).collect()
    };
    let [few, same, many, suits_all, suits_one] = vacancy[..] else { return Err("five kinds".into()) };
    Ok(json!({
        "vacancy_ns": named(&vacancy),
        "session_ns": named(&session),
        "classes_ratio": rounded(suits_all.max(suits_one) / same, 2),
        "jobs_ratio": rounded(many / few, 2),
        "cpu_seconds": rounded(used.cpu_seconds, 2),
        "steal_percent": rounded(used.steal_percent, 1),
    }))
}

/// The duration of the first session, which is compared with every class, and of each of its vacancies.
fn one_kernel(waiting: Waiting) -> Result<(Duration, Vec<Duration>), Failed> {
    let now = Now { wall: Time::from_ms(1_700_000_000_000)?, mono: Mono(1_000) };
    let mut chance = 1u64;
    let chance = move || {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        chance
    };
    let mut kernel = Kernel::new(Config::default(), now, Box::new(chance));
    let specs = specs(waiting.classes, now.wall)?;
    for n in 0..waiting.jobs {
        // The remaining jobs, beyond one per class, are of the last class.
        let spec = specs[usize::try_from(n)?.min(specs.len() - 1)].clone();
        kernel.restore(Job { id: JobId::new(n + 1)?, spec, status: JobStatus::queued(now.wall, now.wall) });
    }
    kernel.begin();
    kernel.take_store_requests();
    let accepts = if waiting.one_suits { format!("type=t{}", waiting.classes - 1) } else { String::new() };
    let begun = Instant::now();
    let session = open_session(&mut kernel, now, &accepts)?;
    let opened = begun.elapsed();
    let mut times = Vec::new();
    for n in 0..VACANCIES {
        let request = Request::Vacancy { session, slots: 1, wait_ms: WAIT_MS };
        let begun = Instant::now();
        kernel.ask(now, request.typed(100 + n));
        let decided = kernel.take_commit();
        times.push(begun.elapsed());
        let (number, units) = decided.ok_or("a vacancy got no job")?;
        claimed(&units)?;
        let committed = Committed { feed: None, results: vec![Ok(Done::default())] };
        kernel.store_replied(now, StoreReply::Committed(number, Ok(committed)));
        black_box(kernel.take_effects());
    }
    Ok((opened, times))
}

fn specs(classes: u64, then: Time) -> Result<Vec<Arc<JobSpec>>, Failed> {
    let spec = |n| {
        Ok(Arc::new(JobSpec {
            needs: Needs::parse("os=linux, mem>=4").map_err(|error| error.to_string())?,
            ..JobSpec::plain(TypeName::new(&format!("t{n}"))?, QueueName::new("default")?, then)
        }))
    };
    (0..classes).map(spec).collect()
}

fn open_session(kernel: &mut Kernel, now: Now, accepts: &str) -> Result<SessionId, Failed> {
    let request = Request::OpenSession {
        worker: WorkerName::new("worker-1")?,
        abilities: Abilities::parse("os=linux, mem=8").map_err(|error| error.to_string())?,
        accepts: Accepts::parse(accepts).map_err(|error| error.to_string())?,
        attempts: Vec::new(),
        lease_ms: None,
        fresh: false,
    };
    kernel.ask(now, request.typed(1));
    let effects = kernel.take_effects();
    let session = effects.iter().find_map(|effect| match effect {
        Effect::Answer(TypedAnswer::Session(_, Ok(OpenedSession { session, .. }))) => Some(*session),
        _ => None,
    });
    Ok(session.ok_or("no session")?)
}

fn claimed(units: &[Unit]) -> Result<(), Failed> {
    match units {
        [unit] if unit.changes.len() == 1 && unit.inserts.is_empty() => Ok(()),
        other => Err(format!("one claim was expected, not {other:?}").into()),
    }
}
