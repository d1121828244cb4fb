//! Which status a request must have: what is within reach is answered, and what is not does not exist.

use super::actor::{Actor, Reads, Who};
use super::change::Jobs;
use super::requests::{Asked, is_own};
use super::world::World;

/// Paths below a job that every job has.
const OF_EVERY_JOB: [&str; 5] = ["", "/explain", "/attempts", "/artifacts", "/log"];

/// What the checks of a run have seen, so that a run in which only one side occurs is noticed.
#[derive(Debug, Default)]
pub struct Sides {
    pub artifacts_shown: usize,
    pub artifacts_hidden: usize,
    pub schedules_shown: usize,
    pub schedules_hidden: usize,
    pub inputs_shown: usize,
    pub inputs_hidden: usize,
}

/// Checks the status of a response.
pub fn check(world: &mut World, actor: &Actor, asked: &Asked, jobs: &Jobs, status: u16, sides: &mut Sides) {
    if let Some(name) = asked.path.strip_prefix("/api/v1/schedules/") {
        of_schedule(world, actor, asked, name, status, sides);
    }
    if let Some(below) = asked.path.strip_prefix("/api/v1/attempts/").filter(|_| asked.method == "GET") {
        of_input(world, actor, asked, below, status, sides);
    }
    let below = asked.path.strip_prefix("/api/v1/jobs/");
    if let Some(below) = below.filter(|_| asked.method == "GET" && actor.reads() == Reads::Jobs) {
        of_job(world, actor, asked, (below, jobs), status, sides);
    }
}

fn of_job(
    world: &World,
    actor: &Actor,
    asked: &Asked,
    (below, jobs): (&str, &Jobs),
    status: u16,
    sides: &mut Sides,
) {
    let (id, rest) = below.split_at(below.find(['/', '?']).unwrap_or(below.len()));
    let id: u64 = id.parse().unwrap();
    let Some(job) = jobs.get(&id) else { return };
    let near = actor.reaches(job["queue"].as_str().unwrap());
    let is_artifact = rest
        .strip_prefix("/artifacts/")
        .is_some_and(|name| world.artifacts.iter().any(|(of, known)| *of == id && known == name));
    if is_artifact {
        sides.artifacts_shown += usize::from(near);
        sides.artifacts_hidden += usize::from(!near);
    }
    // A job that no worker has taken has no log yet.
    let has_log = rest != "/log" || is_artifact || world.artifacts.iter().any(|(of, _)| *of == id);
    let expected = if near { 200 } else { 404 };
    if (is_artifact || OF_EVERY_JOB.contains(&rest)) && (has_log || !near) {
        assert_eq!(status, expected, "{actor}: {asked:?}");
    } else if !near {
        assert_eq!(status, 404, "{actor}: {asked:?}");
    }
}

/// Only the worker and the process of an attempt read its inputs.
fn of_input(world: &World, actor: &Actor, asked: &Asked, below: &str, status: u16, sides: &mut Sides) {
    let attempt = below.split('/').next().unwrap();
    let held = world.held.iter().find(|held| held.id == attempt).unwrap();
    if status == 200 {
        assert!(is_own(actor, held), "{actor}: {asked:?}");
        sides.inputs_shown += 1;
    } else if !is_own(actor, held) {
        sides.inputs_hidden += 1;
    }
}

/// Schedules belong to all queues: a token that is limited to some has no access to them.
fn of_schedule(world: &mut World, actor: &Actor, asked: &Asked, name: &str, status: u16, sides: &mut Sides) {
    let (name, verb) = name.split_once('/').unwrap_or((name, ""));
    let reads = actor.reads() == Reads::Jobs && !actor.is_limited();
    let may = reads && (asked.method == "GET" || actor.who != Who::Viewer);
    if !may {
        let refused =
            if matches!(actor.who, Who::Job(_)) { [401, 403, 429].contains(&status) } else { status == 403 };
        assert!(refused, "{actor}: {asked:?}: {status}");
        sides.schedules_hidden += 1;
        return;
    }
    let exists = world.existing_schedules.contains(name);
    match (asked.method, verb) {
        ("PUT", _) => assert!(status == if exists { 200 } else { 201 }, "{actor}: {asked:?}: {status}"),
        ("DELETE", _) => assert_eq!(status, if exists { 204 } else { 404 }, "{actor}: {asked:?}"),
        _ => assert_eq!(status, if exists { 200 } else { 404 }, "{actor}: {asked:?}"),
    }
    sides.schedules_shown += usize::from(exists);
    match asked.method {
        "PUT" => drop(world.existing_schedules.insert(name.to_owned())),
        "DELETE" => drop(world.existing_schedules.remove(name)),
        _ => {}
    }
}
