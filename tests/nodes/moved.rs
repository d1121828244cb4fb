//! A hall on SQLite is moved to PostgreSQL: `jobhall move`.

use jobhall_tests::{Process, Rig, Signal, eventually, jobhall, text};
use jobhall_throwaway::{Cluster, Database};
use serde_json::Value;

/// Everything that can be read about a hall, except what a live attempt changes.
fn picture(rig: &Rig, ids: &[String]) -> Vec<(String, Value)> {
    let lists = ["job list", "group list", "schedule list", "type list", "token list"];
    let shows = ids.iter().map(|id| format!("job show {id}"));
    let asks = lists.map(str::to_owned).into_iter().chain(shows);
    asks.map(|ask| {
        let words: Vec<&str> = ask.split(' ').chain(["--json"]).collect();
        let answer = rig.json(&words);
        (ask, answer)
    })
    .collect()
}

fn submit(rig: &Rig, words: &[&str]) -> String {
    rig.json(&[&["job", "submit"], words, &["--json"]].concat())["id"].to_string()
}

fn until(rig: &Rig, id: &str, state: &str) {
    eventually(&format!("job {id} to be {state}"), || {
        rig.json(&["job", "show", id, "--json"])["state"] == state
    });
}

fn well(rig: &Rig, words: &[&str]) -> String {
    let output = rig.run(words);
    assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn stop(rig: &mut Rig) {
    rig.hall().signal(Signal::TERM);
    assert!(rig.hall().wait().success(), "{}", rig.said("hall"));
}

fn worker(rig: &Rig) -> Process {
    let made = rig.json(&["token", "create", "w", "--role", "worker", "--json"]);
    rig.worker("w", made["secret"].as_str().unwrap(), &["--allow", "exec", "--slots", "2"])
}

/// Moves the data of the rig; returns the output of the command.
fn move_up(rig: &Rig, database: &Database) -> std::process::Output {
    let from = format!("sqlite:{}", rig.data().display());
    jobhall().args(["move", "--json", "--from", &from, "--to", &database.url()]).output().unwrap()
}

/// Submits jobs for every lasting state; returns their ids.
fn fill(rig: &Rig) -> Vec<String> {
    well(rig, &["queue", "pause", "later"]);
    well(rig, &["type", "set", "mail", "--keep", "7d"]);
    well(rig, &["schedule", "set", "hourly", "--cron", "0 0 1 1 *", "--type", "mail"]);
    let exec = |script: &str, more: &[&str]| {
        let params = serde_json::json!({ "script": script }).to_string();
        submit(rig, &[&["exec", "--params", &params], more].concat())
    };
    let group = rig.json(&["group", "create", "--name", "night", "--json"])["id"].to_string();
    let done = exec(
        "echo hi; echo kept > $JOBHALL_OUTPUT/file",
        &["--key", "once", "--tag", "x", "--owner", "anna"],
    );
    let failed = exec("exit 3", &[]);
    until(rig, &done, "succeeded");
    until(rig, &failed, "failed");
    let queued = exec("echo late", &["--queue", "later", "--priority", "7", "--group", &group]);
    let scheduled = submit(rig, &["mail", "--run-at", "2099-01-01T00:00:00Z", "--key", "k"]);
    let blocked = submit(rig, &["mail", "--after", &queued]);
    let cancelled = submit(rig, &["mail", "--needs", "gpu>=1"]);
    well(rig, &["job", "cancel", &cancelled]);
    vec![queued, done, failed, scheduled, blocked, cancelled]
}

/// All items of a list still exist, except for the job whose attempt continues.
fn assert_kept(ask: &str, was: &[Value], is: &[Value], running: &str) {
    assert!(!was.is_empty(), "{ask} shows something");
    let running: u64 = running.parse().unwrap();
    for one in was.iter().filter(|one| one["id"].as_u64() != Some(running)) {
        assert!(is.contains(one), "{ask} no longer has {one}, but {is:?}");
    }
}

#[test]
fn a_moved_hall_shows_every_job_alike_and_goes_on() {
    let (server, mut rig) = (Cluster::shared(), Rig::server(&[]));
    let database = server.database();
    let _worker = worker(&rig);
    let client = rig.json(&["token", "create", "ci", "--role", "client", "--json"]);
    let ids = fill(&rig);
    let go = rig.folder().join("go");
    let script = format!("while [ ! -e {} ]; do sleep 0.05; done", go.display());
    let running = submit(&rig, &["exec", "--params", &serde_json::json!({ "script": script }).to_string()]);
    let state = |rig: &Rig| rig.json(&["job", "show", &running, "--json"])["state"].clone();
    eventually("it to run", || state(&rig) == "accepted" || state(&rig) == "running");
    let before = picture(&rig, &ids);
    let left = |rig: &Rig| {
        [well(rig, &["job", "log", &ids[1]]), well(rig, &["job", "artifacts", &ids[1], "--json"])]
    };
    let left_before = left(&rig);
    assert!(left_before[0].contains("hi") && left_before[1].contains("file"), "{left_before:?}");

    let busy = move_up(&rig, &database);
    assert!(text(&busy.stderr).contains("another server has this store open"), "{}", text(&busy.stderr));
    stop(&mut rig);
    let moved = move_up(&rig, &database);
    assert!(moved.status.success(), "{}", text(&moved.stderr));
    let counts: Value = serde_json::from_slice(&moved.stdout).unwrap();
    assert_eq!((counts["jobs"].as_u64(), counts["groups"].as_u64()), (Some(7), Some(1)), "{counts}");
    assert!(counts["logs"] == 1 && counts["artifacts"] == 1, "{counts}");
    let files = "SELECT count(*) FROM jobhall.blob_files WHERE name LIKE 'objects/%'";
    assert_eq!(database.sql(files), "1");

    // Starting the old hall again would execute its jobs twice.
    let refused = rig.run(&["server", "--listen", "127.0.0.1:0"]);
    let said = text(&refused.stderr);
    assert!(!refused.status.success() && said.contains("was moved to postgres://"), "{said}");
    let mark = rig.data().join("jobs.db.moved");
    assert!(said.contains(&format!("remove {}", mark.display())), "{said}");

    let url: &'static str = database.url().leak();
    rig.start(&["server", "--log", "info", "--database", url]);
    for ((ask, was), (_, is)) in before.iter().zip(picture(&rig, &ids)) {
        match (was.as_array(), is.as_array()) {
            (Some(was), Some(is)) => assert_kept(ask, was, is, &running),
            _ => assert_eq!(*was, is, "{ask}"),
        }
    }
    assert_eq!(left(&rig), left_before);
    // The running attempt continues, waiting jobs wait for the same as before, and old tokens are valid.
    std::fs::write(&go, "").unwrap();
    until(&rig, &running, "succeeded");
    assert_eq!(rig.json(&["job", "show", &running, "--json"])["attempt"], 1);
    assert_eq!(rig.json(&["job", "show", &ids[0], "--json"])["state"], "queued");
    well(&rig, &["queue", "resume", "later"]);
    until(&rig, &ids[0], "succeeded");
    until(&rig, &ids[4], "queued");
    let secret = client["secret"].as_str().unwrap();
    let new = rig.json(&["job", "submit", "mail", "--token", secret, "--json"])["id"].as_u64().unwrap();
    assert!(ids.iter().chain([&running]).all(|id| id.parse::<u64>().unwrap() < new), "ids continue");
    assert_eq!(rig.json(&["job", "list", "--type", "mail", "--json"]).as_array().unwrap().len(), 4);

    let again = move_up(&rig, &database);
    assert!(text(&again.stderr).contains("leads the target"), "{}", text(&again.stderr));
    stop(&mut rig);
    let again = move_up(&rig, &database);
    assert!(text(&again.stderr).contains("the target is not an empty hall"), "{}", text(&again.stderr));
    assert!(!again.status.success() && again.stdout.is_empty());
    // Moved data can be moved to another database, and used again after the mark is removed.
    let elsewhere = server.database();
    let moved = move_up(&rig, &elsewhere);
    assert!(moved.status.success(), "{}", text(&moved.stderr));
    assert_eq!(elsewhere.sql("SELECT count(*) FROM jobhall.jobs"), "7");
    std::fs::remove_file(mark).unwrap();
    rig.start(&["server"]);
    assert_eq!(rig.json(&["job", "list", "--json"]).as_array().unwrap().len(), 7);
}

#[test]
fn ground_10_notes_move_with_their_attempts() {
    let (server, mut rig) = (Cluster::shared(), Rig::server(&[]));
    let database = server.database();
    let id = submit(&rig, &["mine"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = rig.client();
        let (abilities, accepts) = (String::new(), String::new());
        let vacancy = jobhall_protocol::Vacancy {
            wait_s: 20,
            abilities,
            accepts,
            ..jobhall_protocol::Vacancy::default()
        };
        let given = client.vacancies(&vacancy).await.unwrap().attempts.remove(0);
        let lease = jobhall_client::AttemptRef { attempt: &given.id, lease: &given.lease };
        let line = || format!("\"{}\"\n", "x".repeat(9_997)).into();
        for n in 0..50 {
            client.append_log(lease, jobhall_client::Stream::Note, n * 10_000, line()).await.unwrap();
        }
        let report = serde_json::json!({"outcome": "succeeded"});
        client.outcome(lease, &serde_json::from_value(report).unwrap()).await.unwrap();
    });
    let notes = |rig: &Rig| well(rig, &["job", "log", &id, "--notes", "--jsonl"]);
    let before = notes(&rig);
    assert_eq!(before.lines().count(), 50);
    stop(&mut rig);
    let moved = move_up(&rig, &database);
    assert!(moved.status.success(), "{}", text(&moved.stderr));
    let url: &'static str = database.url().leak();
    rig.start(&["server", "--database", url]);
    assert_eq!(notes(&rig), before);
    assert_eq!(well(&rig, &["job", "log", &id]), "");
}

#[test]
fn a_move_that_fails_at_its_end_leaves_the_old_hall_as_good_as_it_was() {
    let (server, mut rig) = (Cluster::shared(), Rig::server(&[]));
    let database = server.database();
    submit(&rig, &["mail"]);
    stop(&mut rig);
    empty_hall(&database);
    // The last check of the move finds other counters than it has set.
    database.sql(
        "CREATE FUNCTION public.odd() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN NEW.value := NEW.value + 1; RETURN NEW; END $$;
         CREATE TRIGGER odd BEFORE UPDATE ON jobhall.meta FOR EACH ROW EXECUTE FUNCTION public.odd()",
    );
    let failed = move_up(&rig, &database);
    let said = text(&failed.stderr);
    assert!(!failed.status.success() && said.contains("nothing was moved"), "{said}");
    let mark = rig.data().join("jobs.db.moved");
    assert!(!mark.exists());
    rig.start(&["server"]);
    assert_eq!(rig.json(&["job", "list", "--json"]).as_array().unwrap().len(), 1);
    // A file that was moved before keeps its mark.
    stop(&mut rig);
    let elsewhere = server.database();
    assert!(move_up(&rig, &elsewhere).status.success());
    assert!(!move_up(&rig, &database).status.success());
    let marked = std::fs::read_to_string(mark).unwrap();
    assert!(marked.contains(&format!("/{} at ", elsewhere.name())), "{marked}");
}

/// Creates the tables of an empty hall.
fn empty_hall(database: &Database) {
    let mut node = Rig::new();
    let url: &'static str = database.url().leak();
    node.start(&["server", "--database", url]);
    stop(&mut node);
    database.sql(
        "TRUNCATE jobhall.settings, jobhall.audit, jobhall.blocks, jobhall.feed, jobhall.idempotency_keys;
         UPDATE jobhall.meta SET value = 0",
    );
}

/// Makes this operation on a table slow.
fn slow(database: &Database, what: &str) {
    database.sql(&format!(
        "CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN PERFORM pg_sleep(2); RETURN NEW; END $$;
         CREATE TRIGGER slow BEFORE {what} FOR EACH ROW EXECUTE FUNCTION public.slow()"
    ));
}

/// Moves the data of the rig, and kills the move as soon as it is slow.
fn killed_move(rig: &Rig, database: &Database) {
    let mut command = jobhall();
    let from = format!("sqlite:{}", rig.data().display());
    command.args(["move", "--from", &from, "--to", &database.url()]);
    let mut moving = rig.spawn(command, "move");
    let asleep =
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()";
    eventually("it to be slow", || database.sql(asleep) == "1");
    moving.kill();
}

#[test]
fn a_move_that_is_killed_at_its_end_keeps_the_old_hall_shut_until_someone_has_looked() {
    let (server, mut rig) = (Cluster::shared(), Rig::server(&[]));
    let database = server.database();
    submit(&rig, &["mail"]);
    stop(&mut rig);
    empty_hall(&database);
    slow(&database, "UPDATE ON jobhall.meta");
    killed_move(&rig, &database);
    let refused = rig.run(&["server", "--listen", "127.0.0.1:0"]);
    let said = text(&refused.stderr);
    assert!(!refused.status.success() && said.contains("if nothing arrived there"), "{said}");
    database.sql("DROP TRIGGER slow ON jobhall.meta");
    let moved = move_up(&rig, &database);
    assert!(moved.status.success(), "{}", text(&moved.stderr));
    assert_eq!(database.sql("SELECT count(*) FROM jobhall.jobs"), "1");
}

#[test]
fn a_move_that_is_killed_leaves_nothing_and_can_be_done_again() {
    let (server, mut rig) = (Cluster::shared(), Rig::server(&[]));
    let database = server.database();
    for _ in 0..3 {
        submit(&rig, &["mail"]);
    }
    // The data of a killed server can be moved as well.
    rig.hall().kill();
    empty_hall(&database);
    // The move is slow after the jobs, so that it can be interrupted there.
    slow(&database, "INSERT ON jobhall.idempotency_keys");
    killed_move(&rig, &database);
    assert!(!rig.data().join("jobs.db.moved").exists(), "it was not near its end");
    // Waits for the end of the transaction.
    database.sql("DROP TRIGGER slow ON jobhall.idempotency_keys");
    let left =
        "SELECT (SELECT count(*) FROM jobhall.jobs), (SELECT count(*) FROM jobhall.settings), sum(value)
        FROM jobhall.meta WHERE name = 'last_id'";
    assert_eq!(database.sql(left), "0|0|0");
    let moved = move_up(&rig, &database);
    assert!(moved.status.success(), "{}", text(&moved.stderr));
    assert_eq!(database.sql("SELECT count(*) FROM jobhall.jobs"), "3");
}

#[test]
fn a_move_between_other_things_is_a_mistake_that_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let here = format!("sqlite:{}", folder.path().display());
    for (from, to, complaint) in [
        ("postgres://x", "postgres://y", "--from: only an embedded store can be moved"),
        (here.as_str(), "sqlite:/tmp", "--to: a hall moves into PostgreSQL only"),
        ("mysql:x", "postgres://y", "--from: \"mysql:x\" is neither"),
        (here.as_str(), "postgres://y", "there is no file"),
    ] {
        let output = jobhall().args(["move", "--from", from, "--to", to]).output().unwrap();
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(complaint), "{from} {to}: {said}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was made");
}
