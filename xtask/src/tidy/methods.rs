//! The shape of a struct with methods: fields, `impl` blocks, methods, and cycles of calls.
//!
//! Small files do not make a large object small. What shows its size is the number of its fields and the largest set
//! of functions of which each can reach each other: a strongly connected component of the graph of calls.
//!
//! The graph has every function of the crate outside of tests: methods as `Type::name`, free functions as
//! `module::name`. A call is resolved by type, as far as declarations tell it:
//! - `self.f(` and `parameter.f(` by the type of the receiver;
//! - `self.part.f(`, at any depth, by the declared types of the fields; `Box`, `Arc` and `Rc` are looked through;
//! - `self.part_mut().f(` by the declared type of what the method returns;
//! - `Self::f`, `Type::f` and `module::f` by the path, also where the function is passed on and not called;
//! - a plain `f(` as a free function of the same file, or else as the only free function of that name.
//!
//! Resolving by name alone would take `self.open.remove(` of a map for a method `remove` of the struct, and find
//! cycles that do not exist. Two types of one name count as one. What cannot be resolved is no edge, so a cycle through
//! it is not seen: receivers that are local variables or elements of a collection, methods of a type parameter, calls
//! through a function pointer.

use std::collections::BTreeSet;

use super::source;
use super::{Fault, File};

mod calls;
mod components;
mod items;

use items::Items;

/// Functions of which each reaches each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// As `Type::name` or `module::name`, sorted.
    pub functions: Vec<String>,
    /// The files they are in, sorted.
    pub files: Vec<String>,
}

/// The figures of one struct in its crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Fields of the struct.
    pub fields: usize,
    /// Its `impl` blocks, without those of traits.
    pub impls: usize,
    /// The files that those blocks are in, sorted.
    pub files: Vec<String>,
    /// The functions in those blocks.
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

/// What is wrong when the struct `name` may have `most_fields` fields and no cycle of its crate more than
/// `largest_cycle` functions. `files` are the sources of the crate; none of them, and there is no fault.
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

/// The figures as text.
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
