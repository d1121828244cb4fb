//! The steps of a query: how each is answered for one request, what became of its job, and why it would run.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jobhall_core::query::{CommandName, Identity, Node, NodeParams, Query, Version};
use jobhall_core::{Disposition, Indicator, Job, JobId, State, TimeSpan};
use jobhall_engine::{Rejected, Shown, Why};

use crate::ask::{Found, Planned, Warmth};
use crate::cache::now;
use crate::checks::CheckState;
use crate::job::Manner;
use crate::promise::{CHAIN, params};
use crate::{Error, Queries, job};

/// Maximum number of texts of which the last job is remembered.
const TEXTS_MAX: usize = 10_000;

/// How a step is answered for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// Its value is stored.
    Hit,
    /// It is being made for someone else.
    Joined,
    /// A job was created for it.
    Created,
    /// It has to be made, and was not asked for.
    Missing,
    /// It is not stored, and a later value is.
    NotNeeded,
}

/// One step of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepOf {
    /// The canonical text up to the end of its job.
    pub query: String,
    /// What the value of its job is stored under.
    pub identity: Identity,
    pub command: CommandName,
    pub version: Version,
    pub answered: Answered,
    pub job: Option<JobId>,
    /// Why it is not stored, if that is known.
    pub why: Option<String>,
    /// What is known of the check of its command; only in an explanation.
    pub check: Option<CheckState>,
}

/// The job of a step of a promise.
#[derive(Clone, Debug)]
pub struct StepJob {
    pub job: Job,
    pub params: NodeParams,
    /// The latest progress of its live attempt, without what is complete.
    pub progress: Vec<Indicator>,
    /// The job that asked for it while it ran; none for the steps of the query itself.
    pub asked_by: Option<JobId>,
}

/// The last job of each text that was asked for, as far as it is remembered: what an edit is compared with.
#[derive(Default)]
pub(crate) struct LastJobs(Mutex<Remembered>);

#[derive(Default)]
struct Remembered {
    jobs: HashMap<String, JobId>,
    /// The oldest first.
    order: VecDeque<String>,
}

impl LastJobs {
    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn note(&self, text: &str, job: JobId) {
        let mut remembered = self.lock();
        if remembered.jobs.insert(text.to_owned(), job).is_none() {
            remembered.order.push_back(text.to_owned());
        }
        while remembered.order.len() > TEXTS_MAX {
            if let Some(oldest) = remembered.order.pop_front() {
                remembered.jobs.remove(&oldest);
            }
        }
    }

    fn get(&self, text: &str) -> Option<JobId> {
        self.lock().jobs.get(text).copied()
    }
}

impl Planned {
    /// The steps, as they are answered if these jobs were submitted.
    #[must_use]
    pub fn steps(&self, found: Option<&Found>) -> Vec<StepOf> {
        let submitted = |at: usize| found?.jobs.iter().find(|(node, _)| *node == at).map(|(_, job)| *job);
        let nodes = self.plan.nodes.iter().zip(&self.warmth).enumerate();
        nodes
            .flat_map(|(at, (node, warmth))| {
                let (answered, job) = match (warmth, submitted(at)) {
                    (Warmth::Hit(job, _), _) => (Answered::Hit, Some(job.id)),
                    (Warmth::NotNeeded(Some(job)), _) => (Answered::Hit, Some(job.id)),
                    (Warmth::NotNeeded(None), _) => (Answered::NotNeeded, None),
                    (Warmth::Missing(_) | Warmth::Expired(..), None) => (Answered::Missing, None),
                    (Warmth::Missing(_) | Warmth::Expired(..), Some(job)) => {
                        (answered(job.disposition), Some(job.id))
                    }
                };
                node.steps.iter().map(move |step| StepOf {
                    query: node.text.clone(),
                    identity: node.identity,
                    command: step.declared.declaration.name.clone(),
                    version: step.declared.version.clone(),
                    answered,
                    job,
                    why: expired(warmth),
                    check: None,
                })
            })
            .collect()
    }
}

fn answered(disposition: Disposition) -> Answered {
    match disposition {
        Disposition::Reused => Answered::Hit,
        Disposition::Joined | Disposition::JoinedOther => Answered::Joined,
        Disposition::Created | Disposition::Superseding | Disposition::Again => Answered::Created,
    }
}

impl Queries {
    /// How a query would be answered; no step is submitted, and checks are run only if `compute` says so. A step that is
    /// being made for someone else is joined.
    ///
    /// # Errors
    /// The query is wrong, or the store cannot be read.
    pub async fn explain(&self, query: &Query, compute: bool) -> Result<Vec<StepOf>, Error> {
        let planned = match compute {
            true => self.plan_checked(query, true, &Manner::background()).await?.0,
            false => self.plan(query).await?,
        };
        let mut steps = planned.steps(None);
        for (step, planned) in steps.iter_mut().zip(planned.plan.nodes.iter().flat_map(|node| &node.steps)) {
            step.check = planned.check.map(|check| self.0.checks.state(&check.identity));
        }
        for node in &planned.plan.nodes {
            let missing =
                |step: &StepOf| step.identity == node.identity && step.answered == Answered::Missing;
            if !steps.iter().any(missing) {
                continue;
            }
            let (pending, why) = self.last_of(node).await?;
            for step in steps.iter_mut().filter(|step| missing(step)) {
                (step.answered, step.job) = match pending {
                    Some(job) => (Answered::Joined, Some(job)),
                    None => (Answered::Missing, None),
                };
                step.why = why.clone().or(step.why.take());
            }
        }
        Ok(steps)
    }

    /// The job that makes the value of a node now, and how the last job of its text differs.
    async fn last_of(&self, node: &Node) -> Result<(Option<JobId>, Option<String>), Error> {
        let Some(last) = self.last_job(&node.text).await? else { return Ok((None, None)) };
        let id = last.id;
        let same = job::key(node)?.is_some_and(|key| last.spec.key.as_ref() == Some(&key));
        match (same, last.status.state.is_terminal()) {
            (true, false) => Ok((Some(id), None)),
            (true, true) => Ok((None, None)),
            (false, _) => {
                Ok((None, difference(&params(&last)?, node).or(Some("its input has changed".to_owned()))))
            }
        }
    }

    /// The jobs of the steps of a promise, with those of the queries that they wait for: each after those that it depends
    /// on, as far as they are stored.
    ///
    /// # Errors
    /// No job of a query has this id, or it cannot be read.
    pub async fn jobs_of(&self, promise: JobId) -> Result<Vec<StepJob>, Error> {
        let (mut open, mut seen) = (vec![(promise, None)], HashSet::from([promise]));
        let mut found: Vec<StepJob> = Vec::new();
        while let Some((id, asked_by)) = open.pop() {
            let Shown { job, mut progress, .. } = match self.0.promises.shared.shown(id).await {
                Ok(shown) => shown,
                Err(Error::NoSuchPromise(_)) if id != promise => continue,
                Err(error) => return Err(error),
            };
            progress.retain(|indicator| !indicator.is_complete());
            let room = CHAIN.saturating_sub(found.len());
            let inputs = job.spec.after.iter().map(|input| (*input, asked_by));
            let asked = self.waited_for(&job).await?.into_iter().map(|asked| (asked, Some(id)));
            let new = inputs.chain(asked).filter(|(input, _)| seen.insert(*input));
            open.extend(new.take(room));
            found.push(StepJob { params: params(&job)?, job, progress, asked_by });
            if found.len() >= CHAIN {
                break;
            }
        }
        found.reverse();
        Ok(found)
    }

    /// The jobs of queries that the attempt of a job waits for: the first of those that are open.
    async fn waited_for(&self, job: &Job) -> Result<Vec<JobId>, Error> {
        if !matches!(job.status.state, State::Waiting(_)) {
            return Ok(Vec::new());
        }
        match self.0.engine.explain(job.id).await {
            Ok(explained) => Ok(explained.why.iter().flat_map(waited).collect()),
            // It has ended meanwhile.
            Err(Rejected::NoSuchJob(_)) => Ok(Vec::new()),
            Err(refused) => Err(refused.into()),
        }
    }

    /// The last job of a text that was asked for.
    pub(crate) async fn last_job(&self, text: &str) -> Result<Option<Job>, Error> {
        match self.0.last_jobs.get(text) {
            Some(id) => self.known_job(id).await,
            None => Ok(None),
        }
    }

    /// The job with this number; none if it is not stored any more.
    pub(crate) async fn known_job(&self, id: JobId) -> Result<Option<Job>, Error> {
        match self.0.promises.shared.job(id).await {
            Ok(job) => Ok(Some(job)),
            Err(Error::NoSuchPromise(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Remembers the jobs of the texts that were asked for.
    pub(crate) fn note_jobs(&self, planned: &Planned, found: &Found) {
        for (node, job) in &found.jobs {
            self.0.last_jobs.note(&planned.plan.nodes[*node].text, job.id);
        }
    }

    /// The jobs with these numbers, as far as they are stored.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn jobs(&self, ids: &[JobId]) -> Result<Vec<Job>, Error> {
        let shown = self.0.engine.show_each(ids).await?;
        let job = |shown: Result<Box<Shown>, Rejected>| match shown {
            Ok(shown) => Some(Ok(shown.job)),
            Err(Rejected::NoSuchJob(_)) => None,
            Err(refused) => Some(Err(refused.into())),
        };
        shown.into_iter().filter_map(job).collect()
    }
}

fn waited(why: &Why) -> Vec<JobId> {
    match why {
        Why::WaitsForJobs { jobs, .. } => jobs.iter().map(|(job, _)| *job).collect(),
        _ => Vec::new(),
    }
}

/// Why a value is not used, if it has expired.
fn expired(warmth: &Warmth) -> Option<String> {
    match warmth {
        Warmth::Expired(_, at) => {
            let span = TimeSpan(now().since(*at) / 1_000 * 1_000);
            Some(format!("its value expired {span} ago"))
        }
        _ => None,
    }
}

/// How a job with the same text differs from a node: in a version, in an argument that has another default, in what a
/// check has answered, or in stored data. None if it does not, apart from the values that it receives.
pub(crate) fn difference(before: &NodeParams, node: &Node) -> Option<String> {
    let now = NodeParams::new(node, Vec::new());
    for (before, now) in before.steps.iter().zip(&now.steps) {
        if before.command != now.command {
            return Some(format!("{} took the place of {}", now.command, before.command));
        }
        if before.version != now.version {
            return Some(format!(
                "{} has another version: {}, before {}",
                now.command, now.version, before.version
            ));
        }
        if before.arguments != now.arguments {
            return Some(format!("{} has another argument", now.command));
        }
        if before.check.map(|check| check.answer) != now.check.map(|check| check.answer) {
            return Some(format!("the check of {} has another answer", now.command));
        }
    }
    let changed = before.sources.iter().zip(&now.sources).find(|(before, now)| before.digest != now.digest);
    changed.map(|(_, now)| format!("the data of {} has changed", now.key))
}
