//! Random trees of queries.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::{Argument, FileName, Given, Link, Query, Source, SourceKey, Span, Step};
use super::name;
use crate::name::WorkerName;

const CHARACTERS: [char; 27] = [
    'a', 'Z', '0', '9', '-', '~', '/', '.', '_', ' ', '%', '+', '?', '#', '&', '"', '\'', '\\', '|', '\n',
    '\t', 'E', 'X', 'x', 'é', '日', '😀',
];

/// Text that looks like syntax more often than not.
pub(super) fn text() -> impl Strategy<Value = String> {
    let whole =
        select(vec!["", ".", "..", "-", "~X~a~E", "%7E", "~x2d", "-0", "-on-w", "-R", "2026-01-31", "a.b"]);
    prop_oneof![
        1 => whole.prop_map(str::to_owned),
        3 => vec(select(CHARACTERS.to_vec()), 0..7).prop_map(String::from_iter),
    ]
}

fn key() -> impl Strategy<Value = SourceKey> {
    let part = text().prop_map(|text| text.replace(['/', '\n', '\t'], ""));
    let part =
        part.prop_map(|text| if matches!(&*text, "" | "." | ".." | "-") { "k".to_owned() } else { text });
    vec(part, 1..4).prop_map(|parts| SourceKey::new(&parts.join("/")).unwrap())
}

fn source() -> impl Strategy<Value = Source> {
    key().prop_map(|key| Source { key, span: Span::default() })
}

fn file() -> impl Strategy<Value = FileName> {
    let base = text().prop_map(|text| text.replace(['/', '\n', '\t'], "_"));
    (base, select(vec!["csv", "html", "tar.gz", "7z"]))
        .prop_map(|(base, extension)| FileName { name: format!("{base}.{extension}"), span: Span::default() })
}

fn step(argument: impl Strategy<Value = Given>) -> impl Strategy<Value = Step> {
    let command = select(vec!["clean", "by", "_x", "head2", "aB_9", "on", "r"]);
    let on = proptest::option::weighted(0.15, select(vec!["w", "gpu-1", "9.x_y"]));
    (command, on, vec(argument, 0..4)).prop_map(|(command, on, given)| Step {
        on: on.map(|worker| WorkerName::new(worker).unwrap()),
        command: name(command),
        arguments: given.into_iter().map(|given| Argument { given, span: Span::default() }).collect(),
        span: Span::default(),
    })
}

fn query_of(argument: impl Strategy<Value = Given> + 'static) -> impl Strategy<Value = Query> {
    let rare = |weight| move |strategy: BoxedStrategy<_>| proptest::option::weighted(weight, strategy);
    let source = rare(0.4)(source().boxed());
    let file = proptest::option::weighted(0.3, file());
    (source, vec(step(argument), 0..4), file).prop_map(|(source, mut steps, file)| {
        if steps.is_empty() && source.is_none() {
            steps.push(Step {
                on: None,
                command: name("clean"),
                arguments: Vec::new(),
                span: Span::default(),
            });
        }
        Query { source, steps, file }
    })
}

/// Any query, with links up to three deep.
pub(super) fn query() -> impl Strategy<Value = Query> {
    let plain = text().prop_map(Given::Text).boxed();
    let argument = plain.prop_recursive(3, 24, 3, |inner| {
        let link = (query_of(inner), any::<bool>()).prop_map(|(query, absolute)| {
            Given::Link(Link { absolute: absolute || query.source.is_some(), query })
        });
        prop_oneof![3 => text().prop_map(Given::Text), 1 => link]
    });
    query_of(argument)
}

/// A query that can be written as a pipe.
pub(super) fn plain_query() -> impl Strategy<Value = Query> {
    query_of(text().prop_map(Given::Text)).prop_map(|mut query| {
        query.steps.iter_mut().for_each(|step| step.on = None);
        query
    })
}
