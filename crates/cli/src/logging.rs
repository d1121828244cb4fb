//! The log on standard error: text, or one JSON object per line.
//!
//! Every JSON line has `time`, `level`, `target` and `message`, and further fields under their names (`request_id`,
//! `method`, `route`, `status`, `took_ms`, `who`; `job`, `attempt`, `worker`, `outcome`, `state`), whether they
//! belong to the line or to its request. Dependencies log warnings and errors only.

use std::fmt;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::settings::Settings;

/// Starts logging as configured.
pub fn start(settings: &Settings) {
    let level = settings.log.value.parse().unwrap_or(LevelFilter::WARN);
    let filter = Targets::new().with_target("jobhall", level).with_default(level.min(LevelFilter::WARN));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    // A global filter: a filter of the layer would be evaluated each time a request's span is entered or left.
    let registry = tracing_subscriber::registry().with(filter);
    // If another subscriber is already set, a user cannot change that.
    let _ = match settings.log_format.value.as_str() {
        "json" => registry.with(lines.fmt_fields(Json).event_format(Json)).try_init(),
        _ => registry.with(lines).try_init(),
    };
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

impl<'writer> FormatFields<'writer> for Json {
    /// The fields of a span: an object, or several consecutive ones if fields are added later.
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut found = Fields::default();
        fields.record(&mut found);
        write!(writer, "{}", Value::Object(found.0))
    }
}

impl<S> FormatEvent<S, Json> for Json
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, Json>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = Fields::default();
        for span in context.event_scope().into_iter().flatten().collect::<Vec<_>>().into_iter().rev() {
            let extensions = span.extensions();
            let Some(fields) = extensions.get::<FormattedFields<Json>>() else { continue };
            for object in serde_json::Deserializer::from_str(&fields.fields).into_iter().flatten() {
                let object: Map<String, Value> = object;
                line.0.extend(object);
            }
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
