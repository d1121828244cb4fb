//! A job that waits lends its places to those it waits for.

use std::sync::Arc;

use jobhall_core::needs::{Abilities, Accepts};
use jobhall_core::{
    Decision, Event, Job, JobId, JobSpec, JobStatus, LeaseId, QueueName, Time, TypeName, WorkerName,
    transition,
};
use jobhall_store::{Setting, SettingKind};

use crate::{Config, Effect, Kernel, Mono, Now, OpenedSession, Request, TypedAnswer};

fn id(number: u64) -> JobId {
    JobId::new(number).unwrap()
}

fn now() -> Now {
    Now { wall: Time::from_ms(1_700_000_000_000).unwrap(), mono: Mono(1_000) }
}

fn job(number: u64) -> Job {
    let (job_type, queue) = (TypeName::new("t").unwrap(), QueueName::new("q").unwrap());
    let spec = Arc::new(JobSpec::plain(job_type, queue, now().wall));
    Job { id: id(number), spec, status: JobStatus::queued(now().wall, now().wall) }
}

fn leased(number: u64) -> Job {
    let job = job(number);
    let claim = Event::Claim { lease: LeaseId(7), worker: WorkerName::new("p").unwrap() };
    let Ok(Decision::Step(step)) = transition(&job.status, &claim, now().wall) else { panic!("a claim") };
    Job { status: step.status, ..job }
}

/// Job 1 is leased and has the only place; jobs 2 to 4 want it, and a worker would take them.
fn kernel() -> Kernel {
    let mut kernel = Kernel::new(Config::default(), now(), Box::new(|| 7));
    let value = r#"{"limits":[{"concurrency":1}]}"#.to_owned();
    let setting = Setting { kind: SettingKind::Queue, name: "q".to_owned(), rev: 1, value };
    kernel.restore_settings(vec![setting]).unwrap();
    kernel.restore(leased(1));
    (2..=4).for_each(|number| kernel.restore(job(number)));
    kernel.begin();
    let (worker, attempts) = (WorkerName::new("w").unwrap(), Vec::new());
    let open = Request::OpenSession {
        worker,
        abilities: Abilities::default(),
        accepts: Accepts::default(),
        attempts,
        lease_ms: None,
        fresh: false,
    };
    kernel.ask(now(), open.typed(1));
    let session = kernel.take_effects().into_iter().find_map(|effect| match effect {
        Effect::Answer(TypedAnswer::Session(_, Ok(OpenedSession { session, .. }))) => Some(session),
        _ => None,
    });
    let vacancy = Request::Vacancy { session: session.unwrap(), slots: 9, wait_ms: 1_000 };
    kernel.ask(now(), vacancy.typed(2));
    kernel
}

/// The jobs whose claims are sent to the store, which never replies.
fn claimed(kernel: &mut Kernel) -> Vec<u64> {
    kernel.retry_waiters();
    let units = kernel.take_commit().map(|(_, units)| units).unwrap_or_default();
    units.iter().flat_map(|unit| &unit.changes).map(|change| change.id.get()).collect()
}

#[test]
fn those_that_a_job_waits_for_stand_on_its_place_one_after_the_other() {
    let mut kernel = kernel();
    assert_eq!(claimed(&mut kernel), [0; 0]);
    kernel.lend(id(1), &[id(3), id(4)]);
    assert_eq!(claimed(&mut kernel), [3], "the first that it waits for, not the first in line");
    assert_eq!(kernel.borrower(id(1)), Some(id(3)), "it cannot continue while another job borrows its place");
    // Job 3 ends.
    kernel.take_out(id(3));
    assert_eq!(claimed(&mut kernel), [4]);
    kernel.take_out(id(4));
    assert_eq!(kernel.borrower(id(1)), None);
    kernel.end_lending(id(1));
    assert_eq!(claimed(&mut kernel), [0; 0], "the place is its own again");
    kernel.take_out(id(1));
    assert_eq!(claimed(&mut kernel), [2]);
}

#[test]
fn whom_it_comes_to_wait_for_later_may_stand_there_too() {
    let mut kernel = kernel();
    kernel.lend(id(1), &[]);
    assert_eq!(claimed(&mut kernel), [0; 0]);
    kernel.lend(id(1), &[id(4)]);
    assert_eq!(claimed(&mut kernel), [4]);
}
