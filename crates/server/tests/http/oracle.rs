//! Random tokens against an oracle of what each of them may see and change. Every queue has marks of its own: in the
//! params, results, errors, keys, tags, owners, logs and artifacts of its jobs, and in the names of its types, workers
//! and schedules. Each token sends requests to every route, about its own jobs and about others, and to every relation
//! of jobs. No response may contain a mark of a queue outside of the token's scope, and no job there may change.
//!
//! `JOBHALL_REACH_SEED=n` repeats a run, `JOBHALL_REACH_ROUNDS=n` makes it longer.

mod actor;
mod change;
mod requests;
mod status;
mod world;

use std::collections::BTreeSet;

use actor::{Actor, Reads};
use requests::Asked;
use status::Sides;
use world::World;

use crate::server::read_until;

/// Requests between two looks at all jobs.
const BATCH: usize = 6;

/// A small generator of random numbers (SplitMix64), so that a seed means the same run everywhere.
pub struct Dice(u64);

impl Dice {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % n as u64).unwrap()
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_h1_m1_m2_l1_l2_l3_no_token_sees_or_changes_what_is_out_of_its_reach() {
    let rounds = number("JOBHALL_REACH_ROUNDS").unwrap_or(1);
    let first = number("JOBHALL_REACH_SEED").unwrap_or_else(|| rand::random::<u32>().into());
    for seed in first..first + rounds {
        println!("repeat with JOBHALL_REACH_SEED={seed}");
        round(seed).await;
    }
}

async fn round(seed: u64) {
    let mut world = World::build(Dice(seed)).await;
    let mut sides = Sides::default();
    read_own_inputs(&world, &mut sides).await;
    for actor in world.actors().await {
        drive(&mut world, &actor, &mut sides).await;
    }
    let Sides {
        artifacts_shown,
        artifacts_hidden,
        schedules_shown,
        schedules_hidden,
        inputs_shown,
        inputs_hidden,
    } = sides;
    let artifacts = [artifacts_shown, artifacts_hidden];
    let all = [artifacts, [schedules_shown, schedules_hidden], [inputs_shown, inputs_hidden]].concat();
    assert!(all.iter().all(|times| *times > 0), "both sides occur: {sides:?}");
}

/// Later an attempt may have ended before its worker reads.
async fn read_own_inputs(world: &World, sides: &mut Sides) {
    for held in world.held.iter().filter(|held| world.inputs.contains_key(&held.job)) {
        let path = format!("/api/v1/attempts/{}/inputs/0", held.id);
        let lease = [(requests::LEASE, held.lease.as_str())];
        let reply = world.hall.send("GET", &path, &held.worker, &lease, b"").await;
        assert_eq!(reply.status, 200, "{path}");
        sides.inputs_shown += 1;
    }
}

/// Sends requests of one actor to every route and checks what they show and change.
async fn drive(world: &mut World, actor: &Actor, sides: &mut Sides) {
    let mut seen = BTreeSet::new();
    let mut ended = BTreeSet::new();
    let mut before = world.jobs().await;
    let asked = requests::of_every_route(world, actor, &before);
    for batch in asked.chunks(BATCH) {
        for asked in batch {
            let status = send(world, actor, asked, &mut seen).await;
            status::check(world, actor, asked, &before, status, sides);
        }
        let after = world.jobs().await;
        ended = change::check(actor, &before, &after, &ended, batch);
        before = after;
    }
    read_events(world, actor, &before).await;
    if actor.reads() == Reads::Jobs {
        assert!(!seen.is_empty(), "{actor}: has seen none of its own jobs");
    }
}

/// Sends a request, and reads the pages that follow. Returns the first status.
async fn send(world: &World, actor: &Actor, asked: &Asked, seen: &mut BTreeSet<String>) -> u16 {
    let headers: Vec<_> = asked.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let (mut path, mut first) = (asked.path.clone(), None);
    for _ in 0..6 {
        let reply = world.hall.send(asked.method, &path, &actor.token, &headers, asked.body.as_bytes()).await;
        let body = String::from_utf8_lossy(&reply.body);
        assert!(reply.status < 500, "{actor}: {asked:?}: {body}");
        seen.extend(actor.check(asked, &format!("{}\n{body}", reply.head)));
        actor.check_job(asked, &reply);
        first.get_or_insert(reply.status);
        let next = serde_json::from_str::<serde_json::Value>(&body).ok();
        let next = next.and_then(|page| page["next_cursor"].as_str().map(str::to_owned));
        let Some(next) = next else { break };
        let mark = if asked.path.contains('?') { '&' } else { '?' };
        path = format!("{}{mark}cursor={next}", asked.path);
    }
    first.unwrap_or_default()
}

/// Reads all events up to one that the actor may see.
async fn read_events(world: &World, actor: &Actor, jobs: &change::Jobs) {
    if actor.reads() != Reads::Jobs {
        return;
    }
    let last = world.submit_to(actor.queue()).await;
    let mut stream = world.hall.open("GET", "/api/v1/events?after=0", &actor.token, &[], b"").await;
    let text = read_until(&mut stream, &format!("{{\"id\":{last},")).await;
    actor.check(&Asked::get("/api/v1/events?after=0"), &text);
    let ids = text.split("{\"id\":").skip(1).map(|rest| rest.split(',').next().unwrap().parse().unwrap());
    let ids: BTreeSet<u64> = ids.collect();
    let hidden = jobs.iter().filter(|(_, job)| !actor.reaches(job["queue"].as_str().unwrap()));
    for (id, job) in hidden {
        assert!(!ids.contains(id), "{actor}: was told of {job} by an event");
    }
    assert!(ids.len() > 1, "{actor}: {text}");
}
