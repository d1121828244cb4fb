//! A query whose last value may not be kept is made by the asker itself, if it can: so it is made where it is used, as a
//! step of the asker's own query would be. What it receives is made by jobs, as always.

use std::collections::HashMap;

use jobhall_core::JobId;
use jobhall_core::query::{Input, Kept, Node, NodeParams, Place, Query, Source, Span, StoredValue};
use jobhall_engine::Rejected;

use super::open::Answer;
use super::within::{Asker, SubAsked, Within};
use crate::ask::{TRIES, Warmth};
use crate::facts::Answers;
use crate::job::Manner;
use crate::{Error, Planned, Queries};

/// What an asker runs itself.
#[derive(Clone, Debug)]
pub struct Inline {
    /// As those of a job.
    pub params: NodeParams,
    /// The jobs that it waits for before: they make what it receives.
    pub jobs: Vec<JobId>,
}

/// An input of what is run: its value, if it is there, and its job.
struct Received {
    query: String,
    meaning: String,
    job: Option<JobId>,
    value: Option<StoredValue>,
}

impl Queries {
    /// The answer that the asker runs the last node itself; none if that is for a job.
    pub(super) async fn inline(
        &self,
        asker: &Asker,
        query: &Query,
        epoch: u64,
    ) -> Result<Option<Within>, Error> {
        let job = &asker.job;
        let (owner, within) = (job.spec.owner.clone(), Some(asker.clone()));
        let manner = Manner { priority: job.spec.priority, owner, within };
        for _ in 0..TRIES {
            let plan = self.plan_only(query, Answers::Last).await?;
            let Input::Node(last) = plan.value else { return Ok(None) };
            // A check is run by a job.
            if !plan.checks.is_empty() || !runs_here(&plan.nodes[last], asker) {
                return Ok(None);
            }
            let mut planned = self.plan(query).await?;
            if planned.plan != plan {
                continue;
            }
            planned.warmth[last] = Warmth::NotNeeded(None);
            self.check_cycle(job, &planned).await?;
            self.use_sources(&planned.plan).await;
            let jobs = match planned.missing().next() {
                None => HashMap::new(),
                Some(_) => match self.submit(&planned, &manner).await {
                    Err(Error::Rejected(Rejected::NoSuchDependency(_))) => continue,
                    Err(error) => return Err(error),
                    Ok(found) => found.jobs.into_iter().map(|(node, job)| (node, job.id)).collect(),
                },
            };
            return self.note_inline(asker, query, &planned, last, &jobs, epoch).await.map(Some);
        }
        Err(Rejected::Contended.into())
    }

    async fn note_inline(
        &self,
        asker: &Asker,
        query: &Query,
        planned: &Planned,
        last: usize,
        jobs: &HashMap<usize, JobId>,
        epoch: u64,
    ) -> Result<Within, Error> {
        let node = &planned.plan.nodes[last];
        let mut inputs = Vec::new();
        for input in &node.inputs {
            let Received { query, meaning, job, value } = received(planned, input, jobs);
            if let Input::Node(at) = input {
                inputs.push(planned.plan.nodes[*at].identity);
            }
            let answer = Answer { query, meaning, job, value: value.as_ref(), is_timed: false, epoch };
            self.0.asks.note(asker.of.attempt, answer).await?;
        }
        let meaning = node.identity.to_string();
        let query = query.text();
        let answer =
            Answer { query, meaning: meaning.clone(), job: None, value: None, is_timed: false, epoch };
        self.0.asks.note(asker.of.attempt, answer).await?;
        self.0.promises.shared.contents.take(asker.of.attempt.job);
        let mut jobs: Vec<JobId> = jobs.values().copied().collect();
        jobs.sort_unstable();
        for job in &jobs {
            self.follow_within(asker.of.clone(), *job);
        }
        let asked = SubAsked::Inline(Box::new(Inline { params: NodeParams::new(node, inputs), jobs }));
        Ok(Within { meaning, asked })
    }
}

/// Whether the asker runs a node itself: the value is not shared, and nothing but its commands is needed.
fn runs_here(node: &Node, asker: &Asker) -> bool {
    let unshared = matches!(node.kept, Kept::Never | Kept::OnWorker) && node.place == Place::Any;
    unshared
        && node.steps.iter().all(|step| {
            let declared = &step.declared.declaration;
            let named = format!("{}@{}", declared.name, step.declared.version);
            declared.needs.is_none() && declared.uses.is_none() && asker.here.contains(&named)
        })
}

fn received(planned: &Planned, input: &Input, jobs: &HashMap<usize, JobId>) -> Received {
    match input {
        Input::Source(key, digest) => {
            let source = Some(Source { key: key.clone(), span: Span::default() });
            let query = Query { source, ..Query::default() }.text();
            Received { query, meaning: digest.to_string(), job: None, value: None }
        }
        Input::Node(at) => {
            let node = &planned.plan.nodes[*at];
            let (job, value) = match &planned.warmth[*at] {
                Warmth::Hit(job, value) => (Some(job.id), Some(value.clone())),
                _ => (jobs.get(at).copied(), None),
            };
            Received { query: node.text.clone(), meaning: node.identity.to_string(), job, value }
        }
    }
}
