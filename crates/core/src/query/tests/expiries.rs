//! When values expire.

use super::super::{Declaration, Expiry, Modes, NodeParams, content_identity};
use super::{Numbering, command, commands, name, planned};
use crate::time::Time;

fn at(ms: i64) -> Time {
    Time::from_ms(ms).unwrap()
}

#[test]
fn an_expiry_is_a_duration_or_the_end_of_a_day() {
    for text in ["10m", "1h30m", "EOD UTC", "EOD Europe/Berlin"] {
        assert_eq!(Expiry::new(text).unwrap().to_string(), text);
    }
    assert_eq!(Expiry::new("EOD").unwrap().to_string(), "EOD UTC");
    for (text, message) in [
        ("0s", "a value expires after 1ms to 100 years"),
        ("EOD Berlin", "\"Berlin\" is not a time zone; did you mean Europe/Berlin?"),
        (
            "soon",
            "\"soon\" is neither a duration such as 10m nor the end of a day such as EOD or EOD Europe/Berlin",
        ),
    ] {
        assert_eq!(Expiry::new(text).unwrap_err().to_string(), message);
    }
}

#[test]
fn a_day_ends_at_midnight_of_its_zone() {
    const HOUR: i64 = 3_600_000;
    assert_eq!(Expiry::new("10m").unwrap().at(at(1_000)), at(601_000));
    assert_eq!(Expiry::new("EOD").unwrap().at(at(HOUR)), at(24 * HOUR));
    assert_eq!(Expiry::new("EOD").unwrap().at(at(24 * HOUR)), at(48 * HOUR), "midnight begins the next day");
    assert_eq!(Expiry::new("EOD Europe/Berlin").unwrap().at(at(HOUR)), at(23 * HOUR));
    assert_eq!(Expiry::new("EOD").unwrap().at(Time::END), Time::END);
}

#[test]
fn q27_a_value_expires_with_the_shortest_term_of_its_steps_and_inputs() {
    let expiring = |text: &str, expires: &str| {
        let expires = Some(Expiry::new(expires).unwrap());
        Declaration {
            expires,
            modes: Modes { volatile: true, ..Modes::default() },
            ..Declaration::new(name(text))
        }
    };
    let known = commands(vec![
        expiring("hour", "1h"),
        expiring("minute", "1m"),
        command("plain", vec![], Modes::default()),
    ]);
    let expires_at = |text: &str, inputs_expire_at| {
        let plan = planned(text, &known, &Numbering::default()).unwrap();
        assert_eq!(plan.nodes.len(), 1, "one job carries all steps");
        NodeParams { inputs_expire_at, ..NodeParams::new(&plan.nodes[0], vec![]) }.expires_at(at(1_000))
    };
    assert_eq!(expires_at("plain", None), None);
    assert_eq!(expires_at("plain", Some(5)), Some(at(5)));
    assert_eq!(expires_at("hour", None), Some(at(3_601_000)));
    assert_eq!(expires_at("hour/plain", Some(9_000_000)), Some(at(3_601_000)));
    assert_eq!(
        expires_at("hour/minute/plain", Some(9_000_000)),
        Some(at(61_000)),
        "a step that is carried counts"
    );
    assert_eq!(expires_at("hour/minute/plain", Some(60_000)), Some(at(60_000)));
}

#[test]
fn a_step_that_expires_is_not_skipped_because_its_input_has_the_same_bytes() {
    let expires = Some(Expiry::new("1h").unwrap());
    let known = commands(vec![
        Declaration { expires, ..Declaration::new(name("hour")) },
        command("plain", vec![], Modes::default()),
    ]);
    let content = |text: &str| {
        let plan = planned(text, &known, &Numbering::default()).unwrap();
        let params = NodeParams::new(&plan.nodes[1], vec![plan.nodes[0].identity]);
        content_identity(Numbering::default(), &params, "", &[[9; 32]], &known)
    };
    assert_eq!((content("plain/hour"), content("hour/plain").is_some()), (None, true));
}
