//! A worker whose server is unreachable for longer than a lease or refuses it: what is stopped, what the server
//! receives, and when the worker ends.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod rig;

use std::time::Duration;

use jobhall_core::AttemptId;
use jobhall_protocol::{Code, Outcome, ToServer, ToWorker, Word};
use jobhall_worker::{Until, WorkerError};
use rig::{Connection, Rig, eventually};

/// The attempt whose command runs until it is stopped.
fn running() -> AttemptId {
    "1-1".parse().unwrap()
}

/// The attempt whose command ends immediately.
fn finished() -> AttemptId {
    "2-1".parse().unwrap()
}

/// The last message of a worker about an attempt, or the end of its session without one.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Outcome(Outcome),
    Leave,
    Disconnect,
}

/// Renews until the end, with a limit.
async fn end(connection: &mut Connection, wanted: AttemptId) -> End {
    let mut renewals = 0;
    while renewals < 10 {
        match connection.next().await {
            None => return End::Disconnect,
            Some(ToServer::Leave {}) => return End::Leave,
            Some(ToServer::Outcome { attempt, report, .. }) if attempt == wanted => {
                return End::Outcome(report.outcome);
            }
            Some(ToServer::Renew {}) => {
                renewals += 1;
                connection.send(ToWorker::Renewed {}).await;
            }
            Some(_) => {}
        }
    }
    panic!("the session continues, and {wanted} has no end");
}

/// Breaks the connection while a command runs, and answers the next hello only after the worker has stopped the
/// command.
async fn no_answer_for_longer_than_a_lease(
    rig: &Rig,
    mut connection: Connection,
) -> (Connection, Vec<AttemptId>) {
    tokio::select! {
        () = eventually("the running command", || rig.is_running()) => {}
        ended = end(&mut connection, running()) => panic!("it ended early: {ended:?}"),
    }
    drop(connection);
    let next = rig.accept().await;
    eventually("the end of the command", || !rig.is_running()).await;
    next
}

#[tokio::test]
async fn an_attempt_that_was_stopped_for_its_lease_is_given_up_and_not_reported_as_crashed() {
    let rig = Rig::start().await;
    let mut connection = rig.accept().await.0;
    connection.welcome(&[]).await;
    connection.assign(running(), &rig.script()).await;
    let (mut connection, named) = no_answer_for_longer_than_a_lease(&rig, connection).await;
    assert_eq!(named, [running()]);
    connection.welcome(&named).await;
    assert_eq!(end(&mut connection, running()).await, End::Leave, "which ends the lease at once");
    let (connection, named) = rig.accept().await;
    assert!(named.is_empty(), "its lease is not renewed again: {named:?}");
    drop(connection);
    rig.stop().await;
}

#[tokio::test]
async fn ground_8_a_worker_is_fresh_until_its_first_session_begins() {
    let rig = Rig::start().await;
    let (refused, hello) = rig.accept_hello().await;
    assert!(hello.fresh, "nothing of an earlier process is continued");
    drop(refused);
    let (mut connection, hello) = rig.accept_hello().await;
    assert!(hello.fresh, "there was no session yet");
    connection.welcome(&[]).await;
    credit(&mut connection).await;
    drop(connection);
    let (connection, hello) = rig.accept_hello().await;
    assert!(!hello.fresh, "the same process comes back");
    drop(connection);
    rig.stop().await;
}

#[tokio::test]
async fn an_outcome_outlives_the_lease_and_is_told_when_the_server_still_takes_it() {
    let rig = Rig::start().await;
    let mut connection = rig.accept().await.0;
    connection.welcome(&[]).await;
    connection.assign(running(), &rig.script()).await;
    connection.assign(finished(), "true").await;
    assert_eq!(end(&mut connection, finished()).await, End::Outcome(Outcome::Succeeded));
    let (mut connection, named) = no_answer_for_longer_than_a_lease(&rig, connection).await;
    assert_eq!(named, [running(), finished()]);
    connection.welcome(&named).await;
    let ended = end(&mut connection, running()).await;
    assert_eq!(ended, End::Disconnect, "one lease must end, the other must not");
    let (mut connection, named) = rig.accept().await;
    assert_eq!(named, [finished()]);
    connection.welcome(&named).await;
    assert_eq!(end(&mut connection, finished()).await, End::Outcome(Outcome::Succeeded));
    drop(connection);
    rig.stop().await;
}

#[tokio::test]
async fn a_session_is_not_renewed_with_attempts_that_were_stopped() {
    let rig = Rig::start().await;
    let mut connection = rig.accept().await.0;
    connection.welcome(&[]).await;
    connection.assign(running(), &rig.script()).await;
    tokio::select! {
        () = eventually("the running command", || rig.is_running()) => {}
        ended = end(&mut connection, running()) => panic!("it ended early: {ended:?}"),
    }
    rig.stand_still().await;
    assert_eq!(end(&mut connection, running()).await, End::Disconnect);
    assert!(rig.accept().await.1.is_empty(), "the hello names no attempt");
    rig.stop().await;
}

#[tokio::test]
async fn a_worker_that_drains_waits_for_no_server_beyond_the_lease() {
    let rig = Rig::start().await;
    let mut connection = rig.accept().await.0;
    connection.welcome(&[]).await;
    connection.assign(finished(), "true").await;
    assert_eq!(end(&mut connection, finished()).await, End::Outcome(Outcome::Succeeded));
    drop(connection);
    rig.drain().await;
}

/// The messages about an attempt, up to its outcome or until its command has run for a while.
async fn about(connection: &mut Connection, wanted: AttemptId, rig: &Rig) -> Vec<&'static str> {
    let mut kinds = Vec::new();
    loop {
        let kind = match connection.next().await.expect("an open session") {
            ToServer::Accept { attempt, .. } if attempt == wanted => "accept",
            ToServer::Progress { attempt, indicators, .. } if attempt == wanted => {
                assert!(indicators.is_empty(), "a start has no indicators");
                "start"
            }
            ToServer::Outcome { attempt, .. } if attempt == wanted => {
                kinds.push("outcome");
                return kinds;
            }
            ToServer::Renew {} if wanted == running() && rig.is_running() => return kinds,
            ToServer::Renew {} => {
                connection.send(ToWorker::Renewed {}).await;
                continue;
            }
            _ => continue,
        };
        kinds.push(kind);
    }
}

#[tokio::test]
async fn a_silent_command_is_reported_as_started_once_and_a_short_one_not_at_all() {
    let rig = Rig::start().await;
    let mut connection = rig.accept().await.0;
    connection.welcome(&[]).await;
    connection.assign(running(), &rig.script()).await;
    let long = about(&mut connection, running(), &rig).await;
    assert!(matches!(*long, ["start"] | ["accept", "start"]), "{long:?}");
    // The slot is running, so the command starts and ends within a few milliseconds.
    let mut shortest = None;
    for n in 2..40 {
        let attempt: AttemptId = format!("{n}-1").parse().unwrap();
        connection.assign(attempt, "true").await;
        let short = about(&mut connection, attempt, &rig).await;
        assert!(short.iter().filter(|kind| **kind == "start").count() <= 1, "{short:?}");
        if short == ["outcome"] {
            shortest = Some(short);
            break;
        }
    }
    assert!(shortest.is_some(), "no command of 38 ended within the time in which nothing is reported");
    drop(connection);
    rig.stop().await;
}

#[tokio::test]
async fn a_server_that_returns_hears_again_that_a_command_was_started() {
    let rig = Rig::start().await;
    let mut connection = rig.accept().await.0;
    connection.welcome(&[]).await;
    connection.assign(running(), &rig.script()).await;
    assert!(about(&mut connection, running(), &rig).await.contains(&"start"));
    drop(connection);
    let (mut connection, named) = rig.accept().await;
    assert_eq!(named, [running()]);
    connection.welcome(&named).await;
    assert_eq!(about(&mut connection, running(), &rig).await, ["start"]);
    drop(connection);
    rig.stop().await;
}

#[tokio::test]
async fn a_refused_token_stops_the_commands_and_ends_the_worker() {
    for status in [401, 403] {
        let rig = Rig::start().await;
        let mut connection = rig.accept().await.0;
        connection.welcome(&[]).await;
        connection.assign(running(), &rig.script()).await;
        eventually("the running command", || rig.is_running()).await;
        drop(connection);
        rig.refuse(status).await;
        eventually("the end of the command", || !rig.is_running()).await;
        let ended = rig.ended().await;
        assert!(matches!(ended, Err(WorkerError::Refused(_))), "{status}: {ended:?}");
    }
}

#[tokio::test]
async fn a_server_that_is_overloaded_does_not_end_the_worker() {
    let rig = Rig::start().await;
    for status in [503, 429, 500] {
        rig.refuse(status).await;
    }
    assert!(rig.accept().await.1.is_empty());
    rig.stop().await;
}

/// Another process is connected under the name of the worker: the worker tries again, and then gives up.
#[tokio::test]
async fn a_worker_whose_name_is_taken_waits_for_a_while_and_ends() {
    let rig = Rig::start().await;
    for _ in 0..2 {
        rig.name_is_taken().await;
    }
    rig.pass(Duration::from_secs(46)).await;
    rig.name_is_taken().await;
    let ended = rig.ended().await;
    let Err(WorkerError::Refused(error)) = ended else { panic!("{ended:?}") };
    assert_eq!(error.code(), Some(Code::Conflict));
}

/// The credit that the worker gives next.
async fn credit(connection: &mut Connection) -> i64 {
    loop {
        match connection.next().await.expect("a credit") {
            ToServer::Credit { total } => return total,
            ToServer::Renew {} => connection.send(ToWorker::Renewed {}).await,
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_worker_that_runs_once_gives_credit_for_one_job_and_ends_after_it() {
    let rig = Rig::until(Until { once: true, ..Until::default() }).await;
    let mut connection = rig.accept().await.0;
    connection.welcome(&[]).await;
    assert_eq!(credit(&mut connection).await, 1, "though it has two slots");
    connection.assign(finished(), "true").await;
    assert_eq!(end(&mut connection, finished()).await, End::Outcome(Outcome::Succeeded));
    let state = "succeeded".to_owned();
    connection.send(ToWorker::Moved { attempt: finished(), to: Word::Outcome, state }).await;
    loop {
        match connection.next().await {
            Some(ToServer::Leave {}) => break,
            Some(ToServer::Credit { total }) => assert_eq!(total, 1),
            Some(_) => {}
            None => panic!("it leaves before it disconnects"),
        }
    }
    drop(connection);
    rig.ended().await.unwrap();
}

#[tokio::test]
async fn a_drained_worker_finishes_its_job_and_ends_also_after_a_lost_connection() {
    let rig = Rig::until(Until { drained: true, ..Until::default() }).await;
    let mut connection = rig.accept().await.0;
    connection.welcome(&[]).await;
    assert_eq!(credit(&mut connection).await, 2);
    connection.assign(running(), &rig.script()).await;
    tokio::select! {
        () = eventually("the running command", || rig.is_running()) => {}
        ended = end(&mut connection, running()) => panic!("it ended early: {ended:?}"),
    }
    connection.send(ToWorker::Finish {}).await;
    assert_eq!(credit(&mut connection).await, 1, "the job that it has");
    drop(connection);
    let mut connection = rig.accept().await.0;
    connection.welcome(&[running()]).await;
    assert_eq!(credit(&mut connection).await, 0, "nothing more in the new session either");
    assert!(rig.is_running(), "the job continues");
    connection.send(ToWorker::Cancel { attempt: running(), timed_out: false }).await;
    assert_eq!(end(&mut connection, running()).await, End::Outcome(Outcome::Cancelled));
    let state = "cancelled".to_owned();
    connection.send(ToWorker::Moved { attempt: running(), to: Word::Outcome, state }).await;
    while !matches!(connection.next().await.expect("it leaves before it disconnects"), ToServer::Leave {}) {}
    drop(connection);
    rig.ended().await.unwrap();
}

#[tokio::test]
async fn a_worker_without_a_job_ends_after_its_idle_time_and_not_while_it_has_one() {
    let rig = Rig::until(Until { idle: Some(Duration::from_secs(300)), ..Until::default() }).await;
    let mut connection = rig.accept().await.0;
    connection.welcome(&[]).await;
    connection.assign(running(), &rig.script()).await;
    tokio::select! {
        () = eventually("the running command", || rig.is_running()) => {}
        ended = end(&mut connection, running()) => panic!("it ended early: {ended:?}"),
    }
    connection.send(ToWorker::Revoke { attempt: running() }).await;
    eventually("the end of the command", || !rig.is_running()).await;
    drop(connection);
    drop(rig.accept().await);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(301)).await;
    tokio::time::resume();
    rig.ended().await.unwrap();
}

/// The next message about this attempt; renewals are answered.
async fn next_about(connection: &mut Connection, wanted: AttemptId) -> ToServer {
    loop {
        match connection.next().await.expect("an open session") {
            ToServer::Renew {} => connection.send(ToWorker::Renewed {}).await,
            ToServer::Credit { .. } => {}
            message @ (ToServer::Accept { attempt, .. }
            | ToServer::Progress { attempt, .. }
            | ToServer::Outcome { attempt, .. })
                if attempt == wanted =>
            {
                return message;
            }
            other => panic!("{other:?}"),
        }
    }
}

fn accepted(attempt: AttemptId) -> ToWorker {
    ToWorker::Moved { attempt, to: Word::Accept, state: "accepted".to_owned() }
}

#[tokio::test]
async fn a_job_that_runs_at_most_once_starts_after_its_accept_was_answered() {
    let rig = Rig::start().await;
    let mut connection = rig.accept().await.0;
    connection.welcome(&[]).await;
    connection.assign_at_most_once(running(), &rig.script()).await;
    assert!(matches!(next_about(&mut connection, running()).await, ToServer::Accept { answer: true, .. }));
    // Another job runs from its start to its end meanwhile; the first one has still not started.
    let other: AttemptId = "2-1".parse().unwrap();
    connection.assign(other, "true").await;
    while !matches!(next_about(&mut connection, other).await, ToServer::Outcome { .. }) {}
    assert!(!rig.is_running(), "it was started before the answer");
    connection.send(accepted(running())).await;
    assert!(
        matches!(next_about(&mut connection, running()).await, ToServer::Progress { .. }),
        "it has started"
    );
    drop(connection);
    rig.stop().await;
}

#[tokio::test]
async fn an_accept_that_was_not_answered_is_sent_again_on_a_new_connection() {
    let rig = Rig::start().await;
    let mut connection = rig.accept().await.0;
    connection.welcome(&[]).await;
    connection.assign_at_most_once(running(), &rig.script()).await;
    assert!(matches!(next_about(&mut connection, running()).await, ToServer::Accept { answer: true, .. }));
    drop(connection);
    let (mut connection, named) = rig.accept().await;
    assert_eq!(named, [running()]);
    connection.welcome(&named).await;
    assert!(matches!(next_about(&mut connection, running()).await, ToServer::Accept { answer: true, .. }));
    assert!(!rig.is_running());
    connection.send(accepted(running())).await;
    assert!(matches!(next_about(&mut connection, running()).await, ToServer::Progress { .. }));
    drop(connection);
    rig.stop().await;
}

#[tokio::test]
async fn a_job_that_runs_at_most_once_never_starts_after_a_revoke_or_a_cancel() {
    let rig = Rig::start().await;
    let mut connection = rig.accept().await.0;
    connection.welcome(&[]).await;
    connection.assign_at_most_once(running(), &rig.script()).await;
    assert!(matches!(next_about(&mut connection, running()).await, ToServer::Accept { answer: true, .. }));
    connection.send(ToWorker::Revoke { attempt: running() }).await;
    connection.send(accepted(running())).await;
    let second: AttemptId = "2-1".parse().unwrap();
    connection.assign_at_most_once(second, &rig.script()).await;
    assert!(matches!(next_about(&mut connection, second).await, ToServer::Accept { answer: true, .. }));
    connection.send(ToWorker::Cancel { attempt: second, timed_out: false }).await;
    connection.send(accepted(second)).await;
    let ToServer::Outcome { report, .. } = next_about(&mut connection, second).await else {
        panic!("no outcome")
    };
    assert_eq!(report.outcome, Outcome::Cancelled);
    assert!(!rig.is_running());
    drop(connection);
    rig.stop().await;
}
