//! Limits as written in flags and shown in tables: `concurrency=5`, `rate=100/1m, burst=10, by=owner`.

use jobhall_protocol::{Limit, Rate, Span};

/// Examples of limits.
const SHAPE: &str = "such as 'concurrency=5', 'rate=100/1m' or 'concurrency=2, by=params.customer.id'";

/// Parses a limit. The expression is last, because it may contain commas in quotes.
pub fn parse(text: &str) -> Result<Limit, String> {
    let (mut limit, mut burst) = (Limit::default(), None);
    let mut rest = text.trim();
    while !rest.is_empty() {
        if let Some(by) = rest.strip_prefix("by=") {
            limit.by = Some(by.trim().to_owned());
            break;
        }
        let (part, after) = rest.split_once(',').unwrap_or((rest, ""));
        rest = after.trim();
        match part.trim().split_once('=') {
            Some(("concurrency", number)) => limit.concurrency = Some(read(number)?),
            Some(("burst", number)) => burst = Some(read(number)?),
            Some(("rate", text)) => limit.rate = Some(rate(text)?),
            _ => return Err(format!("{:?} is not a part of a limit {SHAPE}", part.trim())),
        }
    }
    match (&mut limit.rate, burst) {
        (Some(rate), burst) => rate.burst = burst,
        (None, Some(_)) => return Err("burst belongs to a rate, such as 'rate=100/1m, burst=10'".to_owned()),
        (None, None) => {}
    }
    Limit::checked(std::slice::from_ref(&limit)).map_err(|error| format!("{error} (write it {SHAPE})"))?;
    Ok(limit)
}

/// Parses a limit, or `none`.
pub fn parse_or_none(text: &str) -> Result<Option<Limit>, String> {
    if text == "none" { Ok(None) } else { parse(text).map(Some) }
}

/// The limits of a flag that may be repeated; none if it was not given, an empty list if it is `none`.
pub fn given(flags: &[Option<Limit>]) -> Option<Vec<Limit>> {
    (!flags.is_empty()).then(|| flags.iter().flatten().cloned().collect())
}

/// Limits in one line.
pub fn list(limits: &[Limit]) -> String {
    let all: Vec<_> = limits.iter().map(written).collect();
    if all.is_empty() { "none".to_owned() } else { all.join("; ") }
}

fn read(number: &str) -> Result<u32, String> {
    number.trim().parse().map_err(|_| format!("{:?} is not a number of jobs", number.trim()))
}

fn rate(text: &str) -> Result<Rate, String> {
    let (count, per) =
        text.split_once('/').ok_or_else(|| format!("{text:?} is not a rate such as 100/1m"))?;
    let per: Span = per.trim().parse().map_err(|error: jobhall_protocol::SpanError| error.to_string())?;
    Ok(Rate { count: read(count)?, per_ms: per.0, burst: None })
}

/// The limit as a flag would write it.
pub fn written(limit: &Limit) -> String {
    let mut parts = Vec::new();
    parts.extend(limit.concurrency.map(|most| format!("concurrency={most}")));
    if let Some(Rate { count, per_ms, burst }) = limit.rate {
        parts.push(format!("rate={count}/{}", Span(per_ms)));
        parts.extend(burst.map(|burst| format!("burst={burst}")));
    }
    parts.extend(limit.by.as_ref().map(|by| format!("by={by}")));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_written_as_it_is_read() {
        for text in [
            "concurrency=5",
            "rate=100/1m",
            "rate=1/1h30m, burst=7",
            "concurrency=1, rate=2/1s, by=params[\"a,b\"].before(\",\")",
        ] {
            assert_eq!(written(&parse(text).unwrap()), text);
        }
        assert!(parse("rate = 1/1s").is_err(), "no spaces around =");
        assert_eq!(given(&[]), None);
        assert_eq!(given(&[parse_or_none("none").unwrap()]), Some(Vec::new()));
        let two = ["concurrency=5", "rate=1/1s"].map(|text| parse_or_none(text).unwrap());
        assert_eq!(list(&given(&two).unwrap()), "concurrency=5; rate=1/1s");
        assert_eq!(list(&[]), "none");
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, said) in [
            ("5", "\"5\" is not a part of a limit such as"),
            ("concurrency=x", "\"x\" is not a number of jobs"),
            ("rate=5", "\"5\" is not a rate such as 100/1m"),
            ("rate=5/x", "\"x\" is not a span of time"),
            ("burst=5, concurrency=1", "burst belongs to a rate"),
            ("by=owner", "limit 1 has neither concurrency nor rate"),
            (
                "concurrency=1, by=ownr",
                "by of limit 1: unknown name \"ownr\" at column 1; did you mean \"owner\"?",
            ),
            ("concurrency=0", "concurrency of 0 in limit 1 is outside"),
            ("", "limit 1 has neither"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(said), "{error}");
        }
    }
}
