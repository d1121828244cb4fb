//! The content of a job: equal exactly if the same runs on the same bytes.

use super::super::{Identity, NodeParams, Plan, content_identity};
use super::*;

fn declared() -> Commands {
    let ignored = Parameter { ignore: true, ..parameter("note", ParameterType::Text, Some("")) };
    let link = parameter("other", ParameterType::Link, None);
    let count = || parameter("rows", ParameterType::Int, Some("3"));
    let modes = |change: fn(&mut Modes)| {
        let mut modes = Modes::default();
        change(&mut modes);
        modes
    };
    commands(vec![
        command("make", vec![parameter("x", ParameterType::Text, Some(""))], Modes::default()),
        command("head", vec![count(), ignored], Modes::default()),
        command("tail", vec![count()], Modes::default()),
        command("join", vec![link], Modes::default()),
        command("main", vec![count()], modes(|modes| modes.mainthread = true)),
        command("soft", vec![count()], modes(|modes| modes.soft_volatile = true)),
        command("once", vec![count()], modes(|modes| modes.cacheable = false)),
    ])
}

/// The content of the last job of a query whose inputs have these bytes, in short.
fn content(text: &str, digests: &[u8], needs: &str, hasher: &Numbering) -> Option<Identity> {
    let (known, hasher) = (declared(), hasher.clone());
    let plan: Plan = planned(text, &known, &hasher).unwrap();
    let last = plan.nodes.last().unwrap();
    let inputs = last.inputs.iter().map(|_| last.identity).collect();
    let digests: Vec<[u8; 32]> = digests.iter().map(|byte| [*byte; 32]).collect();
    content_identity(hasher, &NodeParams::new(last, inputs), needs, &digests, &known)
}

#[test]
fn it_is_the_same_however_the_inputs_were_made() {
    let hasher = Numbering::default();
    let of = |text: &str, digests: &[u8]| content(text, digests, "", &hasher).unwrap();
    assert_eq!(of("make-a/head", &[1]), of("make-b/head", &[1]), "another way to the same bytes");
    assert_eq!(of("make/head", &[1]), of("make/head-03-note", &[1]), "the same meaning");
    assert_eq!(of("make/main", &[1]), of("make-b/main", &[1]));
    let all = [
        of("make/head", &[1]),
        of("make/head", &[2]),
        of("make/head-4", &[1]),
        of("make/tail", &[1]),
        of("make/join-~X~/make-b~E", &[1, 2]),
        of("make/join-~X~/make-b~E", &[2, 1]),
        content("make/head", &[1], "worker=a", &hasher).unwrap(),
    ];
    for (at, one) in all.iter().enumerate() {
        assert!(all[..at].iter().all(|other| other != one), "{at}");
    }
}

#[test]
fn there_is_none_for_a_step_without_inputs_or_of_another_mode_or_version() {
    let hasher = Numbering::default();
    assert_eq!(content("make", &[], "", &hasher), None);
    assert_eq!(content("make/soft", &[1], "", &hasher), None);
    assert_eq!(content("make/once", &[1], "", &hasher), None);
    assert_eq!(content("make/head", &[], "", &hasher), None, "not all inputs are known");
    let known = declared();
    let plan = planned("make/head", &known, &hasher).unwrap();
    let mut params = NodeParams::new(&plan.nodes[1], vec![plan.nodes[0].identity]);
    params.steps[0].version = Version::new("2").unwrap();
    assert_eq!(content_identity(hasher, &params, "", &[[1; 32]], &known), None);
}
