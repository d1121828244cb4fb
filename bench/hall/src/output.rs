//! The time until the first byte of output arrives at a follower of the log, from the write of the process and from the
//! submit, compared in the same run with echoes, with the start at an idle worker and with the start of a process.

use std::env;
use std::io::{self, Write};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, SystemTime};

use jobhall_bench_raw_store::machine::{Sample, percentile};
use jobhall_client::Client;
use jobhall_protocol::{Hello, ToServer};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio_tungstenite::client_async;

use crate::http::{Connection, request};
use crate::process::{Server, worker};
use crate::start::{back_and_forth, one, timed};
use crate::{Failed, Options};

/// How long a process waits before it writes, so that its log is followed by then.
const WAIT_MS: u64 = 100;
/// Jobs before the measurement.
const WARM: usize = 5;

/// One result of each kind per turn.
pub async fn measure(options: &Options) -> Result<Value, Failed> {
    let hall = Server::hall(&options.binary, &options.directory.join("hall")).await?;
    let echo = Server::echo().await?;
    let _worker = worker(&options.binary, &hall)?;
    let client = Client::new(&format!("http://{}", hall.address), Some(&hall.token))?;
    let mut session = client.session(Hello { accepts: "type=noop".to_owned(), ..Hello::default() }).await?;
    session.send(&[ToServer::Credit { total: 1 }]).await?;
    let mut post = Connection::open(&hall).await?;
    let mut echoer = Connection::open(&echo).await?;
    let stream = TcpStream::connect(&echo.address).await?;
    stream.set_nodelay(true)?;
    let (mut socket, _) = client_async(format!("ws://{}/ws", echo.address), stream).await?;
    let submit = request("POST", "/api/v1/jobs", &hall, r#"{"type":"noop"}"#);
    let plain = request("POST", "/echo", &echo, r#"{"type":"noop"}"#);
    for _ in 0..WARM {
        followed(&hall, &mut post).await?;
    }
    let (mut total, mut turns) = (1, Vec::new());
    for _ in 0..options.rounds {
        let before = Sample::now()?;
        let mut times = [const { Vec::new() }; 6];
        for _ in 0..options.jobs {
            total += 1;
            let (written, submitted) = followed(&hall, &mut post).await?;
            let row = [
                written,
                submitted,
                timed(back_and_forth(&mut socket)).await?,
                timed(echoer.ask(&plain)).await?,
                one(&submit, &mut post, &mut session, total).await?,
                started().await?,
            ];
            times.iter_mut().zip(row).for_each(|(times, time)| times.push(time));
        }
        let us = |at: usize, percent| percentile(times[at].clone(), percent).as_secs_f64() * 1e6;
        turns.push(json!({
            "written_us_p50": us(0, 50),
            "written_us_p99": us(0, 99),
            "submitted_us_p50": us(1, 50),
            "submitted_us_p99": us(1, 99),
            "socket_us_p50": us(2, 50),
            "echo_us_p50": us(3, 50),
            "start_us_p50": us(4, 50),
            "process_us_p50": us(5, 50),
            "steal_percent": Sample::now()?.since(&before).steal_percent,
        }));
    }
    Ok(json!({ "turns": turns }))
}

/// The process of a job: it waits, and writes when it began and when it writes.
pub fn speak(wait_ms: u64) -> Result<(), Failed> {
    let began = SystemTime::now();
    thread::sleep(Duration::from_millis(wait_ms));
    let mut out = io::stdout();
    writeln!(out, "{} {}", since_epoch(began)?.as_nanos(), since_epoch(SystemTime::now())?.as_nanos())?;
    Ok(out.flush()?)
}

/// One job whose log is followed: the times from the write and from the submit to the first byte, the second without
/// the wait of the process.
async fn followed(hall: &Server, post: &mut Connection) -> Result<(Duration, Duration), Failed> {
    let mut follower = Connection::open(hall).await?;
    let program = env::current_exe()?;
    let argv = [program.to_str().ok_or("a path that is no text")?, "speak", &WAIT_MS.to_string()];
    let job = json!({ "type": "exec", "params": { "argv": argv } });
    let submit = request("POST", "/api/v1/jobs", hall, &job.to_string());
    let submitted = SystemTime::now();
    let made = post.json(&submit).await?;
    let id = made["id"].as_u64().ok_or("a job without an id")?;
    follower.send(&request("GET", &format!("/api/v1/jobs/{id}/log?follow=true"), hall, "")).await?;
    let line = follower.first_line().await?;
    let arrived = since_epoch(SystemTime::now())?;
    let (began, wrote) = times(line)?;
    follower.rest().await?;
    let late = || "the clock was set back".to_owned();
    let written = arrived.checked_sub(wrote).ok_or_else(late)?;
    let waited = wrote.checked_sub(began).ok_or_else(late)?;
    let submitted = arrived.checked_sub(since_epoch(submitted)? + waited).ok_or_else(late)?;
    Ok((written, submitted))
}

/// The start of the process of a job without a server.
async fn started() -> Result<Duration, Failed> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["speak", "0"]).stdin(Stdio::null());
    let before = since_epoch(SystemTime::now())?;
    let (began, _) = times(&command.output().await?.stdout)?;
    began.checked_sub(before).ok_or_else(|| "the clock was set back".into())
}

fn times(line: &[u8]) -> Result<(Duration, Duration), Failed> {
    let text = std::str::from_utf8(line)?;
    let (began, wrote) = text.trim().split_once(' ').ok_or_else(|| format!("not two times: {text:?}"))?;
    Ok((Duration::from_nanos(began.parse()?), Duration::from_nanos(wrote.parse()?)))
}

fn since_epoch(time: SystemTime) -> Result<Duration, Failed> {
    Ok(time.duration_since(SystemTime::UNIX_EPOCH)?)
}
