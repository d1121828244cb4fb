//! Types that only applications create.

use std::sync::Arc;

use crate::rig::{Hall, failed, job, passed, tries};
use jobhall_core::{Application, JobId, NewJob, Reserved, ReservedTypes, ScheduleName, StateName};
use jobhall_kernel::{Answer, AttemptRef, Config, Edit, NewGroup, Rejected, Request, ScheduleConfig, Submit};

const APP: Application = Application("app.");
const OTHER: Application = Application("other.");
pub const RESERVED: Reserved = Reserved(&[
    ReservedTypes { application: APP, retry_with: Some("app again") },
    ReservedTypes { application: OTHER, retry_with: None },
]);

fn hall() -> Hall {
    Hall::with(Config { reserved: RESERVED, ..Config::default() })
}

fn of(job_type: &str, by: Option<Application>) -> Submit {
    Submit { jobs: vec![NewJob { retry: tries(1), ..job(job_type) }], by, ..Submit::default() }
}

fn submit(hall: &mut Hall, job_type: &str, by: Option<Application>) -> Result<JobId, Rejected> {
    match hall.ask(Request::Submit { submit: of(job_type, by) })? {
        Answer::Submitted(made) => Ok(made[0].id),
        other => panic!("{other:?}"),
    }
}

fn is_reserved(answer: Result<impl std::fmt::Debug, Rejected>) -> bool {
    let answer = answer.map(drop);
    matches!(answer, Err(Rejected::Reserved { prefix: "app.", .. }))
}

/// A job of the application.
pub fn submitted(hall: &mut Hall, wanted: NewJob) -> JobId {
    let submit = Submit { jobs: vec![wanted], by: Some(APP), ..Submit::default() };
    let Answer::Submitted(made) = hall.ask(Request::Submit { submit }).unwrap() else { panic!("no job") };
    made[0].id
}

/// Runs a job of the application to its end.
pub fn complete(hall: &mut Hall, wanted: NewJob) -> JobId {
    let id = submitted(hall, wanted);
    let held = hall.take_one("w");
    hall.report("w", &held, passed()).unwrap();
    id
}

/// Runs a job of the application that fails.
fn fail(hall: &mut Hall, job_type: &str, by: Application) -> JobId {
    let id = submit(hall, job_type, Some(by)).unwrap();
    let held = hall.take_one("w");
    hall.report("w", &held, failed("no")).unwrap();
    id
}

#[test]
fn ground_2_only_the_application_submits_its_types() {
    let mut hall = hall();
    assert!(is_reserved(submit(&mut hall, "app.x", None)));
    assert!(is_reserved(submit(&mut hall, "app.x", Some(OTHER))));
    assert_eq!(hall.kernel.open_count(), 0, "nothing was written");
    submit(&mut hall, "app.x", Some(APP)).unwrap();
    submit(&mut hall, "mail", Some(APP)).unwrap();
    submit(&mut hall, "mail", None).unwrap();
    let group = NewGroup::default();
    assert!(is_reserved(hall.ask(Request::CreateGroup { group: group.clone(), submit: of("app.x", None) })));
    hall.ask(Request::CreateGroup { group, submit: of("app.x", Some(APP)) }).unwrap();
}

#[test]
fn ground_2_a_sub_job_of_a_reserved_type_comes_from_the_application() {
    let mut hall = hall();
    hall.submit(job("p")).unwrap();
    let held = hall.take_one("w");
    hall.accept("w", &held).unwrap();
    assert!(is_reserved(hall.call("w", &held, "c", job("app.x"))));
    let of = AttemptRef { worker: crate::rig::worker("w"), attempt: held.attempt, lease: held.lease };
    let jobs = vec![("c".to_owned(), job("app.x"))];
    hall.ask(Request::Call { of, jobs, by: Some(APP) }).unwrap();
}

#[test]
fn ground_2_a_schedule_of_a_reserved_type_belongs_to_the_application() {
    let mut hall = hall();
    let schedule = crate::schedules::hourly();
    let config =
        |job_type: &str| Some(Arc::new(ScheduleConfig { schedule: schedule.clone(), job: job(job_type) }));
    let name = || ScheduleName::new("s").unwrap();
    let set = |hall: &mut Hall, config, by| {
        hall.ask(Request::SetSchedule { name: name(), config, expected: None, by })
    };
    assert!(is_reserved(set(&mut hall, config("app.x"), None)));
    set(&mut hall, config("app.x"), Some(APP)).unwrap();
    assert!(is_reserved(set(&mut hall, config("mail"), None)), "nobody else changes it");
    assert!(is_reserved(set(&mut hall, None, None)), "nobody else removes it");
    hall.ask(Request::RunSchedule { name: name(), key: None }).unwrap();
    hall.pass(3_600_000);
    assert_eq!(hall.kernel.open_count(), 2, "its ticks create jobs");
    set(&mut hall, None, Some(APP)).unwrap();
}

#[test]
fn ground_2_users_change_only_when_a_job_of_an_application_runs() {
    let mut hall = hall();
    let id = submit(&mut hall, "app.x", Some(APP)).unwrap();
    let edit = |hall: &mut Hall, edit| hall.ask(Request::Edit { id, edit: Box::new(edit) });
    assert!(is_reserved(edit(&mut hall, Edit { avoid: Some(true), ..Edit::default() })));
    let both = Edit { priority: Some(1), tags: Some(Vec::new()), ..Edit::default() };
    assert!(is_reserved(edit(&mut hall, both)));
    let at = hall.now.wall.plus_ms(1_000);
    edit(&mut hall, Edit { priority: Some(1), run_at: Some(at), ..Edit::default() }).unwrap();
    hall.ask(Request::RunNow { id }).unwrap();
    hall.ask(Request::Hold { id }).unwrap();
    hall.ask(Request::Release { id }).unwrap();
    hall.cancel(id).unwrap();
}

#[test]
fn ground_2_a_retry_names_the_command_to_use_unless_it_is_allowed() {
    let mut hall = hall();
    let id = fail(&mut hall, "app.x", APP);
    let refused = hall.ask(Request::Retry { id, name: None }).unwrap_err();
    assert!(refused.to_string().ends_with("whose type begins with \"app.\"; use `app again`"), "{refused}");
    let id = fail(&mut hall, "other.x", OTHER);
    hall.ask(Request::Retry { id, name: None }).unwrap();
}

#[test]
fn ground_2_a_group_of_an_application_is_not_retried_by_users() {
    for (job_type, by, allowed) in [("app.x", APP, false), ("other.x", OTHER, true)] {
        let mut hall = hall();
        let group = NewGroup { closed: true, ..NewGroup::default() };
        let made = hall.ask(Request::CreateGroup { group, submit: of(job_type, Some(by)) }).unwrap();
        let Answer::GroupCreated(made) = made else { panic!("{made:?}") };
        let held = hall.take_one("w");
        hall.report("w", &held, failed("no")).unwrap();
        let groups = hall.store.groups_now(false).len();
        let retried = hall.ask(Request::RetryGroup { id: made.id, name: None });
        assert_eq!(retried.is_ok(), allowed, "{job_type}: {retried:?}");
        assert_eq!(
            hall.store.groups_now(false).len(),
            groups + usize::from(allowed),
            "no empty group is left"
        );
    }
}

#[test]
fn ground_2_jobs_in_the_store_run_as_they_are() {
    let mut hall = Hall::new();
    let retry = tries(2);
    let id = hall.submit(NewJob { retry, ..job("app.x") }).unwrap().id;
    let mut hall = hall.restart(Config { reserved: RESERVED, ..Config::default() });
    let held = hall.take_one("w");
    hall.report("w", &held, failed("no")).unwrap();
    hall.pass(60_000);
    let held = hall.take_one("v");
    hall.report("v", &held, passed()).unwrap();
    assert_eq!(hall.state(id), StateName::Succeeded);
}
