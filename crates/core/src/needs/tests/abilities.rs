//! Reading and writing abilities.

use super::super::{Number, Scalar, Value};
use super::{abilities, hash_of};

fn word(text: &str) -> Scalar {
    Scalar::Word(text.into())
}

#[test]
fn every_kind_of_value_is_read() {
    let read = abilities("os=linux, gpu=2, lang=[rust, 3 ,python], spot");
    let list = [Scalar::Number(Number::from_thousandths(3_000)), word("python"), word("rust")];
    let expected = [
        ("gpu", Value::Number(Number::from_thousandths(2_000))),
        ("lang", Value::List(list.into())),
        ("os", Value::Word("linux".into())),
        ("spot", Value::Flag),
    ];
    let found: Vec<_> = read.iter().map(|(name, value)| (name, value.clone())).collect();
    assert_eq!(found, expected);
    assert_eq!(read.get("os"), Some(&Value::Word("linux".into())));
    assert_eq!(read.get("o"), None);
    assert_eq!(read.len(), 4);
    assert!(!read.is_empty());
}

#[test]
fn no_text_is_no_abilities() {
    for text in ["", "   "] {
        assert!(abilities(text).is_empty());
        assert_eq!(abilities(text).len(), 0);
        assert_eq!(abilities(text).to_string(), "");
    }
    assert_eq!(abilities(""), super::Abilities::default());
}

#[test]
fn the_canonical_form_is_one_for_all_spellings() {
    for (text, canonical) in [
        ("spot , os = linux,gpu=2", "gpu=2, os=linux, spot"),
        ("lang=[rust,python,rust]", "lang=[python,rust]"),
        ("lang=[ rust ]", "lang=[rust]"),
        ("cpu=02.50", "cpu=2.5"),
        ("cpu=-0", "cpu=0"),
        ("os=\"linux\"", "os=linux"),
        ("os=\"two words\"", "os=\"two words\""),
        ("os=\"2\"", "os=\"2\""),
        ("os=\"2.00001\"", "os=\"2.00001\""),
        ("os=\"99999999999999999999\"", "os=\"99999999999999999999\""),
        ("os=\"\"", "os=\"\""),
        ("os=\"a\\\"b\\\\c\"", "os=\"a\\\"b\\\\c\""),
        ("os=\"grün\"", "os=\"grün\""),
        ("os=\"a,b=c]\"", "os=\"a,b=c]\""),
        ("image=Ghcr.io/a_b:1.2.3@x-y+z", "image=Ghcr.io/a_b:1.2.3@x-y+z"),
        ("l=[\"b c\",2.0,\"2\",a]", "l=[2,\"2\",a,\"b c\"]"),
        ("a.b-c_9=1", "a.b-c_9=1"),
        ("in=in", "in=in"),
    ] {
        assert_eq!(abilities(text).to_string(), canonical, "{text}");
        assert_eq!(abilities(canonical), abilities(text), "{text}");
        assert_eq!(hash_of(&abilities(canonical)), hash_of(&abilities(text)), "{text}");
    }
}

#[test]
fn kinds_of_values_are_not_confused() {
    let texts = ["a", "a=1", "a=\"1\"", "a=[1]", "a=[\"1\"]", "a=x", "a=[x]", "b"];
    for (index, left) in texts.iter().enumerate() {
        for right in &texts[index + 1..] {
            assert_ne!(abilities(left), abilities(right), "{left} {right}");
        }
    }
}
