//! The pipeline in `examples/`: jobs that read the results of the jobs they come after.

use std::path::Path;
use std::process::{Command, Output};

use jobhall_tests::{Rig, binary, jobhall, text};
use serde_json::{Value, json};

/// The path with the binary under test in front.
fn path() -> String {
    let own = std::env::var("PATH").unwrap_or_default();
    format!("{}:{own}", binary().parent().unwrap().display())
}

/// A hall whose jobs find the binary.
fn hall() -> Rig {
    let mut rig = Rig::new();
    let mut command = jobhall();
    command.args(["up", "--slots", "4", "--listen", &rig.address().to_string(), "--data"]).arg(rig.data());
    command.env("PATH", path());
    rig.start_command(command);
    rig
}

fn example(rig: &Rig, words: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/pipeline/run.sh");
    let mut command = Command::new(script);
    command.args(words).env("PATH", path()).env("JOBHALL_SERVER", rig.url()).env("JOBHALL_DATA", rig.data());
    command.output().unwrap()
}

#[test]
fn ground_6_a_merge_reads_the_results_of_a_hundred_shards_and_a_retried_one_again() {
    let rig = hall();
    let ended = example(&rig, &[]);
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    let told: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let merged = json!({"sum": 50_005_000, "last": 995_050});
    assert_eq!(told["result"], merged, "{told}");
    let all = rig.json(&["job", "list", "--all", "--json"]);
    let merge =
        all.as_array().unwrap().iter().filter_map(|job| job["id"].as_u64()).max().unwrap().to_string();
    let job = rig.json(&["job", "show", &merge, "--json"]);
    assert_eq!((job["after"].as_array().unwrap().len(), &job["result"]), (100, &merged));
    let again = id(&rig.json(&["job", "retry", &merge, "--json"]));
    assert!(rig.run(&["job", "wait", &again]).status.success());
    let job = rig.json(&["job", "show", &again, "--json"]);
    assert_eq!((&job["result"], job["after"].as_array().unwrap().len()), (&merged, 100));
}

/// The id of a job, or of the only job of a list.
fn id(job: &Value) -> String {
    job.get("id").unwrap_or(&job[0]["id"]).to_string()
}

/// Runs a script as a job after these jobs, and returns its id.
fn script(rig: &Rig, text: &str, after: &[&str]) -> String {
    let params = json!({ "script": text }).to_string();
    let mut words = vec!["job", "submit", "exec", "--params", &params, "--wait", "--json"];
    let after = after.join(",");
    if !after.is_empty() {
        words.extend(["--after", &after]);
    }
    id(&rig.json(&words))
}

#[test]
fn ground_6_a_job_lists_and_reads_its_inputs_and_is_told_what_is_not_there() {
    let rig = hall();
    let first =
        script(&rig, "echo '{\"rows\": 7}' > $JOBHALL_RESULT; echo a,b > $JOBHALL_OUTPUT/rows.csv", &[]);
    let second = script(&rig, "test -z ${JOBHALL_INPUTS-}", &[]);
    let reader = "
        cat $JOBHALL_INPUTS; echo
        jobhall input
        jobhall input 1
        jobhall input 1 --artifact rows.csv
        jobhall input 1 --artifact rows.csv -o copy; cat copy
        jobhall input --json > list; cat list
        for bad in 2 parent '0 --artifact none'; do jobhall input $bad 2>&1 || echo code $?; done";
    let third = script(&rig, reader, &[&second, &first]);
    let log = text(&rig.run(&["job", "log", &third]).stdout);
    let listed: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    let number = |id: &str| id.parse::<u64>().unwrap();
    let expected = json!([
        {"n": 0, "job": number(&second), "type": "exec", "key": null, "state": "succeeded", "result": null,
         "artifacts": []},
        {"n": 1, "job": number(&first), "type": "exec", "key": null, "state": "succeeded",
         "result": {"rows": 7}, "artifacts": [{"name": "rows.csv", "size": 4}]},
    ]);
    assert_eq!(listed, expected, "{log}");
    for words in [
        "INPUT",
        "rows.csv",
        "{\"rows\": 7}\na,b\na,b\n",
        "has no input 2: it has 2 inputs, counted from 0",
        "list the inputs with `jobhall input`",
        "the parent still runs and has no result",
        "which is input 0, has no artifact none",
        "code 5",
        "code 2",
    ] {
        assert!(log.contains(words), "{words} is not in {log}");
    }
    let outside = rig.run(&["input"]);
    let said = text(&outside.stderr);
    assert!(outside.status.code() == Some(2) && said.contains("this is not the process of a job"), "{said}");
}
