//! Every operator against every kind of value, and what is said when it does not hold.

use super::super::{Holder, Number, Reason, Unmet, Value};
use super::{abilities, needs};

const WORKER: &str = "flag, number=2, word=linux, list=[rust,2,\"a b\"], digits=\"2\"";

/// What is wrong with one term for the worker above; empty when it holds.
fn said(term: &str) -> String {
    let (needs, worker) = (needs(term), abilities(WORKER));
    let unmet = needs.unmet(&worker);
    assert_eq!(needs.satisfied_by(&worker), unmet.is_empty(), "{term}");
    unmet.iter().map(|unmet| format!("{} {unmet}", unmet.reason.code())).collect::<Vec<_>>().join("; ")
}

fn check(cases: &[(&str, &str)]) {
    for (term, expected) in cases {
        assert_eq!(said(term), *expected, "{term}");
    }
}

#[test]
fn l13_a_worker_without_the_ability_never_matches() {
    check(&[
        ("gone", "absent gone: this worker has no gone"),
        ("gone=1", "absent gone=1: this worker has no gone"),
        ("gone=x", "absent gone=x: this worker has no gone"),
        ("gone>=1", "absent gone>=1: this worker has no gone"),
        ("gone>1", "absent gone>1: this worker has no gone"),
        ("gone<=1", "absent gone<=1: this worker has no gone"),
        ("gone<1", "absent gone<1: this worker has no gone"),
        ("gone in (1,x)", "absent gone in (1,x): this worker has no gone"),
    ]);
}

#[test]
fn l13_a_negated_term_holds_for_an_absent_ability() {
    check(&[("!gone", ""), ("gone!=1", ""), ("gone!=x", ""), ("gone notin (1,x)", "")]);
}

#[test]
fn l13_presence_asks_for_the_name_alone() {
    check(&[
        ("flag", ""),
        ("number", ""),
        ("word", ""),
        ("list", ""),
        ("!flag", "present !flag: this worker has flag"),
        ("!number", "present !number: this worker has number=2"),
        ("!word", "present !word: this worker has word=linux"),
        ("!list", "present !list: this worker has list=[2,\"a b\",rust]"),
    ]);
}

#[test]
fn l13_equality_is_of_the_same_kind_and_membership_in_a_list() {
    check(&[
        ("number=2", ""),
        ("number=2.0", ""),
        ("word=linux", ""),
        ("list=rust", ""),
        ("list=2", ""),
        ("list=\"a b\"", ""),
        ("digits=\"2\"", ""),
        ("number=3", "different number=3: this worker has number=2"),
        ("number=\"2\"", "different number=\"2\": this worker has number=2"),
        ("digits=2", "different digits=2: this worker has digits=\"2\""),
        ("word=Linux", "different word=Linux: this worker has word=linux"),
        ("list=\"2\"", "different list=\"2\": this worker has list=[2,\"a b\",rust]"),
        ("list=go", "different list=go: this worker has list=[2,\"a b\",rust]"),
        ("flag=true", "different flag=true: this worker has flag, which has no value"),
    ]);
}

#[test]
fn l13_inequality_excludes_exactly_what_equality_finds() {
    check(&[
        ("number!=3", ""),
        ("number!=\"2\"", ""),
        ("word!=windows", ""),
        ("list!=go", ""),
        ("flag!=true", ""),
        ("number!=2", "excluded number!=2: this worker has number=2"),
        ("word!=linux", "excluded word!=linux: this worker has word=linux"),
        ("list!=rust", "excluded list!=rust: this worker has list=[2,\"a b\",rust]"),
    ]);
}

#[test]
fn l13_a_set_holds_when_one_of_it_does() {
    check(&[
        ("number in (1,2)", ""),
        ("word in (windows,linux)", ""),
        ("list in (go,rust)", ""),
        ("number in (1,3)", "different number in (1,3): this worker has number=2"),
        ("word in (mac,windows)", "different word in (mac,windows): this worker has word=linux"),
        ("list in (c,go)", "different list in (c,go): this worker has list=[2,\"a b\",rust]"),
        ("flag in (1)", "different flag in (1): this worker has flag, which has no value"),
        ("number notin (1,3)", ""),
        ("word notin (mac)", ""),
        ("list notin (c,go)", ""),
        ("flag notin (1)", ""),
        ("number notin (1,2)", "excluded number notin (1,2): this worker has number=2"),
        ("word notin (linux)", "excluded word notin (linux): this worker has word=linux"),
        ("list notin (c,rust)", "excluded list notin (c,rust): this worker has list=[2,\"a b\",rust]"),
    ]);
}

#[test]
fn l13_comparisons_are_exact_at_the_bound() {
    check(&[
        ("number>=2", ""),
        ("number>=1.999", ""),
        ("number>=2.001", "too_small number>=2.001: this worker has number=2"),
        ("number>1.999", ""),
        ("number>2", "too_small number>2: this worker has number=2"),
        ("number<=2", ""),
        ("number<=2.001", ""),
        ("number<=1.999", "too_large number<=1.999: this worker has number=2"),
        ("number<2.001", ""),
        ("number<2", "too_large number<2: this worker has number=2"),
        ("number>-1", ""),
    ]);
}

#[test]
fn l13_only_numbers_compare() {
    for operator in [">=", ">", "<=", "<"] {
        for (name, found) in [
            ("flag", "flag, which has no number"),
            ("word", "word=linux, which is not a number"),
            ("list", "list=[2,\"a b\",rust], which is not a number"),
            ("digits", "digits=\"2\", which is not a number"),
        ] {
            let term = format!("{name}{operator}2");
            assert_eq!(said(&term), format!("not_a_number {term}: this worker has {found}"));
        }
    }
}

#[test]
fn l13_every_term_must_hold_and_each_that_does_not_is_named() {
    assert_eq!(said("word=linux, number>=1, list in (rust), !spot, flag"), "");
    assert_eq!(
        said("word=linux, number>=4, !flag, gone"),
        "present !flag: this worker has flag; absent gone: this worker has no gone; \
         too_small number>=4: this worker has number=2"
    );
}

#[test]
fn the_reason_is_there_as_data() {
    let unmet = needs("gpu>=4, os").unmet(&abilities("gpu=2"));
    let has = Value::Number(Number::from_thousandths(2_000));
    let gpu = Unmet {
        term: "gpu>=4".into(),
        name: "gpu".into(),
        holder: Holder::Worker,
        reason: Reason::TooSmall { has: has.clone() },
    };
    assert_eq!(unmet[0], gpu);
    assert_eq!(unmet[0].reason.has(), Some(&has));
    assert_eq!(unmet[0].found(), Some("gpu=2".to_owned()));
    assert_eq!((unmet[1].reason.has(), unmet[1].found()), (None, None));
    assert_eq!(unmet[1].reason, Reason::Absent);
    assert_eq!(unmet.len(), 2);
}
