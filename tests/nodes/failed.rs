//! A leader that cannot continue ends with an error. Another node takes over.

use jobhall_tests::eventually;

use crate::crowd::Crowd;

#[test]
fn audit_m8_a_leader_whose_store_failed_ends_with_an_error_and_another_takes_over() {
    let mut crowd = Crowd::of(2, &[]);
    let first = crowd.submit(0, "true", &[]);
    // The numbers of commits do not fit any more: someone else wrote beside the leader.
    crowd.database.sql("UPDATE jobhall.meta SET value = value + 1000 WHERE name = 'commits'");
    let params = r#"{"script":"true"}"#;
    eventually("the end of the leader", || {
        let _ = crowd.nodes[0].run(&["job", "submit", "exec", "--params", params]);
        crowd.nodes[0].hall().ended().is_some()
    });
    let said = crowd.nodes[0].said("hall");
    assert_eq!(crowd.nodes[0].hall().wait().code(), Some(1), "{said}");
    assert!(said.contains("the server has stopped because of an error"), "{said}");
    eventually("the other node to lead", || crowd.nodes[1].url() == crowd.holder_url().trim());
    eventually("the job on the other node", || {
        crowd.nodes[1].run(&["job", "show", &first, "--json"]).status.success()
    });
    assert!(crowd.nodes[1].hall().ended().is_none(), "a change of leader is no error");
}
