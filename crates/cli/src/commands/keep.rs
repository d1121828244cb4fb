//! Words for how long and how many completed jobs are kept.

use jobhall_core::bounds::{JOB_ID, KEEP_MS};
use jobhall_protocol::Span;

/// A number of a rule, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept(pub Option<u64>);

/// How long jobs of a type or queue are kept; `default` leaves it to the next rule.
pub fn own_span(text: &str) -> Result<Kept, String> {
    match text {
        "default" => Ok(Kept(None)),
        "forever" => Ok(Kept(Some(KEEP_MS))),
        _ => text.parse::<Span>().map(|span| Kept(Some(span.0))).map_err(|error| error.to_string()),
    }
}

/// How many jobs of a type or queue are kept; `default` leaves it to the next rule.
pub fn own_count(text: &str) -> Result<Kept, String> {
    match text {
        "default" => Ok(Kept(None)),
        "all" => Ok(Kept(Some(JOB_ID))),
        _ => text
            .parse()
            .map(|count| Kept(Some(count)))
            .map_err(|_| "not a number, nor `all` or `default`".to_owned()),
    }
}

/// How long jobs are kept by the server's rule.
pub fn server_span(text: &str) -> Result<Kept, String> {
    if text == "forever" {
        Ok(Kept(None))
    } else {
        text.parse::<Span>().map(|span| Kept(Some(span.0))).map_err(|error| error.to_string())
    }
}

/// How many jobs of each type are kept by the server's rule.
pub fn server_count(text: &str) -> Result<Kept, String> {
    match text {
        "all" => Ok(Kept(None)),
        _ => text.parse().map(|count| Kept(Some(count))).map_err(|_| "not a number, nor `all`".to_owned()),
    }
}

/// The span in words; `unset` if there is none.
pub fn span(ms: Option<u64>, unset: &str) -> String {
    match ms {
        None => unset.to_owned(),
        Some(KEEP_MS) => "forever".to_owned(),
        Some(ms) => Span(ms).to_string(),
    }
}

/// The number in words; `unset` if there is none.
pub fn count(count: Option<u64>, unset: &str) -> String {
    match count {
        None => unset.to_owned(),
        Some(JOB_ID) => "all".to_owned(),
        Some(count) => count.to_string(),
    }
}

/// The server's rule in words.
pub fn sentence(keep_ms: Option<u64>, keep_count: Option<u64>) -> String {
    let long = match keep_ms {
        None | Some(KEEP_MS) => "forever".to_owned(),
        Some(ms) => format!("for {}", Span(ms)),
    };
    match keep_count {
        None | Some(JOB_ID) => format!("completed jobs are kept {long}"),
        Some(count) => format!("completed jobs are kept {long}, at most {count} of each type"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read_back() {
        for word in ["default", "forever", "30d", "1h30m"] {
            assert_eq!(span(own_span(word).unwrap().0, "default"), word);
        }
        for word in ["default", "all", "0", "1000000"] {
            assert_eq!(count(own_count(word).unwrap().0, "default"), word);
        }
        assert_eq!((server_span("forever"), server_count("all")), (Ok(Kept(None)), Ok(Kept(None))));
        assert!(server_span("default").is_err() && server_count("default").is_err());
        assert!(own_count("-1").unwrap_err().contains("`all`"));
    }

    #[test]
    fn the_rule_is_a_sentence() {
        assert_eq!(
            sentence(Some(30 * 86_400_000), Some(1_000_000)),
            "completed jobs are kept for 30d, at most 1000000 of each type"
        );
        assert_eq!(sentence(None, None), "completed jobs are kept forever");
        assert_eq!(sentence(Some(KEEP_MS), Some(JOB_ID)), "completed jobs are kept forever");
    }
}
