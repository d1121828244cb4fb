//! The name of a worker, which is a fact of it and no ability.

use super::super::{Abilities, SelectorErrorKind as Kind};
use super::{abilities, abilities_error, accepts, needs, needs_error};
use crate::name::WorkerName;

fn admits(text: &str, name: &str) -> bool {
    needs(text).admits(&WorkerName::new(name).unwrap())
}

#[test]
fn ground_8_needs_can_name_workers() {
    assert!(admits("worker=a", "a") && !admits("worker=a", "b"));
    assert!(admits("worker!=a", "b") && !admits("worker!=a", "a"));
    assert!(admits(r#"worker in ("a","b")"#, "b") && !admits("worker in (a,b)", "c"));
    assert!(admits(r#"worker notin ("a","b")"#, "c") && !admits("worker notin (a,b)", "a"));
    assert!(admits("worker", "a") && !admits("!worker", "a"));
    assert!(admits("gpu>=1", "a"), "terms about abilities are evaluated apart");
}

#[test]
fn ground_8_the_name_of_a_worker_is_a_word() {
    assert!(admits("worker=7", "7") && admits("worker in (7,0.5)", "0.5") && !admits("worker=7", "7.0"));
    assert_eq!(needs("worker=7"), needs(r#"worker="7""#));
    assert_eq!(needs("worker=7, gpu=7").as_str(), r#"gpu=7, worker="7""#, "the next term has numbers again");
    let error = needs_error("worker>=1");
    assert_eq!(error.kind, Kind::NotComparable { name: "worker".into(), operator: ">=" });
}

#[test]
fn ground_8_the_name_of_a_worker_does_not_change_what_abilities_match() {
    let wanted = needs("gpu>=1, worker=a");
    assert!(wanted.names_worker() && !needs("workers=a, gpu").names_worker());
    assert!(wanted.satisfied_by(&abilities("gpu=2")) && !wanted.satisfied_by(&Abilities::default()));
    assert_eq!(wanted.unmet(&abilities("gpu=2")), []);
    let unmet = wanted.unmet_by(&WorkerName::new("b").unwrap());
    assert_eq!(unmet[0].to_string(), "worker=a: this worker has the name b");
    assert!(accepts("type=worker").admits("default", "worker"));
}

#[test]
fn ground_8_no_worker_has_an_ability_with_the_name_of_that_fact() {
    for text in ["worker", "worker=a", "os=linux, worker=[a,b]"] {
        let error = abilities_error(text);
        assert_eq!(error.kind, Kind::ReservedAbility { name: "worker".into() });
        let said = "ability \"worker\" is reserved at column ";
        assert!(
            error.to_string().starts_with(said) && error.to_string().ends_with("from its token"),
            "{error}"
        );
    }
    assert_eq!(abilities("workers=3").to_string(), "workers=3");
}
