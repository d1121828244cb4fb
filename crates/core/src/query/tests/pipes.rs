//! The form for people.

use proptest::prelude::*;

use super::super::{FileName, Given, Pipe, PipeHead, Query, is_pipe};
use super::parse;
use super::trees::plain_query;

/// Single quotes as in a shell; a bare word where that means the same.
fn quoted(text: &str) -> String {
    let bare = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:".contains(c));
    if bare { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

fn as_pipe(query: &Query) -> String {
    let mut stages: Vec<String> = Vec::new();
    stages.extend(query.source.as_ref().map(|source| format!("source:{}", source.key)));
    for step in &query.steps {
        let arguments = step.arguments.iter().map(|argument| match &argument.given {
            Given::Text(text) => format!(" {}", quoted(text)),
            Given::Link(_) => unreachable!("no links"),
        });
        stages.push(step.command.to_string() + &arguments.collect::<String>());
    }
    stages.extend(query.file.as_ref().map(|file| quoted(&file.name)));
    stages.join(" | ")
}

proptest! {
    #[test]
    fn a_pipe_is_read_as_the_tree_of_the_url(mut query in plain_query()) {
        // The key of a source is one bare word.
        let plain = |c: char| c.is_alphanumeric() || "-_.+é日/".contains(c);
        query.source = query.source.filter(|source| source.key.as_str().chars().all(plain));
        if query.steps.is_empty() && query.source.is_none() {
            return Ok(());
        }
        let written = as_pipe(&query);
        let read = Pipe::parse(&written).map_err(|error| TestCaseError::fail(format!("{written}: {}", error.message(&written))))?;
        prop_assert_eq!(&read.query, &query, "{}", written);
        prop_assert_eq!(parse(&read.query.text()), Ok(query));
    }

    #[test]
    fn any_text_is_a_pipe_or_refused_at_a_place_within_it(text in "[a-c@|'\"\\\\ .\\-é]{0,16}") {
        if let Err(error) = Pipe::parse(&text) {
            let column = error.span.column(&text);
            prop_assert!((1..=text.chars().count().max(1)).contains(&column), "{text:?}: {column}");
            prop_assert!(!error.kind.to_string().is_empty());
        }
    }
}

fn text(pipe: &str) -> (Option<PipeHead>, String) {
    let pipe = Pipe::parse(pipe).unwrap_or_else(|error| panic!("{}", error.message(pipe)));
    (pipe.head, pipe.query.text())
}

#[test]
fn what_people_write() {
    let file = |name: &str| Some(PipeHead::File(name.to_owned()));
    assert_eq!(
        text("@sales.csv | clean | between 2026-01-01 2026-02-01 | by region"),
        (file("sales.csv"), "clean/between-2026~_01~_01-2026~_02~_01/by-region".to_owned())
    );
    assert_eq!(text("source:a/b-1.csv|head 3|report-2026.csv").1, "-R/a/b-1.csv/-/head-3/report~_2026.csv");
    assert_eq!(text("- | head -3"), (Some(PipeHead::Stdin), "head-~_3".to_owned()));
    assert_eq!(text("grep 'a | b' \"it's\" \"a\\\"b\" c\\ d ''").1, "grep-a~.~x7c~.b-it~x27s-a~x22b-c~.d-");
    assert_eq!(text("count").1, "count");
    assert_eq!(text("@sales.csv"), (file("sales.csv"), String::new()));
    let named = Pipe::parse("count 3 | x.csv").unwrap().query.file;
    assert!(matches!(named, Some(FileName { name, .. }) if name == "x.csv"));
}

#[test]
fn what_is_no_pipe_says_where() {
    for (text, marks, message) in [
        ("", "^", "the query is empty; it needs a command, as in count-10/head-3"),
        ("a | | b", "    ^", "nothing stands before or after this \"|\""),
        ("a |", "  ^", "nothing stands before or after this \"|\""),
        ("a 'b", "  ^^", "the quote that begins here does not end"),
        (
            "@f.csv head 3",
            "       ^^^^",
            "\"@f.csv\" stands alone before the first \"|\": @FILE, source:KEY or -",
        ),
        ("a | Head 3", "    ^^^^", "a command begins with a lower-case letter or \"_\", not with 'H'"),
        ("a | he-ad 3", "    ^^^^^", "the name of a command has letters, digits and \"_\", not '-'"),
        ("x.csv | a", "^^^^^", "a part with \".\" is a file name, which stands at the end of a query only"),
    ] {
        let error = Pipe::parse(text).unwrap_err();
        assert_eq!(
            (error.span.marks(text), error.kind.to_string()),
            (marks.to_owned(), message.to_owned()),
            "{text}"
        );
    }
}

#[test]
fn a_url_is_no_pipe() {
    for text in ["a/b-1", "-R/k/-/a", "a-~X~/b~E", "count", "a/x.csv", "%40x"] {
        assert!(!is_pipe(text), "{text}");
    }
    for text in ["a | b", "a|b", "@f", "-", "source:k", "head 3"] {
        assert!(is_pipe(text), "{text}");
    }
}
