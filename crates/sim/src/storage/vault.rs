//! The store of a run: the reference store, with hooks for planted bugs. Every read applies the same hooks, so a
//! row that a bug changed stays changed for all readers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jobhall_core::{
    Group, GroupId, Job, JobId, JobSpec, JobStatus, Key, PastAttempt, State, Time, TypeConfig,
};
use jobhall_store::{
    Block, BlockChange, Change, Committed, CompletedPage, Conflict, Done, FeedPage, JobCounts, Link, Member,
    Memory, Prune, Pruned, Setting, SettingKind, Unit,
};

use crate::check::Shelf;
use crate::plant::Plant;
use crate::random::Random;

/// The effect of a planted bug on a row.
#[derive(Clone, Debug)]
enum Fix {
    Gone,
    JobStatus(Box<JobStatus>),
    Key(Key),
}

pub(crate) struct Vault {
    store: Memory,
    plant: Option<Plant>,
    random: Random,
    fixes: BTreeMap<JobId, Fix>,
    /// Jobs of the last commits with inserts.
    newest: Vec<JobId>,
}

impl Vault {
    pub fn new(seed: u64, plant: Option<Plant>) -> Vault {
        let random = Random::named(seed, &[77]);
        Vault { store: Memory::new(), plant, random, fixes: BTreeMap::new(), newest: Vec::new() }
    }

    fn has(&mut self, plant: Plant, percent: u64) -> bool {
        self.plant == Some(plant) && self.random.percent(percent)
    }

    pub fn commit(&mut self, mut units: Vec<Unit>) -> Committed {
        self.before_commit(&mut units);
        self.newest = units.iter().flat_map(|unit| &unit.inserts).map(|insert| insert.job.id).collect();
        let dropped = if self.has(Plant::DroppedUnit, 10) { self.random.at(units.len()) } else { usize::MAX };
        let mut sent = units;
        if self.plant == Some(Plant::NameForgotten) {
            sent.iter_mut().for_each(|unit| unit.idempotency_key = None);
        }
        let lost = (dropped < sent.len()).then(|| sent.remove(dropped));
        let retry = (self.plant == Some(Plant::KeyReleasedEarly)).then(|| sent.clone());
        let mut committed = self.store.commit_now(sent);
        if let Some(unit) = lost {
            committed.results.insert(dropped, Ok(done(&self.store, &unit)));
        }
        if let Some(units) = retry {
            self.give_keys_away(units, &mut committed);
        }
        committed
    }

    /// The effect of a bug between commits.
    fn before_commit(&mut self, units: &mut [Unit]) {
        if self.has(Plant::TerminalRewritten, 5) {
            let ended = self.store.all_jobs().into_iter().find(|job| job.status.state.is_terminal());
            if let Some(job) = ended {
                let status = JobStatus { rev: job.status.rev + 1, state: State::Queued(None), ..job.status };
                self.fixes.insert(job.id, Fix::JobStatus(Box::new(status)));
            }
        }
        if self.has(Plant::StaleWrite, 5) {
            let touched =
                |id: JobId| units.iter().flat_map(|unit| &unit.changes).any(|change| change.id == id);
            let all = self.store.all_jobs();
            let held = all.into_iter().find(|job| job.status.state.leased().is_some() && !touched(job.id));
            if let (Some(Job { id, status, .. }), Some(unit)) = (held, units.first_mut()) {
                let expected = status.rev;
                let (rev, updated_at) = (status.rev + 1, status.updated_at.plus_ms(1));
                let status = JobStatus { rev, updated_at, state: State::Queued(None), ..status };
                unit.changes.push(Change { id, expected, status, spec: None, past: None, want_spec: false });
            }
        }
    }

    /// Stores inserts anyway that were refused because their key is held.
    fn give_keys_away(&mut self, units: Vec<Unit>, committed: &mut Committed) {
        for (unit, result) in units.into_iter().zip(&mut committed.results) {
            let held = result.as_ref().is_err_and(|conflicts| {
                conflicts.iter().all(|conflict| matches!(conflict, Conflict::KeyHeld { .. }))
            });
            if !held || !self.random.percent(30) {
                continue;
            }
            let mut keyless = unit;
            for insert in &mut keyless.inserts {
                if let Some(key) = insert.job.spec.key.clone() {
                    self.fixes.insert(insert.job.id, Fix::Key(key));
                }
                insert.job.spec = Arc::new(JobSpec { key: None, ..(*insert.job.spec).clone() });
            }
            let again = self.store.commit_now(vec![keyless]);
            committed.feed = again.feed.or(committed.feed);
            *result = again.results.into_iter().next().unwrap_or_else(|| Ok(Done::default()));
        }
    }

    /// The settings as a starting kernel reads them.
    pub fn settings_for_kernel(&self) -> Vec<Setting> {
        let mut settings = self.settings();
        if self.plant == Some(Plant::TicksForgotten) {
            settings.iter_mut().for_each(|setting| setting.value = ten_minutes_ago(&setting.value));
        }
        settings
    }

    /// A setting as a starting kernel reads it.
    pub fn setting_for_kernel(&self, setting: Setting) -> Setting {
        let forgets = self.plant == Some(Plant::TypeLimitsForgotten) && setting.kind == SettingKind::Type;
        let config = serde_json::from_str(&setting.value).ok().filter(|_| forgets);
        let config =
            config.map(|config: TypeConfig| TypeConfig { limits: Vec::new(), paused: false, ..config });
        match config.and_then(|config| serde_json::to_string(&config).ok()) {
            Some(value) => Setting { value, ..setting },
            None => setting,
        }
    }

    /// The effect of a bug at a crash.
    pub fn crashed(&mut self) {
        if self.plant == Some(Plant::LostAtCrash) {
            for id in std::mem::take(&mut self.newest) {
                self.fixes.insert(id, Fix::Gone);
            }
        }
    }

    /// Whether a failed commit is acknowledged anyway.
    pub fn lies(&self) -> bool {
        self.plant == Some(Plant::FalseAcknowledgement)
    }

    /// The reply to a commit of which nothing was written.
    pub fn lie(&self, units: &[Unit]) -> Committed {
        Committed { feed: None, results: units.iter().map(|unit| Ok(done(&self.store, unit))).collect() }
    }

    pub fn take_block(&mut self, size: u64) -> Block {
        self.store.take_block_now(size)
    }

    pub fn settle_blocks(&mut self, changes: Vec<BlockChange>) {
        let early = self.plant == Some(Plant::BlockClosedEarly);
        let changes = changes.into_iter().map(|change| match change {
            BlockChange::Shrink(first, _) if early => BlockChange::Close(first),
            change => change,
        });
        self.store.settle_blocks_now(changes.collect());
    }

    pub fn prune(&mut self, prune: &Prune) -> Pruned {
        self.store.prune_now(prune)
    }

    /// Removes a completed job that an open job comes after, if that bug is planted.
    pub fn lose_input(&mut self) -> Option<JobId> {
        if !self.has(Plant::InputLost, 20) {
            return None;
        }
        let open = self.open_jobs();
        let inputs: BTreeSet<JobId> = open.iter().flat_map(|job| job.spec.after.iter().copied()).collect();
        let ended = |id: &JobId| self.row(*id).is_some_and(|job| job.status.state.is_terminal());
        let id = inputs.into_iter().find(ended)?;
        self.store.prune_now(&Prune { jobs: vec![id], ..Prune::default() });
        Some(id)
    }

    fn fixed(&self, mut job: Job) -> Option<Job> {
        if self.plant == Some(Plant::PriorityIgnored) {
            job.spec = Arc::new(JobSpec { priority: 300 - job.spec.priority, ..(*job.spec).clone() });
        }
        match self.fixes.get(&job.id) {
            None => Some(job),
            Some(Fix::Gone) => None,
            Some(Fix::JobStatus(status)) => Some(Job { status: (**status).clone(), ..job }),
            Some(Fix::Key(key)) => {
                job.spec = Arc::new(JobSpec { key: Some(key.clone()), ..(*job.spec).clone() });
                Some(job)
            }
        }
    }

    /// A row as the kernel reads it, with its own version of the requested values.
    pub fn row_for_kernel(&self, id: JobId) -> Option<Job> {
        match self.plant {
            Some(Plant::PriorityIgnored) => self.store.jobs_now(&[id]).remove(0),
            _ => self.row(id),
        }
    }

    /// Open jobs as the kernel reads them.
    pub fn open_for_kernel(&self) -> Vec<Job> {
        match self.plant {
            Some(Plant::PriorityIgnored) => self.store.open_jobs_now(None, usize::MAX),
            Some(_) => self.open_jobs().into_iter().map(|job| self.misread(job)).collect(),
            None => self.open_jobs(),
        }
    }

    /// An open job as a start with a planted bug reads it.
    fn misread(&self, job: Job) -> Job {
        let blocked = matches!(job.status.state, State::Blocked(blocked) if blocked.dependencies);
        let mut spec = (*job.spec).clone();
        match self.plant {
            Some(Plant::AfterForgotten) if blocked => {
                let all = self.store.all_jobs();
                let succeeded = all.iter().filter(|other| matches!(other.status.state, State::Succeeded(_)));
                spec.after = succeeded.map(|other| other.id).take(1).collect();
            }
            Some(Plant::InputsForgotten) if !blocked => spec.after = Box::default(),
            Some(Plant::OnceForgotten) => spec.retry.at_most_once = false,
            Some(Plant::NeverReleased) if blocked => {
                spec.after = spec.after.iter().copied().chain([job.id]).collect();
            }
            Some(Plant::LentTwice) if matches!(job.status.state, State::Queued(_)) => {
                let parent = spec.parent.and_then(|parent| self.row(parent));
                let waits = |parent: &Job| matches!(parent.status.state, State::Waiting(_));
                if parent.is_some_and(|parent| waits(&parent)) {
                    spec.throttle_factor = 0;
                }
            }
            _ => return job,
        }
        Job { spec: Arc::new(spec), ..job }
    }

    /// The members of a group as a starting kernel reads them.
    pub fn members_for_kernel(&self, id: GroupId) -> Vec<Member> {
        let mut members = self.group(id).map_or_else(Vec::new, |(_, members)| members);
        if self.plant == Some(Plant::MemberForgotten) {
            let counted = |member: &Member| !member.attached && member.state.is_terminal();
            if let Some(at) = members.iter().position(counted) {
                members.remove(at);
            }
        }
        members
    }

    pub fn completed(&self, after: Option<JobId>, limit: usize) -> CompletedPage {
        self.store.completed_now(after, limit)
    }

    pub fn count_completed(&self, after: Option<JobId>, last: JobId, except: &[JobId]) -> JobCounts {
        self.store.count_completed_now(after, last, except)
    }

    pub fn group(&self, id: GroupId) -> Option<(Group, Vec<Member>)> {
        self.store.group_now(id)
    }

    /// Groups that have not ended, or all.
    pub fn groups(&self, open: bool) -> Vec<Group> {
        self.store.groups_now(open)
    }

    /// Of a page of groups: those that ended before this time and have no jobs left, and the last group of the page.
    pub fn emptied(
        &self,
        before: Option<GroupId>,
        ended_before: Time,
        limit: usize,
    ) -> (Vec<GroupId>, Option<GroupId>) {
        let below = |group: &Group| before.is_none_or(|before| group.id < before);
        let page: Vec<Group> = self.groups(false).into_iter().rev().filter(below).take(limit).collect();
        let left = |group: &Group| self.group(group.id).is_some_and(|(_, members)| !members.is_empty());
        let old = page.iter().filter(|group| group.ended_before(ended_before));
        let empty = old.filter(|group| self.plant == Some(Plant::GroupsPruned) || !left(group));
        (empty.map(|group| group.id).collect(), page.last().map(|group| group.id))
    }

    pub fn links(&self) -> Vec<Link> {
        self.store.links_now(None, usize::MAX)
    }

    pub fn settings(&self) -> Vec<Setting> {
        self.store.settings_now()
    }
}

impl Shelf for Vault {
    fn row(&self, id: JobId) -> Option<Job> {
        self.store.jobs_now(&[id]).remove(0).and_then(|job| self.fixed(job))
    }

    fn rows(&self) -> Vec<Job> {
        self.store.all_jobs().into_iter().filter_map(|job| self.fixed(job)).collect()
    }

    fn attempts(&self, id: JobId) -> Vec<PastAttempt> {
        self.store.attempts_now(id)
    }

    fn open_jobs(&self) -> Vec<Job> {
        let open = self.store.open_jobs_now(None, usize::MAX).into_iter();
        open.filter_map(|job| self.fixed(job)).collect()
    }

    fn blocks(&self) -> Vec<Block> {
        self.store.blocks_now()
    }

    fn feed(&self) -> FeedPage {
        let mut page = self.store.feed_now(0, usize::MAX);
        if self.plant == Some(Plant::FeedHole) && page.rows.len() > 5 {
            page.rows.remove(3);
        }
        page
    }
}

/// A schedule without its progress of the last ten minutes.
fn ten_minutes_ago(value: &str) -> String {
    let Some((before, rest)) = value.split_once("\"seen_ms\":") else { return value.to_owned() };
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let seen: u64 = rest[..end].parse().unwrap_or(0);
    format!("{before}\"seen_ms\":{}{}", seen.saturating_sub(600_000), &rest[end..])
}

/// The result that a unit would have.
fn done(store: &Memory, unit: &Unit) -> Done {
    let wanted = unit.changes.iter().filter(|change| change.want_spec);
    let rows = wanted.filter_map(|change| store.jobs_now(&[change.id]).remove(0));
    Done { specs: rows.map(|job| job.spec).collect() }
}
