//! What holds for all texts and all workers.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, proptest};
use proptest::sample::select;
use proptest::test_runner::TestCaseError;

use super::super::number::Number;
use super::super::{Abilities, Accepts, Needs, SelectorError, Unmet, Uses};
use super::oracle::{Asked, Worker, asked, worker, written_all, written_worker};
use super::{abilities, hash_of, needs};

/// Pieces of the grammar in any order, which is wrong more often than right.
fn near_grammar() -> impl Strategy<Value = String> {
    let pieces = vec![
        "a",
        "queue",
        "type",
        "in",
        "notin",
        "=",
        "!=",
        ">=",
        ">",
        "<",
        "<=",
        "!",
        ",",
        ", ",
        " ",
        "(",
        ")",
        "[",
        "]",
        "\"",
        "\\",
        "1",
        "-",
        ".5",
        "x y",
        "\"q\"",
        "é",
        "\0",
        "A",
        "a=1",
        "a in (b,c)",
        "a=[b,1]",
    ];
    vec(select(pieces), 0..24).prop_map(|pieces| pieces.concat())
}

/// Terms and the same terms in another order, some of them twice.
fn reordered() -> impl Strategy<Value = (Vec<Asked>, Vec<Asked>)> {
    let twice = (vec(asked(), 0..5), any::<usize>());
    twice.prop_flat_map(|(asked, repeated)| {
        let mut more = asked.clone();
        more.extend_from_slice(&asked[..repeated % (asked.len() + 1)]);
        (Just(asked), Just(more).prop_shuffle())
    })
}

fn check_error(text: &str, error: &SelectorError) -> Result<(), TestCaseError> {
    let before = text.get(..error.position.offset);
    prop_assert_eq!(before.map(|before| before.chars().count() + 1), Some(error.position.column));
    prop_assert_eq!(error.caret(text).lines().count(), 2);
    let named = format!(" at column {}", error.position.column);
    prop_assert!(error.to_string().contains(&named));
    Ok(())
}

/// Reads a text as all four; what is accepted is read back the same, what is refused says where.
fn check_text(text: &str) -> Result<(), TestCaseError> {
    match Needs::parse(text) {
        Ok(read) => prop_assert_eq!(Needs::parse(read.as_str()), Ok(read)),
        Err(error) => check_error(text, &error)?,
    }
    match Accepts::parse(text) {
        Ok(read) => prop_assert_eq!(Accepts::parse(read.as_str()), Ok(read)),
        Err(error) => check_error(text, &error)?,
    }
    match Uses::parse(text) {
        Ok(read) => prop_assert_eq!(Uses::parse(read.as_str()), Ok(read)),
        Err(error) => check_error(text, &error)?,
    }
    match Abilities::parse(text) {
        Ok(read) => prop_assert_eq!(Abilities::parse(&read.to_string()), Ok(read)),
        Err(error) => check_error(text, &error)?,
    }
    Ok(())
}

fn terms(unmet: &[Unmet]) -> BTreeSet<String> {
    unmet.iter().map(|unmet| unmet.term.to_string()).collect()
}

/// The canonical texts of the terms that fail, says the oracle.
fn failing(asked: &[Asked], worker: &Worker) -> BTreeSet<String> {
    let failing = asked.iter().filter(|asked| !asked.holds(worker));
    failing.map(|asked| needs(&asked.written()).to_string()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn l13_one_term_means_what_the_oracle_says(asked in asked(), worker in worker()) {
        let (needs, abilities) = (needs(&asked.written()), abilities(&written_worker(&worker)));
        prop_assert_eq!(needs.satisfied_by(&abilities), asked.holds(&worker));
        prop_assert_eq!(terms(&needs.unmet(&abilities)), failing(&[asked], &worker));
    }

    #[test]
    fn l13_a_worker_matches_when_every_term_holds(asked in vec(asked(), 0..6), worker in worker()) {
        let (needs, abilities) = (needs(&written_all(&asked)), abilities(&written_worker(&worker)));
        let holds = asked.iter().all(|asked| asked.holds(&worker));
        prop_assert_eq!(needs.satisfied_by(&abilities), holds);
        prop_assert_eq!(needs.unmet(&abilities).is_empty(), holds);
        prop_assert_eq!(terms(&needs.unmet(&abilities)), failing(&asked, &worker));
    }

    #[test]
    fn l13_another_term_never_makes_more_workers_match(
        fewer in vec(asked(), 0..5),
        another in asked(),
        worker in worker(),
    ) {
        let abilities = abilities(&written_worker(&worker));
        let more: Vec<_> = fewer.iter().cloned().chain([another]).collect();
        let (fewer, more) = (needs(&written_all(&fewer)), needs(&written_all(&more)));
        prop_assert!(fewer.satisfied_by(&abilities) || !more.satisfied_by(&abilities));
        prop_assert!(more.unmet(&abilities).len() >= fewer.unmet(&abilities).len());
    }

    #[test]
    fn equal_needs_are_one_class_in_any_order((asked, shuffled) in reordered()) {
        let (one, other) = (needs(&written_all(&asked)), needs(&written_all(&shuffled)));
        prop_assert_eq!(one.as_str(), other.as_str());
        prop_assert_eq!(hash_of(&one), hash_of(&other));
        prop_assert_eq!(&one, &other);
        let again = needs(one.as_str());
        prop_assert_eq!(again.as_str(), one.as_str());
    }

    #[test]
    fn abilities_read_back_as_themselves(worker in worker()) {
        let read = abilities(&written_worker(&worker));
        let again = abilities(&read.to_string());
        prop_assert_eq!(again.to_string(), read.to_string());
        prop_assert_eq!(hash_of(&again), hash_of(&read));
        prop_assert_eq!(again, read);
    }

    #[test]
    fn no_text_breaks_the_parser(text in vec(any::<char>(), 0..60)) {
        check_text(&String::from_iter(text))?;
    }

    #[test]
    fn no_printable_text_breaks_the_parser(text in "\\PC{0,40}") {
        check_text(&text)?;
    }

    #[test]
    fn no_broken_grammar_breaks_the_parser(text in near_grammar()) {
        check_text(&text)?;
    }

    #[test]
    fn every_word_can_be_said_in_quotes(word in "\\PC{0,64}") {
        let quoted = format!("a=\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""));
        prop_assert!(needs(&quoted).satisfied_by(&abilities(&quoted)));
        prop_assert!(needs(needs(&quoted).as_str()).satisfied_by(&abilities(&abilities(&quoted).to_string())));
        let queue = quoted.replacen('a', "queue", 1);
        prop_assert!(super::accepts(&queue).admits(&word, "type"));
        let other = format!("{word}.");
        prop_assert!(!super::accepts(&queue).admits(&other, "type"));
    }

    #[test]
    fn every_number_reads_back_as_itself(thousandths in any::<i64>()) {
        let number = Number::from_thousandths(thousandths);
        prop_assert_eq!(Number::parse(&number.to_string()), Ok(number));
    }
}
