//! Recipes: a key stands for the value of a query.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::{
    Commands, Facts, Identity, Input, Kept, Modes, ParameterType as Type, Plan, Query, QueryError,
    RECIPE_DEPTH_MAX, SourceDigest, SourceKey, identify, plan,
};
use super::{Numbering, command, commands, digest, parameter, parse};
use crate::name::QueueName;

/// Recipes by key, beside the data of [`digest`].
#[derive(Default)]
struct Recipes(BTreeMap<String, Arc<Query>>);

impl Recipes {
    fn new(recipes: &[(&str, &str)]) -> Recipes {
        let read = |text: &str| Arc::new(parse(text).unwrap());
        Recipes(recipes.iter().map(|(key, text)| ((*key).to_owned(), read(text))).collect())
    }
}

impl Facts for Recipes {
    fn data(&self, key: &SourceKey) -> Option<SourceDigest> {
        digest(key)
    }

    fn recipe(&self, key: &SourceKey) -> Option<Arc<Query>> {
        self.0.get(key.as_str()).cloned()
    }
}

fn known() -> Commands {
    let volatile = Modes { volatile: true, ..Modes::default() };
    let rows = || vec![parameter("rows", Type::Int, Some("10"))];
    let mut report = command("report", vec![], Modes::default());
    report.formats = vec!["csv".to_owned(), "html".to_owned()];
    commands(vec![
        command("plain", vec![], Modes::default()),
        command("head", rows(), Modes::default()),
        command("volatile", vec![], volatile),
        command("join", vec![parameter("other", Type::Link, None)], Modes::default()),
        report,
    ])
}

fn planned(text: &str, recipes: &Recipes, hasher: &Numbering) -> Result<Plan, QueryError> {
    plan(&parse(text).unwrap(), hasher.clone(), &QueueName::new("queries").unwrap(), &known(), recipes)
}

fn found(text: &str, recipes: &Recipes, hasher: &Numbering) -> Option<Identity> {
    identify(&parse(text).unwrap(), hasher.clone(), &QueueName::new("queries").unwrap(), &known(), recipes)
}

fn last(plan: &Plan) -> Option<Identity> {
    match plan.value {
        Input::Node(last) => Some(plan.nodes[last].identity),
        Input::Source(..) => None,
    }
}

fn said(text: &str, recipes: &Recipes) -> String {
    planned(text, recipes, &Numbering::default()).unwrap_err().message(text)
}

#[test]
fn q23_a_recipe_means_what_its_query_means_and_data_comes_first() {
    let recipes = Recipes::new(&[
        ("r", "-R/a.csv/-/head-3"),
        ("s", "-R/r/-/plain"),
        ("html", "plain/report/x.html"),
        ("b.csv", "plain"),
        ("alias", "-R/a.csv/-"),
    ]);
    let hasher = Numbering::default();
    for (left, right) in [
        ("-R/r/-/plain", "-R/a.csv/-/head-3/plain"),
        ("-R/r/-", "-R/a.csv/-/head-003"),
        ("-R/s/-/head", "-R/a.csv/-/head-3/plain/head-10"),
        ("-R/html/-", "plain/report/x.html"),
        ("-R/alias/-/head", "-R/a.csv/-/head"),
        ("plain/join-~X~-R/r/-~E", "plain/join-~X~/-R/a.csv/-/head-3~E"),
    ] {
        let both = [left, right].map(|text| last(&planned(text, &recipes, &hasher).unwrap()));
        assert_eq!(both[0], both[1], "{left} and {right}");
        if !left.contains('~') {
            assert_eq!(found(left, &recipes, &hasher), both[1], "{left} without a plan");
        }
    }
    let with_data = planned("-R/b.csv/-/head", &recipes, &hasher).unwrap();
    let without = planned("-R/b.csv/-/head", &Recipes::default(), &hasher).unwrap();
    assert_eq!(last(&with_data), last(&without), "data comes before the recipe");
    assert_ne!(last(&with_data), last(&planned("plain/head", &recipes, &hasher).unwrap()));
    let alias = planned("-R/alias/-", &recipes, &hasher).unwrap();
    assert!(matches!(alias.value, Input::Source(key, _) if key.as_str() == "a.csv"));
}

#[test]
fn a_plan_names_its_recipes_and_the_steps_of_each_stand_where_its_key_does() {
    let recipes = Recipes::new(&[("r", "-R/a.csv/-/head-3/plain"), ("s", "-R/r/-/head")]);
    let text = "-R/s/-/plain";
    let plan = planned(text, &recipes, &Numbering::default()).unwrap();
    let texts: Vec<&str> = plan.nodes.iter().map(|node| node.text.as_str()).collect();
    assert_eq!(texts, ["-R/a.csv/-/head-3", "-R/a.csv/-/head-3/plain", "-R/r/-/head", "-R/s/-/plain"]);
    let used: Vec<(String, Input)> =
        plan.recipes.iter().map(|(key, at)| (key.to_string(), at.clone())).collect();
    assert_eq!(used, [("r".to_owned(), Input::Node(1)), ("s".to_owned(), Input::Node(2))]);
    let columns: Vec<usize> =
        plan.nodes.iter().flat_map(|node| &node.steps).map(|step| step.span.column(text)).collect();
    assert_eq!(columns, [1, 1, 1, 8]);
}

#[test]
fn q16_recipes_that_need_each_other_are_refused_and_named() {
    let recipes = Recipes::new(&[
        ("a", "-R/b/-/plain"),
        ("b", "plain/join-~X~/-R/c/-/head~E"),
        ("c", "-R/a/-/plain"),
        ("self", "-R/self/-/plain"),
        ("outer", "-R/a/-/plain"),
    ]);
    for (text, cycle, column) in [
        ("-R/a/-/plain", "a -> b -> c -> a", 1),
        ("-R/self/-", "self -> self", 1),
        ("plain/join-~X~/-R/outer/-~E", "a -> b -> c -> a", 16),
    ] {
        let refused = planned(text, &recipes, &Numbering::default()).unwrap_err();
        assert_eq!(refused.kind.code(), "recipe_cycle", "{text}");
        let message = refused.message(text);
        assert!(message.starts_with(&format!("column {column}: ")), "{text}: {message}");
        assert!(message.ends_with(&format!(": {cycle}")), "{text}: {message}");
        assert_eq!(found(text, &recipes, &Numbering::default()), None, "{text}");
    }
    // Data under one of the keys ends the cycle.
    let broken = Recipes::new(&[("a", "-R/b.csv/-/plain"), ("b.csv", "-R/a/-/plain")]);
    assert!(planned("-R/a/-/plain", &broken, &Numbering::default()).is_ok());
}

#[test]
fn q16_a_volatile_recipe_is_no_cycle() {
    let recipes = Recipes::new(&[("v", "volatile"), ("w", "-R/v/-/join-~X~/-R/v/-/head~E")]);
    let plan = planned("-R/w/-/join-~X~/-R/v/-~E", &recipes, &Numbering::default()).unwrap();
    assert!(plan.nodes.iter().all(|node| node.kept == Kept::Never), "volatile downstream only, and all is");
    let steps = plan.nodes.iter().flat_map(|node| &node.steps);
    let volatile = steps.filter(|step| step.declared.declaration.name.as_str() == "volatile").count();
    assert_eq!(volatile, 1, "it runs once per evaluation");
}

#[test]
fn an_error_in_a_recipe_names_it_at_the_place_of_its_key() {
    let recipes =
        Recipes::new(&[("r", "plain/nothing"), ("s", "-R/r/-/plain"), ("gone", "-R/no.csv/-/plain")]);
    let of = |text: &str| said(text, &recipes);
    assert_eq!(of("-R/r/-/head"), "column 1: in the recipe of \"r\": there is no command \"nothing\"");
    assert_eq!(of("-R/s/-"), "column 1: in the recipe of \"r\": there is no command \"nothing\"");
    assert_eq!(of("-R/gone/-"), "column 1: in the recipe of \"gone\": there is no source \"no.csv\"");
    assert_eq!(of("-R/none/-/head"), "column 1: there is no source \"none\"");
}

/// Recipes of which each begins with the next one, in a query that this makes of its key.
fn nested(count: usize, query: impl Fn(String) -> String) -> Recipes {
    let line = |at: usize| match at + 1 {
        next if next < count => query(format!("r{next}")),
        _ => "plain".to_owned(),
    };
    Recipes((0..count).map(|at| (format!("r{at}"), Arc::new(parse(&line(at)).unwrap()))).collect())
}

#[test]
fn recipes_are_nested_up_to_a_depth_and_each_is_planned_once() {
    let chain = |count| nested(count, |next| format!("-R/{next}/-/plain"));
    let fits = planned("-R/r0/-", &chain(RECIPE_DEPTH_MAX), &Numbering::default()).unwrap();
    assert_eq!(fits.nodes.len(), RECIPE_DEPTH_MAX);
    let deep = chain(RECIPE_DEPTH_MAX + 1);
    assert_eq!(said("-R/r0/-", &deep), "column 1: recipes are nested deeper than the limit of 32");
    assert_eq!(found("-R/r0/-", &deep, &Numbering::default()), None);
    // Each names the next one twice: 2³¹ steps, if they were not planned once.
    let wide = nested(RECIPE_DEPTH_MAX, |next| format!("-R/{next}/-/join-~X~/-R/{next}/-~E"));
    let plan = planned("-R/r0/-", &wide, &Numbering::default()).unwrap();
    assert_eq!(plan.nodes.len(), RECIPE_DEPTH_MAX);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]
    /// A key stands for the text of its recipe, and the identity without a plan is that of the plan.
    #[test]
    fn q23_a_key_stands_for_the_text_of_its_recipe(
        inner in vec(select(vec!["plain", "head-3", "volatile", "report"]), 1..4),
        middle in vec(select(vec!["plain", "head", "report"]), 0..3),
        outer in vec(select(vec!["plain", "head-7", "volatile"]), 0..3),
        source in select(vec!["", "-R/a.csv/-/", "-R/b.csv/-/"]),
    ) {
        let inner = format!("{source}{}", inner.join("/"));
        let join = |begin: &str, rest: &[&str]| {
            std::iter::once(begin).chain(rest.iter().copied()).collect::<Vec<_>>().join("/")
        };
        let recipes = Recipes::new(&[("i", inner.as_str()), ("m", join("-R/i/-", &middle).as_str())]);
        let (text, hasher) = (join("-R/m/-", &outer), Numbering::default());
        let plain = join(&join(&inner, &middle), &outer);
        let (by_key, by_text) = (planned(&text, &recipes, &hasher).unwrap(), planned(&plain, &recipes, &hasher).unwrap());
        prop_assert_eq!(last(&by_key), last(&by_text), "{} and {}", text, plain);
        prop_assert_eq!(by_key.nodes.len(), by_text.nodes.len());
        let kept = by_key.nodes.last().map(|node| node.kept);
        let shared = last(&by_key).filter(|_| kept == Some(Kept::Shared));
        prop_assert_eq!(found(&text, &recipes, &hasher), shared, "{}", text);
    }
}
