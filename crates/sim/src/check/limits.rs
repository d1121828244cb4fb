//! Limits: no claim is decided that exceeds a configured limit of its queue or its type.
//!
//! For each claim, the weights of all leased jobs and of all pending claims are added up again, and so are the
//! starts in every period that ends with it. While a configuration change is pending, the kernel may use the old or
//! the new one.

use std::collections::{BTreeMap, BTreeSet};

use jobhall_core::limits::{Limit, Rate};
use jobhall_core::{Job, JobId, JobSpec, JobStatus, QueueConfig, QueueName, State, TypeConfig, TypeName};
use jobhall_store::{Committed, Setting, SettingKind, Unit};
use serde_json::Value;

use super::{Checker, Invariant};

/// The owner of limits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LimitOf {
    Queue(QueueName),
    Type(TypeName),
}

impl LimitOf {
    /// The two owners whose limits apply to a job.
    fn both(spec: &JobSpec) -> [LimitOf; 2] {
        [LimitOf::Queue(spec.queue.clone()), LimitOf::Type(spec.job_type.clone())]
    }

    /// The owner of a setting, and its limits.
    fn read(kind: SettingKind, name: &str, value: Option<&str>) -> Option<(LimitOf, QueueConfig)> {
        match kind {
            SettingKind::Queue => Some((LimitOf::Queue(QueueName::new(name).ok()?), read(value))),
            SettingKind::Type => {
                let config: Option<TypeConfig> = value.map(serde_json::from_str).transpose().ok()?;
                let config = config.map(|TypeConfig { paused, limits, .. }| QueueConfig {
                    paused,
                    limits,
                    ..QueueConfig::default()
                });
                Some((LimitOf::Type(TypeName::new(name).ok()?), config.unwrap_or_default()))
            }
            _ => None,
        }
    }
}

/// A kernel with less memory for specs than this reads them back.
const SMALL: usize = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct Limited {
    /// The settings that the kernel may be using, oldest first.
    possible: BTreeMap<LimitOf, Vec<QueueConfig>>,
    /// The settings until this time. If all events of one time reach the kernel together, it may have used these at
    /// this time.
    before: BTreeMap<LimitOf, (u64, Vec<QueueConfig>)>,
    /// Jobs with a pending claim.
    claiming: BTreeMap<JobId, Job>,
    /// Jobs of reconfigured owners, whose specs the kernel may have to read first, a few at a time.
    pub unread: BTreeSet<JobId>,
    /// Claims since the queue was last configured.
    starts: BTreeMap<LimitOf, Vec<Start>>,
    /// Links from parents to sub-jobs.
    pub links: BTreeSet<(JobId, JobId)>,
}

#[derive(Clone, Debug)]
struct Start {
    at: u64,
    job: Job,
    claim: u32,
}

/// Queues and types whose settings a unit writes.
fn configured(unit: &Unit) -> impl Iterator<Item = (LimitOf, QueueConfig)> + '_ {
    let writes = unit.settings.iter();
    writes.filter_map(|write| LimitOf::read(write.kind, &write.name, write.value.as_deref()))
}

fn read(value: Option<&str>) -> QueueConfig {
    value.map_or_else(QueueConfig::default, |text| serde_json::from_str(text).expect("what the engine wrote"))
}

impl Checker {
    /// Queues and types that have limits or are paused.
    pub fn configured(&self) -> Vec<LimitOf> {
        let changed = |configs: &&Vec<QueueConfig>| configs.iter().any(|one| *one != QueueConfig::default());
        let all = self.limited.possible.iter().filter(|(_, configs)| changed(configs));
        all.map(|(name, _)| name.clone()).collect()
    }

    /// The kernel starts with the stored settings.
    pub fn starts_with(&mut self, settings: &[Setting]) {
        self.limited.claiming.clear();
        self.limited.unread.clear();
        let all = settings.iter().filter_map(|setting| {
            let (of, config) = LimitOf::read(setting.kind, &setting.name, Some(&setting.value))?;
            Some((of, vec![config]))
        });
        let possible: BTreeMap<_, _> = all.collect();
        // A claim that was not stored does not count.
        let rows = &self.rows;
        for starts in self.limited.starts.values_mut() {
            starts.retain(|start| rows.get(&start.job.id).is_some_and(|row| row.status.claim >= start.claim));
        }
        self.limited.starts.retain(|of, _| {
            self.limited.possible.get(of).is_some_and(|known| possible.get(of) == Some(known))
        });
        self.limited.possible = possible;
    }

    /// Whether a limit or pause may prevent a ready job from starting.
    pub(super) fn may_be_kept(&self, job: &Job) -> bool {
        let keeps = |config: &QueueConfig| config.paused || !config.limits.is_empty();
        // If several settings change together, the kernel receives one after the other.
        let just_now = |of: &LimitOf| {
            let before = self.limited.before.get(of).filter(|(at, _)| *at == self.now.mono);
            before.is_some_and(|(_, configs)| configs.iter().any(keeps))
        };
        let possible = |of: &LimitOf| self.limited.possible.get(of).is_some_and(|all| all.iter().any(keeps));
        job.status.hold || LimitOf::both(&job.spec).iter().any(|of| possible(of) || just_now(of))
    }

    /// Units leave the kernel: each of their claims must be within the limits.
    pub(super) fn within_limits(&mut self, units: &[Unit]) {
        for unit in units {
            for (of, config) in configured(unit) {
                self.limited.starts.remove(&of);
                let known = self.limited.possible.entry(of).or_insert_with(|| vec![QueueConfig::default()]);
                known.push(config);
            }
            for (job, claim) in self.claims_of(unit) {
                self.claim_within_limits(&job, claim);
            }
        }
    }

    /// Jobs that a unit claims, in their previous or first state, with their claim.
    fn claims_of(&self, unit: &Unit) -> Vec<(Job, u32)> {
        let stored = unit.changes.iter().filter_map(|change| {
            let before = self.rows.get(&change.id).filter(|row| change.status.claim > row.status.claim)?;
            Some((before.clone(), change.status.claim))
        });
        let new = unit.inserts.iter().filter(|insert| insert.job.status.claim > 0);
        stored.chain(new.map(|insert| (insert.job.clone(), 1))).collect()
    }

    fn claim_within_limits(&mut self, job: &Job, claim: u32) {
        let id = job.id;
        self.must(!job.status.hold, Invariant::Limit, &[id], || format!("job {id} is held, but claimed"));
        let let_through = LimitOf::both(&job.spec).map(|of| self.let_through(job, &of));
        if let Some(hindered) = let_through.iter().find_map(|known| known.as_ref().err()) {
            let text = format!("job {id} is claimed, but {hindered}");
            return self.fail(Invariant::Limit, &[id], text);
        }
        self.limited.claiming.insert(id, job.clone());
        for (of, known) in LimitOf::both(&job.spec).into_iter().zip(let_through) {
            if known == Ok(true) {
                continue;
            }
            let start = Start { at: self.now.mono, job: job.clone(), claim };
            self.limited.starts.entry(of).or_default().push(start);
        }
    }

    /// Whether the limits of a queue or type permit a claim; if so, whether they were changed at this time.
    fn let_through(&mut self, job: &Job, of: &LimitOf) -> Result<bool, String> {
        let none = vec![QueueConfig::default()];
        let mut configs = self.limited.possible.get(of).unwrap_or(&none).clone();
        let before = self.limited.before.get(of).filter(|(at, _)| !self.exact && *at == self.now.mono);
        let just_changed = before.is_some();
        configs.extend(before.into_iter().flat_map(|(_, configs)| configs.clone()));
        let hindered: Vec<_> = configs.iter().filter_map(|config| self.hindered(job, of, config)).collect();
        if hindered.len() == configs.len() {
            return Err(hindered.join("; "));
        }
        if configs.iter().any(|config| !config.limits.is_empty()) {
            let of_type = matches!(of, LimitOf::Type(_));
            self.seen.push((
                "limits",
                if of_type { "claim under a limit of its type" } else { "claim under a limit" },
            ));
        }
        Ok(just_changed)
    }

    /// Why a configuration does not permit a claim.
    fn hindered(&mut self, job: &Job, of: &LimitOf, config: &QueueConfig) -> Option<String> {
        if config.paused {
            return Some(format!("{of:?} is paused"));
        }
        let weight = u64::from(job.spec.throttle_factor);
        let mut limits = config.limits.iter().filter(|_| weight > 0);
        limits
            .find_map(|limit| self.too_many(job, of, limit).or_else(|| self.too_fast(job, of, weight, limit)))
    }

    fn too_many(&mut self, job: &Job, of: &LimitOf, limit: &Limit) -> Option<String> {
        let most = u64::from(limit.concurrency?);
        let leased = self.rows.values().filter(|row| is_leased(&row.status));
        let mut all: BTreeMap<JobId, &Job> = leased.map(|row| (row.id, row)).collect();
        all.extend(self.limited.claiming.iter().map(|(&id, job)| (id, job)));
        all.remove(&job.id);
        let same = all.into_values().filter(|other| together(of, limit, &other.spec, &job.spec));
        let same: Vec<Job> = same.filter(|other| other.spec.throttle_factor > 0).cloned().collect();
        let starts = self.limited.starts.get(of).map_or(&[][..], Vec::as_slice);
        let begun = |job: &Job| {
            let claims = [job.status.claim, job.status.claim + 1];
            starts.iter().any(|start| start.job.id == job.id && claims.contains(&start.claim))
        };
        let known = same.iter().all(begun);
        self.no_place(job, &same, most, known).map(|why| format!("{why} of {limit:?}"))
    }

    fn too_fast(&self, job: &Job, of: &LimitOf, weight: u64, limit: &Limit) -> Option<String> {
        let rate = limit.rate?;
        let starts = self.limited.starts.get(of).map_or(&[][..], Vec::as_slice);
        let same = starts.iter().filter(|start| together(of, limit, &start.job.spec, &job.spec));
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

    /// The kernel received the results of units.
    pub fn limits_told(&mut self, units: &[Unit], committed: Option<&Committed>) {
        for (at, unit) in units.iter().enumerate() {
            let stored = committed.is_some_and(|committed| committed.results[at].is_ok());
            for (of, config) in configured(unit) {
                self.configuration_told(&of, &config, stored);
            }
            for (job, claim) in self.limited.claiming_of(unit) {
                self.limited.claiming.remove(&job);
                for starts in self.limited.starts.values_mut().filter(|_| !stored) {
                    starts.retain(|start| (start.job.id, start.claim) != (job, claim));
                }
            }
        }
    }

    fn configuration_told(&mut self, of: &LimitOf, config: &QueueConfig, stored: bool) {
        let Some(known) = self.limited.possible.get_mut(of) else { return };
        let Some(at) = known.iter().skip(1).position(|one| one == config).map(|at| at + 1) else { return };
        if stored {
            let gone: Vec<_> = known.drain(..at).collect();
            self.limited.before.insert(of.clone(), (self.now.mono, gone));
            self.limited.starts.remove(of);
            if self.config.spec_bytes < SMALL {
                let queued = self.rows.values().filter(|row| matches!(row.status.state, State::Queued(_)));
                let limited = queued.filter(|row| LimitOf::both(&row.spec).contains(of));
                self.limited.unread.extend(limited.map(|row| row.id));
            }
            self.seen.push((
                "limits",
                if matches!(of, LimitOf::Type(_)) { "type configured" } else { "queue configured" },
            ));
        } else {
            known.remove(at);
        }
    }
}

impl Limited {
    /// Jobs of a unit whose claim was pending, with the claim.
    fn claiming_of(&self, unit: &Unit) -> Vec<(JobId, u32)> {
        let changed = unit.changes.iter().map(|change| (change.id, change.status.claim));
        let new = unit.inserts.iter().map(|insert| (insert.job.id, insert.job.status.claim));
        changed.chain(new).filter(|(id, _)| self.claiming.contains_key(id)).collect()
    }
}

fn is_leased(status: &JobStatus) -> bool {
    status.state.leased().is_some() || matches!(status.state, State::Waiting(_))
}

/// The amount that a rate permits in this time, in parts of a token. A job heavier than the burst counts as the
/// burst.
fn let_through(rate: Rate, heaviest: u64, ms: u64) -> u64 {
    u64::from(rate.most()).max(heaviest) * rate.per_ms + u64::from(rate.count) * ms
}

/// Whether two jobs count toward the same bucket.
fn together(of: &LimitOf, limit: &Limit, one: &JobSpec, other: &JobSpec) -> bool {
    let same = match limit.by.as_ref().map(|by| by.as_str()) {
        None => true,
        Some("key") => one.key == other.key,
        Some(_) => customer(one) == customer(other),
    };
    same && match of {
        LimitOf::Queue(_) => one.queue == other.queue,
        LimitOf::Type(_) => one.job_type == other.job_type,
    }
}

/// The `c` of a job's params.
fn customer(spec: &JobSpec) -> Option<String> {
    let params: Value = serde_json::from_str(spec.params.as_str()).ok()?;
    params.get("c").filter(|c| !c.is_null()).map(ToString::to_string)
}
