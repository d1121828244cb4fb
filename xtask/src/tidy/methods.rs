//! The shape of a struct with methods: fields, `impl` blocks, methods, and cycles of calls.
//!
//! Small files do not make a large object small. Its size is measured by the number of its fields and by the largest
//! set of functions that can all reach each other: a strongly connected component of the call graph.
//!
//! The graph has every function of the crate except tests: methods as `Type::name`, free functions as `module::name`.
//! A call is resolved by type, as far as declarations show it:
//! - `self.f(` and `parameter.f(` by the type of the receiver;
//! - `self.part.f(`, at any depth, by the declared types of the fields; `Box`, `Arc` and `Rc` are dereferenced;
//! - `self.part_mut().f(` by the declared return type of the method;
//! - `Self::f`, `Type::f` and `module::f` by the path, also if the function is passed on and not called;
//! - a plain `f(` as a free function of the same file, or else as the only free function of that name.
//!
//! Resolving by name alone would treat `self.open.remove(` of a map as a method `remove` of the struct, and find
//! cycles that do not exist. Two types of the same name count as one. A call that cannot be resolved is not an edge,
//! so a cycle through it is not found: receivers that are local variables or elements of a collection, methods of a
//! type parameter, calls through a function pointer.

use std::collections::BTreeSet;

use super::source;
use super::{Fault, File};

mod calls;
mod components;
mod items;

use items::Items;

/// Functions that can all reach each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// As `Type::name` or `module::name`, sorted.
    pub functions: Vec<String>,
    /// Their files, sorted.
    pub files: Vec<String>,
}

/// The measurements of one struct in its crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    pub fields: usize,
    /// Number of `impl` blocks, without those of traits.
    pub impls: usize,
    /// The files of those blocks, sorted.
    pub files: Vec<String>,
    /// Number of functions in those blocks.
    pub methods: usize,
    /// Cycles of at least two functions in the whole crate, the largest first.
    pub cycles: Vec<Component>,
}

impl Shape {
    /// The largest cycle; empty if there is none.
    #[must_use]
    pub fn largest_cycle(&self) -> &[String] {
        self.cycles.first().map_or(&[], |cycle| &cycle.functions)
    }
}

/// The shape of the struct `name`; none if `files`, the sources of one crate, do not define it.
#[must_use]
pub fn of(files: &[File], name: &str) -> Option<Shape> {
    let mut items = Items::default();
    for file in source::shipped(files) {
        items.read(file);
    }
    let fields = items.structs.get(name)?.len();
    let blocks: Vec<&String> =
        items.impls.iter().filter(|(owner, _)| owner == name).map(|(_, file)| file).collect();
    let methods = items.functions.iter().filter(|function| function.is_method_of(name)).count();
    let distinct: BTreeSet<&String> = blocks.iter().copied().collect();
    Some(Shape {
        fields,
        impls: blocks.len(),
        files: distinct.into_iter().cloned().collect(),
        methods,
        cycles: cycles(&items),
    })
}

fn cycles(items: &Items) -> Vec<Component> {
    let mut cycles: Vec<Component> = components::of(&calls::graph(items))
        .into_iter()
        .filter(|component| component.len() > 1)
        .map(|component| {
            let functions = component.iter().map(|at| &items.functions[*at]);
            let names: BTreeSet<String> = functions.clone().map(items::Function::path).collect();
            let files: BTreeSet<String> = functions.map(|function| function.file.clone()).collect();
            Component { functions: names.into_iter().collect(), files: files.into_iter().collect() }
        })
        .collect();
    cycles.sort_by_key(|cycle| std::cmp::Reverse(cycle.functions.len()));
    cycles
}

/// The faults of the struct `name`, which may have `most_fields` fields, and of its crate, whose cycles may have
/// `largest_cycle` functions. `files` are the sources of the crate; without any there is no fault.
#[must_use]
pub fn too_large(files: &[File], name: &str, most_fields: usize, largest_cycle: usize) -> Vec<Fault> {
    if files.is_empty() {
        return Vec::new();
    }
    let Some(shape) = of(files, name) else { return vec![format!("there is no struct {name}")] };
    let mut faults = Vec::new();
    if shape.fields > most_fields {
        faults.push(format!("{name} has {} fields, {most_fields} allowed", shape.fields));
    }
    for cycle in shape.cycles.iter().filter(|cycle| cycle.functions.len() > largest_cycle) {
        let (size, names) = (cycle.functions.len(), cycle.functions.join(", "));
        faults.push(format!("{size} functions call each other in a cycle, {largest_cycle} allowed: {names}"));
    }
    faults
}

/// The measurements as text.
#[must_use]
pub fn report(name: &str, shape: &Shape) -> String {
    let mut lines = vec![
        format!("{name}"),
        format!("  fields         {}", shape.fields),
        format!("  impl blocks    {} in {} files", shape.impls, shape.files.len()),
        format!("  methods        {}", shape.methods),
    ];
    match shape.cycles.first() {
        None => lines.push("  largest cycle  none".to_owned()),
        Some(largest) => {
            let (functions, files) = (largest.functions.len(), largest.files.len());
            lines.push(format!("  largest cycle  {functions} functions in {files} files"));
            lines.extend(largest.functions.iter().map(|function| format!("    {function}")));
        }
    }
    let others: Vec<String> =
        shape.cycles.iter().skip(1).map(|cycle| cycle.functions.len().to_string()).collect();
    if !others.is_empty() {
        lines.push(format!("  other cycles   {}", others.join(", ")));
    }
    lines.join("\n")
}
