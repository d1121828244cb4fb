//! The structs, `impl` blocks and functions of a file, as far as the graph of calls needs them.

use std::collections::BTreeMap;

use crate::tidy::File;
use crate::tidy::source;

/// A function with a body.
#[derive(Debug)]
pub struct Function {
    /// Its type or trait; none for a free function.
    pub owner: Option<String>,
    /// Whether it is in an `impl` block of the type itself, not of a trait.
    inherent: bool,
    /// The module of its file.
    pub module: String,
    pub file: String,
    pub name: String,
    /// Names and types of its parameters; `self` has the type of the owner.
    pub parameters: BTreeMap<String, String>,
    /// The return type; empty if it has no name.
    pub returns: String,
    /// The tokens of its body.
    pub body: Vec<String>,
}

impl Function {
    /// Whether it is in an `impl` block of this type.
    pub fn is_method_of(&self, owner: &str) -> bool {
        self.inherent && self.owner.as_deref() == Some(owner)
    }

    /// `Type::name`, or `module::name` for a free function.
    pub fn path(&self) -> String {
        format!("{}::{}", self.owner.as_ref().unwrap_or(&self.module), self.name)
    }
}

/// The definitions in the files of a crate.
#[derive(Debug, Default)]
pub struct Items {
    /// Structs, and the types of their fields by name or position.
    pub structs: BTreeMap<String, BTreeMap<String, String>>,
    /// Types and files of `impl` blocks, without those of traits.
    pub impls: Vec<(String, String)>,
    /// Functions with a body.
    pub functions: Vec<Function>,
}

/// The location of functions.
struct Context<'a> {
    file: &'a str,
    module: &'a str,
    owner: Option<&'a str>,
    inherent: bool,
}

impl Items {
    /// Adds the definitions of a file, except tests.
    pub fn read(&mut self, file: &File) {
        let tokens = source::tokens(&source::without_test_items(&source::bare(&file.text)));
        let module = module_of(&file.path);
        let context = Context { file: &file.path, module, owner: None, inherent: false };
        self.read_items(&tokens, &context);
    }

    fn read_items(&mut self, tokens: &[String], context: &Context<'_>) {
        let mut at = 0;
        while at < tokens.len() {
            at = match tokens[at].as_str() {
                "macro_rules" => body_after(tokens, at).1,
                "struct" if context.owner.is_none() => self.read_struct(tokens, at),
                "impl" | "trait" if context.owner.is_none() => self.read_block(tokens, at, context),
                "fn" if tokens.get(at + 1).is_some_and(|next| is_name(next)) => {
                    self.read_function(tokens, at, context)
                }
                _ => at + 1,
            };
        }
    }

    fn read_struct(&mut self, tokens: &[String], at: usize) -> usize {
        let Some(name) = tokens.get(at + 1) else { return tokens.len() };
        let after = skip_generics(tokens, at + 2);
        let open = (after..tokens.len()).find(|at| matches!(tokens[*at].as_str(), "{" | "(" | ";"));
        let Some(open) = open else { return tokens.len() };
        let end = if tokens[open] == ";" { open } else { close(tokens, open) };
        let inside = &tokens[(open + 1).min(end)..end];
        let fields = (0..).zip(split(inside)).filter_map(|(position, field)| named_field(position, field));
        self.structs.entry(name.clone()).or_default().extend(fields);
        end + 1
    }

    /// Parses an `impl` or `trait` block.
    fn read_block(&mut self, tokens: &[String], at: usize, context: &Context<'_>) -> usize {
        let (open, end) = body_after(tokens, at);
        let header = &tokens[(at + 1).min(open)..open];
        let header = header.split(|token| token == "where").next().unwrap_or(header);
        let header = &header[skip_generics(header, 0)..];
        let of_trait = header.iter().position(|token| token == "for");
        let owner = type_name(&header[of_trait.map_or(0, |at| at + 1)..]);
        let inherent = tokens[at] == "impl" && of_trait.is_none();
        if inherent {
            self.impls.push((owner.clone(), context.file.to_owned()));
        }
        let inside = tokens.get(open + 1..end.saturating_sub(1)).unwrap_or_default();
        self.read_items(inside, &Context { owner: Some(&owner), inherent, ..*context });
        end
    }

    fn read_function(&mut self, tokens: &[String], at: usize, context: &Context<'_>) -> usize {
        let Some((open, parameters, returned)) = signature(tokens, at) else { return at + 2 };
        if tokens[open] == ";" {
            return open + 1;
        }
        let end = close(tokens, open);
        let owner = context.owner.map(str::to_owned);
        let own = |name: String| if name == "Self" { owner.clone().unwrap_or_default() } else { name };
        let receiver = owner.iter().map(|owner| ("self".to_owned(), owner.clone()));
        let named = split(parameters).into_iter().filter_map(named).map(|(name, of)| (name, own(of)));
        self.functions.push(Function {
            inherent: context.inherent,
            module: context.module.to_owned(),
            file: context.file.to_owned(),
            name: tokens[at + 1].clone(),
            parameters: named.chain(receiver).collect(),
            returns: own(type_name(returned)),
            body: tokens[open + 1..end].to_vec(),
            owner: owner.clone(),
        });
        end + 1
    }
}

/// For the function at `at`: where its body begins or its declaration ends, its parameters, and its return type.
fn signature(tokens: &[String], at: usize) -> Option<(usize, &[String], &[String])> {
    let parens = skip_generics(tokens, at + 2);
    tokens.get(parens).filter(|token| *token == "(")?;
    let closed = close(tokens, parens);
    let open = (closed..tokens.len()).find(|at| is_body_or_end(tokens, closed, *at))?;
    let returned = tokens[closed + 1..open].split(|token| token == "where").next().unwrap_or_default();
    // The arrow is two tokens.
    Some((open, &tokens[parens + 1..closed], returned.get(2..).unwrap_or_default()))
}

/// Whether the body of a function, or the end of its declaration, is at `at`, not inside its return type.
fn is_body_or_end(tokens: &[String], from: usize, at: usize) -> bool {
    let depth = tokens[from + 1..at.max(from + 1)].iter().fold(0_i32, |depth, token| match token.as_str() {
        "[" | "(" => depth + 1,
        "]" | ")" => depth - 1,
        _ => depth,
    });
    depth == 0 && matches!(tokens[at].as_str(), "{" | ";")
}

fn module_of(path: &str) -> &str {
    let stem = path.trim_end_matches(".rs");
    let (parent, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    if name == "mod" { parent.rsplit('/').next().unwrap_or(parent) } else { name }
}

pub fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// The positions of the next `{` and of the end of its block; the end of the tokens if there is none.
fn body_after(tokens: &[String], at: usize) -> (usize, usize) {
    let open = (at..tokens.len()).find(|at| tokens[*at] == "{").unwrap_or(tokens.len());
    (open, (close(tokens, open) + 1).min(tokens.len()))
}

/// The index of the bracket that closes the one at `open`.
pub fn close(tokens: &[String], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return at;
        }
    }
    tokens.len()
}

/// The index after the `<…>` that begins at `at`; `at` itself if there is none.
pub fn skip_generics(tokens: &[String], at: usize) -> usize {
    let mut depth = 0_i32;
    for next in at..tokens.len() {
        depth += angle(tokens, next);
        if depth <= 0 {
            return if next == at { at } else { next + 1 };
        }
    }
    tokens.len()
}

/// The change of the depth of angle brackets by a token; the `>` of an arrow changes nothing.
fn angle(tokens: &[String], at: usize) -> i32 {
    match tokens[at].as_str() {
        "<" => 1,
        ">" if at == 0 || !matches!(tokens[at - 1].as_str(), "-" | "=") => -1,
        _ => 0,
    }
}

/// The parts between the commas that are not in brackets.
fn split(tokens: &[String]) -> Vec<&[String]> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_i32);
    for (at, token) in tokens.iter().enumerate() {
        depth += angle(tokens, at);
        match token.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            "," if depth == 0 => {
                parts.push(&tokens[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&tokens[start..]);
    parts.retain(|part| !part.is_empty());
    parts
}

/// Name and type of a field; the name is its position in a tuple struct.
fn named_field(position: usize, field: &[String]) -> Option<(String, String)> {
    let field = without_marks(field);
    if field.is_empty() {
        return None;
    }
    Some(named(field).unwrap_or_else(|| (position.to_string(), type_name(field))))
}

/// Without attributes and visibility.
fn without_marks(mut tokens: &[String]) -> &[String] {
    loop {
        tokens = match tokens {
            [first, second, ..] if first == "#" && second == "[" => &tokens[close(tokens, 1) + 1..],
            [first, second, ..] if first == "pub" && second == "(" => &tokens[close(tokens, 1) + 1..],
            [first, ..] if first == "pub" => &tokens[1..],
            _ => return tokens,
        };
    }
}

/// Name and type of `name: Type`, with anything before the name.
fn named(tokens: &[String]) -> Option<(String, String)> {
    let colon = tokens.iter().position(|token| token == ":")?;
    if tokens.get(colon + 1).is_some_and(|next| next == ":") {
        return None;
    }
    let name = tokens[..colon].last().filter(|name| is_name(name))?;
    Some((name.clone(), type_name(&tokens[colon + 1..])))
}

/// The last segment of the path of a type, after references and smart pointers; empty for a type without a name.
fn type_name(tokens: &[String]) -> String {
    let word = |at: usize| tokens.get(at).map_or("", String::as_str);
    let mut at = 0;
    loop {
        at += match (word(at), word(at + 1)) {
            ("'", _) | (":", ":") | ("Box" | "Arc" | "Rc", "<") => 2,
            ("&" | "mut" | "dyn" | "impl", _) => 1,
            (name, ":") if is_name(name) && word(at + 2) == ":" => 3,
            (name, _) if is_name(name) => return name.to_owned(),
            _ => return String::new(),
        };
    }
}
