//! A worker and a server that is unreachable for longer than a lease: what is stopped, and what the server receives.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod rig;

use jobhall_core::AttemptId;
use jobhall_protocol::{Outcome, ToServer, ToWorker};
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
