//! Submitting jobs: the insert is sent without a look-up, and conflicts reported by the store are resolved afterwards.
//!
//! The usual job costs one insert and no look-up; if a matching vacancy is parked, the job is inserted as assigned. A
//! key that is held, a success that can be reused, or a repeated request is reported as a conflict; the plan is
//! changed accordingly and sent again.

mod job;
mod joined;
mod relations;
mod replan;
mod targets;

use std::collections::BTreeMap;
use std::sync::Arc;

use jobhall_core::bounds;
use jobhall_core::{
    Decision, Disposition, Event, Failure, Group, GroupId, Job, JobId, JobSpec, JobStatus, Json, NewJob,
    QueueName, State, Step, Submitted, transition,
};
use jobhall_store::{Change, Check, Insert, StoredIdempotencyKey, Unit};

use crate::api::answer::{GroupCreated, Rejected};
use crate::api::request::{HallRequest, Submit};
use crate::api::ticket::Ticket;
use crate::commits::records::{check_records, record_writes};
use crate::commits::settle::Pending;
use crate::commits::step::change;
use crate::groups::Fill;
use crate::jobs::entry::{Busy, Shared};
use crate::jobs::ids::IdMap;
use crate::kernel::{HallTask, Kernel};
use crate::matching::vacancy::Reserved;
use crate::relations::links::external;
use crate::relations::sub_job::{Calls, in_places};
use crate::settings::schedules::Tick;

pub(crate) use job::{bound, check_job};
use job::{checked_once, items, keys_once, reuse_range};
use relations::{Ends, check_relations, group_created, related};

/// A submit in progress, with the planned action for each job.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    submit: Submit,
    pub reply_to: ReplyTo,
    /// Whether any of its jobs refers to other jobs or groups.
    related: bool,
    /// Completed jobs that it refers to.
    ends: Ends,
    items: Vec<Item>,
    rounds: u8,
    /// Steps of other jobs that are part of it.
    moves: Vec<(JobId, Step)>,
    /// The answer once it is stored.
    answer: Vec<Submitted>,
    /// The version of the limits under which the shares of its jobs were determined.
    limits: u64,
    /// The request of an attempt for sub-jobs that it answers.
    call: Option<Calls>,
    /// The params of existing jobs that are answers; none if the job was removed meanwhile.
    joined: IdMap<JobId, Option<Json>>,
    /// Sub-jobs of other parents that it joins; they are also wanted from outside from now on.
    wanted: Vec<JobId>,
}

/// The recipient of a plan's result.
#[derive(Clone, Debug)]
pub(crate) enum ReplyTo {
    /// A caller outside the kernel.
    Ticket(Ticket<Vec<Submitted>>),
    /// An attempt that requested sub-jobs: those that exist already, in the places of the answer.
    Calls(Vec<Option<Submitted>>, Ticket<Vec<Submitted>>),
    /// A schedule whose setting is written with the plan.
    Schedule(Box<Tick>),
    /// A caller outside the kernel that creates this group.
    Group(Box<Group>, Ticket<GroupCreated>),
    /// A caller outside the kernel that creates this group from the failed members of another.
    Retry(Box<Group>, Box<Fill>, Ticket<GroupCreated>),
    /// A group that is filled from these failed members of another.
    Fill(GroupId, Vec<JobId>),
}

#[derive(Clone, Debug)]
struct Item {
    /// Its id if it is inserted.
    id: JobId,
    how: ItemAction,
    /// The job as it was sent, if it was.
    job: Option<Job>,
    reserved: Option<Reserved>,
}

#[derive(Clone, Copy, Debug)]
enum ItemAction {
    /// Insert it.
    Insert,
    /// Insert it behind the holder of its key, which is cancelled.
    Supersede(JobId),
    /// Mark the holder of its key to run again.
    Again(JobId),
    /// Another job is the answer.
    Answered(Submitted),
    /// It joins the earlier job of the same submit at this position.
    SameAs(usize),
}

impl Kernel {
    pub(crate) fn submit(&mut self, submit: Submit, to: Ticket<Vec<Submitted>>) {
        let least = usize::from(submit.records.is_empty());
        let checked = self.check_types(&submit).and_then(|()| self.check_submit(&submit, least));
        if let Err(refused) = checked.and_then(|()| check_records(&submit.records, false)) {
            return self.answer(to, Err(refused));
        }
        let n = submit.jobs.len();
        let Some(ids) = self.take_ids(n) else {
            self.ids.wait(HallTask::Request(HallRequest::Submit { submit, to }).into());
            return self.ask_for_ids(n);
        };
        self.ask_for_ids(0);
        self.submit_with(submit, ids, None, ReplyTo::Ticket(to));
    }

    /// Submits jobs with these ids, on behalf of an attempt's sub-job call if there is one.
    pub(crate) fn submit_with(
        &mut self,
        submit: Submit,
        ids: Vec<JobId>,
        call: Option<Calls>,
        reply_to: ReplyTo,
    ) {
        let plan = Plan::new(submit, ids, reply_to);
        self.send_plan(Plan { call, ..plan });
    }

    /// Submits the jobs of ticks together with the schedule's setting.
    pub(crate) fn submit_ticks(&mut self, jobs: Vec<NewJob>, tick: Tick) {
        let submit = Submit { jobs, ..Submit::default() };
        self.hold_schedule(&tick.name);
        if let Err(refused) = self.check_submit(&submit, 1) {
            return self.ticked(tick, Err(refused));
        }
        let n = submit.jobs.len();
        let Some(ids) = self.take_ids(n) else {
            self.free_schedule(&tick.name);
            self.ids.wait(HallTask::Tick(tick.name).into());
            return self.ask_for_ids(n);
        };
        self.ask_for_ids(0);
        self.send_plan(Plan::new(submit, ids, ReplyTo::Schedule(Box::new(tick))));
    }

    /// Checks that whoever submits these jobs may create jobs of their types.
    pub(crate) fn check_types(&self, submit: &Submit) -> Result<(), Rejected> {
        submit.jobs.iter().try_for_each(|job| self.settings.check_type(submit.by, &job.job_type))
    }

    pub(crate) fn check_submit(&self, submit: &Submit, least: usize) -> Result<(), Rejected> {
        bound("jobs", submit.jobs.len(), least, bounds::SUBMIT_JOBS)?;
        if let Some(name) = &submit.name {
            bound("idempotency key length", name.key.len(), 1, bounds::SUBMIT_KEY_BYTES)?;
            bound("idempotency scope length", name.scope.len(), 0, bounds::SUBMIT_KEY_BYTES)?;
        }
        let (open, limit) = (self.jobs.len(), self.env.config().open_jobs);
        if open + submit.jobs.len() > limit {
            return Err(Rejected::Full { open, limit });
        }
        self.check_queues(&submit.jobs)?;
        submit.jobs.iter().try_for_each(|job| self.settings.check_job(job))?;
        check_relations(&submit.jobs)?;
        if submit.jobs.len() > 1 { keys_once(&submit.jobs) } else { Ok(()) }
    }

    /// Checks that no queue gets more open jobs than one queue may have.
    fn check_queues(&self, jobs: &[NewJob]) -> Result<(), Rejected> {
        let limit = self.env.config().open_jobs_per_queue;
        if self.jobs.len() + jobs.len() <= limit {
            return Ok(());
        }
        let mut added: BTreeMap<&QueueName, u64> = BTreeMap::new();
        for job in jobs {
            *added.entry(&job.queue).or_default() += 1;
        }
        for (queue, added) in added {
            let open = self.board.queues().tally(queue).map_or(0, |(_, tally)| tally.open());
            if open + added > limit as u64 {
                return Err(Rejected::QueueFull { queue: queue.clone(), open, limit });
            }
        }
        Ok(())
    }

    /// Builds the unit of a plan and sends it, or queues the plan on a busy job that it must change.
    pub(crate) fn send_plan(&mut self, plan: Plan) {
        let Some(mut plan) = self.survey(plan) else { return };
        if let Some(busy) = self.busy_target(&plan) {
            let task = HallTask::Submit(Box::new(plan)).into();
            return self.jobs.line_up(busy, task);
        }
        if let Err(refused) = self.check_targets(&plan) {
            return self.end_plan(plan, Err(refused));
        }
        let mut unit = Unit::default();
        plan.answer.clear();
        plan.limits = self.admission.version();
        for at in 0..plan.items.len() {
            let submitted = self.plan_item(&mut plan, at, &mut unit);
            plan.answer.push(submitted);
        }
        if plan.related {
            checked_once(&mut unit.checks);
        }
        unit.groups.extend(plan.reply_to.group_write());
        unit.records = record_writes(&plan.submit.records, plan.reply_to.group_id(), self.env.wall());
        if let ReplyTo::Schedule(tick) = &plan.reply_to {
            unit.settings.push(tick.write(&plan.answer));
        }
        unit.idempotency_key = self.idempotency_key(&plan);
        self.link(&plan, &mut unit);
        for (id, step) in &plan.moves {
            self.make_busy(*id, Busy::Unit);
            let expected = self.jobs.get(*id).map_or(0, |entry| entry.stored_rev);
            unit.changes
                .push(Change { past: step.past.clone(), ..change(*id, expected, step.status.clone()) });
        }
        let of_schedule = matches!(plan.reply_to, ReplyTo::Schedule(_));
        let written = !unit.inserts.is_empty()
            || !unit.changes.is_empty()
            || !unit.groups.is_empty()
            || !unit.records.is_empty()
            || !unit.links.is_empty();
        if !written && unit.idempotency_key.is_none() && !of_schedule {
            let answer = std::mem::take(&mut plan.answer);
            return self.end_plan(plan, Ok(answer));
        }
        self.send(unit, Pending::Submit(Box::new(plan)));
    }

    /// Adds the links of a plan; each is guarded by its parent being open.
    fn link(&mut self, plan: &Plan, unit: &mut Unit) {
        let called = plan.call.iter().flat_map(|call| call.links(plan.answer.iter().map(|made| made.id)));
        for link in called.chain(plan.wanted.iter().map(|&job| external(job))) {
            self.relations.expect_links(link.parent);
            unit.checks.push(Check::Open(link.parent));
            unit.links.push(link);
        }
    }

    /// Returns a busy job that the plan must change.
    fn busy_target(&self, plan: &Plan) -> Option<JobId> {
        let targets = plan.items.iter().filter_map(|item| match item.how {
            ItemAction::Supersede(holder) | ItemAction::Again(holder) => Some(holder),
            _ => None,
        });
        let waiting = |holder: JobId| self.jobs.successor(holder);
        let mut all = targets.flat_map(|holder| [Some(holder), waiting(holder)]).flatten();
        all.find(|id| self.jobs.get(*id).is_some_and(|entry| entry.busy != Busy::Free))
    }

    fn plan_item(&mut self, plan: &mut Plan, at: usize, unit: &mut Unit) -> Submitted {
        match plan.items[at].how {
            ItemAction::Answered(submitted) => plan.joining(at, submitted, None),
            ItemAction::SameAs(first) => {
                let joined = Submitted { id: plan.answer[first].id, disposition: Disposition::Joined };
                plan.joining(at, joined, Some(first))
            }
            ItemAction::Again(holder) => match self.plan_again(plan, at, holder) {
                Some(id) => Submitted { id, disposition: Disposition::Again },
                None => self.plan_supersede(plan, at, holder, unit),
            },
            ItemAction::Supersede(holder) => self.plan_supersede(plan, at, holder, unit),
            ItemAction::Insert => self.plan_insert(plan, at, None, unit, Disposition::Created),
        }
    }

    /// Marks the last job waiting for the key; none if that job is being cancelled or has ended.
    fn plan_again(&mut self, plan: &mut Plan, at: usize, holder: JobId) -> Option<JobId> {
        let (target, step) = self.again_target(plan, at, holder)?;
        plan.moves.push((target, step));
        Some(target)
    }

    fn again_target(&self, plan: &Plan, at: usize, holder: JobId) -> Option<(JobId, Step)> {
        let target = self.jobs.successor(holder).unwrap_or(holder);
        let status = self.jobs.get(target)?.status.get();
        let event = Event::Again(&plan.submit.jobs[at].params);
        let Ok(Decision::Step(step)) = transition(&status, &event, self.env.wall()) else { return None };
        Some((target, *step))
    }

    /// Cancels the holder of the key and the job waiting for it, and queues the new job behind the holder.
    fn plan_supersede(&mut self, plan: &mut Plan, at: usize, holder: JobId, unit: &mut Unit) -> Submitted {
        let id = plan.items[at].id;
        let failure = Failure::new("superseded", format!("superseded by job {id}"));
        let waiting = self.jobs.successor(holder);
        for target in [waiting, Some(holder)].into_iter().flatten() {
            let Some(entry) = self.jobs.get(target) else { continue };
            if let Ok(Decision::Step(step)) =
                transition(&entry.status.get(), &Event::Cancel(&failure), self.env.wall())
            {
                plan.moves.push((target, *step));
            }
        }
        let ends = plan.moves.iter().any(|(id, step)| *id == holder && step.status.state.is_terminal());
        if ends || !self.jobs.contains(holder) {
            let disposition = if ends { Disposition::Superseding } else { Disposition::Created };
            return self.plan_insert(plan, at, None, unit, disposition);
        }
        unit.checks.push(Check::Open(holder));
        self.plan_insert(plan, at, Some(holder), unit, Disposition::Superseding)
    }

    fn plan_insert(
        &mut self,
        plan: &mut Plan,
        at: usize,
        behind: Option<JobId>,
        unit: &mut Unit,
        disposition: Disposition,
    ) -> Submitted {
        let wanted = &plan.submit.jobs[at];
        let config = self.type_config(&wanted.job_type);
        let now = self.env.wall();
        let parent = plan.call.as_ref().map(|call| call.attempt.job);
        let (after, waits) =
            if plan.related { self.planned_after(plan, at, unit) } else { (Vec::new(), false) };
        let spec = Arc::new(JobSpec { parent, ..wanted.spec(after, config.retry, now) });
        let run_at = wanted.windows.start_of(wanted.run_at.unwrap_or(now), now);
        let mut status = match behind {
            Some(holder) => JobStatus::behind(now, run_at, holder),
            None => JobStatus::queued(now, run_at),
        };
        if waits {
            status = status.after_others();
        }
        let mut job = Job { id: plan.items[at].id, spec, status };
        self.relations.inputs.add(job.id, &job.spec.after);
        let share = self.share_of(&job);
        let ready = behind.is_none() && !waits && run_at <= now;
        let reserved = if ready { self.hand_over(&mut job, share.get()) } else { None };
        unit.inserts.push(Insert { job: job.clone(), reuse: reuse_range(wanted, &config, now) });
        self.track_pending(&job, share, reserved.is_some());
        let item = &mut plan.items[at];
        (item.job, item.reserved) = (Some(job), reserved);
        Submitted { id: item.id, disposition }
    }

    fn idempotency_key(&self, plan: &Plan) -> Option<StoredIdempotencyKey> {
        let name = plan.submit.name.as_ref()?;
        Some(StoredIdempotencyKey {
            scope: name.scope.clone(),
            key: name.key.clone(),
            body: name.body,
            answer: plan.reply_to.kept(&plan.answer),
            at: self.env.wall(),
            forget_before: self.env.wall().minus_ms(self.env.config().idempotency_key_ms),
        })
    }

    /// The plan is stored.
    pub(crate) fn submitted(&mut self, plan: Plan) {
        let Plan { submit, reply_to, items, moves, answer, limits, call, wanted, .. } = plan;
        let called: Vec<_> = call.iter().flat_map(|_| answer.iter().map(|made| made.id)).collect();
        let (answer, filled) = (reply_to.kept(&answer), matches!(reply_to, ReplyTo::Fill(..)));
        self.group_made(&reply_to);
        for job in &submit.jobs {
            self.settings.used(&job.job_type);
        }
        let mut waiting = Vec::new();
        // The caller of a group retry is answered when the whole group has been created.
        if !matches!(reply_to, ReplyTo::Retry(..)) {
            self.reply(reply_to, Ok(answer));
        }
        // A copy is counted with its original, also if it takes the original's place.
        items.iter().filter_map(|item| item.job.as_ref()).for_each(|job| self.expect_copy(job));
        let ended: Vec<_> = moves.iter().map(|(id, step)| (*id, step.status.state.name())).collect();
        for (id, step) in moves {
            self.moved(id, step);
        }
        for item in items {
            self.relations.inputs.release(item.id);
            let Some(job) = item.job else {
                self.ids.ended(item.id);
                continue;
            };
            let (id, status) = (job.id, job.status.clone());
            let since = status.run_at.max(job.spec.created_at);
            self.jobs.totals_mut().submitted(self.env.now());
            self.env.observer().submitted(&job);
            if matches!(status.state, State::Blocked(blocked) if blocked.dependencies) {
                waiting.push(job.clone());
            }
            match self.take_pending(id) {
                Some((share, taken)) => self.admit_sharing(job, share, taken),
                None if limits == self.admission.version() => {
                    self.admit_sharing(job, Shared::Free, false);
                }
                None => self.admit(job),
            }
            if let Some(reserved) = item.reserved {
                self.jobs.totals_mut().assigned(since, &status);
                self.assigned(id, &status, reserved);
            }
        }
        self.follow(filled, &waiting, &ended);
        for job in wanted {
            self.relations.add_link(external(job));
        }
        if let Some(call) = call {
            self.call_settled(&call, &called);
        }
    }

    /// Applies the step of a job that a unit of other jobs has changed too.
    pub(crate) fn moved(&mut self, id: JobId, step: Step) {
        self.jobs.totals_mut().stepped(&step);
        self.env.observer().stepped(id, &step);
        let Step { status, reason, .. } = step;
        let (claim, terminal) = (status.claim, status.state.is_terminal());
        self.stored(id, status);
        self.tell_holder(id, claim, reason);
        if terminal { self.finish(id) } else { self.make_free(id) }
    }

    /// Reverts a plan that was not stored: slots and jobs are released.
    fn unplan(&mut self, plan: &mut Plan) {
        for item in &mut plan.items {
            item.job = None;
            self.drop_pending(item.id, plan.limits);
            if let Some(reserved) = item.reserved.take() {
                self.give_back(reserved);
            }
        }
        for (id, _) in std::mem::take(&mut plan.moves) {
            self.make_free(id);
        }
    }

    pub(crate) fn submit_undone(&mut self, mut plan: Plan, refused: Rejected) {
        self.unplan(&mut plan);
        self.end_plan(plan, Err(refused));
    }

    /// Answers the submit without any new job.
    pub(crate) fn end_plan(&mut self, plan: Plan, answer: Result<Vec<Submitted>, Rejected>) {
        let group = plan.reply_to.group_write().and_then(|write| JobId::new(write.group.id.get()).ok());
        for id in plan.items.iter().map(|item| item.id).chain(group) {
            self.relations.inputs.release(id);
            self.ids.ended(id);
        }
        self.reply(plan.reply_to, answer);
        if let Some(call) = plan.call {
            self.call_settled(&call, &[]);
        }
    }

    pub(crate) fn reply(&mut self, reply_to: ReplyTo, answer: Result<Vec<Submitted>, Rejected>) {
        match reply_to {
            ReplyTo::Ticket(ticket) => self.answer(ticket, answer),
            ReplyTo::Calls(known, ticket) => {
                self.answer(ticket, answer.map(|made| in_places(known, made)));
            }
            ReplyTo::Schedule(tick) => self.ticked(*tick, answer),
            ReplyTo::Group(group, ticket) | ReplyTo::Retry(group, _, ticket) => {
                self.answer(ticket, answer.map(|kept| group_created(group.id, kept)));
            }
            ReplyTo::Fill(group, old) => {
                self.filled(group, old, answer.map(|jobs| jobs.iter().map(|job| job.id).collect()));
            }
        }
    }
}

impl Plan {
    /// Creates a plan that inserts all its jobs with these ids.
    pub fn new(submit: Submit, ids: Vec<JobId>, reply_to: ReplyTo) -> Plan {
        let items = items(&submit.jobs, ids);
        let (related, ends) = (related(&submit.jobs), Ends::default());
        let (rounds, moves, answer, limits) = (0, Vec::new(), Vec::new(), 0);
        let (call, joined, wanted) = (None, IdMap::default(), Vec::new());
        Plan { submit, reply_to, related, ends, items, rounds, moves, answer, limits, call, joined, wanted }
    }

    fn set(&mut self, id: JobId, how: ItemAction) {
        if let Some(item) = self.items.iter_mut().find(|item| item.id == id) {
            item.how = how;
        }
    }

    fn holder_ended(&mut self, holder: JobId) {
        for item in &mut self.items {
            let joined = matches!(item.how, ItemAction::Answered(made) if made.id == holder);
            if joined || matches!(item.how, ItemAction::Supersede(id) | ItemAction::Again(id) if id == holder)
            {
                item.how = ItemAction::Insert;
            }
        }
        self.wanted.retain(|wanted| *wanted != holder);
    }
}
