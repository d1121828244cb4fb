//! The database URL: `sqlite:PATH`, or `postgres://…` for several nodes.
//!
//! The URL may contain a password, which is never shown in settings, errors or logs.

use std::fmt;
use std::path::PathBuf;

use crate::commands::text_of;
use crate::failure::{Failure, Outcome};

/// A database URL.
#[derive(Clone, PartialEq, Eq)]
pub enum Database {
    /// A file on this machine.
    Sqlite(PathBuf),
    /// A PostgreSQL server, with the whole URL.
    Postgres(String),
}

impl Database {
    /// Parses a URL.
    pub fn parse(text: &str) -> Result<Database, String> {
        let text = text.trim();
        match text.split_once(':') {
            Some(("sqlite", "")) => Err("sqlite: must be followed by the path of a file".to_owned()),
            Some(("sqlite", path)) => Ok(Database::Sqlite(PathBuf::from(path))),
            Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => {
                Ok(Database::Postgres(text.to_owned()))
            }
            _ => Err(format!("{:?} is neither sqlite:PATH nor postgres://…", masked(text))),
        }
    }
}

/// The URL that a flag gives: itself, @FILE, or - for standard input. Invalid content of a file is not shown, because it
/// may be a password.
pub fn address(given: &str, flag: &str) -> Outcome<String> {
    let text = text_of(given, flag)?;
    let text = text.trim();
    if text != given.trim() && Database::parse(text).is_err() {
        let why = format!("{flag}: the content of {given} is neither sqlite:PATH nor postgres://…");
        return Err(Failure::usage(why));
    }
    Ok(text.to_owned())
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Database::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Database::Postgres(url) => f.write_str(&masked(url)),
        }
    }
}

/// The URL without its password, which is before the `@` or in the query after the `?`.
pub fn masked(url: &str) -> String {
    let (head, query) = url.split_once('?').map_or((url, None), |(head, query)| (head, Some(query)));
    let mut text = match head.split_once("://") {
        Some((scheme, rest)) => format!("{scheme}://{}", without_password(rest)),
        None => without_password(head),
    };
    if let Some(query) = query {
        let pairs: Vec<_> = query.split('&').map(masked_pair).collect();
        text = format!("{text}?{}", pairs.join("&"));
    }
    text
}

/// A password may contain an unescaped `@`, so the host begins after the last one.
fn without_password(rest: &str) -> String {
    match rest.rsplit_once('@') {
        Some((who, host)) => match who.split_once(':') {
            Some((name, _)) => format!("{name}:…@{host}"),
            None => rest.to_owned(),
        },
        None => rest.to_owned(),
    }
}

fn masked_pair(pair: &str) -> String {
    match pair.split_once('=') {
        Some((name, _)) if name.to_ascii_lowercase().contains("password") => format!("{name}=…"),
        _ => pair.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_which_kind_it_is() {
        assert_eq!(Database::parse("sqlite:/data/jobs.db"), Ok(Database::Sqlite("/data/jobs.db".into())));
        for url in ["postgres://db/hall", "postgresql:///hall?host=/run/pg"] {
            assert_eq!(Database::parse(url), Ok(Database::Postgres(url.to_owned())));
        }
        for wrong in ["", "sqlite:", "mysql://me:secret@db/hall", "postgres:db", "/data/jobs.db"] {
            let error = Database::parse(wrong).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_file_may_have_the_address() {
        let folder = tempfile::tempdir().unwrap();
        let given = |text: &str| {
            let path = folder.path().join("url");
            std::fs::write(&path, text).unwrap();
            address(&format!("@{}", path.display()), "--database")
        };
        assert_eq!(given("postgres://me:secret@db/hall\n").unwrap(), "postgres://me:secret@db/hall");
        assert_eq!(address("sqlite:jobs.db", "--database").unwrap(), "sqlite:jobs.db");
        assert_eq!(address("@/nowhere", "--database").unwrap_err().exit, crate::exit::Exit::Usage);
        for wrong in ["secret", "", "mysql://me:secret@db"] {
            let told = format!("{:?}", given(wrong).unwrap_err());
            assert!(told.contains("--database") && !told.contains("secret"), "{told}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        for (url, shown) in [
            ("postgres://me:secret@db:5432/hall", "postgres://me:…@db:5432/hall"),
            ("postgres://me:sec@ret@db/hall", "postgres://me:…@db/hall"),
            ("postgres://me:sec:ret@db", "postgres://me:…@db"),
            ("postgres://me@db/hall", "postgres://me@db/hall"),
            (
                "postgresql:///hall?host=/run/pg&password=secret&user=me",
                "postgresql:///hall?host=/run/pg&password=…&user=me",
            ),
            ("postgres://db/hall?sslpassword=secret", "postgres://db/hall?sslpassword=…"),
            ("me:secret@db", "me:…@db"),
        ] {
            assert_eq!(masked(url), shown);
            assert!(!format!("{:?}", Database::Postgres(url.to_owned())).contains("sec"), "{url}");
        }
    }
}
