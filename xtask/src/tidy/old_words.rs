//! Words that were renamed and must not be used again, in text and in names of files.
//!
//! An entry is enforced once it is `done`. Until then `cargo run -p xtask -- words` lists its occurrences.
//!
//! How an entry matches, case-sensitively:
//! - `Desk` matches the whole identifier, not `OpenDesk`;
//! - `desk_` or `_desk`, with an underscore at an end, matches that part of any identifier;
//! - an entry with other characters, such as `Why::Kept`, `"held"` or `floor.rs`, matches that text; if it begins or
//!   ends with a letter, the identifier must begin or end there too.

use super::source;
use super::{Fault, File};

mod list;

pub use list::OLD;

/// The scope of an entry.
#[derive(Clone, Copy, Debug)]
pub enum Scope {
    /// Every text of the tree, including comments and literals.
    Tree,
    /// Every text whose path begins with one of these.
    Under(&'static [&'static str]),
    /// Rust code, without comments and literals, whose path begins with one of these.
    Code(&'static [&'static str]),
}

/// A word that was renamed, or will be.
#[derive(Clone, Copy, Debug)]
pub struct Old {
    pub word: &'static str,
    /// The new word, for the message.
    pub since: &'static str,
    pub scope: Scope,
    /// Whether the rename is complete, so that the old word is a fault.
    pub done: bool,
}

/// An occurrence of an old word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    pub path: String,
    /// The line; none if the path itself contains the word.
    pub line: Option<usize>,
}

/// The last decision that was written with the old words. Decisions are not rewritten.
const LAST_OLD_DECISION: &str = "0006";

/// Files that may keep old words: checksummed files, history, generated pages, and this check itself.
fn is_exempt(path: &str) -> bool {
    let decision = path.strip_prefix("docs/decisions/").and_then(|name| name.get(..4));
    decision.is_some_and(|number| number <= LAST_OLD_DECISION)
        || path == "CHANGELOG.md"
        || path.starts_with("docs/acceptance.")
        || (path.starts_with("crates/") && path.contains("/migrations/"))
        || path.contains("/fixtures/")
        || path.contains("migrated_0_1_0")
        || path.starts_with("xtask/src/tidy/old_words")
        || path == "xtask/tests/old_words.rs"
}

/// A text prepared for searching.
#[derive(Debug)]
pub struct Text {
    path: String,
    whole: String,
    /// Without comments and literals, for Rust.
    code: Option<String>,
}

/// Prepares the files that are checked. Other files may mention an exempt decision or migration by its name.
#[must_use]
pub fn prepare(files: &[File]) -> Vec<Text> {
    let (exempt, checked): (Vec<&File>, Vec<&File>) = files.iter().partition(|file| is_exempt(&file.path));
    let numbered = |name: &&str| name.starts_with(|first: char| first.is_ascii_digit());
    let names: Vec<&str> = exempt.iter().map(|file| stem(&file.path)).filter(numbered).collect();
    checked
        .into_iter()
        .map(|file| {
            let whole = names.iter().fold(file.text.clone(), |text, name| text.replace(name, " "));
            let code = file.path.ends_with(".rs").then(|| source::bare(&whole));
            Text { path: file.path.clone(), whole, code }
        })
        .collect()
}

fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.split('.').next().unwrap_or(name)
}

/// Every entry of `old` that is done and still occurs.
#[must_use]
pub fn returned(texts: &[Text], old: &[Old]) -> Vec<Fault> {
    old.iter()
        .filter(|entry| entry.done)
        .flat_map(|entry| hits(texts, entry).into_iter().map(move |hit| fault(entry, &hit)))
        .collect()
}

fn fault(entry: &Old, hit: &Hit) -> Fault {
    let Old { word, since, .. } = entry;
    match hit.line {
        Some(line) => format!("{}:{line} says {word}, now called {since}", hit.path),
        None => format!("{} has {word} in its name, now called {since}", hit.path),
    }
}

/// Every occurrence of an entry, whether it is done or not.
#[must_use]
pub fn hits(texts: &[Text], entry: &Old) -> Vec<Hit> {
    texts.iter().flat_map(|text| hits_in(text, entry)).collect()
}

fn hits_in(text: &Text, entry: &Old) -> Vec<Hit> {
    let below = |prefixes: &[&str]| prefixes.iter().any(|prefix| text.path.starts_with(prefix));
    let (applies, searched) = match entry.scope {
        Scope::Tree => (true, Some(&text.whole)),
        Scope::Under(prefixes) => (below(prefixes), Some(&text.whole)),
        Scope::Code(prefixes) => (below(prefixes), text.code.as_ref()),
    };
    let Some(searched) = searched.filter(|_| applies) else { return Vec::new() };
    let hit = |line| Hit { path: text.path.clone(), line };
    let in_name = places(&text.path, entry.word).next().map(|_| hit(None));
    let in_text = places(searched, entry.word).map(|at| hit(Some(1 + searched[..at].matches('\n').count())));
    in_name.into_iter().chain(in_text).collect()
}

/// The positions of the word in the text.
fn places<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let part = word.starts_with('_') || word.ends_with('_');
    let goes_on = move |next: Option<char>| {
        next.is_some_and(|next| if part { next.is_alphanumeric() } else { source::is_word(next) })
    };
    let open_start = !word.starts_with(char::is_alphanumeric);
    let open_end = !word.ends_with(char::is_alphanumeric);
    text.match_indices(word).map(|(at, _)| at).filter(move |at| {
        (open_start || !goes_on(text[..*at].chars().next_back()))
            && (open_end || !goes_on(text[at + word.len()..].chars().next()))
    })
}

/// For each entry its occurrences by file, as text.
#[must_use]
pub fn report(texts: &[Text], old: &[Old]) -> String {
    old.iter().map(|entry| report_entry(entry, &hits(texts, entry))).collect::<Vec<_>>().join("\n")
}

fn report_entry(entry: &Old, hits: &[Hit]) -> String {
    let state = if entry.done { "done" } else { "open" };
    let mut lines = vec![format!("{:5} {state} {} -> {}", hits.len(), entry.word, entry.since)];
    for same in hits.chunk_by(|one, other| one.path == other.path) {
        lines.push(format!("           {:4} {}", same.len(), same[0].path));
    }
    lines.join("\n")
}
