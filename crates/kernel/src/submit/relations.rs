//! Relations of submitted jobs: their dependencies, their group, and the job that they are a copy of. All relations
//! are checked before anything is sent, and guarded by checks when the plan is stored.

use std::collections::BTreeSet;

use jobhall_core::bounds::{AFTER, TAGS};
use jobhall_core::{
    After, Dependency, Disposition, Group, GroupId, Job, JobId, NewJob, QueueName, StateName, Submitted,
    circle,
};
use jobhall_store::{Check, GroupWrite, StoreError, Unit};

use super::{ItemAction, Plan, ReplyTo, bound};
use crate::api::answer::{GroupCreated, Rejected};
use crate::api::request::{HallRequest, Submit};
use crate::api::ticket::Ticket;
use crate::commits::records::check_records;
use crate::groups::NewGroup;
use crate::jobs::ids::IdMap;
use crate::kernel::{HallTask, JobsRead, Kernel};

impl ReplyTo {
    /// The group that the plan creates.
    fn made(&self) -> Option<&Group> {
        match self {
            ReplyTo::Group(group, _) | ReplyTo::Retry(group, ..) => Some(group),
            ReplyTo::Ticket(_) | ReplyTo::Calls(..) | ReplyTo::Schedule(_) | ReplyTo::Fill(..) => None,
        }
    }

    /// Whether this is a group other than the one that the plan creates.
    fn is_other(&self, group: GroupId) -> bool {
        self.made().is_none_or(|made| made.id != group)
    }

    /// The write of the group that the plan creates.
    /// The group that is created.
    pub fn group_id(&self) -> Option<GroupId> {
        self.made().map(|group| group.id)
    }

    pub fn group_write(&self) -> Option<GroupWrite> {
        self.made().map(|group| GroupWrite { expected: 0, group: group.clone() })
    }

    /// The answer as stored under the idempotency key: a new group precedes its jobs.
    pub fn kept(&self, jobs: &[Submitted]) -> Vec<Submitted> {
        let id = self.made().and_then(|group| JobId::new(group.id.get()).ok());
        let group = id.map(|id| Submitted { id, disposition: Disposition::Created });
        group.into_iter().chain(jobs.iter().copied()).collect()
    }
}

/// Completed jobs that a submit refers to: state and queue, or none if the job does not exist.
pub(super) type Ends = IdMap<JobId, Option<(StateName, QueueName)>>;

impl Kernel {
    pub(crate) fn create_group(&mut self, group: NewGroup, mut submit: Submit, to: Ticket<GroupCreated>) {
        if let Err(refused) = self.check_group(&group, &submit) {
            return self.answer(to, Err(refused));
        }
        let n = submit.jobs.len() + 1;
        let Some(mut ids) = self.take_ids(n) else {
            self.ids.wait(HallTask::Request(HallRequest::CreateGroup { group, submit, to }).into());
            return self.ask_for_ids(n);
        };
        self.ask_for_ids(0);
        let id = GroupId::of(ids.remove(0));
        submit.jobs.iter_mut().for_each(|job| job.group = Some(id));
        let group = group.make(id, self.env.wall());
        self.send_plan(Plan::new(submit, ids, ReplyTo::Group(Box::new(group), to)));
    }

    fn check_group(&self, group: &NewGroup, submit: &Submit) -> Result<(), Rejected> {
        group.check()?;
        self.check_types(submit)?;
        self.check_submit(submit, 0)?;
        check_records(&submit.records, true)?;
        if submit.jobs.iter().any(|job| job.group.is_some()) {
            let why = "jobs that are made with a group are in that group";
            return Err(Rejected::NotInGroup { field: "group", why });
        }
        let open = self.groups.len();
        if open >= self.env.config().open_groups { Err(Rejected::GroupsFull(open)) } else { Ok(()) }
    }

    /// Checks the relations of a plan's jobs. Returns the plan, unless it is rejected or has to wait for a read.
    pub(super) fn survey(&mut self, plan: Plan) -> Option<Plan> {
        // A plan joins existing jobs only after its first round, and is large to move.
        let plan = if plan.rounds == 0 { plan } else { self.read_joined(plan)? };
        if !plan.related || matches!(plan.reply_to, ReplyTo::Fill(..)) {
            return Some(plan);
        }
        let mut unknown = BTreeSet::new();
        let inserted = (0..plan.items.len())
            .filter(|&at| !matches!(plan.items[at].how, ItemAction::Answered(_) | ItemAction::SameAs(_)));
        let looked = inserted.into_iter().try_for_each(|at| self.look(&plan, at, &mut unknown));
        if let Err(refused) = looked {
            self.end_plan(plan, Err(refused));
            return None;
        }
        if unknown.is_empty() {
            return Some(plan);
        }
        let (number, ids): (_, Vec<_>) = (self.env.number(), unknown.into_iter().collect());
        // They stay until the plan has ended, also while it waits for a busy job.
        self.relations.inputs.add(plan.items[0].id, &ids);
        self.commits.read_jobs(number, ids.clone(), JobsRead::Plan(Box::new(plan), ids));
        None
    }

    /// Continues a plan with the jobs that were read for it.
    pub(crate) fn surveyed(
        &mut self,
        mut plan: Plan,
        ids: Vec<JobId>,
        found: Result<Vec<Option<Job>>, StoreError>,
    ) {
        match found {
            Err(error) => {
                let refused = Rejected::Storage { full: false, message: error.to_string() };
                self.end_plan(plan, Err(refused));
            }
            Ok(found) => {
                let ends = found
                    .into_iter()
                    .map(|job| job.map(|job| (job.status.state.name(), job.spec.queue.clone())));
                plan.ends.extend(ids.into_iter().zip(ends));
                self.send_plan(plan);
            }
        }
    }

    fn look(&self, plan: &Plan, at: usize, unknown: &mut BTreeSet<JobId>) -> Result<(), Rejected> {
        let wanted = &plan.submit.jobs[at];
        if let Some(group) = wanted.group.filter(|group| plan.reply_to.is_other(*group)) {
            self.check_joinable(group, is_helper(wanted))?;
        }
        if let Some(of) = wanted.copy_of {
            self.check_copy(wanted, of)?;
        }
        for after in &wanted.after {
            let (id, own) = self.resolve(plan, *after);
            if own {
                continue;
            }
            if self.relations.inputs.is_leaving(id) {
                return Err(Rejected::NoSuchDependency(id));
            }
            if let Some(entry) = self.jobs.get(id) {
                let queue = self.board.class(entry.class).map(|class| &class.queue);
                reached(wanted, id, queue)?;
            } else if wanted.retry_of.is_some() {
                if !plan.ends.contains_key(&id) && self.jobs.peek_completed(id).is_none() {
                    unknown.insert(id);
                }
            } else if let Some(end) = plan.ends.get(&id) {
                let (state, queue) = end.as_ref().ok_or(Rejected::NoSuchDependency(id))?;
                reached(wanted, id, Some(queue))?;
                allowed(wanted, id, *state)?;
            } else if let Some((job, _)) = self.jobs.peek_completed(id) {
                reached(wanted, id, Some(&job.spec.queue))?;
                allowed(wanted, id, job.status.state.name())?;
            } else {
                unknown.insert(id);
            }
        }
        Ok(())
    }

    /// A copy refers to an open job of the same group, if it has a group, and not to another copy there.
    fn check_copy(&self, wanted: &NewJob, of: JobId) -> Result<(), Rejected> {
        let no = |why| Err(Rejected::NotInGroup { field: "copy_of", why });
        let reached = |id| self.check_target(wanted, id).is_ok();
        let Some(entry) = self.jobs.get(of).filter(|_| reached(of)) else {
            return no("there is no such open job");
        };
        match entry.member() {
            Some(part) if Some(part.group) != wanted.group => no("the job is in another group"),
            Some(part) if part.root != of => no("the job is a copy itself"),
            Some(part) if part.attached || wanted.attached => {
                no("attached jobs are no members and have no copies")
            }
            Some(_) => Ok(()),
            None if wanted.group.is_none() => Ok(()),
            None => no("the job is in no group"),
        }
    }

    /// Returns the job that is referred to, and whether this plan creates it.
    fn resolve(&self, plan: &Plan, after: After) -> (JobId, bool) {
        let mut at = match after {
            After::Job(id) => return (id, false),
            After::Position(at) => at,
        };
        while let ItemAction::SameAs(first) = plan.items[at].how {
            at = first;
        }
        let item = &plan.items[at];
        match item.how {
            ItemAction::Answered(submitted) => (submitted.id, false),
            ItemAction::Again(holder) => match self.again_target(plan, at, holder) {
                Some((target, _)) => (target, false),
                None => (item.id, true),
            },
            ItemAction::Insert | ItemAction::Supersede(_) | ItemAction::SameAs(_) => (item.id, true),
        }
    }

    /// Whether a completed dependency stays one of a job that is retried: it is there and ended as it had to. The others
    /// are left out, because an operator who retries a job wants it to run.
    fn stays(&self, plan: &Plan, wanted: &NewJob, id: JobId) -> bool {
        let state = match plan.ends.get(&id) {
            Some(end) => end.as_ref().map(|(state, _)| *state),
            None => self.jobs.peek_completed(id).map(|(job, _)| job.status.state.name()),
        };
        state.and_then(Dependency::of).is_some_and(|how| how.allows(wanted.after_any))
    }

    /// Returns the dependencies of a job of the plan in their order, and whether it has to wait for any of them. A check
    /// guards that open ones are still open when the unit is stored.
    pub(super) fn planned_after(&self, plan: &Plan, at: usize, unit: &mut Unit) -> (Vec<JobId>, bool) {
        let wanted = &plan.submit.jobs[at];
        let filled = matches!(plan.reply_to, ReplyTo::Fill(..));
        let is_retry = wanted.retry_of.is_some() && !filled;
        let (mut ids, mut waits) = (Vec::with_capacity(wanted.after.len()), false);
        let mut seen = BTreeSet::new();
        for after in &wanted.after {
            let (id, own) = self.resolve(plan, *after);
            let open = !own && self.jobs.contains(id);
            if !seen.insert(id) || (is_retry && !open && !self.stays(plan, wanted, id)) {
                continue;
            }
            waits |= own || open || filled;
            if open && !filled {
                unit.checks.push(Check::Open(id));
            }
            ids.push(id);
        }
        let others = wanted.group.filter(|group| plan.reply_to.is_other(*group));
        let joins = if is_helper(wanted) { Check::GroupOpen } else { Check::Joinable };
        unit.checks.extend(others.map(joins));
        unit.checks.extend(wanted.copy_of.map(Check::Open));
        (ids, waits)
    }

    /// Registers the dependencies of the jobs of a stored plan. Dependencies of a filled group's jobs may have ended
    /// meanwhile, so they are read. `ended` lists the jobs that the plan itself changed, with their state.
    pub(super) fn follow(&mut self, filled: bool, jobs: &[Job], ended: &[(JobId, StateName)]) {
        if !filled {
            return jobs.iter().for_each(|job| self.depend_known(job.id, &job.spec, ended));
        }
        let unknown: BTreeSet<JobId> = jobs.iter().flat_map(|job| self.depend(job.id, &job.spec)).collect();
        if !unknown.is_empty() {
            self.hear_later(jobs, &unknown);
        }
    }

    /// Registers the group that a plan has created.
    pub(super) fn group_made(&mut self, reply_to: &ReplyTo) {
        let Some(group) = reply_to.made().cloned() else { return };
        let id = group.id;
        self.groups.add(group);
        if let Ok(id) = JobId::new(id.get()) {
            self.ids.ended(id);
        }
        if let ReplyTo::Retry(_, fill, _) = reply_to {
            self.begin_fill(id, (**fill).clone());
        }
    }
}

/// Converts the stored answer of a group creation to the answer for the caller: the first entry is the group, which
/// an earlier request may have created.
pub(super) fn group_created(new: GroupId, kept: Vec<Submitted>) -> GroupCreated {
    let mut kept = kept.into_iter();
    let id = kept.next().map_or(new, |group| GroupId::of(group.id));
    GroupCreated { id, jobs: kept.collect(), repeated: id != new }
}

/// A job in a queue outside the caller's scope is treated as not existing.
fn reached(wanted: &NewJob, id: JobId, queue: Option<&QueueName>) -> Result<(), Rejected> {
    let seen = queue.is_some_and(|queue| wanted.scope.reaches(queue.as_str()));
    if seen { Ok(()) } else { Err(Rejected::NoSuchDependency(id)) }
}

fn allowed(wanted: &NewJob, id: JobId, state: StateName) -> Result<(), Rejected> {
    match Dependency::of(state) {
        Some(how) if !how.allows(wanted.after_any) => Err(Rejected::DependencyEnded { id, how }),
        _ => Ok(()),
    }
}

/// Whether a job is no member of its own: it is attached to its group, or a copy of a member. It may be added to a
/// group that is closed to members.
fn is_helper(wanted: &NewJob) -> bool {
    wanted.attached || wanted.copy_of.is_some()
}

/// Whether any of the jobs refers to other jobs or groups.
pub(super) fn related(jobs: &[NewJob]) -> bool {
    jobs.iter().any(|job| !job.after.is_empty() || job.group.is_some() || job.copy_of.is_some())
}

/// Checks that the relations between the jobs, and to groups, are valid.
pub(super) fn check_relations(jobs: &[NewJob]) -> Result<(), Rejected> {
    for job in jobs {
        bound("after", job.after.len(), 0, AFTER)?;
        bound("tags", job.tags.len(), 0, TAGS)?;
        if job.attached && job.group.is_none() {
            return Err(Rejected::NotInGroup { field: "attached", why: "the job is in no group" });
        }
    }
    check_positions(jobs)
}

/// A job may depend on earlier jobs only, which excludes cycles; a cycle in the request is reported by its positions.
fn check_positions(jobs: &[NewJob]) -> Result<(), Rejected> {
    let positions = |job: &NewJob| -> Vec<usize> {
        let named = job.after.iter().filter_map(|after| match after {
            After::Position(at) => Some(*at),
            After::Job(_) => None,
        });
        named.collect()
    };
    let not_earlier =
        |(at, job)| positions(job).into_iter().find(|&before| before >= at).map(|before| (at, before));
    let Some((job, before)) = jobs.iter().enumerate().find_map(not_earlier) else { return Ok(()) };
    let after: Vec<_> = jobs.iter().map(positions).collect();
    match circle(&after) {
        Some(circle) => Err(Rejected::Circle(circle)),
        None => Err(Rejected::NotEarlier { job, before }),
    }
}
