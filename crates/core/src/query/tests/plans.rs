//! Identities: what counts, and what does not.

use super::super::{Commands, Identity, Input, Modes, Parameter, ParameterType as Type, Version};
use super::{Numbering, command, commands, parameter, parse, planned};
use crate::name::QueueName;

fn all() -> Commands {
    let ignored = Parameter { ignore: true, ..parameter("threads", Type::Int, Some("4")) };
    let mut report = command("report", vec![], Modes::default());
    report.formats = vec!["csv".to_owned(), "html".to_owned()];
    commands(vec![
        command("head", vec![parameter("rows", Type::Int, Some("10"))], Modes::default()),
        command("label", vec![parameter("text", Type::Text, None)], Modes::default()),
        command(
            "pair",
            vec![parameter("a", Type::Text, None), parameter("b", Type::Text, None)],
            Modes::default(),
        ),
        command("sort", vec![ignored], Modes::default()),
        command("join", vec![parameter("other", Type::Link, None)], Modes::default()),
        report,
    ])
}

fn identity(text: &str, commands: &Commands, hasher: &Numbering) -> Identity {
    let plan = planned(text, commands, hasher).unwrap_or_else(|error| panic!("{}", error.message(text)));
    let Input::Node(last) = plan.value else { panic!("no step") };
    plan.nodes[last].identity
}

#[test]
fn equal_meaning_is_one_identity() {
    let (known, hasher) = (all(), Numbering::default());
    let id = |text: &str| identity(text, &known, &hasher);
    for (left, right) in [
        ("head", "head-10"),
        ("head-7", "head-007"),
        ("head-7", "head-+7"),
        ("head-~7", "head-~_7"),
        ("sort-1", "sort-8"),
        ("label-a~.b", "label-a%20b"),
        ("-R/a.csv/-/head", "-R/c.csv/-/head"),
        ("head/join-~X~label-x~E", "head/join-~X~/head/label-x~E"),
        ("report/x.csv", "report/another~.name.CSV"),
        ("head/x.csv", "head/x.html"),
        ("head/x.csv", "head"),
    ] {
        assert_eq!(id(left), id(right), "{left} and {right}");
    }
    for (left, right) in [
        ("head", "head-11"),
        ("head-7", "head-~7"),
        ("label-a", "label-A"),
        ("pair-ab-c", "pair-a-bc"),
        ("pair--a", "pair-a-"),
        ("label-7", "label-07"),
        ("-R/a.csv/-/head", "-R/b.csv/-/head"),
        ("-R/a.csv/-/head", "head"),
        ("head/join-~X~label-x~E", "head/join-~X~/label-x~E"),
        ("head/label-x", "label-x/head"),
        ("report/x.csv", "report/x.html"),
        ("report/x.csv", "report"),
        ("head", "-on-w/head"),
        ("-on-v/head", "-on-w/head"),
    ] {
        assert_ne!(id(left), id(right), "{left} and {right}");
    }
}

#[test]
fn another_version_or_queue_is_another_identity() {
    let (known, hasher) = (all(), Numbering::default());
    let mut changed = known.clone();
    let head = changed.get_mut(&super::name("head")).unwrap();
    std::sync::Arc::make_mut(head).version = Version::new("2").unwrap();
    assert_ne!(identity("head/label-x", &known, &hasher), identity("head/label-x", &changed, &hasher));
    assert_eq!(identity("label-x", &known, &hasher), identity("label-x", &changed, &hasher));
    let query = parse("head").unwrap();
    let queue = QueueName::new("others").unwrap();
    let other = super::super::plan(&query, hasher.clone(), &queue, &known, &super::digest).unwrap();
    assert_ne!(other.nodes[0].identity, identity("head", &known, &hasher));
}

#[test]
fn a_format_that_is_not_offered_is_named() {
    let text = "report/x.pdf";
    let error = planned(text, &all(), &Numbering::default()).unwrap_err();
    assert_eq!(error.message(text), "column 8: report cannot make \"pdf\"; it offers csv, html");
    assert_eq!(error.kind.code(), "format_not_offered");
}

#[test]
fn nested_relative_links_cost_no_more_than_their_steps() {
    // Each link goes on from the input of its step; written out, the last would have 2^200 steps.
    let text = format!("head{}", "/join-~X~head~E".repeat(127));
    let plan = planned(&text, &all(), &Numbering::default()).unwrap();
    assert_eq!(plan.nodes.len(), 255);
}

#[test]
fn the_text_of_an_identity_is_read_back() {
    for bytes in [[0; 20], [255; 20], *b"abcdefghijklmnopqrst"] {
        let identity = Identity::new(bytes);
        let text = identity.to_string();
        assert_eq!((text.len(), text.parse()), (32, Ok(identity)));
    }
    assert_eq!(Identity::new([0; 20]).to_string(), "0".repeat(32));
    assert_eq!(Identity::new([255; 20]).to_string(), "v".repeat(32));
    for bad in ["", "0", &"w".repeat(32), &"V".repeat(32), &"é".repeat(16)] {
        assert!(bad.parse::<Identity>().is_err(), "{bad}");
    }
}
