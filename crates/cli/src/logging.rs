//! The log on standard error: text, or one JSON object per line.
//!
//! Every JSON line has `time`, `level`, `target` and `message`, and further fields under their names (`request_id`,
//! `method`, `route`, `status`, `took_ms`, `who`; `job`, `attempt`, `worker`, `outcome`, `state`). Dependencies log
//! warnings and errors only.

use std::fmt;

use jobhall_server::RequestId;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::settings::Settings;

/// Starts logging as configured.
pub fn start(settings: &Settings) {
    let level = settings.log.value.parse().unwrap_or(LevelFilter::WARN);
    let filter = Targets::new().with_target("jobhall", level).with_default(level.min(LevelFilter::WARN));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    let registry = tracing_subscriber::registry().with(filter);
    // If another subscriber is already set, a user cannot change that.
    let _ = match settings.log_format.value.as_str() {
        "json" => registry.with(lines.event_format(Json)).try_init(),
        _ => registry.with(lines.event_format(Text(Format::default()))).try_init(),
    };
}

/// The text form: the usual line, and the id of the request at its end.
struct Text(Format);

impl<S, N> FormatEvent<S, N> for Text
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Some(id) = RequestId::current() else { return self.0.format_event(context, writer, event) };
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        writeln!(writer, "{} request_id={}", line.trim_end_matches('\n'), id.as_str())
    }
}

/// The JSON form.
#[derive(Clone, Copy, Debug)]
struct Json;

#[derive(Default)]
struct Fields(Map<String, Value>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = Fields::default();
        if let Some(id) = RequestId::current() {
            line.0.insert("request_id".to_owned(), id.as_str().into());
        }
        event.record(&mut line);
        let Fields(mut line) = line;
        let message = line.remove("message").unwrap_or_default();
        let time = format!("{:.3}", jiff::Timestamp::now());
        let metadata = event.metadata();
        let level = metadata.level().as_str().to_ascii_lowercase();
        let mut whole = Map::new();
        whole.insert("time".to_owned(), time.into());
        whole.insert("level".to_owned(), level.into());
        whole.insert("target".to_owned(), metadata.target().into());
        whole.insert("message".to_owned(), message);
        // Fields of the line cannot replace the standard fields.
        for (name, value) in line {
            whole.entry(name).or_insert(value);
        }
        writeln!(writer, "{}", Value::Object(whole))
    }
}
