//! Clients: they submit, cancel, retry, read and configure, and repeat requests that were not answered.

use jobhall_core::{Failure, GroupId, JobId};
use jobhall_kernel::{Answer, GroupCreated, IdempotencyKey, Rejected, Request, Submit};

use crate::script::Action;
use crate::script::calendar::{SCHEDULES, Wish, schedule_name};
use crate::simulation::Sim;
use crate::simulation::event::{Event, Origin};

/// Time limit of a client for an answer.
const PATIENCE_MS: u64 = 8_000;
/// Maximum number of tries.
const TRIES: u32 = 6;

/// One request of a client.
#[derive(Debug)]
struct Call {
    request: Request,
    tries: u32,
    done: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Clients {
    calls: Vec<Call>,
    /// Acknowledged jobs, oldest first.
    known: Vec<JobId>,
    /// Acknowledged groups, oldest first.
    groups: Vec<GroupId>,
}

impl Clients {
    /// Whether any client still waits.
    pub fn wait(&self) -> bool {
        self.calls.iter().any(|call| !call.done)
    }

    pub fn nth_last(&self, n: u64) -> Option<JobId> {
        nth_last(&self.known, n)
    }

    pub fn nth_last_group(&self, n: u64) -> Option<GroupId> {
        nth_last(&self.groups, n)
    }
}

fn nth_last<T: Copy>(known: &[T], n: u64) -> Option<T> {
    let back = usize::try_from(n).unwrap_or(0) % known.len().max(1) + 1;
    known.len().checked_sub(back).map(|at| known[at])
}

impl Sim {
    /// Executes an action of the script.
    pub fn act(&mut self, at: usize) {
        let action = self.script.actions[at].1.clone();
        self.note_action(&action);
        match &action {
            Action::Submit { jobs, name, body } => {
                let name = name.map(|name| IdempotencyKey {
                    scope: "token".to_owned(),
                    key: format!("name{name}"),
                    body: u128::from(*body),
                });
                let jobs = self.asked_for(jobs);
                self.call(Request::Submit { submit: Submit { jobs, name, ..Submit::default() } });
            }
            Action::Cancel(n) => {
                self.call_on(*n, |id| Request::Cancel { id, failure: Failure::new("cancelled", "by hand") });
            }
            Action::Retry(n) => self.call_on(*n, |id| Request::Retry { id, name: None }),
            Action::Show(n) => self.call_on(*n, |id| Request::Show { id }),
            Action::Explain(n) => self.call_on(*n, |id| Request::Explain { id }),
            Action::SetType(at, config) => {
                let job_type = crate::script::words::type_name(*at);
                self.call(Request::SetType { job_type, config: Some(config.clone()), expected: None });
            }
            Action::SetSchedule(at, wish) => self.set_schedule(*at, *wish),
            Action::RunSchedule(at) => {
                self.call(Request::RunSchedule { name: schedule_name(*at), key: None });
            }
            Action::Alter(alteration) => self.alter(alteration),
            Action::Group(what) => self.group_action(what),
            trouble => self.trouble(trouble),
        }
    }

    fn set_schedule(&mut self, at: usize, wish: Option<Wish>) {
        let config = wish.map(|wish| wish.config(at));
        self.call(Request::SetSchedule { name: schedule_name(at), config, expected: None, by: None });
    }

    /// Removes the schedules, so that the run can end.
    pub fn end_schedules(&mut self) {
        (0..SCHEDULES).for_each(|at| self.set_schedule(at, None));
    }

    fn trouble(&mut self, action: &Action) {
        match *action {
            Action::Crash(down_ms) => self.crash(down_ms),
            Action::FailCommit { full, times } => {
                self.faults.fail_commits.extend((0..times).map(|_| full));
            }
            Action::UnknownCommit { applied } => self.faults.unknown_commit = Some(applied),
            Action::FailAsk => self.faults.fail_ask = true,
            Action::UnknownAsk => self.faults.unknown_ask = true,
            Action::Slow { each_ms, for_ms } => {
                (self.faults.slow_ms, self.faults.slow_until) = (each_ms, self.ms + for_ms);
            }
            Action::LoseAnswers(n) => self.faults.lose_answers += n,
            Action::Jump(ms) => {
                self.offset += ms;
                self.checker.now = self.moment();
            }
            _ => self.trouble_worker(action),
        }
    }

    pub fn call_on(&mut self, n: u64, request: impl FnOnce(JobId) -> Request) {
        if let Some(id) = self.clients.nth_last(n) {
            self.call(request(id));
        }
    }

    pub fn call(&mut self, request: Request) {
        self.clients.calls.push(Call { request, tries: 0, done: false });
        self.try_call(self.clients.calls.len() - 1);
    }

    fn try_call(&mut self, at: usize) {
        let call = &mut self.clients.calls[at];
        call.tries += 1;
        let (request, tries) = (call.request.clone(), call.tries);
        self.send(request, Origin::Client(at));
        self.queue.at(self.ms + PATIENCE_MS, Event::Timeout(at, tries));
    }

    /// The time limit of a client expired. A submit without an idempotency key is not repeated: its outcome is
    /// unknown.
    pub fn timeout(&mut self, at: usize, tries: u32) {
        let call = &mut self.clients.calls[at];
        if call.done || call.tries != tries {
            return;
        }
        let repeats = match &call.request {
            Request::Submit { submit } => submit.name.is_some(),
            Request::Retry { .. }
            | Request::RunSchedule { .. }
            | Request::CreateGroup { .. }
            | Request::RetryGroup { .. } => false,
            _ => true,
        };
        if repeats && tries < TRIES {
            self.tally.add("clients", "request repeated after silence");
            return self.try_call(at);
        }
        call.done = true;
        self.tally.add("clients", "gave up");
    }

    /// A client receives its answer.
    pub fn client_answered(&mut self, at: usize, _: u64, answer: &Result<Answer, Rejected>) {
        let call = &mut self.clients.calls[at];
        let shaky =
            matches!(answer, Err(Rejected::Storage { .. } | Rejected::Stopped(_) | Rejected::Unknown(_)));
        if shaky && call.tries < TRIES {
            // The client retries later: its timeout is still pending.
            return;
        }
        call.done = true;
        match answer {
            Ok(Answer::Submitted(jobs)) => self.clients.known.extend(jobs.iter().map(|job| job.id)),
            Ok(Answer::GroupCreated(GroupCreated { id, jobs, .. })) => {
                self.clients.groups.push(*id);
                self.clients.known.extend(jobs.iter().map(|job| job.id));
            }
            _ => {}
        }
    }
}
