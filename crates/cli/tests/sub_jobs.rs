//! Sub-jobs, timeouts and external outcomes in shell scripts.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod up;

use up::{Up, eventually, text};

/// A hall with a local worker with one slot.
fn start() -> Up {
    Up::start(tempfile::tempdir().unwrap(), "up", &["--slots", "1", "--listen", "127.0.0.1:0"])
}

/// Submits a script and waits for its end; returns the exit code.
fn ends(up: &Up, script: &str, more: &[&str]) -> Option<i32> {
    let params = serde_json::json!({ "script": script, "env": { "HALL": env!("CARGO_BIN_EXE_jobhall") } });
    let params = params.to_string();
    let mut words = vec!["job", "submit", "exec", "--params", &params, "--wait"];
    words.extend(more);
    up.run(&words).status.code()
}

/// The script of a job that adds two numbers.
fn sum(a: u32, b: u32) -> String {
    serde_json::json!({ "script": format!("echo $(({a} + {b})) > $JOBHALL_RESULT") }).to_string()
}

#[test]
fn a_script_computes_by_sub_jobs_on_a_worker_with_one_slot() {
    let up = start();
    let script = format!(
        "left=$($HALL call exec --params '{}') || exit 1
         $HALL call exec --params '{}' --no-wait >&2
         $HALL call exec --params '{}' --no-wait >&2
         set -- $($HALL call --all | sort -n)
         echo \"[$left,$1,$2,$3]\" > $JOBHALL_RESULT",
        sum(1, 2),
        sum(3, 4),
        sum(20, 22)
    );
    assert_eq!(ends(&up, &script, &[]), Some(0), "{}", text(&up.run(&["job", "log", "1"]).stdout));
    let job = up.json(&["job", "show", "1", "--json"]);
    assert_eq!(job["result"], serde_json::json!([3, 3, 7, 42]));
    let children = up.json(&["job", "list", "--all", "--json"]);
    assert_eq!(children.as_array().unwrap().iter().filter(|job| job["parent"] == 1).count(), 3);
}

#[test]
fn a_sub_job_that_fails_gives_its_verdict_to_the_script() {
    let up = start();
    let failing = serde_json::json!({ "script": "exit 3" }).to_string();
    let script =
        format!("code=0; $HALL call exec --params '{failing}' || code=$?; echo $code > $JOBHALL_RESULT");
    assert_eq!(ends(&up, &script, &[]), Some(0));
    assert_eq!(up.json(&["job", "show", "1", "--json"])["result"], 100);
    let outside = up.run(&["call", "exec"]);
    assert_eq!(outside.status.code(), Some(2));
    assert!(text(&outside.stderr).contains("this is not the process of a job"), "{}", text(&outside.stderr));
}

#[test]
fn a_sub_job_never_joins_a_job_with_other_params_unless_told() {
    let up = start();
    let held =
        ["job", "submit", "exec", "--key", "k", "--needs", "gpu>=4", "--params", "{\"script\":\"exit 9\"}"];
    assert!(up.run(&held).status.success());
    let params = sum(1, 2);
    let call = format!("$HALL call exec --key k --params '{params}'");
    // The second call has the name of the first, which was refused.
    let script = format!(
        "a=0; {call} 2>said || a=$?
         b=0; {call} || b=$?
         c=0; {call} --on-duplicate reject || c=$?
         {call} --on-duplicate join --no-wait >&2 || exit 1
         sum=$({call} --on-duplicate supersede) || exit 1
         grep -q 'repeat with --on-duplicate supersede' said || exit 2
         echo \"[$a,$b,$c,$sum]\" > $JOBHALL_RESULT"
    );
    assert_eq!(ends(&up, &script, &[]), Some(0), "{}", text(&up.run(&["job", "log", "2"]).stdout));
    assert_eq!(up.json(&["job", "show", "2", "--json"])["result"], serde_json::json!([6, 6, 6, 3]));
    assert_eq!(up.json(&["job", "show", "1", "--json"])["state"], "cancelled");
}

#[test]
fn h12_l19_a_command_that_takes_too_long_or_says_nothing_is_ended_and_told_as_timed_out() {
    let up = start();
    for (script, limit) in
        [("while true; do echo on; sleep 0.05; done", "--timeout"), ("sleep 600", "--silence")]
    {
        assert_eq!(ends(&up, script, &[limit, "1s"]), Some(102), "{limit}");
    }
    for (id, words) in
        [("1", "took longer than 1000 ms"), ("2", "there was no output or progress for 1000 ms")]
    {
        let job = up.json(&["job", "show", id, "--json"]);
        assert_eq!(job["attempts"][0]["outcome"], "timed_out");
        assert!(job["error"]["explanation"].as_str().unwrap().contains(words), "{job}");
    }
    let talking = "for n in 1 2 3 4 5 6 7 8; do echo $n; sleep 0.25; done";
    assert_eq!(ends(&up, talking, &["--silence", "1s"]), Some(0), "output resets the limit");
}

#[test]
fn h10_a_worker_starts_it_and_someone_else_tells_how_it_ended() {
    let up = start();
    let set = up.json(&["type", "set", "exec", "--external", "--timeout", "1h", "--json"]);
    assert_eq!((&set["external"], &set["timeouts"]["total"]), (&true.into(), &"1h".into()));
    let params = serde_json::json!({ "script": "echo started" }).to_string();
    assert!(up.run(&["job", "submit", "exec", "--key", "a/b", "--params", &params]).status.success());
    let state = || up.json(&["job", "show", "1", "--json"])["state"].as_str().unwrap().to_owned();
    eventually("the start", || state() == "waiting");
    let explained = text(&up.run(&["job", "explain", "1"]).stdout);
    assert!(explained.contains("waits for an outcome from outside until"), "{explained}");
    let other = up.run(&["job", "complete", "exec", "a/b", "--succeeded", "1", "--attempt", "2"]);
    assert_eq!(other.status.code(), Some(6), "{}", text(&other.stderr));
    let told = up.run(&["job", "complete", "exec", "a/b", "--succeeded", "{\"minutes\":92}"]);
    assert!(told.status.success(), "{}", text(&told.stderr));
    assert_eq!(up.json(&["job", "show", "1", "--json"])["result"]["minutes"], 92);
    let late = up.run(&["job", "complete", "exec", "a/b", "--failed", "no"]);
    assert_eq!(late.status.code(), Some(6));
    assert_eq!(up.run(&["job", "complete", "exec", "nothing", "--succeeded"]).status.code(), Some(5));
}

#[test]
fn several_measures_of_progress_are_shown_as_bars() {
    let up = start();
    let script = "$HALL progress --name copy 3/6 files && $HALL progress --name check 10; sleep 600";
    let params = serde_json::json!({ "script": script, "env": { "HALL": env!("CARGO_BIN_EXE_jobhall") } });
    assert!(up.run(&["job", "submit", "exec", "--params", &params.to_string()]).status.success());
    let show = || text(&up.run(&["job", "show", "1"]).stdout);
    eventually("both measures", || show().contains("  check  10\n"));
    assert!(show().contains("copy   ██████████░░░░░░░░░░ 3/6 files"), "{}", show());
    up.run(&["job", "cancel", "1"]);
    eventually("the end", || show().contains("cancelled"));
    eventually("the last progress", || show().contains("copy 3/6, check 10"));
}

#[test]
fn a_call_prints_a_result_that_is_an_artifact() {
    let up = start();
    let writes = |script: &str| serde_json::json!({ "script": script }).to_string();
    let json = writes("printf \"\\\"%0200000d\\\"\" 7 > $JOBHALL_RESULT");
    let plain = writes("echo no JSON > $JOBHALL_RESULT");
    let script = format!(
        "$HALL call exec --params '{json}' > large || exit 1
         $HALL call exec --params '{json}' --json > document || exit 1
         said=$($HALL call exec --params '{plain}') || exit 1
         quoted=$($HALL call exec --params '{plain}' --jsonl --fields result) || exit 1
         $HALL call exec --params '{}' >&2 || exit 1
         $HALL call --all > all || exit 1
         printf '[%s,%s,\"%s\",%s,%s,%s]' $(wc -c < large) $(wc -l < large) \"$said\" \"$quoted\" \\
             $(wc -l < all) $(wc -c < document) > $JOBHALL_RESULT",
        sum(1, 2)
    );
    assert_eq!(ends(&up, &script, &[]), Some(0), "{}", text(&up.run(&["job", "log", "1"]).stdout));
    let result = up.json(&["job", "show", "1", "--json"])["result"].clone();
    let document = result[5].as_u64().unwrap();
    assert!((200_002..200_300).contains(&document), "{result}");
    let quoted = serde_json::json!({"result": "no JSON\n"});
    assert_eq!(result, serde_json::json!([200_003, 1, "no JSON", quoted, 3, document]));
}
