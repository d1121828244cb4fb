//! Simplifies Rust source for searching: removes comments, literals and test modules.

use std::collections::BTreeSet;

use super::File;

/// The source with every comment, string and character literal blanked. Line numbers do not change.
#[must_use]
pub fn bare(source: &str) -> String {
    let characters: Vec<char> = source.chars().collect();
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    while at < characters.len() {
        let end = skipped_until(&characters, at);
        if end == at {
            out.push(characters[at]);
            at += 1;
        } else {
            out.push(' ');
            out.extend(characters[at..end].iter().filter(|character| **character == '\n'));
            at = end;
        }
    }
    out
}

/// The end of the comment or literal that begins at `at`; `at` itself if none begins there.
fn skipped_until(characters: &[char], at: usize) -> usize {
    let rest = &characters[at..];
    let after_word = at > 0 && is_word(characters[at - 1]);
    let length = match rest {
        ['/', '/', ..] => rest.iter().position(|character| *character == '\n').unwrap_or(rest.len()),
        ['/', '*', ..] => block_comment(rest),
        ['"', ..] => quoted(rest, '"'),
        ['b' | 'c', '"', ..] if !after_word => 1 + quoted(&rest[1..], '"'),
        ['r', '"' | '#', ..] if !after_word => raw_string(rest, 1),
        ['b' | 'c', 'r', '"' | '#', ..] if !after_word => raw_string(rest, 2),
        ['\'', '\\', ..] | ['\'', _, '\'', ..] => quoted(rest, '\''),
        _ => 0,
    };
    at + length
}

fn block_comment(rest: &[char]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        match &rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] if depth == 1 => return at + 2,
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    rest.len()
}

fn quoted(rest: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            character if character == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Length of a raw string whose hashes begin at `hashes`; 0 if it is a raw identifier.
fn raw_string(rest: &[char], hashes: usize) -> usize {
    let count = rest[hashes..].iter().take_while(|character| **character == '#').count();
    if rest.get(hashes + count) != Some(&'"') {
        return 0;
    }
    let body = hashes + count + 1;
    let ends = |at: &usize| {
        rest[*at] == '"' && rest[at + 1..].iter().take(count).filter(|c| **c == '#').count() == count
    };
    (body..rest.len()).find(ends).map_or(rest.len(), |at| at + 1 + count)
}

/// Whether the character can be part of an identifier.
#[must_use]
pub fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

const TEST_ONLY: &str = "#[cfg(test)]";

/// Bare source without the items after `#[cfg(test)]`. Line numbers do not change.
#[must_use]
pub fn without_test_items(bare: &str) -> String {
    split_test_items(bare).0
}

/// Only the items after `#[cfg(test)]` of bare source. Line numbers do not change.
#[must_use]
pub fn test_items(bare: &str) -> String {
    split_test_items(bare).1
}

/// Shipped code and test code; each has all line breaks.
fn split_test_items(bare: &str) -> (String, String) {
    let (mut shipped, mut tests) = (String::with_capacity(bare.len()), String::new());
    let mut rest = bare;
    while let Some(start) = rest.find(TEST_ONLY) {
        let after = start + TEST_ONLY.len();
        let end = after + item_length(&rest[after..]);
        shipped.push_str(&rest[..start]);
        tests.push_str(&line_breaks(&rest[..start]));
        shipped.push_str(&line_breaks(&rest[start..end]));
        tests.push_str(&rest[after..end]);
        rest = &rest[end..];
    }
    shipped.push_str(rest);
    tests.push_str(&line_breaks(rest));
    (shipped, tests)
}

fn line_breaks(text: &str) -> String {
    text.chars().filter(|character| *character == '\n').collect()
}

/// Length of the item at the front: up to its `;`, or to the brace that closes its body.
fn item_length(rest: &str) -> usize {
    let mut depth = 0_usize;
    for (at, character) in rest.char_indices() {
        match character {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 && character == '}' {
                    return at + 1;
                }
            }
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The shipped files: those not declared by a `#[cfg(test)] mod name;` in another of them.
#[must_use]
pub fn shipped(files: &[File]) -> Vec<&File> {
    let hidden = for_tests(files);
    files.iter().filter(|file| !hidden.contains(&file.path.as_str())).collect()
}

/// Paths of the files declared by a `#[cfg(test)] mod name;` in another of them.
#[must_use]
pub fn for_tests(files: &[File]) -> BTreeSet<&str> {
    let stems: BTreeSet<String> = files.iter().flat_map(test_modules).collect();
    let is_hidden = |path: &str| {
        let stem = path.trim_end_matches(".rs");
        stems.contains(stem) || path.match_indices('/').any(|(slash, _)| stems.contains(&path[..slash]))
    };
    files.iter().map(|file| file.path.as_str()).filter(|path| is_hidden(path)).collect()
}

/// Paths, without their `.rs`, of the modules that this file declares for tests only.
fn test_modules(file: &File) -> Vec<String> {
    let stem = file.path.trim_end_matches(".rs");
    let (parent, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    let home = if matches!(name, "lib" | "main" | "mod") { parent } else { stem };
    let bare = bare(&file.text);
    bare.split(TEST_ONLY)
        .skip(1)
        .filter_map(|after| after.trim_start().strip_prefix("mod ")?.split_once(';'))
        .map(|(module, _)| module.trim())
        .filter(|module| module.chars().all(is_word))
        .map(|module| format!("{home}/{module}"))
        .collect()
}

/// The names and punctuation of bare source, in order.
#[must_use]
pub fn tokens(bare: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut word = String::new();
    for character in bare.chars() {
        if is_word(character) {
            word.push(character);
            continue;
        }
        if !word.is_empty() {
            found.push(std::mem::take(&mut word));
        }
        if !character.is_whitespace() {
            found.push(character.to_string());
        }
    }
    if !word.is_empty() {
        found.push(word);
    }
    found
}

/// The names and punctuation, each with its line number.
#[must_use]
pub fn numbered_tokens(bare: &str) -> Vec<(usize, String)> {
    let lines = (1..).zip(bare.lines());
    lines.flat_map(|(number, line)| tokens(line).into_iter().map(move |token| (number, token))).collect()
}

/// Every path imported by the `use` items among the tokens, with braces expanded: `use a::{b, c::d}` gives two.
#[must_use]
pub fn imports(tokens: &[String]) -> Vec<String> {
    let mut paths = Vec::new();
    let mut at = 0;
    while let Some(offset) = tokens[at..].iter().position(|token| token == "use") {
        let start = at + offset + 1;
        let length = tokens[start..].iter().position(|token| token == ";").unwrap_or(tokens.len() - start);
        expand("", &tokens[start..start + length], &mut paths);
        at = start + length;
    }
    paths
}

fn expand(prefix: &str, tree: &[String], paths: &mut Vec<String>) {
    let Some(open) = tree.iter().position(|token| token == "{") else {
        let plain: Vec<&str> = tree.iter().take_while(|token| *token != "as").map(String::as_str).collect();
        paths.push(format!("{prefix}{}", plain.concat()));
        return;
    };
    let prefix = format!("{prefix}{}", tree[..open].concat());
    let inside = &tree[open + 1..tree.len().saturating_sub(1).max(open + 1)];
    let mut depth = 0_usize;
    for part in inside.split(|token| {
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        token == "," && depth == 0
    }) {
        if !part.is_empty() {
            expand(&prefix, part, paths);
        }
    }
}
