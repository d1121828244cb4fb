//! Every kind of mistake, where it is found and how it is said.

use super::super::{Position, SelectorError, SelectorErrorKind as Kind};
use super::{abilities_error, accepts_error, needs_error, uses_error};

type Case = (&'static str, usize, Kind, &'static str);

fn check(parse: fn(&str) -> SelectorError, cases: Vec<Case>) {
    for (text, offset, kind, said) in cases {
        let error = parse(text);
        assert_eq!(error.kind, kind, "{text}");
        assert_eq!(error.position.offset, offset, "{text}");
        assert_eq!(error.position.column, text[..offset].chars().count() + 1, "{text}");
        assert_eq!(error.to_string(), said, "{text}");
    }
}

fn unexpected(found: char, expected: &'static str) -> Kind {
    Kind::UnexpectedCharacter { found, expected }
}

#[test]
fn a_character_out_of_place() {
    const OPERATOR: &str = "an operator or \",\"";
    check(
        needs_error,
        vec![
            ("=1", 0, unexpected('=', "a name"), "expected a name, found '=', at column 1"),
            ("a, 9", 3, unexpected('9', "a name"), "expected a name, found '9', at column 4"),
            ("!!a", 1, unexpected('!', "a name"), "expected a name, found '!', at column 2"),
            ("_a", 0, unexpected('_', "a name"), "expected a name, found '_', at column 1"),
            ("é", 0, unexpected('é', "a name"), "expected a name, found 'é', at column 1"),
            ("a b", 2, unexpected('b', OPERATOR), "expected an operator or \",\", found 'b', at column 3"),
            (
                "a inx (b)",
                2,
                unexpected('i', OPERATOR),
                "expected an operator or \",\", found 'i', at column 3",
            ),
            ("a in-x", 2, unexpected('i', OPERATOR), "expected an operator or \",\", found 'i', at column 3"),
            ("a ! b", 2, unexpected('!', OPERATOR), "expected an operator or \",\", found '!', at column 3"),
            ("aé", 1, unexpected('é', OPERATOR), "expected an operator or \",\", found 'é', at column 2"),
            ("a=b c", 4, unexpected('c', "\",\""), "expected \",\", found 'c', at column 5"),
            ("!a=b", 2, unexpected('=', "\",\""), "expected \",\", found '=', at column 3"),
            ("a==b", 2, unexpected('=', "a value"), "expected a value, found '=', at column 3"),
            ("a=\"é\"é", 6, unexpected('é', "\",\""), "expected \",\", found 'é', at column 6"),
            ("a=[b]", 2, unexpected('[', "a value"), "expected a value, found '[', at column 3"),
            (
                "a in (b c)",
                8,
                unexpected('c', "\",\" or \")\""),
                "expected \",\" or \")\", found 'c', at column 9",
            ),
        ],
    );
    check(
        abilities_error,
        vec![
            ("!a", 0, unexpected('!', "a name"), "expected a name, found '!', at column 1"),
            ("a>1", 1, unexpected('>', "\"=\" or \",\""), "expected \"=\" or \",\", found '>', at column 2"),
            ("a=(b)", 2, unexpected('(', "a value"), "expected a value, found '(', at column 3"),
            ("a=[[b]]", 3, unexpected('[', "a value"), "expected a value, found '[', at column 4"),
            (
                "a=[b)",
                4,
                unexpected(')', "\",\" or \"]\""),
                "expected \",\" or \"]\", found ')', at column 5",
            ),
        ],
    );
}

#[test]
fn something_missing() {
    check(
        needs_error,
        vec![
            (",", 0, Kind::MissingName, "expected a name at column 1"),
            ("a,", 2, Kind::MissingName, "expected a name at column 3"),
            ("a, ,b", 3, Kind::MissingName, "expected a name at column 4"),
            ("! ", 2, Kind::MissingName, "expected a name at column 3"),
            ("a=", 2, Kind::MissingValue { after: "=" }, "expected a value after \"=\" at column 3"),
            ("a!= ,b", 4, Kind::MissingValue { after: "!=" }, "expected a value after \"!=\" at column 5"),
            ("a in (b,)", 8, Kind::MissingValue { after: "," }, "expected a value after \",\" at column 9"),
            ("a in (,b)", 6, Kind::MissingValue { after: "(" }, "expected a value after \"(\" at column 7"),
            ("a=]", 2, Kind::MissingValue { after: "=" }, "expected a value after \"=\" at column 3"),
            ("a in", 4, Kind::MissingList { after: "in" }, "expected a list in ( ) after \"in\" at column 5"),
            (
                "a notin b",
                8,
                Kind::MissingList { after: "notin" },
                "expected a list in ( ) after \"notin\" at column 9",
            ),
        ],
    );
    check(
        abilities_error,
        vec![
            ("a=", 2, Kind::MissingValue { after: "=" }, "expected a value after \"=\" at column 3"),
            ("a=[,]", 3, Kind::MissingValue { after: "[" }, "expected a value after \"[\" at column 4"),
            ("a,,b", 2, Kind::MissingName, "expected a name at column 3"),
        ],
    );
}

#[test]
fn numbers_that_are_none() {
    check(
        needs_error,
        vec![
            ("os>=x", 4, Kind::NumberExpected { after: ">=" }, "expected a number after \">=\" at column 5"),
            ("os>", 3, Kind::NumberExpected { after: ">" }, "expected a number after \">\" at column 4"),
            (
                "os<= ,b",
                5,
                Kind::NumberExpected { after: "<=" },
                "expected a number after \"<=\" at column 6",
            ),
            ("os<\"2\"", 3, Kind::NumberExpected { after: "<" }, "expected a number after \"<\" at column 4"),
            ("os>=2x", 4, Kind::NumberExpected { after: ">=" }, "expected a number after \">=\" at column 5"),
            (
                "a>0.0001",
                2,
                Kind::NumberTooPrecise { number: "0.0001".into() },
                "number 0.0001 has more than 3 decimals at column 3; put it in quotes to make it a word",
            ),
            (
                "a in (1,9999999999999999)",
                8,
                Kind::NumberTooLarge { number: "9999999999999999".into() },
                "number 9999999999999999 is out of range at column 9; put it in quotes to make it a word",
            ),
        ],
    );
}

#[test]
fn lists_and_quotes_that_are_broken() {
    check(
        needs_error,
        vec![
            ("a in (", 5, Kind::UnclosedList, "unclosed list at column 6"),
            ("a in (b", 5, Kind::UnclosedList, "unclosed list at column 6"),
            ("a in (b, ", 5, Kind::UnclosedList, "unclosed list at column 6"),
            ("a notin ( )", 8, Kind::EmptyList, "empty list at column 9"),
            ("a=\"b", 2, Kind::UnclosedQuote, "unclosed quote at column 3"),
            ("a=\"b\\", 2, Kind::UnclosedQuote, "unclosed quote at column 3"),
            ("a=\"b\\\"", 2, Kind::UnclosedQuote, "unclosed quote at column 3"),
            ("a in (\"b)", 6, Kind::UnclosedQuote, "unclosed quote at column 7"),
            (
                "a=\"b\\n\"",
                5,
                Kind::UnknownEscape { found: 'n' },
                "unknown escape 'n' after \"\\\" at column 6",
            ),
        ],
    );
    check(
        abilities_error,
        vec![
            ("a=[", 2, Kind::UnclosedList, "unclosed list at column 3"),
            ("a=[b", 2, Kind::UnclosedList, "unclosed list at column 3"),
            ("a=[]", 2, Kind::EmptyList, "empty list at column 3"),
        ],
    );
}

#[test]
fn names_that_are_refused() {
    let uppercase = |name: &str, lowercase: &str| Kind::UppercaseName {
        name: name.into(),
        did_you_mean: lowercase.into(),
    };
    let unknown = |name: &str, did_you_mean| Kind::UnknownName { name: name.into(), did_you_mean };
    let said = "name \"gPU\" is not lowercase at column 5; did you mean \"gpu\"?";
    check(needs_error, vec![("os, gPU>1", 4, uppercase("gPU", "gpu"), said)]);
    let said = "ability \"os\" is given a second time at column 8";
    check(
        abilities_error,
        vec![
            ("os, é", 4, unexpected('é', "a name"), "expected a name, found 'é', at column 5"),
            ("os=a,b,os", 7, Kind::DuplicateAbility { name: "os".into() }, said),
        ],
    );
    let compared = |name: &str, operator| Kind::NotComparable { name: name.into(), operator };
    check(
        accepts_error,
        vec![
            (
                "typ=a",
                0,
                unknown("typ", Some("type")),
                "unknown name \"typ\" at column 1; did you mean \"type\"?",
            ),
            (
                "queue=a, !gpu",
                10,
                unknown("gpu", None),
                "unknown name \"gpu\" at column 11; use \"queue\" or \"type\"",
            ),
            (
                "Type=a",
                0,
                uppercase("Type", "type"),
                "name \"Type\" is not lowercase at column 1; did you mean \"type\"?",
            ),
            (
                "queue >= 1",
                6,
                compared("queue", ">="),
                "\"queue\" is a word and cannot be compared by \">=\" at column 7",
            ),
        ],
    );
}

#[test]
fn control_characters_anywhere() {
    for (text, offset, found, said) in [
        ("a\0", 1, '\0', "control character U+0000 at column 2"),
        ("é\t", 2, '\t', "control character U+0009 at column 2"),
        ("a=\"b\n\"", 4, '\n', "control character U+000A at column 5"),
        ("a=\u{85}", 2, '\u{85}', "control character U+0085 at column 3"),
    ] {
        for error in [needs_error(text), abilities_error(text), accepts_error(text)] {
            assert_eq!((error.position.offset, &error.kind), (offset, &Kind::ControlCharacter { found }));
            assert_eq!(error.to_string(), said);
        }
    }
}

#[test]
fn the_limits_are_said() {
    for (kind, said) in [
        (Kind::ListTooLong { most: 32 }, "more than 32 entries in a list at column 1"),
        (Kind::TooManyTerms, "more than 32 terms at column 1"),
        (Kind::TooManyAbilities, "more than 64 abilities at column 1"),
        (Kind::NameTooLong { chars: 65 }, "name of 65 characters, over the limit of 64, at column 1"),
        (Kind::ValueTooLong { chars: 129 }, "value of 129 characters, over the limit of 128, at column 1"),
    ] {
        let error = SelectorError { position: Position { offset: 0, column: 1 }, kind };
        assert_eq!(error.to_string(), said);
    }
}

#[test]
fn a_caret_stands_under_the_mistake() {
    for (text, shown) in [
        ("gpu>=x", "gpu>=x\n     ^"),
        ("=", "=\n^"),
        ("a=", "a=\n  ^"),
        ("a=\"é\"é", "a=\"é\"é\n     ^"),
        ("a\tb", "a\u{fffd}b\n ^"),
    ] {
        assert_eq!(needs_error(text).caret(text), shown);
    }
}

#[test]
fn a_caret_line_is_cut_around_the_mistake() {
    let text = format!("{}=={}", "a".repeat(61), "b".repeat(100));
    let line = format!("{}=={}", "a".repeat(59), "b".repeat(19));
    assert_eq!(needs_error(&text).caret(&text), format!("{line}\n{}^", " ".repeat(60)));
    let text = format!("{}=={}", "a".repeat(59), "b".repeat(100));
    let line = format!("{}=={}", "a".repeat(59), "b".repeat(19));
    assert_eq!(needs_error(&text).caret(&text), format!("{line}\n{}^", " ".repeat(60)));
    let nowhere = SelectorError { position: Position { offset: 0, column: 0 }, kind: Kind::MissingName };
    assert_eq!(nowhere.caret("a"), "a\n^");
}

fn bad_amount(amount: &str, did_you_mean: Option<&str>) -> Kind {
    Kind::BadAmount { amount: amount.into(), did_you_mean: did_you_mean.map(Into::into) }
}

#[test]
fn an_amount_that_cannot_be_used() {
    const RANGE: &str = "is not a number from 0.001 to 9223372036854775.807 with 3 decimals at most";
    for (text, offset, amount, meant) in [
        ("gpu=0", 4, "0", None),
        ("gpu=-1", 4, "-1", None),
        ("gpu=0.0001", 4, "0.0001", None),
        ("gpu=99999999999999999999", 4, "99999999999999999999", None),
        ("a=1, gpu= lots", 10, "lots", None),
        ("mem=8GB", 4, "8GB", Some("mem_gb=8")),
        ("mem=0.5tb", 4, "0.5tb", Some("mem_tb=0.5")),
    ] {
        let error = uses_error(text);
        assert_eq!((error.position.offset, &error.kind), (offset, &bad_amount(amount, meant)), "{text}");
        let meant = meant.map_or_else(String::new, |meant| format!("; did you mean \"{meant}\"?"));
        assert_eq!(error.to_string(), format!("amount {amount} {RANGE} at column {}{meant}", offset + 1));
    }
    for (text, offset) in [("gpu", 3), ("gpu, mem=1", 3), ("gpu>=1", 3), ("gpu=", 4), ("gpu=\"1\"", 4)] {
        let error = uses_error(text);
        assert_eq!(error.kind, Kind::MissingAmount { name: "gpu".into() }, "{text}");
        assert_eq!(error.position.offset, offset, "{text}");
        let said = format!(
            "expected \"=\" and an amount after \"gpu\" at column {}; did you mean \"gpu=1\"?",
            offset + 1
        );
        assert_eq!(error.to_string(), said, "{text}");
    }
    let twice = uses_error("gpu=1, gpu=2");
    assert_eq!(twice.kind, Kind::DuplicateResource { name: "gpu".into() });
    assert_eq!(twice.to_string(), "resource \"gpu\" is given a second time at column 8");
    assert!(uses_error("GPU=1").to_string().ends_with("did you mean \"gpu\"?"));
    let many = (0..33).map(|index| format!("a{index}=1")).collect::<Vec<_>>().join(",");
    assert!(uses_error(&many).to_string().starts_with("more than 32 terms"));
    assert!(uses_error(&" ".repeat(1_025)).to_string().starts_with("text of 1025 bytes"));
    assert_eq!(uses_error("gpu=1 mem=2").to_string(), "expected \",\", found 'm', at column 7");
}
