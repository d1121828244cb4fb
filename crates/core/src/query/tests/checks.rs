//! Checks: what one has answered is part of the identity.

use std::collections::BTreeMap;

use super::super::{
    Check, Commands, Declaration, Facts, Identity, Modes, NodeParams, ParameterType as Type, Plan,
    SourceDigest, SourceKey, content_identity, identify, plan,
};
use super::{Numbering, command, commands, digest, name, parameter, parse};
use crate::name::QueueName;

/// What each check has answered, by its identity.
#[derive(Default)]
struct Answers(BTreeMap<Identity, SourceDigest>);

impl Facts for Answers {
    fn data(&self, key: &SourceKey) -> Option<SourceDigest> {
        digest(key)
    }

    fn answer(&self, check: &Identity, every_ms: u64) -> Option<SourceDigest> {
        assert_eq!(every_ms, 10_000);
        self.0.get(check).copied()
    }
}

fn table() -> Declaration {
    let check = Check { run: ["stat", "--file={table}", "x"].map(str::to_owned).to_vec(), every_ms: 10_000 };
    let args = vec![parameter("table", Type::Text, None), parameter("rows", Type::Int, Some("1"))];
    Declaration { args, check: Some(check), ..Declaration::new(name("table")) }.checked().unwrap()
}

fn known() -> Commands {
    commands(vec![table(), command("plain", vec![], Modes::default())])
}

fn planned(text: &str, answers: &Answers, hasher: &Numbering) -> Plan {
    plan(&parse(text).unwrap(), hasher.clone(), &QueueName::new("queries").unwrap(), &known(), answers)
        .unwrap()
}

fn last(plan: &Plan) -> Identity {
    plan.nodes.last().unwrap().identity
}

#[test]
fn the_answer_of_a_check_is_part_of_the_identity_and_of_what_a_step_is_given() {
    let (hasher, mut answers) = (Numbering::default(), Answers::default());
    let text = "table-orders/plain";
    let asked = planned(text, &answers, &hasher);
    assert_eq!(
        (asked.checks.len(), asked.checks[0].answer, asked.checks[0].text.as_str()),
        (1, None, "table-orders")
    );
    let without = |answers: &Answers| {
        identify(
            &parse(text).unwrap(),
            hasher.clone(),
            &QueueName::new("queries").unwrap(),
            &known(),
            answers,
        )
    };
    assert_eq!(without(&answers), None, "its check has to be run");
    let (one, two) = (SourceDigest([1; 32]), SourceDigest([2; 32]));
    let mut identities = vec![last(&asked)];
    for answer in [one, two] {
        answers.0.insert(asked.checks[0].identity, answer);
        let plan = planned(text, &answers, &hasher);
        assert_eq!(plan.checks[0].answer, Some(answer));
        assert_eq!(
            NodeParams::new(&plan.nodes[0], vec![]).steps[0].check.map(|check| check.answer),
            Some(answer)
        );
        assert_eq!(without(&answers), Some(last(&plan)), "the same without a plan");
        identities.push(last(&plan));
    }
    let distinct: std::collections::BTreeSet<Identity> = identities.iter().copied().collect();
    assert_eq!(distinct.len(), 3, "each answer is another value, also of what follows");
    answers.0.insert(asked.checks[0].identity, one);
    assert_eq!(
        last(&planned(text, &answers, &hasher)),
        identities[1],
        "the same answer again is the same value"
    );
}

#[test]
fn a_check_is_that_of_its_command_line_and_place() {
    let (hasher, answers) = (Numbering::default(), Answers::default());
    let check = |text: &str| {
        let plan = planned(text, &answers, &hasher);
        assert_eq!(plan.checks.len(), 1, "{text}");
        (plan.checks[0].identity, plan.checks[0].place.clone())
    };
    assert_eq!(check("table-a"), check("table-a-7"), "it has no place for the second argument");
    assert_eq!(check("table-a"), check("plain/table-a-2/table-a-3"), "a plan has each check once");
    assert_ne!(check("table-a"), check("table-b"));
    assert_ne!(check("table-a"), check("-on-w/table-a"));
    let line = table().check_line(&["a-b".to_owned(), "1".to_owned()]);
    assert_eq!(line, ["stat", "--file=a-b", "x"], "nothing is appended");
}

#[test]
fn the_params_of_a_check_say_what_to_run() {
    let plan = planned("table-orders-3", &Answers::default(), &Numbering::default());
    let params = NodeParams::of_check(&plan.checks[0]);
    assert!(params.check && params.inputs.is_empty());
    let json = serde_json::to_string(&params).unwrap();
    assert_eq!(serde_json::from_str::<NodeParams>(&json).unwrap(), params);
    assert!(json.contains(r#""arguments":["orders","3"]"#) && json.ends_with(r#""check":true}"#), "{json}");
}

#[test]
fn a_step_with_the_same_bytes_runs_again_if_its_check_has_another_answer() {
    let (hasher, mut answers) = (Numbering::default(), Answers::default());
    let text = "plain/table-a";
    let check = planned(text, &answers, &hasher).checks[0].identity;
    let mut content = |answer: u8| {
        answers.0.insert(check, SourceDigest([answer; 32]));
        let plan = planned(text, &answers, &hasher);
        let params = NodeParams::new(&plan.nodes[1], vec![plan.nodes[0].identity]);
        content_identity(hasher.clone(), &params, "", &[[9; 32]], &known()).unwrap()
    };
    assert_eq!((content(1), content(1) == content(2)), (content(1), false));
}

#[test]
fn a_check_is_declared_like_the_command_line_of_a_step() {
    let wrong = |run: &[&str]| {
        let check = Check { run: run.iter().map(|word| (*word).to_owned()).collect(), every_ms: 10_000 };
        let args = vec![parameter("table", Type::Text, Some("")), parameter("other", Type::Link, None)];
        let args = args.into_iter().rev().collect();
        let declaration = Declaration { args, check: Some(check), ..Declaration::new(name("t")) };
        declaration.checked().map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(wrong(&["stat", "{table}"]), Ok(()));
    for (run, message) in [
        (&["sh", "-c", "{table}"][..], "commands.t.check[2]: {table} would be run as code"),
        (&["sh", "-c", "stat x{table}"], "commands.t.check[2]: {table} is a whole word"),
        (&["{table}"], "commands.t.check[0]: {table} would let a URL choose the program"),
        (&["stat", "{other}"], "commands.t.check[1]: {other} is a link"),
        (&[""], "commands.t.check: names no program"),
        (&[], "commands.t.check: names no program"),
    ] {
        let said = wrong(run).unwrap_err();
        assert!(said.starts_with(message), "{run:?}: {said}");
    }
}
