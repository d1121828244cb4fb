//! Conflicts of a submit, and the resulting changes of its plan.

use jobhall_core::{Blocked, Disposition, Job, JobId, OnDuplicate, State, Submitted};
use jobhall_store::{Conflict, Setting, SettingKind};

use super::{ItemAction, Plan, ReplyTo};
use crate::api::answer::Rejected;
use crate::commits::records::record_conflict;
use crate::kernel::{HallTask, Kernel, ROUNDS};

impl Kernel {
    pub(crate) fn submit_conflicted(&mut self, mut plan: Plan, conflicts: Vec<Conflict>) {
        plan.rounds += 1;
        let rounds = plan.rounds;
        let changed = record_conflict(&plan.submit.records, &conflicts).map(Err);
        let verdict = conflicts.into_iter().find_map(|conflict| self.replan(&mut plan, conflict));
        // A repeated request has its answer, whatever became of its records since.
        let verdict = verdict.or(changed);
        self.unplan(&mut plan);
        match verdict {
            Some(answer) => self.end_plan(plan, answer),
            None if rounds > ROUNDS => self.end_plan(plan, Err(Rejected::Contended)),
            None => self.enqueue(HallTask::Submit(Box::new(plan))),
        }
    }

    /// Changes the plan as the conflict requires; a returned answer means that the submit is finished.
    fn replan(&mut self, plan: &mut Plan, conflict: Conflict) -> Option<Result<Vec<Submitted>, Rejected>> {
        match conflict {
            Conflict::Repeated(answer) => return Some(Ok(answer)),
            Conflict::IdempotencyKeyReused => return Some(Err(Rejected::IdempotencyKeyReused)),
            Conflict::Reusable { id, job } => {
                if let Some(refused) = plan.foreign(id, &job) {
                    return Some(Err(refused));
                }
                let submitted = Submitted { id: job.id, disposition: Disposition::Reused };
                plan.joined.insert(job.id, Some(job.spec.params.clone()));
                plan.set(id, ItemAction::Answered(submitted));
            }
            Conflict::KeyHeld { id, job } => {
                let foreign = plan.foreign(id, &job).map(Err);
                return foreign.or_else(|| self.replan_held(plan, id, &job));
            }
            Conflict::NotOpen(holder) => match &plan.call {
                Some(call) if call.attempt.job == holder => {
                    return Some(Err(Rejected::LeaseLost(call.attempt)));
                }
                _ => plan.holder_ended(holder),
            },
            Conflict::Setting { stored, .. } => return self.replan_setting(plan, stored).map(Err),
            Conflict::Stale { id, job } => self.learn(id, job),
            Conflict::Successor { id, job } => self.learn_successor(id, job),
            Conflict::NotJoinable(group) => return Some(Err(Rejected::GroupClosed(group))),
            Conflict::Group { .. } | Conflict::Record { .. } => {}
        }
        None
    }

    /// The setting has another revision: a type was registered meanwhile, or another writer handled the schedule's
    /// ticks.
    fn replan_setting(&mut self, plan: &Plan, stored: Option<Setting>) -> Option<Rejected> {
        match (stored, &plan.reply_to) {
            (Some(setting), _) if setting.kind == SettingKind::Type => {
                let learned = self.learn_type(&setting, false);
                learned.err().map(|error| Rejected::Storage { full: false, message: error.to_string() })
            }
            (stored, ReplyTo::Schedule(tick)) => {
                Some(self.learn_stored(&tick.name, stored).err().unwrap_or(Rejected::Contended))
            }
            _ => None,
        }
    }

    fn replan_held(
        &mut self,
        plan: &mut Plan,
        id: JobId,
        held_by: &Job,
    ) -> Option<Result<Vec<Submitted>, Rejected>> {
        // A job that is not in memory as open ended after the conflict was found, or waits for another holder.
        let holder = match held_by.status.state {
            State::Blocked(Blocked { holder: Some(holder), .. }) => holder,
            _ => held_by.id,
        };
        let last = self.jobs.successor(holder).unwrap_or(held_by.id);
        let position = plan.items.iter().position(|item| item.id == id)?;
        let wanted = &plan.submit.jobs[position];
        match wanted.on_duplicate {
            OnDuplicate::Join => {
                if let Err(refused) = self.check_target(wanted, last) {
                    return Some(Err(refused));
                }
                let sub_job = plan.call.is_none() && held_by.id == last && held_by.spec.parent.is_some();
                plan.wanted.extend((sub_job && !plan.wanted.contains(&last)).then_some(last));
                self.note_joined(plan, held_by, last);
                plan.set(id, ItemAction::Answered(Submitted { id: last, disposition: Disposition::Joined }));
            }
            OnDuplicate::Reject => {
                let job_type = wanted.job_type.clone();
                return Some(Err(Rejected::KeyHeld { job_type, holder: last }));
            }
            OnDuplicate::Supersede => plan.set(id, ItemAction::Supersede(holder)),
            OnDuplicate::RunAgain => plan.set(id, ItemAction::Again(holder)),
        }
        None
    }
}
