//! Every order in which requests, commits, their results, reads and a crash can come, on the real kernel and the reference
//! store. The kernel is synchronous, so these orders are all there is: whatever comes of them, no wake-up is lost and
//! nothing is released early or twice.

use std::collections::VecDeque;

use crate::rig::{Hall, failed, job, passed, tries};
use jobhall_core::{After, GroupState, JobId, NewJob, Report, StateName};
use jobhall_kernel::{
    Answer, Assignment, AttemptRef, Config, Effect, GroupCreated, NewGroup, Rejected, Request, StoreReply,
    Submit,
};
use jobhall_store::{Committed, Unit};

/// Choices that were made, and how many there were at each point: the next order differs in the last one possible.
#[derive(Default)]
struct Orders {
    made: Vec<(usize, usize)>,
    at: usize,
    runs: usize,
}

impl Orders {
    fn choose(&mut self, of: usize) -> usize {
        if self.at == self.made.len() {
            self.made.push((0, of));
        }
        let (choice, options) = self.made[self.at];
        assert_eq!(options, of, "the same order gives the same choices");
        self.at += 1;
        choice
    }

    /// Whether there is another order.
    fn next(&mut self) -> bool {
        (self.at, self.runs) = (0, self.runs + 1);
        while let Some((choice, of)) = self.made.pop() {
            if choice + 1 < of {
                self.made.push((choice + 1, of));
                return true;
            }
        }
        false
    }
}

/// A hall whose every step is chosen.
struct Driven {
    hall: Hall,
    /// Requests that have yet to arrive, each from someone else.
    requests: Vec<Request>,
    sent: VecDeque<(u64, Vec<Unit>)>,
    applied: VecDeque<(u64, Committed)>,
    answers: Vec<Result<Answer, Rejected>>,
    released: usize,
    watched: JobId,
}

enum Action {
    Request(usize),
    Apply,
    Tell,
    Crash,
}

impl Driven {
    /// Carries on until nothing is left, in the order that is chosen; it may crash once.
    fn run(&mut self, orders: &mut Orders, mut may_crash: bool) {
        loop {
            self.collect();
            let mut actions: Vec<_> = (0..self.requests.len()).map(Action::Request).collect();
            if !self.sent.is_empty() {
                actions.push(Action::Apply);
            }
            if !self.applied.is_empty() {
                actions.push(Action::Tell);
            }
            if actions.is_empty() {
                return;
            }
            if may_crash && (!self.sent.is_empty() || !self.applied.is_empty()) {
                actions.push(Action::Crash);
            }
            match actions.swap_remove(orders.choose(actions.len())) {
                Action::Request(at) => {
                    let request = self.requests.remove(at);
                    let ticket = u64::MAX - self.requests.len() as u64;
                    self.hall.kernel.ask(self.hall.now, request.typed(ticket));
                }
                Action::Apply => {
                    let (number, units) = self.sent.pop_front().unwrap();
                    self.applied.push_back((number, self.hall.store.commit_now(units)));
                }
                Action::Tell => {
                    let (number, committed) = self.applied.pop_front().unwrap();
                    self.hall
                        .kernel
                        .store_replied(self.hall.now, StoreReply::Committed(number, Ok(committed)));
                }
                Action::Crash => {
                    may_crash = false;
                    (self.sent, self.applied, self.released) = Default::default();
                    self.requests.clear();
                    let hall = std::mem::replace(&mut self.hall, Hall::new());
                    self.hall = hall.restart(Config::default());
                }
            }
        }
    }

    /// What the kernel wants done. Two commits may be under way, as in the driver; reads are answered at once.
    fn collect(&mut self) {
        loop {
            let effects = self.hall.kernel.take_effects();
            let asked = self.hall.kernel.take_store_requests();
            let idle = effects.is_empty() && asked.is_empty();
            for effect in effects {
                match effect {
                    Effect::Answer(answer) => self.answers.push(answer.untyped().1),
                    Effect::Live(id, StateName::Queued) if id == self.watched => self.released += 1,
                    _ => {}
                }
            }
            for asked in asked {
                let told = self.hall.serve(asked);
                self.hall.kernel.store_replied(self.hall.now, told);
            }
            if self.sent.len() + self.applied.len() < 2
                && let Some(commit) = self.hall.kernel.take_commit()
            {
                self.sent.push_back(commit);
            } else if idle {
                return;
            }
        }
    }
}

fn word(assignment: &Assignment, report: Report) -> Request {
    let Assignment { attempt, lease, .. } = *assignment;
    Request::Report {
        of: AttemptRef { worker: crate::rig::worker("w"), attempt, lease },
        report,
        records: Vec::new(),
    }
}

/// Two jobs in the hands of a worker.
fn two_leased() -> (Hall, Vec<Assignment>) {
    let mut hall = Hall::new();
    let once = NewJob { retry: tries(1), ..job("t") };
    hall.submit_all(vec![once; 2]).unwrap();
    let session = hall.worker("w", "");
    hall.vacancy(session, 2);
    let held = hall.assignments().into_iter().map(|(_, assignment)| assignment).collect();
    (hall, held)
}

fn drive(hall: Hall, requests: Vec<Request>, watched: JobId) -> Driven {
    let (sent, applied) = (VecDeque::new(), VecDeque::new());
    Driven { hall, requests, sent, applied, answers: Vec::new(), released: 0, watched }
}

fn behind(held: &[Assignment]) -> NewJob {
    NewJob { after: held.iter().map(|held| After::Job(held.attempt.job)).collect(), ..job("last") }
}

#[test]
fn two_dependencies_that_end_together_release_what_comes_after_exactly_once() {
    for may_crash in [false, true] {
        let mut orders = Orders::default();
        loop {
            let (mut hall, held) = two_leased();
            let last = hall.submit(behind(&held)).unwrap().id;
            let requests = held.iter().map(|held| word(held, passed())).collect();
            let mut driven = drive(hall, requests, last);
            driven.run(&mut orders, may_crash);
            let mut hall = driven.hall;
            if driven.answers.len() == 2 {
                assert_eq!(driven.released, 1, "after {:?}", orders.made);
            }
            let over =
                held.iter().filter(|held| hall.stored(held.attempt.job).status.state.is_terminal()).count();
            let state = hall.state(last);
            assert_eq!(state == StateName::Queued, over == 2, "{state} after {:?}", orders.made);
            if !orders.next() {
                break;
            }
        }
        assert!(orders.runs >= 6, "{} orders", orders.runs);
    }
}

#[test]
fn a_submit_behind_jobs_that_end_meanwhile_is_never_left_waiting() {
    for end in [passed(), failed("no")] {
        let mut orders = Orders::default();
        loop {
            let (hall, held) = two_leased();
            let next = JobId::new(held[1].attempt.job.get() + 1).unwrap();
            let submit =
                Request::Submit { submit: Submit { jobs: vec![behind(&held)], ..Submit::default() } };
            let requests = vec![word(&held[0], passed()), word(&held[1], end.clone()), submit];
            let mut driven = drive(hall, requests, next);
            driven.run(&mut orders, true);
            let mut hall = driven.hall;
            let over = [0, 1].map(|at: usize| hall.stored(held[at].attempt.job).status.state.is_terminal());
            let submitted = hall.store.jobs_now(&[next]).remove(0).is_some();
            let refused =
                driven.answers.iter().any(|answer| matches!(answer, Err(Rejected::DependencyEnded { .. })));
            assert!(!(refused && submitted), "nothing is written of what is refused");
            if submitted {
                let wanted = match (over[0] && over[1], end == passed()) {
                    (_, false) if over[1] => StateName::Failed,
                    (true, _) => StateName::Queued,
                    (false, _) => StateName::Blocked,
                };
                assert_eq!(hall.state(next), wanted, "after {:?}", orders.made);
                assert!(driven.released <= 1);
            }
            if !orders.next() {
                break;
            }
        }
        assert!(orders.runs > 100, "{} orders", orders.runs);
    }
}

#[test]
fn a_group_ends_once_whatever_comes_first_of_its_close_its_cancel_and_its_last_members() {
    for cancel in [false, true] {
        let mut orders = Orders::default();
        loop {
            let mut hall = Hall::new();
            let submit = Submit { jobs: vec![job("t"); 2], ..Submit::default() };
            let made = hall.ask(Request::CreateGroup { group: NewGroup::default(), submit }).unwrap();
            let Answer::GroupCreated(GroupCreated { id, jobs, .. }) = made else { panic!() };
            let session = hall.worker("w", "");
            hall.vacancy(session, 1);
            let held = hall.assignments().remove(0).1;
            let late = NewJob { group: Some(id), ..job("t") };
            let failure = jobhall_core::Failure::new("cancelled", "");
            let mut requests = vec![word(&held, passed())];
            requests.push(Request::Submit { submit: Submit { jobs: vec![late], ..Submit::default() } });
            requests.push(if cancel {
                Request::CancelGroup { id, failure, fails: false }
            } else {
                Request::CloseGroup { id }
            });
            let mut driven = drive(hall, requests, jobs[0].id);
            driven.run(&mut orders, true);
            let mut hall = driven.hall;
            hall.pass(2_000);
            // Whoever is left is ended now; then the group has its verdict, once, and its counts are those of its rows.
            let (group, members) = hall.store.group_now(id).unwrap();
            for member in members.iter().filter(|member| !member.state.is_terminal()) {
                let _ = hall.cancel(member.id);
            }
            hall.pass(60_000);
            let (ended, members) = hall.store.group_now(id).unwrap();
            assert_eq!(ended.end.is_some(), group.closed, "after {:?}", orders.made);
            if let Some(end) = ended.end {
                assert_eq!(end.counts.total(), members.len() as u64);
                assert!(members.iter().all(|member| member.state.is_terminal()));
                assert_ne!(ended.state(&end.counts), GroupState::Running);
                assert!(ended.rev <= group.rev + 1, "one write ends it");
            }
            if !orders.next() {
                break;
            }
        }
        assert!(orders.runs > 100, "{} orders", orders.runs);
    }
}
