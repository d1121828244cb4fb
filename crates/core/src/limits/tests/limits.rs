//! Limits as they are configured.

use super::super::{
    CONCURRENCY_MAX, KeyExpression, LIMITS_MAX, Limit, LimitError, PER_MS_MAX, Rate, TOKENS_MAX, check_limits,
};

fn read(text: &str) -> Result<Limit, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

#[test]
fn a_limit_is_written_as_it_is_read() {
    for text in [
        r#"{"concurrency":10}"#,
        r#"{"by":"params.customer.id","concurrency":2}"#,
        r#"{"by":"owner","rate":{"count":100,"per_ms":60000}}"#,
        r#"{"concurrency":1,"rate":{"count":1,"per_ms":1000,"burst":5}}"#,
    ] {
        let limit = read(text).unwrap();
        assert_eq!(serde_json::to_string(&limit).unwrap(), text);
        assert_eq!(check_limits(&[limit]), Ok(()));
    }
}

#[test]
fn what_is_not_known_is_refused_by_name() {
    let error = read(r#"{"concurency":10}"#).unwrap_err();
    assert!(error.starts_with("unknown field `concurency`"), "{error}");
    let error = read(r#"{"rate":{"count":1,"per_s":1}}"#).unwrap_err();
    assert!(error.starts_with("unknown field `per_s`"), "{error}");
    let error = read(r#"{"rate":{"count":1}}"#).unwrap_err();
    assert!(error.starts_with("missing field `per_ms`"), "{error}");
    let error = read(r#"{"by":"ownr","concurrency":1}"#).unwrap_err();
    let said = "expression: unknown name \"ownr\" at column 1; did you mean \"owner\"?";
    assert!(error.starts_with(said), "{error}");
}

#[test]
fn the_burst_is_the_count_where_none_is_given() {
    let rate = Rate { count: 7, per_ms: 1, burst: None };
    assert_eq!((rate.most(), Rate { burst: Some(9), ..rate }.most()), (7, 9));
}

#[test]
fn numbers_are_bounded_and_the_error_names_the_limit() {
    let rate = Rate { count: 1, per_ms: 1, burst: None };
    let concurrency = |n| Limit { by: None, concurrency: Some(n), rate: None };
    let by_rate = |rate| Limit { by: None, concurrency: None, rate: Some(rate) };
    let none = Limit { by: Some(KeyExpression::parse("key").unwrap()), concurrency: None, rate: None };
    for (limit, said) in [
        (concurrency(0), "concurrency of 0 in limit 2 is outside 1 to 1000000; pause it instead"),
        (concurrency(CONCURRENCY_MAX + 1), "concurrency of 1000001 in limit 2 is outside 1 to 1000000"),
        (by_rate(Rate { count: 0, ..rate }), "rate count of 0 in limit 2 is outside 1 to 1000000"),
        (by_rate(Rate { count: TOKENS_MAX + 1, ..rate }), "rate count of 1000001 in limit 2 is outside 1 to"),
        (by_rate(Rate { per_ms: 0, ..rate }), "rate per_ms of 0 in limit 2 is outside 1 to 31536000000"),
        (
            by_rate(Rate { per_ms: PER_MS_MAX + 1, ..rate }),
            "rate per_ms of 31536000001 in limit 2 is outside",
        ),
        (by_rate(Rate { burst: Some(0), ..rate }), "rate burst of 0 in limit 2 is outside 1 to 1000000"),
        (none, "limit 2 has neither concurrency nor rate"),
    ] {
        let error = check_limits(&[concurrency(1), limit]).unwrap_err();
        assert!(error.to_string().starts_with(said), "{error}");
    }
    let most = Rate { count: TOKENS_MAX, per_ms: PER_MS_MAX, burst: Some(TOKENS_MAX) };
    assert_eq!(check_limits(&[concurrency(CONCURRENCY_MAX), by_rate(most)]), Ok(()));
    assert_eq!(check_limits(&vec![concurrency(1); LIMITS_MAX]), Ok(()));
    let error = check_limits(&vec![concurrency(1); LIMITS_MAX + 1]).unwrap_err();
    assert_eq!(error, LimitError::TooMany(17));
    assert_eq!(error.to_string(), "limits has 17 entries, the limit is 16");
}
