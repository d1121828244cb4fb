//! What a job uses: reading, canonical form, and whether a worker has it at all.

use super::super::{Number, Reason, Uses};
use super::{abilities, hash_of, uses};

#[test]
fn no_text_uses_nothing() {
    for text in ["", "   "] {
        assert!(uses(text).is_empty());
        assert_eq!(uses(text), Uses::default());
        assert_eq!(uses(text).as_str(), "");
        assert_eq!(hash_of(&uses(text)), hash_of(&Uses::default()));
        assert!(uses(text).fits(&abilities("")));
    }
}

#[test]
fn the_canonical_form_is_one_for_all_spellings() {
    for (text, canonical) in [
        ("mem_gb=8,gpu=1", "gpu=1, mem_gb=8"),
        ("  gpu = 01.50 ", "gpu=1.5"),
        ("gpu=.001", "gpu=0.001"),
        ("gpu=9223372036854775.807", "gpu=9223372036854775.807"),
        ("in=1, notin=2", "in=1, notin=2"),
    ] {
        assert_eq!(uses(text).as_str(), canonical, "{text}");
        assert_eq!(uses(canonical), uses(text), "{text}");
        assert_eq!(hash_of(&uses(canonical)), hash_of(&uses(text)), "{text}");
        assert_eq!(uses(text).to_string(), canonical, "{text}");
        assert!(!uses(text).is_empty(), "{text}");
    }
    assert_ne!(uses("gpu=1"), uses("gpu=2"));
    assert!(uses("gpu=1") < uses("gpu=2"));
}

#[test]
fn a_worker_that_has_less_or_nothing_of_it_does_not_fit() {
    for (asked, has, fits) in [
        ("gpu=1", "gpu=1", true),
        ("gpu=1", "gpu=2, os=linux", true),
        ("gpu=1, mem_gb=8", "gpu=1, mem_gb=8", true),
        ("gpu=1, mem_gb=8", "gpu=1, mem_gb=7.999", false),
        ("gpu=1", "", false),
        ("gpu=1", "gpu", false),
        ("gpu=1", "gpu=\"1\"", false),
        ("gpu=1", "gpu=[1]", false),
        ("gpu=1", "gpu=0", false),
        ("gpu=1", "gpu=-1", false),
    ] {
        assert_eq!(uses(asked).fits(&abilities(has)), fits, "{asked} of {has}");
        assert_eq!(uses(asked).unmet(&abilities(has)).is_empty(), fits, "{asked} of {has}");
    }
}

#[test]
fn what_does_not_fit_is_said_by_name() {
    let unmet = uses("cpu=9, disk=1, gpu=4, mem_gb=8").unmet(&abilities("cpu=8, gpu, mem_gb=8"));
    let said: Vec<_> = unmet.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "cpu=9: this worker has cpu=8",
            "disk=1: this worker has no disk",
            "gpu=4: this worker has gpu, which has no number",
        ]
    );
    assert!(matches!(unmet[1].reason, Reason::Absent));
    assert_eq!(uses("cpu=9, disk=1").get("disk"), Some(Number::from_thousandths(1_000)));
    assert_eq!(uses("cpu=9, disk=1").get("dis"), None);
}
