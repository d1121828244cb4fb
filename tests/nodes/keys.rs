//! The key of a hall is in a file of every node and not in the database; revoked tokens stay revoked on every node.

use std::path::Path;
use std::process::Output;

use jobhall_tests::{Rig, eventually, jobhall, text};

use crate::crowd::Crowd;

/// The status of a request with this token.
fn status(at: &Rig, token: &str, path: &str) -> u16 {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    at.raw().say(request).answer().status
}

/// Runs a node that is expected to end by itself.
fn refused(crowd: &Crowd, node: &Rig, words: &[&str]) -> Output {
    let mut command = jobhall();
    command.args(["server", "--listen", "127.0.0.1:0", "--database", &crowd.database.url(), "--data"]);
    command.arg(node.data()).args(words).output().unwrap()
}

fn key_of(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn audit_h3_a_node_without_the_key_or_with_another_one_does_not_start() {
    let crowd = Crowd::of(1, &[]);
    let first = crowd.nodes[0].data().join("hall.key");
    let without = Rig::new();
    let output = refused(&crowd, &without, &[]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("has no key") && said.contains(first.to_str().unwrap()), "{said}");
    assert!(said.contains("scp -p"), "it says how to copy the key: {said}");
    assert!(!without.data().join("hall.key").exists(), "it made no key of another hall");

    let other = Rig::new();
    std::fs::create_dir_all(other.data()).unwrap();
    let named = other.folder().join("other.key");
    std::fs::write(&named, "ab".repeat(32)).unwrap();
    std::fs::set_permissions(&named, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let output = refused(&crowd, &other, &["--key-file", named.to_str().unwrap()]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("is not the key of this hall") && said.contains("scp -p"), "{said}");
}

#[test]
fn audit_h3_a_rotated_key_overlaps_and_then_only_the_new_one_is_valid() {
    let crowd = Crowd::of(2, &[]);
    let (first, second) = (crowd.nodes[0].data().join("hall.key"), crowd.nodes[1].data().join("hall.key"));
    let before = key_of(&first);
    let shown = crowd.json(0, &["key", "rotate", "--overlap", "1h"]);
    assert_eq!(shown["earlier"].as_array().map(Vec::len), Some(1), "{shown}");
    assert_ne!(key_of(&first).lines().next(), before.lines().next());
    // The second node has the earlier key: both work together.
    let recorded = || crowd.database.sql("SELECT id FROM jobhall.hall_key").trim() == shown["id"];
    eventually("the new key to be recorded", recorded);
    for at in [0, 1] {
        assert!(status(&crowd.nodes[at], &crowd.token, "/api/v1/queues") == 200, "node {at}");
    }
    // Without an overlap the earlier key is invalid at once, and a node with it serves no longer.
    let newest = crowd.json(0, &["key", "rotate", "--overlap", "0s"]);
    eventually("the newest key to be recorded", || {
        crowd.database.sql("SELECT id FROM jobhall.hall_key").trim() == newest["id"]
    });
    eventually("the node with the old key to refuse requests", || {
        status(&crowd.nodes[1], &crowd.token, "/api/v1/queues") == 503
    });
    std::fs::copy(&first, &second).unwrap();
    eventually("the node with the copied key to serve again", || {
        status(&crowd.nodes[1], &crowd.token, "/api/v1/queues") == 200
    });
}

#[test]
fn audit_h4_a_revoked_administrator_stays_revoked_after_restarts_and_changes_of_leader() {
    let mut crowd = Crowd::of(2, &[]);
    let other = crowd.json(0, &["token", "create", "second", "--role", "admin"])["secret"].clone();
    let other = other.as_str().unwrap().to_owned();
    let id = crowd.token.split('_').nth(1).unwrap().to_owned();
    crowd.run(0, &["token", "revoke", &id]);
    let revoked = crowd.token.clone();
    let check = |crowd: &Crowd, when: &str| {
        for (at, node) in crowd.nodes.iter().enumerate() {
            eventually(&format!("an answer of node {at} {when}"), || {
                status(node, &other, "/api/v1/tokens") == 200
            });
            assert!(status(node, &revoked, "/api/v1/queues") == 401, "node {at} {when}");
        }
    };
    check(&crowd, "at once");
    for at in [0, 1] {
        crowd.nodes[at].hall().kill();
        eventually("the other node to lead", || {
            status(&crowd.nodes[1 - at], &other, "/api/v1/tokens") == 200
        });
        assert!(status(&crowd.nodes[1 - at], &revoked, "/api/v1/queues") == 401, "node {at} is down");
        crowd.start(at);
        check(&crowd, "after a restart");
    }
}
