//! Messages of a session about attempts of another worker, or about attempts that are lost.

use jobhall_protocol::Encoding;
use jobhall_tests::{Rig, eventually};

use super::guarded::Guarded;
use super::socket::{FINAL, Socket, TEXT, frame};

/// A worker with a session in JSON.
struct Worker(Socket);

impl Worker {
    /// Takes one job of type `own`.
    fn take(rig: &Rig, token: &str) -> (Worker, String, String) {
        let mut socket = Socket::open(rig, token, Encoding::Json);
        let hello = br#"[{"hello":{"version":1,"accepts":"type=own"}},{"credit":{"total":1}}]"#;
        socket.say(frame(FINAL | TEXT, hello));
        let assigned = socket.hear("assign");
        let text = |name: &str| assigned[name].as_str().unwrap().to_owned();
        (Worker(socket), text("attempt"), text("lease"))
    }

    /// Every message about this attempt is refused, and the session continues.
    #[track_caller]
    fn is_refused(&mut self, attempt: &str, lease: &str) {
        let held = format!(r#""attempt":"{attempt}","lease":"{lease}""#);
        for (word, more) in [
            ("accept", ""),
            ("progress", r#","indicators":[]"#),
            ("log", r#","offset":0,"stream":"stdout","bytes":"eA==""#),
            ("outcome", r#","report":{"outcome":"succeeded"}"#),
        ] {
            let message = format!(r#"[{{"{word}":{{{held}{more}}}}}]"#);
            let refused = self.0.say(frame(FINAL | TEXT, message.as_bytes())).hear("refused");
            assert_eq!((&refused["to"], &refused["code"]), (&word.into(), &"lease_lost".into()), "{refused}");
        }
        self.0.say(frame(FINAL | TEXT, br#"[{"ping":{"n":7}}]"#));
        assert_eq!(self.0.hear("pong")["n"], 7);
    }
}

fn submit(rig: &Rig) -> String {
    rig.json(&["job", "submit", "own", "--max-attempts", "3", "--json"])["id"].to_string()
}

fn job(rig: &Rig, id: &str) -> serde_json::Value {
    rig.json(&["job", "show", id, "--json"])
}

#[test]
fn g2_l9_a_session_cannot_speak_about_what_another_holds() {
    let hall = Guarded::server();
    let made = hall.json(&["token", "create", "another", "--role", "worker", "--json"]);
    let another = made["secret"].as_str().unwrap();
    let id = submit(&hall);
    let (mut one, attempt, lease) = Worker::take(&hall, &hall.token());
    let accept = format!(r#"[{{"accept":{{"attempt":"{attempt}","lease":"{lease}"}}}},{{"renew":{{}}}}]"#);
    one.0.say(frame(FINAL | TEXT, accept.as_bytes())).hear("renewed");
    let mut other = Worker(Socket::welcomed(&hall, another, Encoding::Json));
    other.is_refused(&attempt, &lease);
    one.is_refused(&attempt, &("0".repeat(31) + "1"));
    one.is_refused(&format!("{id}-9"), &lease);
    // Naming the attempt in a hello does not assign it to the worker either.
    let mut thief = Socket::open(&hall, another, Encoding::Json);
    let hello =
        format!(r#"[{{"hello":{{"version":1,"attempts":[{{"attempt":"{attempt}","lease":"{lease}"}}]}}}}]"#);
    let welcome = thief.say(frame(FINAL | TEXT, hello.as_bytes())).hear("welcome");
    assert_eq!((&welcome["kept"], &welcome["lost"][0]), (&serde_json::json!([]), &attempt.as_str().into()));
    assert_eq!(job(&hall, &id)["state"], "accepted", "none of this changed the job");
    let passed = format!(
        r#"[{{"outcome":{{"attempt":"{attempt}","lease":"{lease}","report":{{"outcome":"succeeded"}}}}}}]"#
    );
    assert_eq!(one.0.say(frame(FINAL | TEXT, passed.as_bytes())).hear("moved")["state"], "succeeded");
    assert_eq!(hall.run(&["job", "log", &id]).stdout, b"", "and a foreign chunk is in no log");
    drop((one, other, thief));
    hall.is_well();
}

#[test]
fn g2_g8_a_session_after_a_restart_cannot_bring_a_lease_that_ended() {
    let short = ["server", "--lease", "3s"];
    let mut rig = Rig::server(&short[1..]);
    let id = submit(&rig);
    let (first, attempt, lease) = Worker::take(&rig, &rig.token());
    rig.hall().kill();
    drop(first);
    rig.start(&short);
    eventually("the end of the lease", || {
        ["retrying", "queued"].contains(&job(&rig, &id)["state"].as_str().unwrap())
    });
    let before = job(&rig, &id);
    let mut late = Worker(Socket::open(&rig, &rig.token(), Encoding::Json));
    let hello =
        format!(r#"[{{"hello":{{"version":1,"attempts":[{{"attempt":"{attempt}","lease":"{lease}"}}]}}}}]"#);
    let welcome = late.0.say(frame(FINAL | TEXT, hello.as_bytes())).hear("welcome");
    assert_eq!(welcome["lost"][0], attempt.as_str(), "{welcome}");
    late.is_refused(&attempt, &lease);
    let after = job(&rig, &id);
    assert_eq!((&before["state"], &before["attempts"]), (&after["state"], &after["attempts"]));
    assert_eq!(rig.run(&["job", "log", &id]).stdout, b"", "and a stale chunk is in no log");
}
