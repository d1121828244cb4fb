//! The addresses that nodes advertise to each other.

use jobhall_tests::{Rig, eventually, jobhall, text};

use crate::crowd::Crowd;

#[test]
fn an_address_that_cannot_be_one_is_refused_at_the_start() {
    let crowd = Crowd::of(1, &[]);
    for wrong in ["nonsense", "host:7450", "ftp://host:7450", "http://", "http://host:7450/path"] {
        let url = crowd.database.url();
        let output = crowd.nodes[0].run(&[
            "server",
            "--database",
            &url,
            "--listen",
            "127.0.0.1:0",
            "--advertise",
            wrong,
        ]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{wrong}: {said}");
        assert!(
            said.contains("--advertise") && said.contains("is not of the form http://HOST:PORT"),
            "{wrong}: {said}"
        );
    }
}

#[test]
fn where_the_holder_tells_the_address_of_another_node_that_is_said_and_logged() {
    let mut crowd = Crowd::of(1, &[]);
    let url = crowd.database.url();
    let (mut wrong, follower) = (Rig::new(), crowd.nodes[0].url());
    wrong.share_key(&crowd.nodes[0]);
    wrong.start(&["server", "--log", "info", "--database", &url, "--advertise", &follower]);
    crowd.nodes[0].hall().kill();
    eventually("the other to lead", || wrong.said("hall").contains("this node leads"));
    let words = ["server", "--log", "info", "--database", url.as_str()];
    // It never becomes ready, so the test does not wait for that.
    let mut command = jobhall();
    command
        .args(words)
        .arg("--data")
        .arg(crowd.nodes[0].data())
        .args(["--listen", &follower["http://".len()..]]);
    let _follower = crowd.nodes[0].spawn(command, "hall");
    eventually("the message", || {
        let ready = std::net::TcpStream::connect(crowd.nodes[0].address()).is_ok();
        ready
            && crowd.nodes[0]
                .raw()
                .say("GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                .answer()
                .body
                .contains("--advertise")
    });
    assert!(crowd.nodes[0].said("hall").contains("--advertise"), "{}", crowd.nodes[0].said("hall"));
}
