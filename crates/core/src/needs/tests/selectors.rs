//! Reading and writing needs, and when two are one class.

use std::cmp::Ordering;

use super::super::Needs;
use super::{abilities, hash_of, needs};

#[test]
fn the_canonical_form_is_one_for_all_spellings() {
    for (text, canonical) in [
        ("", ""),
        ("   ", ""),
        ("spot", "spot"),
        (" ! spot ", "!spot"),
        ("os = linux", "os=linux"),
        ("os!= linux", "os!=linux"),
        ("gpu >=1.0", "gpu>=1"),
        ("gpu> 1", "gpu>1"),
        ("gpu<=.5", "gpu<=0.5"),
        ("gpu<-1", "gpu<-1"),
        ("region in(us, eu ,us)", "region in (eu,us)"),
        ("region   notin ( cn )", "region notin (cn)"),
        ("os=\"linux\"", "os=linux"),
        ("os=\"a b\"", "os=\"a b\""),
        ("os=\"1\"", "os=\"1\""),
        ("in in (in)", "in in (in)"),
        ("in", "in"),
        ("notin notin (notin)", "notin notin (notin)"),
        ("b,a,b", "a, b"),
        ("a=1,a=1.0", "a=1"),
        ("region in (eu,us), gpu>=1,!spot, os=linux", "gpu>=1, os=linux, region in (eu,us), !spot"),
        (
            "a notin (x),a in (x),a<1,a<=1,a>1,a>=1,a!=x,a=x,!a,a",
            "a, !a, a=x, a!=x, a>=1, a>1, a<=1, a<1, a in (x), a notin (x)",
        ),
    ] {
        let read = needs(text);
        assert_eq!(read.as_str(), canonical, "{text}");
        assert_eq!(read.to_string(), canonical, "{text}");
        assert_eq!(read.is_empty(), canonical.is_empty(), "{text}");
        assert_eq!(needs(canonical), read, "{text}");
        assert_eq!(hash_of(&needs(canonical)), hash_of(&read), "{text}");
    }
}

#[test]
fn no_text_asks_for_nothing() {
    assert_eq!(needs(""), Needs::default());
    for text in ["", "os=linux", "spot"] {
        assert!(Needs::default().satisfied_by(&abilities(text)));
    }
}

#[test]
fn needs_are_equal_ordered_and_hashed_by_their_text() {
    let (small, large) = (needs("a=1"), needs("b=1"));
    assert_ne!(small, large);
    assert_eq!(small.cmp(&large), Ordering::Less);
    assert_eq!(large.partial_cmp(&small), Some(Ordering::Greater));
    assert_eq!(small.partial_cmp(&small.clone()), Some(Ordering::Equal));
    assert_ne!(hash_of(&small), hash_of(&large));
    assert_ne!(needs("a=1"), needs("a=\"1\""));
}
