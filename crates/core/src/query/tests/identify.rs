//! The identity without a plan agrees with the plan.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::{
    Commands, Identity, Input, Kept, Modes, Parameter, ParameterType as Type, Plan, QueryError, identify,
    plan,
};
use super::{Numbering, command, commands, digest, parameter, parse};
use crate::name::QueueName;

/// A command of each mode, and some with arguments and formats.
fn known() -> Commands {
    let modes = |change: fn(&mut Modes)| {
        let mut modes = Modes::default();
        change(&mut modes);
        modes
    };
    let ignored = Parameter { ignore: true, ..parameter("threads", Type::Int, Some("4")) };
    let mut report = command("report", vec![], modes(|modes| modes.serialisable = false));
    report.formats = vec!["csv".to_owned(), "html".to_owned()];
    commands(vec![
        command("plain", vec![], Modes::default()),
        command("head", vec![parameter("rows", Type::Int, Some("10")), ignored], Modes::default()),
        command("join", vec![parameter("other", Type::Link, None)], Modes::default()),
        command("volatile", vec![], modes(|modes| modes.volatile = true)),
        command("soft", vec![], modes(|modes| modes.soft_volatile = true)),
        command("inline", vec![], modes(|modes| modes.inline = true)),
        command("shown", vec![], modes(|modes| modes.serialisable = false)),
        command("fresh", vec![], modes(|modes| modes.cacheable = false)),
        command("main", vec![], modes(|modes| modes.mainthread = true)),
        report,
    ])
}

const STEPS: [&str; 18] = [
    "plain",
    "plain",
    "head",
    "head-10",
    "head-010-8",
    "head-x",
    "head-1-2-3",
    "-on-w/plain",
    "-on-w/main",
    "join-~X~plain~E",
    "volatile",
    "soft",
    "inline",
    "shown",
    "fresh",
    "main",
    "report",
    "missing",
];

fn both(text: &str) -> (Option<Identity>, Result<Plan, QueryError>) {
    let (known, hasher) = (known(), Numbering::default());
    let (queue, query) = (QueueName::new("queries").unwrap(), parse(text).unwrap());
    let found = identify(&query, hasher.clone(), &queue, &known, &digest);
    (found, plan(&query, hasher, &queue, &known, &digest))
}

/// The identity of a value that is shared.
fn shared(plan: &Plan) -> Option<Identity> {
    let Input::Node(last) = plan.value else { return None };
    (plan.nodes[last].kept == Kept::Shared).then_some(plan.nodes[last].identity)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_024, ..ProptestConfig::default() })]
    #[test]
    fn the_identity_of_a_query_is_that_of_its_plan(
        source in select(vec!["", "-R/a.csv/-/", "-R/none.csv/-/"]),
        steps in vec(select(STEPS.to_vec()), 1..4),
        file in select(vec!["", "/x.csv", "/x.html", "/x.pdf"]),
    ) {
        let text = format!("{source}{}{file}", steps.join("/"));
        let (found, planned) = both(&text);
        match (found, planned) {
            (Some(found), Ok(plan)) => prop_assert_eq!(Some(found), shared(&plan), "{}", text),
            (Some(_), Err(error)) => prop_assert!(false, "{}: {}", text, error.message(&text)),
            // It may say less than a plan, of links and of values that stay on their worker.
            (None, Ok(plan)) => {
                let less = ["join", "shown", "report"].iter().any(|name| text.contains(name));
                prop_assert!(less || shared(&plan).is_none(), "{}", text);
            }
            (None, Err(_)) => {}
        }
    }
}

#[test]
fn a_shared_value_has_its_identity_without_a_plan() {
    for text in ["plain", "-R/a.csv/-/head/x.csv", "soft/plain", "-on-w/plain/head-3", "main"] {
        let (found, planned) = both(text);
        assert!(found.is_some() && found == shared(&planned.unwrap()), "{text}");
    }
    for text in ["volatile/plain", "soft", "inline", "fresh", "plain/head-x", "-R/none.csv/-/plain"] {
        assert_eq!(both(text).0, None, "{text}");
    }
}
