//! Modes and places: what is kept, what runs again, and which worker runs it.

use jobhall_core::query::{
    ArgumentParam, Declaration, Declared, InputPlace, Modes, NodeParams, Parameter, ParameterType,
};
use jobhall_core::{Failure, JobId, StateName};
use jobhall_engine::Why;
use jobhall_queries::Error;

use crate::rig::{Hall, Ran, declared, worker, worker_with};

const ALL: [&str; 9] = ["a@1", "b@1", "v@1", "soft@1", "inl@1", "live@1", "gui@1", "vgui@1", "join@1"];

/// The commands of the table of modes, besides those of the rig; `join` receives another query.
async fn hall() -> Hall {
    let hall = Hall::with_commands().await;
    let with = |name: &str, change: fn(&mut Modes)| {
        let mut modes = Modes::default();
        change(&mut modes);
        declared(name, "1", modes)
    };
    let link = Parameter {
        name: "other".to_owned(),
        kind: ParameterType::Link,
        values: Vec::new(),
        default: None,
        help: None,
        ignore: false,
        dash: false,
    };
    let join = declared("join", "1", Modes::default());
    let join = Declared { declaration: Declaration { args: vec![link], ..join.declaration }, ..join };
    let all = vec![
        with("soft", |modes| modes.soft_volatile = true),
        with("inl", |modes| modes.inline = true),
        with("object", |modes| modes.serialisable = false),
        with("live", |modes| modes.cacheable = false),
        with("gui", |modes| modes.mainthread = true),
        with("vgui", |modes| (modes.mainthread, modes.volatile) = (true, true)),
        with("vinl", |modes| (modes.inline, modes.volatile) = (true, true)),
        join,
    ];
    hall.queries.declare(all).await.unwrap();
    hall
}

/// The commands of a job, in the order in which they run.
fn echo(params: &NodeParams) -> Result<String, Failure> {
    let names: Vec<&str> = params.steps.iter().map(|step| step.command.as_str()).collect();
    Ok(names.join(" "))
}

/// Asks twice, and returns the jobs that ran each time.
async fn twice(hall: &Hall, ran: &Ran, text: &str) -> [Vec<String>; 2] {
    let mut all = Vec::new();
    for _ in 0..2 {
        let before = ran.count();
        hall.value(text).await;
        all.push(ran.queries()[before..].to_vec());
    }
    [all.remove(0), all.remove(0)]
}

#[tokio::test]
async fn q10_the_mode_of_a_query_follows_from_its_commands_and_volatile_spreads_downstream_only() {
    let hall = hall().await;
    let ran = worker_with(&hall, ("w", ", main=1"), &ALL, echo).await;
    for (text, first, second) in [
        // Normal: everything is cached.
        ("a-1/b", vec!["a-1", "a-1/b"], vec![]),
        // Volatile: what follows is computed as well, in the same job; what comes before stays cached.
        ("a-2/v/b", vec!["a-2", "a-2/v/b"], vec!["a-2/v/b"]),
        // Soft volatile: what follows is cached, the step alone is not.
        ("a-3/soft/b", vec!["a-3", "a-3/soft/b"], vec![]),
        ("a-4/soft", vec!["a-4", "a-4/soft"], vec!["a-4/soft"]),
        // Inline: it runs where its value is used, which is cached.
        ("a-5/inl/b", vec!["a-5", "a-5/inl/b"], vec![]),
        // Not cacheable: by itself, and what follows is cached.
        ("a-6/live/b", vec!["a-6", "a-6/live", "a-6/live/b"], vec![]),
        ("a-7/live", vec!["a-7", "a-7/live"], vec!["a-7/live"]),
        // On the main worker: cached like any other.
        ("a-8/gui/b", vec!["a-8", "a-8/gui", "a-8/gui/b"], vec![]),
    ] {
        assert_eq!(twice(&hall, &ran, text).await, [first, second], "{text}");
    }
    hall.engine.stop().await;
}

#[tokio::test]
async fn q11_a_volatile_input_runs_once_per_evaluation() {
    let hall = hall().await;
    let ran = worker_with(&hall, ("w", ", main=1"), &ALL, |params| {
        let join = params.steps.iter().find(|step| step.command.as_str() == "join");
        if let Some(join) = join {
            // Both inputs of the diamond are the value of the one step that ran.
            assert_eq!(params.steps.iter().filter(|step| step.command.as_str() == "v").count(), 1);
            if params.steps.len() == 2 {
                assert_eq!(join.input, Some(InputPlace::Step(0)));
                assert_eq!(join.arguments, [ArgumentParam::Link(InputPlace::Step(0))]);
            }
        }
        echo(params)
    })
    .await;
    for run in 1..=2 {
        hall.value("v/join-~X~/v~E").await;
        assert_eq!(ran.count(), run, "one job, with the volatile step once in it");
    }
    // Both sides of the diamond have a step of their own.
    assert_eq!(hall.value("v/a/join-~X~/v/b~E").await, "3 v a b join");
    // What comes before the volatile step is cached.
    hall.value("a/v/join-~X~/a/v~E").await;
    hall.value("a/v/join-~X~/a/v~E").await;
    assert_eq!(ran.queries()[3..], ["a", "a/v/join-~X~/a/v~E", "a/v/join-~X~/a/v~E"]);
    hall.engine.stop().await;
}

#[tokio::test]
async fn q11_a_volatile_input_of_two_places_is_one_job_of_each_evaluation() {
    let hall = hall().await;
    let ran = worker_with(&hall, ("w", ", main=1"), &ALL, echo).await;
    // The volatile step feeds a step of the main worker and one of any: it is a job by itself, which both come after.
    let text = "soft/gui/join-~X~/soft/b~E";
    hall.value(text).await;
    let mut first = ran.queries();
    first.sort();
    assert_eq!(first, ["soft", "soft/b", "soft/gui", "soft/gui/join-~X~/soft/b~E"]);
    hall.engine.stop().await;
}

#[tokio::test]
async fn q11_volatile_outweighs_inline_and_combines_with_the_places() {
    let hall = hall().await;
    let other = worker(&hall, &ALL, echo).await;
    let main = worker_with(&hall, ("m", ", main=1"), &["v@1", "vgui@1"], echo).await;
    // Volatile and on the main worker: run there each time, and never kept.
    assert_eq!(twice(&hall, &main, "a/vgui").await.concat(), ["a/vgui", "a/vgui"]);
    assert!(!other.queries().iter().any(|query| query.ends_with("vgui")));
    // Volatile and designated.
    let mut designated = twice(&hall, &main, "a/-on-w/v").await.concat();
    assert_eq!(designated, Vec::<String>::new(), "not on the main worker");
    designated = other.queries().into_iter().filter(|query| query.ends_with("/v")).collect();
    assert_eq!(designated, ["a/-on-w/v", "a/-on-w/v"]);
    // Volatile and inline: the step may not be answered by what its worker has kept.
    for (text, kept) in [("vinl", false), ("inl", true), ("object/b", true), ("v/inl", false), ("b", false)] {
        let plan = hall.queries.plan(&crate::rig::query(text)).await.unwrap().plan;
        let node = plan.nodes.last().unwrap();
        let params = NodeParams::new(node, Vec::new());
        assert_eq!(params.steps.iter().any(|step| step.kept.is_some()), kept, "{text}");
    }
    let refused = hall.ask_with("a/object", true).await;
    assert!(
        matches!(&refused, Err(Error::Query(error)) if error.kind.code() == "not_serialisable"),
        "{refused:?}"
    );
    hall.engine.stop().await;
}

/// Takes the next job of this worker by hand.
struct Hand(jobhall_engine::Session);

impl Hand {
    async fn new(hall: &Hall, name: &str, abilities: &str, slots: i64) -> Hand {
        let session = hall
            .engine
            .open(jobhall_engine::Opening {
                worker: jobhall_core::WorkerName::new(name).unwrap(),
                abilities: jobhall_core::needs::Abilities::parse(abilities).unwrap(),
                accepts: jobhall_core::needs::Accepts::parse("type in (q.gui,q.vgui,q.a)").unwrap(),
                attempts: Vec::new(),
                lease_ms: None,
                fresh: true,
            })
            .await
            .unwrap();
        session.credit(slots).await.unwrap();
        Hand(session)
    }

    async fn next(&mut self) -> (jobhall_core::AttemptId, jobhall_core::LeaseId) {
        loop {
            match self.0.next().await {
                Some(jobhall_engine::SessionEvent::Assigned(given)) => {
                    self.0.accept(given.attempt, given.lease).await.unwrap();
                    return (given.attempt, given.lease);
                }
                Some(_) => {}
                None => panic!("the session has ended"),
            }
        }
    }

    async fn end(&self, (attempt, lease): (jobhall_core::AttemptId, jobhall_core::LeaseId)) {
        let value = r#"{"media_type":"text/plain","size":3,"text":"one"}"#;
        let report = jobhall_core::Report::Succeeded(jobhall_core::Json::value(value).unwrap());
        self.0.report(attempt, lease, report).await.unwrap();
    }
}

async fn state(hall: &Hall, id: JobId) -> StateName {
    let job = hall.engine.show(id).await.unwrap().job;
    job.status.name(job.spec.created_at)
}

#[tokio::test]
async fn q12_mainthread_steps_run_on_the_main_worker_alone_and_one_at_a_time() {
    let hall = hall().await;
    let abilities = "commands=[gui@1,vgui@1]";
    // A worker with the commands and many slots, but not the main one.
    let _other = Hand::new(&hall, "other", abilities, 8).await;
    let jobs =
        [hall.promise("gui-1").await.job, hall.promise("gui-2").await.job, hall.promise("vgui").await.job];
    for job in jobs {
        assert_eq!(state(&hall, job).await, StateName::Queued, "the other worker never gets it");
    }
    let explained = hall.engine.explain(jobs[0]).await.unwrap();
    assert!(explained.why.iter().any(|why| matches!(why, Why::NoMatchingWorker(_))), "{explained:?}");
    assert!(format!("{:?}", explained.why).contains("main"), "{explained:?}");
    let mut main = Hand::new(&hall, "main", &format!("{abilities}, main=1"), 8).await;
    for done in 0..3 {
        let given = main.next().await;
        let mut leased = Vec::new();
        for job in jobs {
            leased.push(state(&hall, job).await);
        }
        let running = leased.iter().filter(|state| **state == StateName::Accepted).count();
        let queued = leased.iter().filter(|state| **state == StateName::Queued).count();
        assert_eq!((running, queued), (1, 2 - done), "one at a time, with eight slots: {leased:?}");
        main.end(given).await;
    }
    hall.engine.stop().await;
}

#[tokio::test]
async fn q13_a_designated_step_runs_on_the_named_worker_only_and_never_on_the_main_one() {
    let hall = hall().await;
    let mut main = Hand::new(&hall, "m", "commands=[a@1], main=1", 8).await;
    let mut other = Hand::new(&hall, "o", "commands=[a@1]", 8).await;
    let [to_main, to_absent, to_other] = [
        hall.promise("-on-m/a").await.job,
        hall.promise("-on-absent/a").await.job,
        hall.promise("-on-o/a").await.job,
    ];
    assert_eq!(other.next().await.0.job, to_other);
    for (job, needs) in [(to_main, "worker=m"), (to_absent, "worker=absent")] {
        assert_eq!(state(&hall, job).await, StateName::Queued, "{needs}");
        let spec = hall.engine.show(job).await.unwrap().job.spec;
        assert!(
            spec.needs.as_str().contains(needs) && spec.needs.as_str().contains("!main"),
            "{}",
            spec.needs
        );
    }
    // A step without a place goes to either; that of the main worker never goes to another.
    let anywhere = hall.promise("a").await.job;
    let given = tokio::select! { given = main.next() => given, given = other.next() => given };
    assert_eq!(given.0.job, anywhere);
    // The value is another one for each place.
    assert_eq!(hall.promise("-on-o/a").await.job, to_other);
    assert_ne!(anywhere, to_other);
    // The explanation names the worker that is absent; then it comes, and gets the job.
    let explained = hall.engine.explain(to_absent).await.unwrap();
    assert!(format!("{:?}", explained.why).contains("absent"), "{explained:?}");
    let mut absent = Hand::new(&hall, "absent", "commands=[a@1]", 1).await;
    let given = absent.next().await;
    assert_eq!(given.0.job, to_absent);
    absent.end(given).await;
    assert_eq!(state(&hall, to_absent).await, StateName::Succeeded);
    hall.engine.stop().await;
}
