//! Exact decimals.

use super::super::number::{Number, NumberFault};

#[test]
fn a_number_is_read_in_thousandths_and_written_shortest() {
    for (text, thousandths, written) in [
        ("0", 0, "0"),
        ("-0", 0, "0"),
        ("7", 7_000, "7"),
        ("007", 7_000, "7"),
        ("10", 10_000, "10"),
        ("-1", -1_000, "-1"),
        ("0.5", 500, "0.5"),
        (".5", 500, "0.5"),
        ("5.", 5_000, "5"),
        ("-.25", -250, "-0.25"),
        ("1.005", 1_005, "1.005"),
        ("1.050", 1_050, "1.05"),
        ("100.5000", 100_500, "100.5"),
        ("9223372036854775.807", i64::MAX, "9223372036854775.807"),
        ("-9223372036854775.808", i64::MIN, "-9223372036854775.808"),
    ] {
        let number = Number::parse(text).expect(text);
        assert_eq!(number.thousandths(), thousandths, "{text}");
        assert_eq!(number, Number::from_thousandths(thousandths), "{text}");
        assert_eq!(number.to_string(), written, "{text}");
    }
}

#[test]
fn what_is_no_number_says_why() {
    for text in ["", "-", ".", "-.", "x", "1x", "1.2.3", "--1", "1-", "+1", "1e3", "1.x", "x.1", "1 ", "٣"] {
        assert_eq!(Number::parse(text), Err(NumberFault::NotANumber), "{text}");
    }
    assert_eq!(Number::parse("1.0001"), Err(NumberFault::TooPrecise));
    assert_eq!(Number::parse("9223372036854775.808"), Err(NumberFault::TooLarge));
    assert_eq!(Number::parse("-9223372036854775.809"), Err(NumberFault::TooLarge));
    assert_eq!(Number::parse("99999999999999999999999"), Err(NumberFault::TooLarge));
}

#[test]
fn numbers_are_ordered_by_size() {
    let sorted = ["-2", "-1.5", "0", "0.001", "0.5", "2", "10"].map(|text| Number::parse(text).expect(text));
    assert!(sorted.is_sorted());
}
