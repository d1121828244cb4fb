//! Messages, and the places that they name.

use super::super::{Modes, Parameter, ParameterType as Type};
use super::{Numbering, command, commands, parameter, parse, planned};

/// The line that marks the place, and the message.
fn syntax(text: &str) -> (String, String) {
    let error = parse(text).unwrap_err();
    (error.span.marks(text), error.message(text))
}

#[test]
fn an_error_of_syntax_says_where_and_what_to_write() {
    for (text, marks, message) in [
        ("", "^", "column 1: the query is empty; it needs a command, as in count-10/head-3"),
        ("a//b", "  ^", "column 3: nothing stands between two slashes"),
        ("a/Head", "  ^", "column 3: a command begins with a lower-case letter or \"_\", not with 'H'"),
        (
            "a/head 3",
            "      ^",
            "column 7: a space is written ~. in this form; for words between spaces use the pipe form: 'clean | head 3'",
        ),
        ("a/head?n=3", "      ^", "column 7: '?' is not allowed here; in an argument it is written ~x3f"),
        (
            "a-~q",
            "  ^^",
            "column 3: \"~q\" is no escape; \"~\" itself is written ~~, and any byte ~x with two hex digits",
        ),
        (
            "a-~xg1",
            "  ^^^^",
            "column 3: \"~xg1\" is no escape; \"~\" itself is written ~~, and any byte ~x with two hex digits",
        ),
        ("a-5%", "   ^", "column 4: two hex digits follow \"%\""),
        ("j-~X~b", "  ^^^^", "column 3: this link does not end; ~E ends it"),
        ("j-~X~~E", "     ^", "column 6: this link has no query"),
        ("j-a~X~b~E", "   ^^^", "column 4: a link is a whole argument; nothing precedes ~X~ or follows ~E"),
        ("a/b~E", "   ^^", "column 4: ~E ends a link, and none begins before it"),
        ("a/-R/k/-", "  ^^^", "column 3: -R/ stands at the beginning of a query only"),
        ("-R/sales.csv", "^^^^^^^^^^^^", "column 1: /- ends the key of a source: -R/sales.csv/-"),
        ("-R/../x/-", "   ^^^^^", "column 4: the key of a source has no name that is \".\", \"..\" or \"-\""),
        (
            "a.csv/b",
            "      ^",
            "column 7: a part with \".\" is a file name, which stands at the end of a query only",
        ),
        (
            "a/b.",
            "  ^^",
            "column 3: a file name ends in \".\" and an extension of up to 16 letters and digits",
        ),
        ("-on-w", "^^^^^", "column 1: -on-WORKER/ is followed by the command that it is for"),
    ] {
        assert_eq!(syntax(text), (marks.to_owned(), message.to_owned()), "{text}");
    }
}

fn meaning(text: &str) -> (String, String) {
    let region = Parameter {
        values: vec!["region".to_owned(), "month".to_owned()],
        ..parameter("column", Type::OneOf, None)
    };
    let known = commands(vec![
        command("clean", vec![], Modes::default()),
        command("by", vec![region], Modes::default()),
        command("head", vec![parameter("rows", Type::Int, Some("10"))], Modes::default()),
        command(
            "between",
            vec![parameter("from", Type::Date, None), parameter("to", Type::Date, None)],
            Modes::default(),
        ),
        command("label", vec![parameter("text", Type::Text, None)], Modes::default()),
        command("join", vec![parameter("other", Type::Link, None)], Modes::default()),
    ]);
    let error = planned(text, &known, &Numbering::default()).unwrap_err();
    (error.span.marks(text), error.message(text))
}

#[test]
fn an_error_of_meaning_knows_the_usual_slips() {
    for (text, marks, message) in [
        ("claen/head", "^^^^^", "column 1: there is no command \"claen\"; did you mean clean?"),
        ("clean/zzz", "      ^^^", "column 7: there is no command \"zzz\""),
        (
            "clean/between-2026-01-01-2026-02-01",
            "      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
            "column 7: between takes 2 arguments, 6 given; a dash inside an argument is written ~_: \
             between-2026~_01~_01-2026~_02~_01",
        ),
        (
            "clean/report-2026.csv",
            "      ^^^^^^^^^^^^^^^",
            "column 7: there is no command \"report\"; in a file name \"-\" is written ~_: report~_2026.csv",
        ),
        (
            "clean/label-a-b",
            "      ^^^^^^^^^",
            "column 7: label takes 1 argument, 2 given; a dash inside an argument is written ~_: label-a~_b",
        ),
        ("clean-x", "^^^^^^^", "column 1: clean takes no arguments, 1 given"),
        (
            "between-2026~_01~_01",
            "^^^^^^^^^^^^^^^^^^^^",
            "column 1: between takes at least 2 arguments, 1 given: to is missing",
        ),
        (
            "by-regoin",
            "   ^^^^^^",
            "column 4: column of by is one of region, month (did you mean \"region\"?), not \"regoin\"",
        ),
        ("head-ten", "     ^^^", "column 6: rows of head is a whole number, not \"ten\""),
        (
            "between-2026~_02~_30-x",
            "        ^^^^^^^^^^^^",
            "column 9: from of between is a date such as 2026-01-31 (in a URL 2026~_01~_31), not \"2026-02-30\"",
        ),
        (
            "label-~_rf",
            "      ^^^^",
            "column 7: text of label may not begin with \"-\", as \"-rf\" does: a program would take it for an option \
             (its declaration can allow it: dash = true)",
        ),
        (
            "label-~X~/clean~E",
            "      ^^^^^^^^^^^",
            "column 7: text of label is not a query, so no ~X~…~E can stand here",
        ),
        ("join-clean", "     ^^^^^", "column 6: other of join is a query: ~X~…~E"),
        ("-R/no.csv/-/clean", "^^^^^^^^^^^", "column 1: there is no source \"no.csv\""),
    ] {
        assert_eq!(meaning(text), (marks.to_owned(), message.to_owned()), "{text}");
    }
}
