//! Resources that jobs use on real workers, while server and workers are killed without warning under load.
//!
//! Every job appends a line to one file when it starts and when it ends. Replayed, the lines show how much was in use
//! on each worker at every time, independently of the server.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use jobhall_tests::{Process, Rig, descendants, eventually};

const SERVER: [&str; 3] = ["server", "--lease", "4s"];
const WORKERS: [&str; 2] = ["east", "west"];
/// Resources of each worker.
const GPUS: u32 = 2;
const JOBS: usize = 150;

/// A worker process, with what it needs to reconnect under its name.
struct Hand {
    name: &'static str,
    token: String,
    file: String,
    process: Process,
}

fn traces(rig: &Rig) -> PathBuf {
    rig.folder().join("traces")
}

/// A worker with two types, which use one and two GPUs.
fn worker_file(rig: &Rig, name: &str) -> String {
    let traces = traces(rig).display().to_string();
    let mut text = format!("name = \"{name}\"\nslots = 6\n[abilities]\ngpu = {GPUS}\n");
    for (job_type, gpus) in [("one", 1), ("two", 2)] {
        let script = format!(
            "echo \"start {name} {gpus} $JOBHALL_JOB-$JOBHALL_CLAIM\" >> {traces}; sleep 0.1; \
             echo \"end {name} {gpus} $JOBHALL_JOB-$JOBHALL_CLAIM\" >> {traces}"
        );
        writeln!(text, "[types.{job_type}]\nrun = {:?}", ["sh", "-c", &script]).unwrap();
    }
    let path = rig.folder().join(format!("{name}.toml"));
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn hand(rig: &Rig, name: &'static str) -> Hand {
    let made = rig.json(&["token", "create", name, "--role", "worker", "--json"]);
    let token = made["secret"].as_str().unwrap().to_owned();
    let file = worker_file(rig, name);
    let process = rig.worker(name, &token, &["--config", &file]);
    Hand { name, token, file, process }
}

/// Kills the worker and with it all its commands, and restarts it.
fn kill(rig: &Rig, hand: &mut Hand) {
    let below = descendants(hand.process.pid());
    hand.process.kill();
    let alive = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        !status.is_empty() && !status.contains("State:\tZ")
    };
    eventually("the end of its jobs", || below.iter().all(|(pid, _)| !alive(*pid)));
    let mut file = OpenOptions::new().append(true).open(traces(rig)).unwrap();
    writeln!(file, "gone {}", hand.name).unwrap();
    hand.process = rig.worker(hand.name, &hand.token, &["--config", &hand.file]);
}

/// Lines of the file so far.
fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn ended(rig: &Rig) -> usize {
    lines(&traces(rig)).iter().filter(|line| line.starts_with("end")).count()
}

/// The maximum in use on each worker at any time.
fn most_in_use(lines: &[String]) -> BTreeMap<String, u32> {
    let (mut running, mut most) = (BTreeMap::<String, BTreeMap<String, u32>>::new(), BTreeMap::new());
    let mut killed = BTreeSet::new();
    for line in lines {
        let words: Vec<_> = line.split(' ').collect();
        let jobs = running.entry(words[1].to_owned()).or_default();
        match words[..] {
            ["start", _, gpus, attempt] => {
                let twice = jobs.insert(attempt.to_owned(), gpus.parse().unwrap());
                assert_eq!(twice, None, "{attempt} started twice");
            }
            ["end", _, _, attempt] => {
                let ran = jobs.remove(attempt).is_some() || killed.contains(attempt);
                assert!(ran, "{attempt} did not start");
            }
            ["gone", _] => killed.extend(std::mem::take(jobs).into_keys()),
            _ => panic!("{line}"),
        }
        let now: u32 = jobs.values().sum();
        let known = most.entry(words[1].to_owned()).or_insert(0);
        *known = now.max(*known);
    }
    most
}

fn in_use(rig: &Rig) -> Vec<(String, String)> {
    let workers = rig.json(&["worker", "list", "--json"]);
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    workers.as_array().unwrap().iter().map(|worker| (text(&worker["name"]), text(&worker["uses"]))).collect()
}

#[test]
fn workers_are_never_used_beyond_what_they_have_and_all_is_given_back_over_kills() {
    let mut rig = Rig::server(&SERVER[1..]);
    let mut hands = WORKERS.map(|name| hand(&rig, name));
    let jobs: String = (0..JOBS)
        .map(|n| match n % 5 {
            0 => "{\"type\":\"two\",\"uses\":\"gpu=2\"}\n",
            _ => "{\"type\":\"one\",\"uses\":\"gpu=1\",\"avoid\":true}\n",
        })
        .collect();
    let path = rig.folder().join("jobs.jsonl");
    std::fs::write(&path, jobs).unwrap();
    assert!(rig.run(&["job", "submit", "--from", path.to_str().unwrap()]).status.success());
    for round in 1..=6 {
        eventually("more jobs to end", || ended(&rig) >= round * JOBS / 10);
        for (worker, uses) in in_use(&rig) {
            assert!(["", "gpu=1", "gpu=2"].contains(&uses.as_str()), "{worker} uses {uses}");
        }
        match round % 3 {
            0 => kill(&rig, &mut hands[round / 3 - 1]),
            _ => {
                rig.hall().kill();
                rig.start(&SERVER);
            }
        }
    }
    let all: Vec<_> = (1..=JOBS).map(|id| id.to_string()).collect();
    let wait: Vec<_> = ["job", "wait"].into_iter().chain(all.iter().map(String::as_str)).collect();
    assert_eq!(rig.run(&wait).status.code(), Some(0), "every job succeeds");
    let most = most_in_use(&lines(&traces(&rig)));
    assert_eq!(most, WORKERS.map(|name| (name.to_owned(), GPUS)).into(), "exactly all of it");
    eventually("all resources to be released", || {
        in_use(&rig) == WORKERS.map(|name| (name.to_owned(), String::new()))
    });
}
