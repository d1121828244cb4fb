//! Asking: what is cached is found by one read, and the rest becomes one submit.
//!
//! The order is that of seed 002: from the cache; a completed job; a pending one, which is joined; a new job. The last three
//! are decided by the kernel within the commit, so a job that completes between the read and the commit is found too.

use std::collections::HashMap;
use std::sync::Arc;

use jobhall_core::query::{
    CommandName, Input, Kept, Node, NodeParams, Plan, Query, QueryError, QueryErrorKind, SourceKey,
    StoredValue, plan,
};
use jobhall_core::{After, Disposition, Job, JobId, NewJob, Owner, State, Submitted, Time};
use jobhall_engine::{Rejected, Submit};

use crate::cache::expires_at;
use crate::facts::{Answers, World};
use crate::identity::Blake3;
use crate::job::{self, Inputs, Manner};
use crate::promise::Ended;
use crate::sources::{Index, StoredSource, now};
use crate::{Asker, Error, QUERIES, Queries};

/// How often a query is planned again because an input was removed between the read and the commit.
pub(crate) const TRIES: usize = 3;

/// A query, and how it is to be answered.
#[derive(Clone, Debug)]
pub struct Request {
    pub query: Query,
    /// Whether jobs may be created.
    pub compute: bool,
    /// Whether a value may be the answer that has expired, or that was made before a check had another answer.
    pub stale: bool,
    /// The priority of the jobs; lower values go first.
    pub priority: i32,
    /// The owner of the jobs.
    pub owner: Option<Owner>,
    /// The attempt that asks, if it is one.
    pub within: Option<Asker>,
}

/// What is computed anew although its value is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refresh {
    /// All steps.
    All,
    /// The steps of this command, and all that receive a value of them.
    Command(CommandName),
}

/// Which stored values count.
#[derive(Clone, Copy)]
enum Counts<'a> {
    /// Those that have not expired, without what is computed anew.
    Fresh(Option<&'a Refresh>),
    /// Also those that have expired.
    Stale,
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub enum Asked {
    /// The value is cached.
    Hit(Arc<Ended>),
    /// The query has no command, so its value is stored data.
    Source(StoredSource),
    /// This job makes the value, or has made it.
    Promise(Found),
    /// Jobs would be needed, and may not be created.
    NotComputed(Planned),
}

/// The job of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub job: JobId,
    pub disposition: Disposition,
    /// How many jobs were created for it.
    pub created: usize,
    /// The jobs of the nodes that are not cached, by the number of the node.
    pub jobs: Vec<(usize, Submitted)>,
}

/// A plan, and which of its nodes are cached.
#[derive(Clone, Debug)]
pub struct Planned {
    pub plan: Plan,
    /// One for each node.
    pub warmth: Vec<Warmth>,
    /// When it was planned.
    pub at: Time,
    /// Whether what is missing runs even if the same was run before with the same bytes.
    pub anew: bool,
}

/// Whether the value of a node is there.
#[derive(Clone, Debug)]
pub enum Warmth {
    /// The value is cached.
    Hit(Box<Job>, StoredValue),
    /// Another cached value follows, so it is not needed; the job has its value, if that is cached too.
    NotNeeded(Option<Box<Job>>),
    /// It has to be made; the job is a success that cannot be read.
    Missing(Option<JobId>),
    /// The value of this job has expired at this time, so it has to be made again.
    Expired(Box<Job>, Time),
}

impl Queries {
    /// Answers a query. Nothing is submitted if it is wrong.
    ///
    /// # Errors
    /// The query is wrong, the kernel refuses the jobs, or the store cannot be read.
    pub async fn ask(&self, request: Request) -> Result<Asked, Error> {
        self.ask_planned(request).await.map(|(asked, _)| asked)
    }

    /// The same, with the plan that it was answered by.
    ///
    /// # Errors
    /// As [`Queries::ask`].
    pub async fn ask_planned(&self, request: Request) -> Result<(Asked, Planned), Error> {
        self.ask_refreshing(request, None).await
    }

    /// The same, with what is computed anew.
    ///
    /// # Errors
    /// As [`Queries::ask`]; also if the query has no step of the command that is to be computed anew.
    pub async fn ask_refreshing(
        &self,
        request: Request,
        refresh: Option<&Refresh>,
    ) -> Result<(Asked, Planned), Error> {
        let manner =
            Manner { priority: request.priority, owner: request.owner.clone(), within: request.within };
        if request.stale
            && let Some(stale) = self.stale(&request.query).await?
        {
            return Ok(stale);
        }
        for _ in 0..TRIES {
            let (plan, failed) = self.checked(&request.query, request.compute, &manner).await?;
            let planned = self.planned(plan, Counts::Fresh(refresh)).await?;
            self.use_sources(&planned.plan).await;
            if let Some(job) = failed {
                let disposition = Disposition::Joined;
                return Ok((
                    Asked::Promise(Found { job, disposition, created: 0, jobs: Vec::new() }),
                    planned,
                ));
            }
            if let Input::Source(key, digest) = &planned.plan.value {
                match self.source(key).await? {
                    Some(source) if source.digest == *digest => return Ok((Asked::Source(source), planned)),
                    _ => continue,
                }
            }
            if let Some(Warmth::Hit(job, value)) = planned.warmth.last() {
                self.0.cache.answered(&planned);
                if request.compute {
                    self.note_recipes(&planned, None);
                }
                let ended = Arc::new(Ended::value((**job).clone(), value)?);
                return Ok((Asked::Hit(ended), planned));
            }
            if !request.compute {
                return Ok((Asked::NotComputed(planned.clone()), planned));
            }
            if let Some(asker) = &manner.within {
                self.check_cycle(&asker.job, &planned).await?;
            }
            match self.submit(&planned, &manner).await {
                Err(Error::Rejected(Rejected::NoSuchDependency(_))) => {}
                Err(error) => return Err(error),
                Ok(found) => {
                    self.note_jobs(&planned, &found);
                    self.note_recipes(&planned, Some(&found));
                    return Ok((Asked::Promise(found), planned));
                }
            }
        }
        Err(Rejected::Contended.into())
    }

    /// Plans a query and finds what is cached, by the last answers of checks.
    ///
    /// # Errors
    /// The query is wrong, or the store cannot be read.
    pub async fn plan(&self, query: &Query) -> Result<Planned, Error> {
        let plan = self.plan_only(query, Answers::Last).await?;
        self.planned(plan, Counts::Fresh(None)).await
    }

    async fn planned(&self, plan: Plan, counts: Counts<'_>) -> Result<Planned, Error> {
        let at = now();
        let (stale, refresh) = match counts {
            Counts::Fresh(refresh) => (false, refresh),
            Counts::Stale => (true, None),
        };
        let refreshed = refreshed(&plan, refresh)?;
        let warmth = self.warmth(&plan, at, stale, &refreshed).await?;
        Ok(Planned { plan, warmth, at, anew: refresh.is_some() })
    }

    /// The value of a query by the last answers of its checks, also if it has expired.
    async fn stale(&self, query: &Query) -> Result<Option<(Asked, Planned)>, Error> {
        let plan = self.plan_only(query, Answers::Last).await?;
        let planned = self.planned(plan, Counts::Stale).await?;
        let Some(Warmth::Hit(job, value)) = planned.warmth.last() else { return Ok(None) };
        self.0.cache.answered(&planned);
        let ended = Arc::new(Ended::value((**job).clone(), value)?);
        Ok(Some((Asked::Hit(ended), planned)))
    }

    /// Plans a query and finds what is cached. Its checks are run first if `compute` says so and they have to be; the job is
    /// that of a check that has failed.
    pub(crate) async fn plan_checked(
        &self,
        query: &Query,
        compute: bool,
        manner: &Manner,
    ) -> Result<(Planned, Option<JobId>), Error> {
        let (plan, failed) = self.checked(query, compute, manner).await?;
        Ok((self.planned(plan, Counts::Fresh(None)).await?, failed))
    }

    /// Plans a query by current answers of its checks.
    async fn checked(
        &self,
        query: &Query,
        compute: bool,
        manner: &Manner,
    ) -> Result<(Plan, Option<JobId>), Error> {
        let since = now();
        let mut plan = self.plan_only(query, Answers::Current(since)).await?;
        for _ in 0..TRIES {
            if !compute || plan.checks.iter().all(|check| check.answer.is_some()) {
                break;
            }
            if let Some(failed) = self.run_checks(&plan, since, manner).await? {
                return Ok((plan, Some(failed)));
            }
            plan = self.plan_only(query, Answers::Current(since)).await?;
        }
        if compute && plan.checks.iter().any(|check| check.answer.is_none()) {
            // Its commands change all the time.
            return Err(Rejected::Contended.into());
        }
        Ok((plan, None))
    }

    /// Plans a query, with the commands, sources and recipes that are current.
    pub(crate) async fn plan_only(&self, query: &Query, answers: Answers) -> Result<Plan, Error> {
        let (known, queue) = (self.commands().await?, job::queue()?);
        self.0.recipes.ready().await?;
        let made = |sources: &Index| {
            let (recipes, checks) = (&self.0.recipes, &self.0.checks);
            let facts = World { sources, recipes, checks, answers };
            let plan = plan(query, Blake3::default(), &queue, &known.commands, &facts);
            plan.map_err(|error| with_nearest(error, sources))
        };
        self.0.sources.with(made).await?.map_err(Error::from)
    }

    /// One read for all nodes whose value may be shared. A node is needed if the last one needs it, over nodes that are
    /// not cached. The value of a node that is refreshed does not count.
    async fn warmth(
        &self,
        plan: &Plan,
        now: Time,
        stale: bool,
        refreshed: &[bool],
    ) -> Result<Vec<Warmth>, Error> {
        let mut keys = Vec::with_capacity(plan.nodes.len());
        let mut asked = Vec::with_capacity(plan.nodes.len());
        for (at, node) in plan.nodes.iter().enumerate().filter(|(_, node)| node.kept == Kept::Shared) {
            if let Some(key) = job::key(node)? {
                keys.push((job::job_type(node)?, key));
                asked.push(at);
            }
        }
        let seen = self.0.cache.seen();
        let found = if keys.is_empty() { Vec::new() } else { self.0.store.successes(keys).await? };
        let mut warmth: Vec<Warmth> = plan.nodes.iter().map(|_| Warmth::Missing(None)).collect();
        for (at, job) in asked.into_iter().zip(found) {
            warmth[at] = job.map_or(Warmth::Missing(None), |job| read(job, now, stale));
            self.0.cache.found(seen, &plan.nodes[at].identity, &warmth[at]);
            if let (true, Warmth::Hit(job, _)) = (refreshed[at], &warmth[at]) {
                warmth[at] = Warmth::Missing(Some(job.id));
            }
        }
        let mut needed = vec![false; plan.nodes.len()];
        for at in (0..plan.nodes.len()).rev() {
            if plan.value == Input::Node(at) {
                needed[at] = true;
            }
            if needed[at]
                && let Warmth::Hit(job, value) = &warmth[at]
                && !self.may_answer(job.id, value).await?
            {
                warmth[at] = Warmth::Missing(Some(job.id));
            }
            match &warmth[at] {
                Warmth::Hit(job, _) if !needed[at] => warmth[at] = Warmth::NotNeeded(Some(job.clone())),
                _ if !needed[at] => warmth[at] = Warmth::NotNeeded(None),
                Warmth::Missing(_) | Warmth::Expired(..) => {
                    needed_by(&plan.nodes[at]).for_each(|input| needed[input] = true);
                }
                Warmth::Hit(..) | Warmth::NotNeeded(_) => {}
            }
        }
        Ok(warmth)
    }

    /// Whether a stored value can be read, and is what its query means now.
    async fn may_answer(&self, job: JobId, value: &StoredValue) -> Result<bool, Error> {
        let sound = match value.digest() {
            Some(digest) => self.0.objects.is_sound(digest, value.size).await?,
            None => true,
        };
        Ok(sound && self.is_fresh(job, value).await?)
    }

    /// Stores the use of the sources of a plan. A failure is no reason not to answer.
    pub(crate) async fn use_sources(&self, plan: &Plan) {
        let inputs = plan.nodes.iter().flat_map(|node| &node.inputs).chain([&plan.value]);
        let keys: Vec<SourceKey> = inputs
            .filter_map(|input| match input {
                Input::Source(key, _) => Some(key.clone()),
                Input::Node(_) => None,
            })
            .collect();
        if !keys.is_empty()
            && let Err(error) = self.0.sources.used(&keys, now()).await
        {
            tracing::warn!("failed to store the use of a source: {error}");
        }
    }

    /// Submits what a plan says is missing, for someone in the background.
    ///
    /// # Errors
    /// As [`Queries::ask`].
    pub async fn submit_planned(&self, planned: &Planned) -> Result<Found, Error> {
        self.submit(planned, &Manner::background()).await
    }

    /// Submits what is missing, in one commit.
    pub(crate) async fn submit(&self, planned: &Planned, manner: &Manner) -> Result<Found, Error> {
        let (nodes, jobs) = jobs(planned, manner)?;
        let submitted = match &manner.within {
            None => {
                let submit = Submit { jobs, by: Some(QUERIES), ..Submit::default() };
                self.0.engine.submit(submit).await?
            }
            Some(asker) => {
                let names = nodes.iter().map(|at| call_name(planned, *at));
                let jobs = names.zip(jobs).collect();
                self.0.engine.call(asker.of.clone(), jobs, Some(QUERIES)).await?
            }
        };
        self.0.cache.submitted(planned, &submitted);
        let created = submitted.iter().filter(|one| one.disposition == Disposition::Created).count();
        match submitted.last() {
            Some(&Submitted { id, disposition }) => {
                let jobs = nodes.into_iter().zip(submitted).collect();
                Ok(Found { job: id, disposition, created, jobs })
            }
            None => Err(Error::Refused("a query without a command has no value".to_owned())),
        }
    }
}

/// Adds the keys that were probably meant to an error about an unknown source.
fn with_nearest(error: QueryError, sources: &Index) -> QueryError {
    let QueryErrorKind::UnknownSource { key, .. } = &error.kind else { return error };
    let nearest = SourceKey::new(key).map(|key| sources.nearest(&key)).unwrap_or_default();
    let kind = QueryErrorKind::UnknownSource { key: key.clone(), nearest };
    QueryError { kind, ..error }
}

/// The name of the call for a node. The value that must not answer is part of it, so that a later call makes another one.
fn call_name(planned: &Planned, at: usize) -> String {
    let identity = planned.plan.nodes[at].identity;
    match planned.warmth[at] {
        Warmth::Missing(Some(seen)) => format!("{identity} above {seen}"),
        Warmth::Expired(ref seen, _) => format!("{identity} above {}", seen.id),
        _ => identity.to_string(),
    }
}

impl Planned {
    /// The nodes that have to be made.
    pub(crate) fn missing(&self) -> impl Iterator<Item = &Node> {
        let missing = |(_, warmth): &(_, &Warmth)| matches!(warmth, Warmth::Missing(_) | Warmth::Expired(..));
        self.plan.nodes.iter().zip(&self.warmth).filter(missing).map(|(node, _)| node)
    }
}

/// For each node whether it is computed anew.
fn refreshed(plan: &Plan, refresh: Option<&Refresh>) -> Result<Vec<bool>, Error> {
    let mut refreshed = vec![false; plan.nodes.len()];
    let Some(refresh) = refresh else { return Ok(refreshed) };
    for (at, node) in plan.nodes.iter().enumerate() {
        let mut commands = node.steps.iter().map(|step| &step.declared.declaration.name);
        let named = match refresh {
            Refresh::All => true,
            Refresh::Command(name) => commands.any(|command| command == name),
        };
        refreshed[at] = named || needed_by(node).any(|input| refreshed[input]);
    }
    match refresh {
        Refresh::Command(name) if !refreshed.contains(&true) => {
            Err(Error::Refused(format!("refresh: the query has no step of the command {name}")))
        }
        _ => Ok(refreshed),
    }
}

fn needed_by(node: &Node) -> impl Iterator<Item = usize> + '_ {
    node.inputs.iter().filter_map(|input| match input {
        Input::Node(at) => Some(*at),
        Input::Source(..) => None,
    })
}

fn read(job: Job, now: Time, stale: bool) -> Warmth {
    let value = match &job.status.state {
        State::Succeeded(success) => StoredValue::parse(success.value.as_str()),
        _ => None,
    };
    match value {
        Some(value) => match expires_at(&job).filter(|at| *at <= now && !stale) {
            Some(at) => Warmth::Expired(Box::new(job), at),
            None => Warmth::Hit(Box::new(job), value),
        },
        None => Warmth::Missing(Some(job.id)),
    }
}

/// The numbers of the missing nodes, and their jobs, each after its inputs.
fn jobs(planned: &Planned, manner: &Manner) -> Result<(Vec<usize>, Vec<NewJob>), Error> {
    let nodes = &planned.plan.nodes;
    let (mut missing, mut jobs, mut positions) = (Vec::new(), Vec::new(), HashMap::new());
    let terms = terms(planned);
    for (at, (node, warmth)) in nodes.iter().zip(&planned.warmth).enumerate() {
        let seen = match warmth {
            Warmth::Missing(seen) => *seen,
            Warmth::Expired(job, _) => Some(job.id),
            Warmth::Hit(..) | Warmth::NotNeeded(_) => continue,
        };
        let mut inputs = Inputs::default();
        for input in needed_by(node) {
            inputs.identities.push(nodes[input].identity);
            inputs.expire_at = earlier(inputs.expire_at, terms[input]);
            inputs.after.push(match (&planned.warmth[input], positions.get(&input)) {
                (Warmth::Hit(job, _), _) => After::Job(job.id),
                (_, Some(&position)) => After::Position(position),
                (_, None) => return Err(Error::Damaged("a node comes before its input".to_owned())),
            });
        }
        positions.insert(at, jobs.len());
        missing.push(at);
        let Inputs { identities, after, expire_at } = inputs;
        let inputs_expire_at = expire_at.map(Time::as_ms);
        let params = NodeParams { anew: planned.anew, inputs_expire_at, ..NodeParams::new(node, identities) };
        jobs.push(job::job(node, &params, after, seen, manner)?);
    }
    Ok((missing, jobs))
}

/// When the value of each node expires. The term of one that is to be made begins when it was planned, so no value that is
/// made from it is fresh for longer than it.
fn terms(planned: &Planned) -> Vec<Option<Time>> {
    let mut terms: Vec<Option<Time>> = Vec::with_capacity(planned.warmth.len());
    for (node, warmth) in planned.plan.nodes.iter().zip(&planned.warmth) {
        terms.push(match warmth {
            Warmth::Hit(job, _) => expires_at(job),
            _ => {
                let steps = node.steps.iter().filter_map(|step| step.declared.declaration.expires.as_ref());
                let own = steps.map(|expiry| expiry.at(planned.at)).min();
                needed_by(node).fold(own, |first, input| earlier(first, terms[input]))
            }
        });
    }
    terms
}

fn earlier(left: Option<Time>, right: Option<Time>) -> Option<Time> {
    left.into_iter().chain(right).min()
}
