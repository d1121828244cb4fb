//! What is stored and given to workers.

use proptest::prelude::*;

use super::super::{INLINE_VALUE_BYTES, Modes, NodeParams, ParameterType, SourceDigest, StoredValue};
use super::{Numbering, command, commands, parameter, planned};
use crate::bounds::VALUE_BYTES;

proptest! {
    #[test]
    fn any_bytes_are_stored_and_read_back(bytes: Vec<u8>) {
        let stored = serde_json::to_string(&StoredValue::new("a/b", bytes.clone())).unwrap();
        let read = StoredValue::parse(&stored).unwrap();
        prop_assert_eq!((read.bytes(), read.size), (Some(bytes.clone()), bytes.len() as u64));
    }
}

#[test]
fn the_largest_value_fits_the_row_of_a_job() {
    for byte in [0xff, b'x', b'"', 1, 0] {
        let stored = serde_json::to_string(&StoredValue::new("a/b", vec![byte; INLINE_VALUE_BYTES])).unwrap();
        assert!(stored.len() <= VALUE_BYTES, "{byte}: {} bytes", stored.len());
    }
}

#[test]
fn a_damaged_value_is_none() {
    for damaged in [
        "null",
        "{}",
        r#"{"media_type":"a/b","size":2,"text":"a"}"#,
        r#"{"media_type":"a/b","size":1}"#,
        r#"{"media_type":"a/b","size":1,"base64":"!"}"#,
        r#"{"media_type":"a/b","size":1,"text":"a","base64":"YQ=="}"#,
        r#"{"media_type":"a/b","size":1,"digest":"aa"}"#,
        &format!(r#"{{"media_type":"a/b","size":1,"text":"a","digest":"{}"}}"#, "0".repeat(64)),
    ] {
        assert_eq!(StoredValue::parse(damaged), None, "{damaged}");
    }
}

#[test]
fn the_params_of_a_node_are_read_back() {
    let known = commands(vec![
        command("n", vec![parameter("x", ParameterType::Int, Some("1"))], Modes::default()),
        command("v", vec![], Modes { volatile: true, ..Modes::default() }),
        command("join", vec![parameter("other", ParameterType::Link, None)], Modes::default()),
    ]);
    let plan = planned("n-7/v/join-~X~/n~E", &known, &Numbering::default()).unwrap();
    let inputs: Vec<_> = plan.nodes[..2].iter().map(|node| node.identity).collect();
    let params = NodeParams::new(plan.nodes.last().unwrap(), inputs);
    let json = serde_json::to_string(&params).unwrap();
    assert_eq!(serde_json::from_str::<NodeParams>(&json).unwrap(), params);
    assert!(
        json.contains(r#""input":{"input":0}"#) && json.contains(r#""arguments":[{"input":1}]"#),
        "{json}"
    );
    assert!(json.contains(r#""input":{"step":0}"#), "{json}");
}

#[test]
fn a_value_that_is_an_artifact_has_a_digest_and_no_bytes() {
    let digest = SourceDigest([0xa7; 32]);
    let stored = StoredValue::artifact("a/b", 1 << 30, digest);
    let json = serde_json::to_string(&stored).unwrap();
    assert!(json.contains(&format!(r#""digest":"{}""#, "a7".repeat(32))), "{json}");
    let read = StoredValue::parse(&json).unwrap();
    assert_eq!((read.digest(), read.bytes(), read.size), (Some(digest), None, 1 << 30));
    for bad in ["", "a7", &"A7".repeat(32), &"g7".repeat(32), &"\u{e9}".repeat(32)] {
        assert!(bad.parse::<SourceDigest>().is_err(), "{bad:?}");
    }
}

#[test]
fn values_and_sources_of_a_node_are_numbered_apart() {
    let known = commands(vec![
        command("n", vec![parameter("x", ParameterType::Int, Some("1"))], Modes::default()),
        command(
            "join",
            ["a", "b", "c"].map(|name| parameter(name, ParameterType::Link, None)).to_vec(),
            Modes::default(),
        ),
    ]);
    let text = "-R/a.csv/-/join-~X~/n~E-~X~/-R/b.csv/-~E-~X~/n-2~E";
    let plan = planned(text, &known, &Numbering::default()).unwrap();
    let inputs: Vec<_> = plan.nodes[..2].iter().map(|node| node.identity).collect();
    let params = NodeParams::new(plan.nodes.last().unwrap(), inputs);
    let json = serde_json::to_string(&params).unwrap();
    assert_eq!(serde_json::from_str::<NodeParams>(&json).unwrap(), params);
    let keys: Vec<&str> = params.sources.iter().map(|source| source.key.as_str()).collect();
    assert_eq!((params.inputs.len(), keys), (2, vec!["a.csv", "b.csv"]));
    assert!(json.contains(r#""input":{"source":0}"#), "{json}");
    assert!(json.contains(r#""arguments":[{"input":0},{"source":1},{"input":1}]"#), "{json}");
}
