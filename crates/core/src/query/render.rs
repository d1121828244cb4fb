//! The canonical text of a query: only unreserved characters of RFC 3986 and `/`.

use std::fmt;

use super::text::{escape_argument, escape_name};
use super::{Given, Link, Query, Span, Step};

impl Query {
    /// The canonical text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, &mut |_| {});
        out
    }

    /// The canonical text, and where each step of the query itself stands in it.
    #[must_use]
    pub fn text_with_spans(&self) -> (String, Vec<Span>) {
        let (mut out, mut spans) = (String::new(), Vec::with_capacity(self.steps.len()));
        self.write(&mut out, &mut |span| spans.push(span));
        (out, spans)
    }

    fn write(&self, out: &mut String, on_step: &mut dyn FnMut(Span)) {
        let begin = out.len();
        if let Some(source) = &self.source {
            out.push_str("-R/");
            write_key(source.key.as_str(), out);
            out.push_str("/-");
        }
        for step in &self.steps {
            separate(begin, out);
            let start = out.len();
            write_step(step, out);
            on_step(Span::new(start, out.len()));
        }
        if let Some(file) = &self.file {
            separate(begin, out);
            escape_argument(&file.name, out);
        }
    }
}

fn separate(begin: usize, out: &mut String) {
    if out.len() > begin {
        out.push('/');
    }
}

fn write_key(key: &str, out: &mut String) {
    for (at, name) in key.split('/').enumerate() {
        if at > 0 {
            out.push('/');
        }
        escape_name(name, out);
    }
}

fn write_step(step: &Step, out: &mut String) {
    if let Some(worker) = &step.on {
        out.push_str("-on-");
        escape_argument(worker.as_str(), out);
        out.push('/');
    }
    out.push_str(step.command.as_str());
    for argument in &step.arguments {
        out.push('-');
        match &argument.given {
            Given::Text(text) => escape_argument(text, out),
            Given::Link(link) => write_link(link, out),
        }
    }
}

fn write_link(link: &Link, out: &mut String) {
    out.push_str(if link.absolute { "~X~/" } else { "~X~" });
    link.query.write(out, &mut |_| {});
    out.push_str("~E");
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}
