//! Links from pages of the repository to its files.

use std::path::{Component, Path, PathBuf};

use super::{Fault, File};

/// Every relative link in `pages` whose target does not exist according to `exists`. Targets are relative to the
/// root.
pub fn broken(pages: &[File], exists: impl Fn(&Path) -> bool) -> Vec<Fault> {
    let mut faults = Vec::new();
    for page in pages {
        for target in targets(&page.text) {
            let there = resolve(&page.path, target).is_some_and(|path| exists(&path));
            if !there {
                faults.push(format!("{} links to {target}, which does not exist", page.path));
            }
        }
    }
    faults
}

/// The targets of the page's links to files, outside code.
fn targets(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            // Every second part between backticks is code.
            found.extend(line.split('`').step_by(2).flat_map(inline_targets));
            found.extend(definition_target(line));
        }
    }
    found.into_iter().filter(|target| is_file(target)).collect()
}

fn inline_targets(prose: &str) -> impl Iterator<Item = &str> {
    prose.split("](").skip(1).filter_map(|after| after.split([')', ' ']).next())
}

/// The target of a line such as `[name]: path`.
fn definition_target(line: &str) -> Option<&str> {
    let (_, after) = line.strip_prefix('[')?.split_once("]: ")?;
    after.split_whitespace().next()
}

fn is_file(target: &str) -> bool {
    let elsewhere = target.contains("://") || target.starts_with("mailto:") || target.starts_with('#');
    !elsewhere
}

/// The path from the root; none if the target is outside the repository.
fn resolve(page: &str, target: &str) -> Option<PathBuf> {
    let file = target.split('#').next().unwrap_or(target);
    let mut path = Path::new(page).parent().map(Path::to_path_buf).unwrap_or_default();
    for part in Path::new(file).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !path.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}
