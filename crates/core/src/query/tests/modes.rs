//! The table of modes, and where steps run.

use super::super::{Commands, Input, Kept, Modes, ParameterType, Place, Plan, StepInput, Typed, rule};
use super::{Numbering, command, commands, parameter, planned};
use crate::name::WorkerName;

fn modes(names: &str) -> Modes {
    let has = |name: &str| names.split(' ').any(|found| found == name);
    Modes {
        volatile: has("volatile"),
        soft_volatile: has("soft_volatile"),
        inline: has("inline"),
        serialisable: !has("not_serialisable"),
        cacheable: !has("not_cacheable"),
        mainthread: has("mainthread"),
    }
}

#[test]
fn the_table_of_modes() {
    use Kept::{InFlight, Never, OnWorker, Shared};
    for (declared, after_volatile, kept, spreads) in [
        ("", false, Shared, false),
        ("", true, Never, true),
        ("volatile", false, Never, true),
        ("volatile", true, Never, true),
        ("soft_volatile", false, Never, false),
        ("soft_volatile", true, Never, true),
        ("inline", false, OnWorker, false),
        ("inline", true, Never, true),
        ("not_serialisable", false, OnWorker, false),
        ("not_serialisable", true, Never, true),
        ("not_cacheable", false, InFlight, false),
        ("not_cacheable", true, Never, true),
        ("inline not_cacheable", false, OnWorker, false),
        ("volatile soft_volatile", false, Never, true),
        ("volatile inline", false, Never, true),
        ("soft_volatile inline", false, Never, false),
        ("soft_volatile not_cacheable", false, Never, false),
    ] {
        for (main, place) in [("", Place::Any), (" mainthread", Place::Main)] {
            let ruling = rule(modes(&format!("{declared}{main}")), after_volatile, None);
            assert_eq!(
                (ruling.kept, ruling.volatile, ruling.place),
                (kept, spreads, place),
                "{declared}{main}"
            );
        }
        let worker = WorkerName::new("w").unwrap();
        let ruling = rule(modes(declared), after_volatile, Some(&worker));
        assert_eq!(
            (ruling.kept, ruling.volatile, ruling.place),
            (kept, spreads, Place::On(worker)),
            "{declared}"
        );
    }
}

fn all() -> Commands {
    let plain = |name: &str, declared: &str| command(name, vec![], modes(declared));
    commands(vec![
        plain("n", ""),
        plain("m", ""),
        plain("v", "volatile"),
        plain("soft", "soft_volatile"),
        plain("inl", "inline"),
        plain("frame", "not_serialisable"),
        plain("live", "not_cacheable"),
        plain("gui", "mainthread"),
        plain("vgui", "volatile mainthread"),
        command("join", vec![parameter("other", ParameterType::Link, None)], Modes::default()),
    ])
}

fn plan(text: &str) -> Plan {
    planned(text, &all(), &Numbering::default()).unwrap_or_else(|error| panic!("{}", error.message(text)))
}

/// The steps of each node, and how its value is kept: `v n:never`.
fn nodes(text: &str) -> Vec<String> {
    let steps = |node: &super::super::Node| {
        let names: Vec<&str> =
            node.steps.iter().map(|step| step.declared.declaration.name.as_str()).collect();
        names.join(" ")
    };
    plan(text).nodes.iter().map(|node| format!("{}:{:?}", steps(node), node.kept)).collect()
}

#[test]
fn volatile_spreads_downstream_only_and_its_tail_is_one_job() {
    assert_eq!(nodes("n/m"), ["n:Shared", "m:Shared"]);
    assert_eq!(nodes("n/v/m/n"), ["n:Shared", "v m n:Never"]);
    assert_eq!(nodes("n/v"), ["n:Shared", "v:Never"]);
    assert_eq!(nodes("soft/n/m"), ["soft n:Shared", "m:Shared"], "what follows is cached");
    assert_eq!(nodes("n/inl/m"), ["n:Shared", "inl m:Shared"]);
    assert_eq!(nodes("n/live/m"), ["n:Shared", "live:InFlight", "m:Shared"]);
    assert_eq!(nodes("n/join-~X~/v~E/m"), ["n:Shared", "v join m:Never"], "a volatile link is volatile too");
}

#[test]
fn a_step_is_carried_only_to_the_place_where_it_runs() {
    assert_eq!(nodes("vgui/n"), ["vgui:Never", "n:Never"]);
    assert_eq!(nodes("vgui/gui"), ["vgui gui:Never"]);
    assert_eq!(nodes("v/-on-w/n/-on-w/m/n"), ["v:Never", "n m:Never", "n:Never"]);
    let places: Vec<Place> = plan("v/-on-w/n/gui").nodes.into_iter().map(|node| node.place).collect();
    assert_eq!(places, [Place::Any, Place::On(WorkerName::new("w").unwrap()), Place::Main]);
}

#[test]
fn a_volatile_input_that_is_used_twice_is_one_step() {
    assert_eq!(nodes("v/join-~X~/v~E"), ["v join:Never"], "both inputs of join are the one value of v");
    let plan = plan("v/join-~X~/v~E");
    let join = &plan.nodes[0].steps[1];
    assert_eq!(join.input, Some(StepInput::Step(0)));
    assert_eq!(join.arguments, [Typed::Link(StepInput::Step(0))]);
    // It feeds two jobs, so it is a job by itself, and both wait for that one.
    assert_eq!(nodes("soft/n/join-~X~/soft/m~E"), ["soft:Never", "n:Shared", "m:Shared", "join:Shared"]);
    assert_eq!(nodes("n/join-~X~n~E"), ["n:Shared", "n:Shared", "join:Shared"]);
    assert_eq!(nodes("n/join-~X~/n~E"), ["n:Shared", "join:Shared"]);
}

#[test]
fn the_nodes_of_a_plan_name_their_inputs() {
    let plan = plan("-R/a.csv/-/n/join-~X~-R/b.csv/-/m~E");
    let names = |node: &super::super::Node| node.text.clone();
    assert_eq!(
        plan.nodes.iter().map(names).collect::<Vec<_>>(),
        ["-R/a.csv/-/n", "-R/b.csv/-/m", "-R/a.csv/-/n/join-~X~/-R/b.csv/-/m~E"]
    );
    assert!(matches!(&plan.nodes[0].inputs[..], [Input::Source(key, _)] if key.as_str() == "a.csv"));
    assert_eq!(plan.nodes[2].inputs, [Input::Node(0), Input::Node(1)]);
    assert_eq!(plan.value, Input::Node(2));
    let alone = planned("-R/a.csv/-", &all(), &Numbering::default()).unwrap();
    assert!(alone.nodes.is_empty() && matches!(alone.value, Input::Source(..)));
}

#[test]
fn a_value_that_cannot_leave_its_worker_is_refused_where_it_would_have_to() {
    let refused = |text: &str| {
        let error = planned(text, &all(), &Numbering::default()).unwrap_err();
        (error.kind.code(), error.message(text))
    };
    assert_eq!(
        refused("n/frame"),
        (
            "not_serialisable",
            "column 3: the value of frame cannot leave its worker; add a command that makes bytes of it"
                .to_owned()
        )
    );
    assert_eq!(
        refused("frame/gui").1,
        "column 1: the value of frame cannot leave its worker, and gui runs in another place"
    );
    assert_eq!(nodes("frame/n"), ["frame n:Shared"]);
    assert_eq!(
        refused("n/-on-w/gui"),
        (
            "wrong_place",
            "column 3: gui runs on the main worker only, so no other worker can be designated".to_owned()
        )
    );
}
