//! The time from a submit to an idle worker, compared with the minimum cost of that path: one sync, one request, one
//! message over a WebSocket.

use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use jobhall_bench_raw_store::machine::{Sample, fdatasync_us, percentile};
use jobhall_client::{Client, Session};
use jobhall_protocol::{Hello, ToServer, ToWorker};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::cycle::passed;
use crate::http::{Connection, request};
use crate::process::Server;
use crate::{Failed, Options};

/// One result of each kind per turn.
pub async fn measure(options: &Options) -> Result<Value, Failed> {
    let hall = Server::hall(&options.binary, &options.directory.join("hall")).await?;
    let echo = Server::echo().await?;
    let client = Client::new(&format!("http://{}", hall.address), Some(&hall.token))?;
    let mut session = client.session(Hello::default()).await?;
    session.send(&[ToServer::Credit { total: 1 }]).await?;
    let mut post = Connection::open(&hall).await?;
    let mut echoer = Connection::open(&echo).await?;
    let stream = TcpStream::connect(&echo.address).await?;
    stream.set_nodelay(true)?;
    let (mut socket, _) = client_async(format!("ws://{}/ws", echo.address), stream).await?;
    let submit = request("POST", "/api/v1/jobs", &hall, r#"{"type":"noop"}"#);
    let plain = request("POST", "/echo", &echo, r#"{"type":"noop"}"#);
    let (mut total, mut turns) = (1, Vec::new());
    for _ in 0..options.rounds {
        let before = Sample::now()?;
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..options.jobs {
            total += 1;
            times[0].push(one(&submit, &mut post, &mut session, total).await?);
            times[1].push(timed(echoer.ask(&plain)).await?);
            times[2].push(timed(back_and_forth(&mut socket)).await?);
        }
        let us = |times: &[Duration], percent| percentile(times.to_vec(), percent).as_secs_f64() * 1e6;
        turns.push(json!({
            "start_us_p50": us(&times[0], 50),
            "start_us_p99": us(&times[0], 99),
            "echo_us_p50": us(&times[1], 50),
            "socket_us_p50": us(&times[2], 50),
            "fdatasync_us": fdatasync_us(&options.directory)?,
            "steal_percent": Sample::now()?.since(&before).steal_percent,
        }));
    }
    Ok(json!({ "turns": turns }))
}

/// One job: the time until its worker has received it.
pub async fn one(
    submit: &[u8],
    post: &mut Connection,
    session: &mut Session,
    total: u64,
) -> Result<Duration, Failed> {
    let began = Instant::now();
    post.send(submit).await?;
    let (attempt, lease) = loop {
        let assigned = session.next().await?.into_iter().find_map(|message| match message {
            ToWorker::Assign { attempt, lease, .. } => Some((attempt, lease)),
            _ => None,
        });
        if let Some(assigned) = assigned {
            break assigned;
        }
    };
    let took = began.elapsed();
    post.answer().await?;
    session
        .send(&[
            ToServer::Outcome { attempt, lease, report: passed() },
            ToServer::Credit { total: total.cast_signed() },
            // A measurement with pauses lasts longer than a lease.
            ToServer::Renew {},
        ])
        .await?;
    while !session.next().await?.iter().any(|message| matches!(message, ToWorker::Moved { .. })) {}
    Ok(took)
}

/// How long this takes.
pub async fn timed<T>(work: impl Future<Output = Result<T, Failed>>) -> Result<Duration, Failed> {
    let began = Instant::now();
    work.await?;
    Ok(began.elapsed())
}

/// One message and its echo.
pub async fn back_and_forth(socket: &mut WebSocketStream<TcpStream>) -> Result<(), Failed> {
    socket.send(Message::Binary(vec![7; 300].into())).await?;
    socket.next().await.ok_or("the echo fell silent")??;
    Ok(())
}
