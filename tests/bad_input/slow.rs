//! Clients that send nothing, or send slowly, are disconnected after a time limit and delay no other client.

use jobhall_tests::Raw;

use super::guarded::Guarded;

#[test]
fn half_open_and_slow_connections_are_closed_and_keep_nobody_waiting() {
    let hall = Guarded::server();
    let silent: Vec<Raw> = (0..200).map(|_| hall.raw()).collect();
    let half = hall.head("POST /api/v1/jobs", "Content-Length: 100\r\n");
    let begun = |bytes: String| {
        let mut raw = hall.raw();
        raw.say(bytes);
        raw
    };
    let heads: Vec<Raw> = (0..20).map(|_| begun(half[..half.len() / 2].to_owned())).collect();
    let bodies: Vec<Raw> = (0..20).map(|_| begun(half.clone() + "{\"type\":")).collect();
    let mut idle = begun(hall.head("GET /livez", ""));
    for _ in 0..50 {
        assert_eq!(hall.get("/api/v1/jobs").status, 200, "others are served meanwhile");
    }
    for mut raw in silent.into_iter().chain(heads) {
        let answer = raw.answer();
        assert!(matches!(answer.status, 0 | 408), "{}", answer.head);
    }
    assert_eq!(idle.answer().status, 200, "idle after a good answer");
    for mut raw in bodies {
        let answer = raw.answer();
        assert_eq!((answer.status, answer.code().as_str()), (408, "timeout"), "{}", answer.body);
    }
    hall.is_unharmed();
}

#[test]
fn l17_a_worker_that_leaves_while_it_waits_is_given_nothing() {
    let hall = Guarded::server();
    let vacancy = r#"{"slots":1,"wait_s":60,"accepts":"type=wanted"}"#;
    for _ in 0..20 {
        hall.raw().say(hall.request("POST /api/v1/vacancies", "", vacancy));
    }
    hall.is_well();
    assert_eq!(hall.post("/api/v1/jobs", r#"{"type":"wanted"}"#).status, 201);
    let given = hall.post("/api/v1/vacancies", vacancy);
    assert!(given.status == 200 && given.body.contains("\"2-1\""), "the first claim: {}", given.body);
    hall.is_well();
}
