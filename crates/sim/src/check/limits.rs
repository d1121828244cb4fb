//! Limits: no claim is decided that a limit of its queue, as somebody configured it, does not let through.
//!
//! The weights of all leased jobs and of all claims on their way are added up anew for each claim; so are the starts of
//! every stretch of time that ends with it. While a configuration is on its way the desk may go by the old or the new one.

use std::collections::{BTreeMap, BTreeSet};

use jobhall_core::limits::{Limit, Rate};
use jobhall_core::{Job, JobId, Life, QueueConfig, QueueName, Spec, State};
use jobhall_store::{Committed, Setting, SettingKind, Unit};
use serde_json::Value;

use super::{Checker, Invariant};

/// What is known about limits.
#[derive(Debug, Default)]
pub(super) struct Limited {
    /// What the desk may go by, oldest first.
    possible: BTreeMap<QueueName, Vec<QueueConfig>>,
    /// What it went by until this moment. Where the events of a moment reach the desk together, it may have decided by
    /// it in this very moment.
    before: BTreeMap<QueueName, (u64, Vec<QueueConfig>)>,
    /// Jobs whose claim is on its way.
    claiming: BTreeMap<JobId, Job>,
    /// Claims since the queue was last configured.
    starts: BTreeMap<QueueName, Vec<Start>>,
    /// Which job asked for which.
    pub links: BTreeSet<(JobId, JobId)>,
}

#[derive(Clone, Debug)]
struct Start {
    at: u64,
    job: Job,
    claim: u32,
}

/// A queue and what a unit writes for it.
fn configured(unit: &Unit) -> impl Iterator<Item = (QueueName, QueueConfig)> + '_ {
    let writes = unit.settings.iter().filter(|write| write.kind == SettingKind::Queue);
    writes.filter_map(|write| Some((QueueName::new(&write.name).ok()?, read(write.value.as_deref()))))
}

fn read(value: Option<&str>) -> QueueConfig {
    value.map_or_else(QueueConfig::default, |text| serde_json::from_str(text).expect("what the engine wrote"))
}

impl Checker {
    /// Queues that are configured.
    pub fn configured(&self) -> Vec<QueueName> {
        let changed = |configs: &&Vec<QueueConfig>| configs.iter().any(|one| *one != QueueConfig::default());
        let all = self.limited.possible.iter().filter(|(_, configs)| changed(configs));
        all.map(|(name, _)| name.clone()).collect()
    }

    /// The desk starts with what is stored.
    pub fn starts_with(&mut self, settings: &[Setting]) {
        self.limited.claiming.clear();
        let queues = settings.iter().filter(|setting| setting.kind == SettingKind::Queue);
        let queues = queues.filter_map(|setting| {
            Some((QueueName::new(&setting.name).ok()?, vec![read(Some(&setting.value))]))
        });
        let possible: BTreeMap<_, _> = queues.collect();
        // A start that was not stored is none.
        let rows = &self.rows;
        for starts in self.limited.starts.values_mut() {
            starts.retain(|start| rows.get(&start.job.id).is_some_and(|row| row.life.claim >= start.claim));
        }
        self.limited.starts.retain(|queue, _| {
            self.limited.possible.get(queue).is_some_and(|known| possible.get(queue) == Some(known))
        });
        self.limited.possible = possible;
    }

    /// Whether something may keep a job that is ready.
    pub(super) fn may_be_kept(&self, job: &Job) -> bool {
        let configs = self.limited.possible.get(&job.spec.queue);
        job.life.hold
            || configs.is_some_and(|all| all.iter().any(|config| config.paused || !config.limits.is_empty()))
    }

    /// Units leave the desk: each claim in them must be let through.
    pub(super) fn within_limits(&mut self, units: &[Unit]) {
        for unit in units {
            for (queue, config) in configured(unit) {
                self.limited.starts.remove(&queue);
                let known =
                    self.limited.possible.entry(queue).or_insert_with(|| vec![QueueConfig::default()]);
                known.push(config);
            }
            for (job, claim) in self.claims_of(unit) {
                self.claim_within_limits(&job, claim);
            }
        }
    }

    /// Jobs that a unit claims, as they were before or are born, with their claim.
    fn claims_of(&self, unit: &Unit) -> Vec<(Job, u32)> {
        let stored = unit.changes.iter().filter_map(|change| {
            let before = self.rows.get(&change.id).filter(|row| change.life.claim > row.life.claim)?;
            Some((before.clone(), change.life.claim))
        });
        let new = unit.inserts.iter().filter(|insert| insert.job.life.claim > 0);
        stored.chain(new.map(|insert| (insert.job.clone(), 1))).collect()
    }

    fn claim_within_limits(&mut self, job: &Job, claim: u32) {
        let id = job.id;
        self.must(!job.life.hold, Invariant::Limit, &[id], || format!("job {id} is held, but claimed"));
        let none = vec![QueueConfig::default()];
        let queue = &job.spec.queue;
        let mut configs = self.limited.possible.get(queue).unwrap_or(&none).clone();
        let before = self.limited.before.get(queue).filter(|(at, _)| !self.exact && *at == self.now.mono);
        let just_changed = before.is_some();
        configs.extend(before.into_iter().flat_map(|(_, configs)| configs.clone()));
        let hindered: Vec<_> = configs.iter().filter_map(|config| self.hindered(job, config)).collect();
        if hindered.len() == configs.len() {
            return self.fail(
                Invariant::Limit,
                &[id],
                format!("job {id} is claimed, but {}", hindered.join("; ")),
            );
        }
        if configs.iter().any(|config| !config.limits.is_empty()) {
            self.seen.push(("limits", "claim under a limit"));
        }
        self.limited.claiming.insert(id, job.clone());
        if just_changed {
            return;
        }
        let start = Start { at: self.now.mono, job: job.clone(), claim };
        self.limited.starts.entry(job.spec.queue.clone()).or_default().push(start);
    }

    /// What a configuration has against a claim.
    fn hindered(&self, job: &Job, config: &QueueConfig) -> Option<String> {
        if config.paused {
            return Some(format!("queue {} is paused", job.spec.queue));
        }
        let weight = u64::from(job.spec.throttle_factor);
        let limits = config.limits.iter().filter(|_| weight > 0);
        limits
            .into_iter()
            .find_map(|limit| self.too_many(job, weight, limit).or_else(|| self.too_fast(job, weight, limit)))
    }

    fn too_many(&self, job: &Job, weight: u64, limit: &Limit) -> Option<String> {
        let most = u64::from(limit.concurrency?);
        let leased = self.rows.values().filter(|row| is_leased(&row.life));
        let mut all: BTreeMap<JobId, &Job> = leased.map(|row| (row.id, row)).collect();
        all.extend(self.limited.claiming.iter().map(|(&id, job)| (id, job)));
        all.remove(&job.id);
        let mut same: Vec<&Job> =
            all.into_values().filter(|other| together(limit, &other.spec, &job.spec)).collect();
        // Who waits for the job may lend it its place. Whether that is free cannot be told from the rows; the tests of
        // the engine show that one stands on it at a time.
        let lenders = self.lenders(job.id);
        if same.iter().any(|other| lenders.contains(&other.id)) {
            return None;
        }
        let taken = self.least(&same);
        same.push(job);
        let with = self.least(&same);
        (taken > 0 && with > most && with > taken).then(|| {
            let who: Vec<_> = same.iter().map(|job| (job.id.get(), job.spec.throttle_factor)).collect();
            format!("weighs {weight}, and {taken} of {most} are taken: {who:?} (job, weight) of {limit:?}")
        })
    }

    /// What jobs weigh together, where each that waits lends its place to one of those it waits for.
    fn least(&self, jobs: &[&Job]) -> u64 {
        let weight = |job: &Job| u64::from(job.spec.throttle_factor);
        let waits = |job: &&&Job| matches!(job.life.state, State::Waiting(_));
        let mut on: BTreeMap<JobId, JobId> = BTreeMap::new();
        for job in jobs {
            let places: Vec<_> = {
                let lenders = self.lenders(job.id);
                jobs.iter()
                    .filter(waits)
                    .filter(|other| lenders.contains(&other.id))
                    .map(|other| other.id)
                    .collect()
            };
            self.place(job.id, &places, jobs, &mut on, &mut BTreeSet::new());
        }
        let lent: u64 = on
            .iter()
            .filter_map(|(lender, user)| {
                let of = |id: &JobId| jobs.iter().find(|job| job.id == *id).map(|job| weight(job));
                Some(of(lender)?.min(of(user)?))
            })
            .sum();
        jobs.iter().map(|job| weight(job)).sum::<u64>() - lent
    }

    /// Finds a place for a job on one of those that it may stand on, moving others where that helps.
    fn place(
        &self,
        job: JobId,
        places: &[JobId],
        jobs: &[&Job],
        on: &mut BTreeMap<JobId, JobId>,
        tried: &mut BTreeSet<JobId>,
    ) -> bool {
        for &lender in places {
            if !tried.insert(lender) {
                continue;
            }
            let free = match on.get(&lender).copied() {
                None => true,
                Some(user) => {
                    let lenders = self.lenders(user);
                    let others: Vec<_> =
                        jobs.iter().map(|job| job.id).filter(|id| lenders.contains(id)).collect();
                    self.place(user, &others, jobs, on, tried)
                }
            };
            if free {
                on.insert(lender, job);
                return true;
            }
        }
        false
    }

    /// The attempts that wait for a job, directly or by way of others.
    fn lenders(&self, job: JobId) -> BTreeSet<JobId> {
        let (mut found, mut next) = (BTreeSet::new(), vec![job]);
        while let Some(id) = next.pop() {
            let asked =
                self.limited.links.iter().filter(|(_, child)| *child == id).map(|(parent, _)| *parent);
            let behind = self.rows.values().filter(|row| match row.life.state {
                State::Blocked(blocked) => blocked.holder == Some(id),
                _ => false,
            });
            let all: Vec<_> = asked.chain(behind.map(|row| row.id)).collect();
            next.extend(all.into_iter().filter(|id| found.insert(*id)));
        }
        found.retain(|id| self.rows.get(id).is_some_and(|row| matches!(row.life.state, State::Waiting(_))));
        found
    }

    fn too_fast(&self, job: &Job, weight: u64, limit: &Limit) -> Option<String> {
        let rate = limit.rate?;
        let starts = self.limited.starts.get(&job.spec.queue).map_or(&[][..], Vec::as_slice);
        let same = starts.iter().filter(|start| together(limit, &start.job.spec, &job.spec));
        let (mut sum, mut heaviest) = (weight, weight);
        for start in same.rev() {
            let weight = u64::from(start.job.spec.throttle_factor);
            (sum, heaviest) = (sum + weight, heaviest.max(weight));
            if weight > 0 && sum * rate.per_ms > let_through(rate, heaviest, self.now.mono - start.at) {
                return Some(format!("{sum} start within {} ms of {limit:?}", self.now.mono - start.at));
            }
        }
        None
    }

    /// The desk heard what became of units.
    pub fn limits_told(&mut self, units: &[Unit], committed: Option<&Committed>) {
        for (at, unit) in units.iter().enumerate() {
            let stored = committed.is_some_and(|committed| committed.results[at].is_ok());
            for (queue, config) in configured(unit) {
                self.configuration_told(&queue, &config, stored);
            }
            for (job, claim) in self.limited.claiming_of(unit) {
                self.limited.claiming.remove(&job);
                if !stored
                    && let Some(starts) = self.limited.starts.values_mut().find(|all| has(all, job, claim))
                {
                    starts.retain(|start| (start.job.id, start.claim) != (job, claim));
                }
            }
        }
    }

    fn configuration_told(&mut self, queue: &QueueName, config: &QueueConfig, stored: bool) {
        let Some(known) = self.limited.possible.get_mut(queue) else { return };
        let Some(at) = known.iter().skip(1).position(|one| one == config).map(|at| at + 1) else { return };
        if stored {
            let gone: Vec<_> = known.drain(..at).collect();
            self.limited.before.insert(queue.clone(), (self.now.mono, gone));
            self.limited.starts.remove(queue);
            self.seen.push(("limits", "queue configured"));
        } else {
            known.remove(at);
        }
    }
}

impl Limited {
    /// Jobs of a unit whose claim was on its way, with the claim.
    fn claiming_of(&self, unit: &Unit) -> Vec<(JobId, u32)> {
        let changed = unit.changes.iter().map(|change| (change.id, change.life.claim));
        let new = unit.inserts.iter().map(|insert| (insert.job.id, insert.job.life.claim));
        changed.chain(new).filter(|(id, _)| self.claiming.contains_key(id)).collect()
    }
}

fn has(starts: &[Start], job: JobId, claim: u32) -> bool {
    starts.iter().any(|start| (start.job.id, start.claim) == (job, claim))
}

fn is_leased(life: &Life) -> bool {
    life.state.held().is_some() || matches!(life.state, State::Waiting(_))
}

/// What a rate lets through in so much time, in parts of a token: a job heavier than the burst counts as it.
fn let_through(rate: Rate, heaviest: u64, ms: u64) -> u64 {
    u64::from(rate.most()).max(heaviest) * rate.per_ms + u64::from(rate.count) * ms
}

/// Whether two jobs are counted together.
fn together(limit: &Limit, one: &Spec, other: &Spec) -> bool {
    let same = match limit.by.as_ref().map(|by| by.as_str()) {
        None => true,
        Some("key") => one.key == other.key,
        Some(_) => customer(one) == customer(other),
    };
    same && one.queue == other.queue
}

/// The `c` of a job's params.
fn customer(spec: &Spec) -> Option<String> {
    let params: Value = serde_json::from_str(spec.params.as_str()).ok()?;
    params.get("c").filter(|c| !c.is_null()).map(ToString::to_string)
}
