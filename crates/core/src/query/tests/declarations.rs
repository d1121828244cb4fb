//! What a command may say about itself.

use super::super::{Check, Declaration, Modes, Parameter, ParameterType as Type};
use super::{name, parameter};

fn running(run: &[&str], args: Vec<Parameter>) -> Declaration {
    let run = run.iter().map(|word| (*word).to_owned()).collect();
    Declaration { run, args, ..Declaration::new(name("c")) }
}

fn column() -> Vec<Parameter> {
    vec![parameter("column", Type::Text, None), parameter("rows", Type::Int, Some("010"))]
}

fn line(run: &[&str], arguments: &[&str]) -> Vec<String> {
    let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
    running(run, column()).checked().unwrap().command_line(&arguments)
}

#[test]
fn arguments_are_whole_words_and_the_rest_is_appended() {
    assert_eq!(line(&["by", "{column}", "-n{other}x"], &["a b; rm -rf /", "3"])[1], "a b; rm -rf /");
    assert_eq!(line(&["by", "{column}", "--rows={rows}"], &["$(x)", "3"]), ["by", "$(x)", "--rows=3"]);
    assert_eq!(line(&["by"], &["a", "3"]), ["by", "--", "a", "3"]);
    assert_eq!(line(&["by", "{rows}"], &["a", "3"]), ["by", "3", "--", "a"]);
    assert_eq!(
        line(&["awk", "{print}"], &["a", "3"]),
        ["awk", "{print}", "--", "a", "3"],
        "braces of another"
    );
    let mut bare = running(&["by"], column());
    bare.no_dash_dash = true;
    assert_eq!(bare.command_line(&["a".to_owned(), "3".to_owned()]), ["by", "a", "3"]);
}

#[test]
fn no_url_becomes_code_or_a_program() {
    for (run, field, message) in [
        (&["sh", "-c", "grep {column} | head"][..], "run[2]", "{column} is a whole word or follows \"=\""),
        (&["sh", "-c", "{column}"], "run[2]", "{column} would be run as code"),
        (&["/usr/bin/bash", "-euc", "{column}"], "run[2]", "{column} would be run as code"),
        (&["env", "A=1", "python3.12", "-c", "{column}"], "run[4]", "{column} would be run as code"),
        (&["perl", "-ne", "{column}"], "run[2]", "{column} would be run as code"),
        (&["{column}"], "run[0]", "{column} would let a URL choose the program"),
        (&["by", "x{column}"], "run[1]", "{column} is a whole word or follows \"=\""),
        (&["by", "{column}{rows}"], "run[1]", "{column} is a whole word or follows \"=\""),
        (&["by", "{colum}"], "run[1]", "no argument is named colum; did you mean {column}?"),
        (&[""], "run", "names no program"),
    ] {
        let error = running(run, column()).checked().unwrap_err();
        assert_eq!(error.field, field, "{run:?}");
        assert!(error.why.starts_with(message), "{run:?}: {}", error.why);
    }
    for run in [
        &["sh", "s.sh", "{column}"][..],
        &["grep", "-e", "{column}"],
        &["sh", "-c", "grep \"$1\"", "x", "{column}"],
    ] {
        running(run, column()).checked().unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn parameters_are_checked() {
    let of = |parameters: Vec<Parameter>| running(&["x"], parameters).checked().unwrap_err().to_string();
    let choice = |values: &[&str], default| Parameter {
        values: values.iter().map(|value| (*value).to_owned()).collect(),
        ..parameter("by", Type::OneOf, default)
    };
    for (parameters, message) in [
        (vec![parameter("N", Type::Int, None)], "commands.c.args[0].name: has up to 48 letters"),
        (vec![parameter("n", Type::Int, None); 2], "commands.c.args[1].name: n is the name of two arguments"),
        (
            vec![parameter("n", Type::Int, Some("x"))],
            "commands.c.args[0].default: is a whole number, not \"x\"",
        ),
        (vec![choice(&[], None)], "commands.c.args[0].values: one_of needs the values to choose from"),
        (vec![choice(&["a", "a"], None)], "commands.c.args[0].values: names a value twice"),
        (vec![choice(&["a"], Some("b"))], "commands.c.args[0].default: is one of a"),
        (vec![parameter("t", Type::Text, Some("-x"))], "commands.c.args[0].default: begins with \"-\""),
        (vec![parameter("l", Type::Link, Some("x"))], "commands.c.args[0].default: is a query"),
        (
            vec![parameter("a", Type::Int, Some("1")), parameter("b", Type::Int, None)],
            "commands.c.args[1].default: b is required, and a before it may be left out",
        ),
        (
            vec![Parameter { ignore: true, ..parameter("l", Type::Link, None) }],
            "commands.c.args[0].ignore: a link always counts",
        ),
        (vec![parameter("n", Type::Int, None); 33], "commands.c.args: has 33 entries, the limit is 32"),
    ] {
        assert!(of(parameters).starts_with(message), "{message}");
    }
    let checked = running(&["x"], column()).checked().unwrap();
    assert_eq!(checked.args[1].default.as_deref(), Some("10"), "a default has its one form");
}

#[test]
fn the_other_fields_are_bounded() {
    let of = |change: &dyn Fn(&mut Declaration)| {
        let mut declaration = running(&["x"], vec![]);
        change(&mut declaration);
        declaration.checked().unwrap_err().to_string()
    };
    let check = |run: &[&str], every_ms| {
        Some(Check { run: run.iter().map(|word| (*word).to_owned()).collect(), every_ms })
    };
    assert!(of(&|d| d.run = vec!["x".to_owned(); 257]).contains("run: has 257 entries, the limit is 256"));
    assert!(of(&|d| d.help = Some("x".repeat(4_097))).contains("help: a text has up to 4096 bytes"));
    assert!(of(&|d| d.run.push("\0".to_owned())).contains("no NUL"));
    assert!(of(&|d| d.timeout_ms = Some(0)).contains("timeout: is between"));
    assert!(of(&|d| d.retries = 1_000).contains("retries: is below 1000"));
    assert!(of(&|d| d.formats = vec![".csv".to_owned()]).contains("formats: \".csv\" is no extension"));
    assert!(
        of(&|d| d.media_type = Some("text".to_owned())).contains("media_type: \"text\" is no media type")
    );
    assert!(of(&|d| d.media_type = Some("text/x\r\nA: b".to_owned())).contains("is no media type"));
    assert!(
        of(&|d| {
            d.env.insert("A=B".to_owned(), String::new());
        })
        .contains("env: \"A=B\" is no name")
    );
    assert!(of(&|d| d.check = check(&[], 1_000)).contains("check: names no program"));
    assert!(of(&|d| d.check = check(&["x"], 1)).contains("check_every: is between"));
}

#[test]
fn a_declaration_is_stored_and_read_back() {
    let full = Declaration {
        modes: Modes { volatile: true, ..Modes::default() },
        expires: Some(super::super::Expiry::new("EOD Europe/Berlin").unwrap()),
        needs: Some(crate::needs::Needs::parse("gpu>=1").unwrap()),
        uses: Some(crate::needs::Uses::parse("gpu=1").unwrap()),
        version: Some(super::super::Version::new("3").unwrap()),
        ..running(&["x", "{column}"], column())
    };
    for declaration in [full, running(&[], vec![])] {
        let declaration = declaration.checked().unwrap();
        let stored = serde_json::to_string(&declaration).unwrap();
        assert_eq!(serde_json::from_str::<Declaration>(&stored).unwrap(), declaration, "{stored}");
    }
    let unknown = serde_json::from_str::<Declaration>("{\"name\":\"c\",\"rn\":[]}").unwrap_err().to_string();
    assert!(unknown.contains("unknown field `rn`"), "{unknown}");
}
