//! Identities against an oracle: queries are made together with what they mean, without any of the rules under test.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::{
    Argument, Commands, FileName, Given, Identity, Input, Link, Modes, Parameter, ParameterType as Type,
    Query, Source, SourceKey, Span, Step, TEXT_BYTES_MAX, plan,
};
use super::{Numbering, command, commands, digest, name, parameter};
use crate::name::{QueueName, WorkerName};

/// What a query means, as a tree.
#[derive(Clone, Debug, PartialEq)]
enum Meaning {
    Nothing,
    /// Data by its content: `a.csv` and `c.csv` have the same.
    Data(u8),
    Step {
        input: Box<Meaning>,
        command: &'static str,
        arguments: Vec<Meaning>,
        on: Option<&'static str>,
    },
    Whole(i64),
    Real(f64),
    Truth(bool),
    Word(String),
    In(Box<Meaning>, &'static str),
}

/// A step as it is said: texts together with what they mean.
#[derive(Clone, Debug)]
struct Said {
    command: &'static str,
    arguments: Vec<Word>,
    /// What the arguments that are left out mean.
    defaults: Vec<Meaning>,
    on: Option<&'static str>,
}

#[derive(Clone, Debug)]
enum Word {
    Text(String, Meaning),
    /// An argument that is ignored.
    Ignored(String),
    Link(bool, Vec<Said>),
}

fn known() -> Commands {
    let ignored = Parameter { ignore: true, ..parameter("threads", Type::Int, Some("4")) };
    let plain = |name: &str, kind, default: Option<&str>| {
        command(name, vec![parameter("x", kind, default)], Modes::default())
    };
    let pair = vec![parameter("a", Type::Text, None), parameter("b", Type::Text, Some("-"))];
    let mut report = command("report", vec![], Modes::default());
    report.formats = vec!["csv".to_owned(), "html".to_owned()];
    let mut dashes = pair;
    dashes.iter_mut().for_each(|parameter| parameter.dash = true);
    commands(vec![
        plain("take", Type::Int, Some("10")),
        plain("scale", Type::Number, Some("1")),
        plain("flag", Type::Bool, Some("yes")),
        plain("wait", Type::Span, Some("60s")),
        plain("join", Type::Link, None),
        command("pair", dashes, Modes::default()),
        command("par", vec![parameter("x", Type::Int, Some("4")), ignored], Modes::default()),
        report,
    ])
}

fn texts<T: Clone + std::fmt::Debug + 'static>(
    pool: &'static [(&'static str, T)],
    meaning: fn(T) -> Meaning,
) -> impl Strategy<Value = Word> {
    select(pool).prop_map(move |(text, value)| Word::Text(text.to_owned(), meaning(value)))
}

const WHOLE: &[(&str, i64)] =
    &[("7", 7), ("+7", 7), ("007", 7), ("-7", -7), ("-07", -7), ("10", 10), ("0", 0), ("-0", 0), ("4", 4)];
const REAL: &[(&str, f64)] = &[
    ("1", 1.0),
    ("1.0", 1.0),
    ("1e0", 1.0),
    ("+1", 1.0),
    ("10e-1", 1.0),
    ("0", 0.0),
    ("-0.0", 0.0),
    ("0.1", 0.1),
    (".1", 0.1),
    ("1e300", 1e300),
    ("10E299", 1e300),
    ("-1", -1.0),
    ("1e-7", 1e-7),
    ("0.0000001", 1e-7),
];
const TRUTH: &[(&str, bool)] = &[("true", true), ("1", true), ("no", false), ("false", false)];
const TIMES: &[(&str, i64)] =
    &[("60s", 60_000), ("1m", 60_000), ("1m0s", 60_000), ("1h", 3_600_000), ("60000ms", 60_000)];

fn optional(
    command: &'static str,
    word: impl Strategy<Value = Word> + 'static,
    default: Meaning,
) -> BoxedStrategy<Said> {
    proptest::option::of(word)
        .prop_map(move |word| Said {
            command,
            defaults: if word.is_some() { Vec::new() } else { vec![default.clone()] },
            arguments: word.into_iter().collect(),
            on: None,
        })
        .boxed()
}

fn pair() -> impl Strategy<Value = Said> {
    let word = || select(vec!["", "a", "b", "ab", "-", "~", "a-b", "/", "~_", "."]);
    let word = move || word().prop_map(|text| Word::Text(text.to_owned(), Meaning::Word(text.to_owned())));
    (word(), proptest::option::of(word())).prop_map(|(a, b)| Said {
        command: "pair",
        defaults: if b.is_some() { Vec::new() } else { vec![Meaning::Word("-".to_owned())] },
        arguments: std::iter::once(a).chain(b).collect(),
        on: None,
    })
}

fn par() -> impl Strategy<Value = Said> {
    let threads = select(vec!["1", "8", "08"]).prop_map(|text| Word::Ignored(text.to_owned()));
    (texts(WHOLE, Meaning::Whole), proptest::option::of(threads)).prop_map(|(x, threads)| Said {
        command: "par",
        arguments: std::iter::once(x).chain(threads).collect(),
        defaults: Vec::new(),
        on: None,
    })
}

fn said() -> impl Strategy<Value = Said> {
    let leaf = prop_oneof![
        optional("take", texts(WHOLE, Meaning::Whole), Meaning::Whole(10)),
        optional("scale", texts(REAL, Meaning::Real), Meaning::Real(1.0)),
        optional("flag", texts(TRUTH, Meaning::Truth), Meaning::Truth(true)),
        optional("wait", texts(TIMES, Meaning::Whole), Meaning::Whole(60_000)),
        pair(),
        par(),
        Just(Said { command: "report", arguments: Vec::new(), defaults: Vec::new(), on: None }),
    ];
    let step = leaf.prop_recursive(2, 12, 2, |inner| {
        let link = (any::<bool>(), vec(inner.clone(), 1..3));
        let join = link.prop_map(|(absolute, steps)| Said {
            command: "join",
            arguments: vec![Word::Link(absolute, steps)],
            defaults: Vec::new(),
            on: None,
        });
        prop_oneof![2 => inner, 1 => join]
    });
    (step, proptest::option::weighted(0.1, select(vec!["v", "w"]))).prop_map(|(said, on)| Said { on, ..said })
}

fn steps(said: &[Said]) -> Vec<Step> {
    let argument = |word: &Word| {
        let given = match word {
            Word::Text(text, _) | Word::Ignored(text) => Given::Text(text.clone()),
            Word::Link(absolute, said) => Given::Link(Link {
                absolute: *absolute,
                query: Query { steps: steps(said), ..Query::default() },
            }),
        };
        Argument { given, span: Span::default() }
    };
    said.iter()
        .map(|said| Step {
            on: said.on.map(|worker| WorkerName::new(worker).unwrap()),
            command: name(said.command),
            arguments: said.arguments.iter().map(argument).collect(),
            span: Span::default(),
        })
        .collect()
}

fn meaning(said: &[Said], start: &Meaning) -> Meaning {
    said.iter().fold(start.clone(), |input, said| {
        let given = said.arguments.iter().filter_map(|word| match word {
            Word::Text(_, meaning) => Some(meaning.clone()),
            Word::Ignored(_) => None,
            Word::Link(true, said) => Some(meaning(said, &Meaning::Nothing)),
            Word::Link(false, said) => Some(meaning(said, &input)),
        });
        let arguments = given.chain(said.defaults.iter().cloned()).collect();
        Meaning::Step { input: Box::new(input), command: said.command, arguments, on: said.on }
    })
}

type Asked = (Option<&'static str>, Vec<Said>, Option<&'static str>);

fn asked() -> impl Strategy<Value = Asked> {
    let source = proptest::option::of(select(vec!["a.csv", "b.csv", "c.csv"]));
    (source, vec(said(), 1..4), proptest::option::weighted(0.3, select(vec!["x.csv", "y.CSV", "x.html"])))
}

fn whole(asked: &Asked) -> (Query, Meaning) {
    let (source, said, file) = asked;
    let query = Query {
        source: source.map(|key| Source { key: SourceKey::new(key).unwrap(), span: Span::default() }),
        steps: steps(said),
        file: file.map(|name| FileName { name: name.to_owned(), span: Span::default() }),
    };
    let start = match source {
        None => Meaning::Nothing,
        Some("b.csv") => Meaning::Data(2),
        Some(_) => Meaning::Data(1),
    };
    let value = meaning(said, &start);
    let formatted = said.last().is_some_and(|said| said.command == "report");
    match file.filter(|_| formatted) {
        Some("x.html") => (query, Meaning::In(Box::new(value), "html")),
        Some(_) => (query, Meaning::In(Box::new(value), "csv")),
        None => (query, value),
    }
}

fn identity(query: &Query, hasher: &Numbering) -> Result<Identity, TestCaseError> {
    let queue = QueueName::new("queries").unwrap();
    let read = Query::parse(&query.text(), TEXT_BYTES_MAX).unwrap();
    let plan = plan(&read, hasher.clone(), &queue, &known(), &digest);
    let plan = plan.map_err(|error| TestCaseError::fail(error.message(&query.text())))?;
    let Input::Node(last) = plan.value else { return Err(TestCaseError::fail("no step")) };
    Ok(plan.nodes[last].identity)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]
    #[test]
    fn q25_two_queries_have_one_identity_exactly_if_they_mean_the_same(all in vec(asked(), 2..6), cut in 1usize..4) {
        let hasher = Numbering::default();
        // The beginnings of the first one as well, with and without its file.
        let (source, said, _) = all[0].clone();
        let mut all = all;
        all.push((source, said[..cut.min(said.len())].to_vec(), None));
        let found: Vec<(Query, Meaning)> = all.iter().map(whole).collect();
        for (at, (query, meant)) in found.iter().enumerate() {
            for (other, also) in &found[at..] {
                let same = identity(query, &hasher)? == identity(other, &hasher)?;
                prop_assert_eq!(same, meant == also, "{} and {}", query, other);
            }
        }
    }

    #[test]
    fn a_change_of_one_step_is_a_change_of_meaning(said in vec(said(), 1..4), other in said(), at in 0usize..4) {
        let hasher = Numbering::default();
        let mut changed = said.clone();
        let at = at % said.len();
        changed[at] = other;
        let (query, meant) = whole(&(None, said, None));
        let (second, also) = whole(&(None, changed, None));
        prop_assert_eq!(identity(&query, &hasher)? == identity(&second, &hasher)?, meant == also, "{} and {}", query, second);
    }
}
