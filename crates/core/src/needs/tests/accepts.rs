//! Which jobs a worker takes.

use super::super::suggest::{did_you_mean, slips};
use super::super::{Accepts, Holder};
use super::{accepts, hash_of};

#[test]
fn a_job_is_admitted_by_its_queue_and_type() {
    for (text, admitted) in [
        ("", [true, true, true, true]),
        ("queue=mail", [true, true, false, false]),
        ("type=send", [true, false, true, false]),
        ("queue=mail, type=send", [true, false, false, false]),
        ("queue!=mail", [false, false, true, true]),
        ("type notin (send)", [false, true, false, true]),
        ("queue in (mail,7)", [true, true, true, true]),
        ("queue=7", [false, false, true, true]),
        ("queue, type", [true, true, true, true]),
        ("!queue", [false, false, false, false]),
    ] {
        let jobs = [("mail", "send"), ("mail", "read"), ("7", "send"), ("7", "read")];
        let found = jobs.map(|(queue, job_type)| accepts(text).admits(queue, job_type));
        assert_eq!(found, admitted, "{text}");
        for (queue, job_type) in jobs {
            let unmet = accepts(text).unmet(queue, job_type);
            assert_eq!(unmet.is_empty(), accepts(text).admits(queue, job_type), "{text}");
        }
    }
}

#[test]
fn a_job_that_is_not_taken_is_told_why() {
    let unmet = accepts("queue in (mail,sms), type!=deploy").unmet("batch", "deploy");
    let said: Vec<_> = unmet.iter().map(ToString::to_string).collect();
    let expected =
        ["queue in (mail,sms): this job has queue=batch", "type!=deploy: this job has type=deploy"];
    assert_eq!(said, expected);
    assert!(unmet.iter().all(|unmet| unmet.holder == Holder::Job));
}

#[test]
fn what_looks_like_a_number_stays_a_word() {
    assert_eq!(accepts("queue=7.0").as_str(), "queue=\"7.0\"");
    assert!(accepts("queue=7.0").admits("7.0", "send"));
    assert!(!accepts("queue=7.0").admits("7", "send"));
    assert!(accepts("queue=0.12345").admits("0.12345", "send"));
    assert_eq!(accepts("queue=7"), accepts("queue=\"7\""));
}

#[test]
fn accepts_are_equal_by_their_text() {
    assert_eq!(accepts(" type = a,queue=b"), accepts("queue=b, type=a"));
    assert_eq!(accepts("type=a,queue=b").to_string(), "queue=b, type=a");
    assert_eq!(hash_of(&accepts("type=a,queue=b")), hash_of(&accepts("queue=b, type=a")));
    assert_ne!(accepts("queue=a"), accepts("queue=b"));
    assert_eq!(Accepts::default(), accepts(""));
    assert!(Accepts::default().admits("any", "job"));
}

#[test]
fn the_name_that_was_meant_is_within_two_slips_or_inside() {
    let known = ["queue", "type"];
    for (name, meant) in [
        ("queues", Some("queue")),
        ("quue", Some("queue")),
        ("qeueu", Some("queue")),
        ("que", Some("queue")),
        ("qu", None),
        ("typ", Some("type")),
        ("ty", Some("type")),
        ("t", None),
        ("types", Some("type")),
        ("job_type", Some("type")),
        ("my-queue-name", Some("queue")),
        ("kind", None),
        ("gpu", None),
    ] {
        assert_eq!(did_you_mean(name, &known), meant, "{name}");
    }
    assert_eq!(did_you_mean("tape", &["cap", "type"]), Some("type"));
    assert_eq!(did_you_mean("cape", &["cap", "type"]), Some("cap"));
    assert_eq!(did_you_mean("cype", &["cap", "type"]), Some("type"));
}

#[test]
fn slips_are_counted() {
    for (from, to, count) in [
        ("", "", 0),
        ("", "abc", 3),
        ("abc", "", 3),
        ("abc", "abc", 0),
        ("abc", "abd", 1),
        ("abc", "ab", 1),
        ("abc", "xabc", 1),
        ("kitten", "sitting", 3),
        ("ab", "ba", 2),
        ("flaw", "lawn", 2),
    ] {
        assert_eq!(slips(from, to), count, "{from} {to}");
    }
}

#[test]
fn a_worker_takes_nothing_from_queues_that_its_token_does_not_reach() {
    let scope = crate::Scope::new(&["mail", "ci-*"]).unwrap();
    let accepts = Accepts::parse("type=t").unwrap().within(scope);
    assert!(accepts.admits("mail", "t") && accepts.admits("ci-x", "t"));
    assert!(!accepts.admits("default", "t") && !accepts.admits("mail", "u"));
    let unmet: Vec<_> = accepts.unmet("default", "t").iter().map(ToString::to_string).collect();
    assert_eq!(unmet, ["queues of its token (ci-*, mail): this job has queue=default"]);
    assert_ne!(accepts, Accepts::parse("type=t").unwrap(), "another profile of workers");
}
