//! The call graph.

use std::collections::{BTreeMap, BTreeSet};

use super::items::{Function, Items, close, is_name, skip_generics};

/// For each function, by its index in `items`, the functions that it calls.
pub fn graph(items: &Items) -> Vec<Vec<usize>> {
    let index = Index::new(items);
    items.functions.iter().map(|function| index.called_by(function).into_iter().collect()).collect()
}

struct Index<'a> {
    items: &'a Items,
    methods: BTreeMap<(&'a str, &'a str), usize>,
    free: BTreeMap<&'a str, Vec<usize>>,
}

impl<'a> Index<'a> {
    fn new(items: &'a Items) -> Self {
        let mut index = Index { items, methods: BTreeMap::new(), free: BTreeMap::new() };
        for (at, function) in items.functions.iter().enumerate() {
            match &function.owner {
                Some(owner) => {
                    index.methods.insert((owner, &function.name), at);
                }
                None => index.free.entry(&function.name).or_default().push(at),
            }
        }
        index
    }

    fn called_by(&self, function: &Function) -> BTreeSet<usize> {
        let body = &function.body;
        let mut called = BTreeSet::new();
        for (at, token) in body.iter().enumerate().filter(|(_, token)| is_name(token)) {
            let before = at.checked_sub(1).map_or("", |before| body[before].as_str());
            if before == "." {
                continue;
            }
            if is_path(body, at) {
                called.extend(self.by_path(function, token, &body[at + 3]));
            } else if before == ":" {
                continue;
            } else if let Some(of) = function.parameters.get(token) {
                self.follow(body, at + 1, of, &mut called);
            } else if call(body, at).is_some() && before != "fn" {
                called.extend(self.by_name(function, token));
            }
        }
        called
    }

    /// Follows `.a.b.f(…).g(…)` after a receiver of this type.
    fn follow(&self, body: &[String], mut at: usize, of: &str, called: &mut BTreeSet<usize>) {
        let mut of = of;
        while let [dot, name, ..] = &body[at.min(body.len())..] {
            if dot != "." {
                return;
            }
            if let Some(open) = call(body, at + 1) {
                let Some(method) = self.methods.get(&(of, name.as_str())) else { return };
                called.insert(*method);
                of = &self.items.functions[*method].returns;
                at = close(body, open) + 1;
            } else {
                let Some(field) = self.items.structs.get(of).and_then(|fields| fields.get(name)) else {
                    return;
                };
                of = field;
                at += 2;
            }
        }
    }

    /// The function at `Type::name` or `module::name`.
    fn by_path(&self, from: &Function, of: &str, name: &str) -> Option<usize> {
        let owner = if of == "Self" { from.owner.as_deref().unwrap_or(of) } else { of };
        let free = || self.free.get(name)?.iter().find(|at| self.items.functions[**at].module == of);
        self.methods.get(&(owner, name)).or_else(free).copied()
    }

    fn by_name(&self, from: &Function, name: &str) -> Option<usize> {
        let known = self.free.get(name)?;
        let same = known.iter().find(|at| self.items.functions[**at].file == from.file);
        same.or(known.first().filter(|_| known.len() == 1)).copied()
    }
}

/// Whether `name::name` is at `at`.
fn is_path(body: &[String], at: usize) -> bool {
    matches!(&body[at..], [_, one, two, name, ..] if one == ":" && two == ":" && is_name(name))
}

/// The parenthesis of the call of the name at `at`, with or without `::<…>`.
fn call(body: &[String], at: usize) -> Option<usize> {
    let open = match body.get(at + 1..)? {
        [one, two, three, ..] if one == ":" && two == ":" && three == "<" => skip_generics(body, at + 3),
        _ => at + 1,
    };
    (body.get(open)? == "(").then_some(open)
}
