//! What was asked for while a value was made.

use crate::query::{ASKED_BYTES_MAX, ASKED_MAX, AskedQueries, StoredValue};

fn asked(range: std::ops::Range<usize>) -> AskedQueries {
    range.fold(AskedQueries::default(), |asked, n| asked.with(format!("q-{n}"), format!("{n}")))
}

#[test]
fn what_was_asked_is_listed_up_to_a_bound_and_any_above_it() {
    let most = asked(0..ASKED_MAX);
    assert_ne!(most, AskedQueries::ANY);
    assert_eq!(most.clone().and(&asked(3..9)), most, "the same queries again");
    assert_eq!(most.with("one-more".to_owned(), String::new()), AskedQueries::ANY);
    let long = "x".repeat(ASKED_BYTES_MAX + 1);
    assert_eq!(AskedQueries::default().with(long, String::new()), AskedQueries::ANY);
    assert_eq!(asked(0..1).and(&AskedQueries::ANY), AskedQueries::ANY);
    assert_eq!(AskedQueries::ANY.and(&asked(0..1)), AskedQueries::ANY);
    // One text that had two meanings is two entries, so one of them is no longer right.
    let two = asked(0..1).with("q-0".to_owned(), "other".to_owned());
    assert!(matches!(two, AskedQueries::Queries(queries) if queries.len() == 2));
}

#[test]
fn a_stored_value_says_what_was_asked() {
    let value = StoredValue::new("text/plain", b"1".to_vec());
    let json = |value: &StoredValue| serde_json::to_string(value).unwrap();
    assert!(!json(&value).contains("asked"));
    let asking = value.clone().asking(asked(0..2));
    let text = json(&asking);
    assert!(text.ends_with(r#""asked":[["q-0","0"],["q-1","1"]]}"#), "{text}");
    assert_eq!(StoredValue::parse(&text).unwrap(), asking);
    let any = json(&value.clone().asking(AskedQueries::ANY));
    assert!(any.ends_with(r#""asked":"any"}"#), "{any}");
    assert_eq!(StoredValue::parse(&any).unwrap().asked(), Some(&AskedQueries::ANY));
    assert_eq!(asking.asking(AskedQueries::default()), value);
}
