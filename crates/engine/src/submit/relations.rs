//! What the jobs of a submit have to do with others: those they come after, the group they go into, the job they are a
//! copy of. All of it is looked at before anything is sent, and guarded by checks when it is stored.

use std::collections::BTreeSet;

use jobhall_core::bounds::{AFTER, TAGS};
use jobhall_core::{
    Dependency, Disposition, Group, GroupId, Job, JobId, QueueName, StateName, Submitted, circle,
};
use jobhall_store::{Check, GroupWrite, StoreError, Unit};

use super::{ItemAction, Plan, ReplyTo, bound};
use crate::answer::{Answer, Rejected};
use crate::effect::Ticket;
use crate::groups::NewGroup;
use crate::ids::IdMap;
use crate::kernel::{AgendaItem, Kernel, PendingRead, StoreRequest};
use crate::request::{After, Request, Submit, SubmitJob};

impl ReplyTo {
    /// The group that is made.
    fn made(&self) -> Option<&Group> {
        match self {
            ReplyTo::Group(group, _) | ReplyTo::Retry(group, ..) => Some(group),
            ReplyTo::Ticket(_) | ReplyTo::Schedule(_) | ReplyTo::Fill(..) => None,
        }
    }

    /// Whether this is another group than the one that is made.
    fn is_other(&self, group: GroupId) -> bool {
        self.made().is_none_or(|made| made.id != group)
    }

    /// The write of the group that is made.
    pub fn group_write(&self) -> Option<GroupWrite> {
        self.made().map(|group| GroupWrite { expected: 0, group: group.clone() })
    }

    /// The answer as it is kept: a new group goes before its jobs.
    pub fn kept(&self, jobs: &[Submitted]) -> Vec<Submitted> {
        let id = self.made().and_then(|group| JobId::new(group.id.get()).ok());
        let group = id.map(|id| Submitted { id, disposition: Disposition::Created });
        group.into_iter().chain(jobs.iter().copied()).collect()
    }
}

/// Completed jobs that a submit names: their state and queue, or none if there is no such job.
pub(super) type Ends = IdMap<Option<(StateName, QueueName)>>;

impl Kernel {
    pub(crate) fn create_group(&mut self, group: NewGroup, mut submit: Submit, ticket: Ticket) {
        if let Err(refused) = self.check_group(&group, &submit) {
            return self.answer(ticket, Err(refused));
        }
        let n = submit.jobs.len() + 1;
        let Some(mut ids) = self.take_ids(n) else {
            self.for_ids.push(AgendaItem::Request(Request::CreateGroup { group, submit }, ticket).into());
            return self.ask_for_ids(n);
        };
        self.ask_for_ids(0);
        let id = GroupId::of(ids.remove(0));
        submit.jobs.iter_mut().for_each(|job| job.group = Some(id));
        let group = group.make(id, self.now.wall);
        self.send_plan(Plan::new(submit, ids, ReplyTo::Group(Box::new(group), ticket)));
    }

    fn check_group(&self, group: &NewGroup, submit: &Submit) -> Result<(), Rejected> {
        group.check()?;
        self.check_submit(submit, 0)?;
        if submit.jobs.iter().any(|job| job.group.is_some()) {
            let why = "jobs that are made with a group are in that group";
            return Err(Rejected::NotInGroup { field: "group", why });
        }
        let open = self.groups().open.len();
        if open >= self.config.open_groups { Err(Rejected::GroupsFull(open)) } else { Ok(()) }
    }

    /// Looks at what the jobs of a plan have to do with others. Gives back the plan, unless it is refused or has to
    /// wait for a read.
    pub(super) fn survey(&mut self, plan: Plan) -> Option<Plan> {
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
        let (number, ids): (_, Vec<_>) = (self.number(), unknown.into_iter().collect());
        self.pending_reads.insert(number, PendingRead::Plan(Box::new(plan), ids.clone()));
        self.want(StoreRequest::Jobs(number, ids));
        None
    }

    /// Jobs that a plan asked about are there.
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
                    .map(|job| job.map(|job| (job.life.state.name(), job.spec.queue.clone())));
                plan.ends.extend(ids.into_iter().map(JobId::get).zip(ends));
                self.send_plan(plan);
            }
        }
    }

    fn look(&self, plan: &Plan, at: usize, unknown: &mut BTreeSet<JobId>) -> Result<(), Rejected> {
        let wanted = &plan.submit.jobs[at];
        if let Some(group) = wanted.group.filter(|group| plan.reply_to.is_other(*group)) {
            self.check_joinable(group)?;
        }
        if let Some(of) = wanted.copy_of {
            self.check_copy(wanted, of)?;
        }
        for after in &wanted.after {
            let (id, own) = self.resolve(plan, *after);
            if own {
                continue;
            }
            if let Some(entry) = self.open.get(&id.get()) {
                let queue = self.board.class(entry.class).map(|class| &class.queue);
                reached(wanted, id, queue)?;
            } else if let Some(end) = plan.ends.get(&id.get()) {
                let (state, queue) = end.as_ref().ok_or(Rejected::NoSuchDependency(id))?;
                reached(wanted, id, Some(queue))?;
                allowed(wanted, id, *state)?;
            } else if let Some((job, _)) = self.cached.peek(&id) {
                reached(wanted, id, Some(&job.spec.queue))?;
                allowed(wanted, id, job.life.state.name())?;
            } else {
                unknown.insert(id);
            }
        }
        Ok(())
    }

    /// A copy is of an open job of the same group, if it has one, and not of another copy there.
    fn check_copy(&self, wanted: &SubmitJob, of: JobId) -> Result<(), Rejected> {
        let no = |why| Err(Rejected::NotInGroup { field: "copy_of", why });
        let Some(entry) = self.open.get(&of.get()) else { return no("there is no such open job") };
        match &entry.member {
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

    /// The job that is meant, and whether this plan makes it.
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

    /// The jobs that one of the plan comes after, and whether it has to wait for any. What is open must still be so
    /// when the unit is stored.
    pub(super) fn planned_after(&self, plan: &Plan, at: usize, unit: &mut Unit) -> (Vec<JobId>, bool) {
        let wanted = &plan.submit.jobs[at];
        let filled = matches!(plan.reply_to, ReplyTo::Fill(..));
        let (mut ids, mut waits) = (Vec::with_capacity(wanted.after.len()), false);
        for after in &wanted.after {
            let (id, own) = self.resolve(plan, *after);
            let open = !own && self.open.contains_key(&id.get());
            waits |= own || open || filled;
            if open && !filled {
                unit.checks.push(Check::Open(id));
            }
            ids.push(id);
        }
        ids.sort_unstable();
        ids.dedup();
        let others = wanted.group.filter(|group| plan.reply_to.is_other(*group));
        unit.checks.extend(others.map(Check::Joinable));
        unit.checks.extend(wanted.copy_of.map(Check::Open));
        (ids, waits)
    }

    /// The jobs of a stored plan are open: those that wait hear of what they wait for. What a filled group's jobs come
    /// after may have ended meanwhile, so that is read. `ended` are those that the plan itself moved, with their state.
    pub(super) fn follow(&mut self, filled: bool, jobs: &[Job], ended: &[(JobId, StateName)]) {
        if !filled {
            return jobs.iter().for_each(|job| self.depend_known(job.id, &job.spec, ended));
        }
        let unknown: BTreeSet<JobId> = jobs.iter().flat_map(|job| self.depend(job.id, &job.spec)).collect();
        if !unknown.is_empty() {
            self.hear_later(jobs, &unknown);
        }
    }

    /// A group that a plan makes is open from now on.
    pub(super) fn group_made(&mut self, reply_to: &ReplyTo) {
        let Some(group) = reply_to.made().cloned() else { return };
        let id = group.id;
        self.groups_mut().add(group);
        if let Ok(id) = JobId::new(id.get()) {
            self.blocks.ended(id);
        }
        if let ReplyTo::Retry(_, fill, _) = reply_to {
            self.begin_fill(id, (**fill).clone());
        }
    }
}

/// The kept answer to the making of a group, as it is told.
pub(super) fn group_created(mut kept: Vec<Submitted>) -> Answer {
    let jobs = if kept.is_empty() { Vec::new() } else { kept.split_off(1) };
    match kept.first() {
        Some(group) => Answer::GroupCreated { id: GroupId::of(group.id), jobs },
        None => Answer::Submitted(jobs),
    }
}

/// What stands in a queue that the one who asks does not reach is, for him, not there.
fn reached(wanted: &SubmitJob, id: JobId, queue: Option<&QueueName>) -> Result<(), Rejected> {
    let seen = queue.is_some_and(|queue| wanted.scope.reaches(queue.as_str()));
    if seen { Ok(()) } else { Err(Rejected::NoSuchDependency(id)) }
}

fn allowed(wanted: &SubmitJob, id: JobId, state: StateName) -> Result<(), Rejected> {
    match Dependency::of(state) {
        Some(how) if !how.allows(wanted.after_any) => Err(Rejected::DependencyEnded { id, how }),
        _ => Ok(()),
    }
}

/// Whether any of the jobs has to do with others.
pub(super) fn related(jobs: &[SubmitJob]) -> bool {
    jobs.iter().any(|job| !job.after.is_empty() || job.group.is_some() || job.copy_of.is_some())
}

/// Whether what the jobs say of each other and of groups can be.
pub(super) fn check_relations(jobs: &[SubmitJob]) -> Result<(), Rejected> {
    for job in jobs {
        bound("after", job.after.len(), 0, AFTER)?;
        bound("tags", job.tags.len(), 0, TAGS)?;
        if job.attached && job.group.is_none() {
            return Err(Rejected::NotInGroup { field: "attached", why: "the job is in no group" });
        }
    }
    check_positions(jobs)
}

/// Jobs come after earlier ones only, so there is no circle; one that is asked for is named.
fn check_positions(jobs: &[SubmitJob]) -> Result<(), Rejected> {
    let positions = |job: &SubmitJob| -> Vec<usize> {
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
