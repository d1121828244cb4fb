//! The overview page of the hall for signed-in users. Other visitors see only that a Jobhall server runs here.
//!
//! All external text is escaped, and the page loads and runs nothing.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderValue, Method, Request, header};
use axum::response::Response;
use jobhall_core::{Job, QueueName, StateName};
use jobhall_engine::{Counts, Tally};
use jobhall_protocol::{Timestamp, Worker};
use jobhall_store::JobFilter;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::auth;
use crate::auth::access::READ_WHOLE;
use crate::auth::audit;
use crate::auth::tokens::{Identity, SESSION_TIME};
use crate::error::{self, Answer, ApiError};
use crate::request::params;
use crate::server::app::{App, now};

/// Maximum number of failures, queues and workers shown.
const ROWS: usize = 20;
/// Maximum size of the code in a link.
const CODE_BYTES: usize = 256;
/// Interval in seconds at which a browser reloads the page.
const REFRESH_S: u32 = 10;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PageQuery {
    /// One-time sign-in code from a link.
    #[schemars(length(max = CODE_BYTES))]
    code: Option<String>,
}

/// Exchanges a code in the address for a cookie, and redirects to the address without it.
pub(super) async fn page(
    State(app): State<Arc<App>>,
    who: Option<Extension<Identity>>,
    request: Request<Body>,
) -> Answer {
    let asked: PageQuery = params::query(request.uri())?;
    // A HEAD request, such as a link preview, does not consume the code.
    let Some(code) = asked.code.filter(|_| request.method() == Method::GET) else {
        drop(request);
        return show(&app, who.map(|Extension(who)| who)).await;
    };
    if code.len() > CODE_BYTES {
        return Err(ApiError::bad(format!("code has {} bytes, the limit is {CODE_BYTES}", code.len())));
    }
    let Some(secret) = app.tokens.browsers.enter(&code) else {
        let trouble = auth::wrong(&app, &request);
        return Err(trouble.saying("this link has been used or has expired; `jobhall up` prints a new one"));
    };
    let cookie = cookie(&app, &request, &secret, SESSION_TIME.as_secs());
    let from = auth::source(&request).map(|from| format!("from {from}"));
    drop(request);
    app.write_down(audit::entry("admin", "browser_entered", "", from.unwrap_or_default())).await;
    Ok(error::see_other("/", &cookie))
}

/// Ends the browser session of the request: its cookie and the streams that were opened with it.
pub(super) async fn logout(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    request: Request<Body>,
) -> Answer {
    if !app.tokens.sign_out(&who) {
        return Err(ApiError::bad("the request has no cookie of a browser session"));
    }
    let cookie = cookie(&app, &request, "", 0);
    drop(request);
    app.acted(&who, "browser_left", "", "").await;
    Ok(error::see_other("/", &cookie))
}

/// The cookie of a browser session, for this number of seconds.
fn cookie(app: &App, request: &Request<Body>, secret: &str, age: u64) -> String {
    let secure = if auth::is_secure(request, app.secure) { "; Secure" } else { "" };
    let name = auth::cookie_name(request.headers());
    format!("{name}={secret}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}")
}

async fn show(app: &App, who: Option<Identity>) -> Answer {
    let body = match who.filter(|who| READ_WHOLE.allows(who)) {
        Some(who) => inside(app, &who).await?,
        None => "<p>Jobhall is running. The API is at <code>/api/v1</code>; every request needs a token.\n"
            .to_owned(),
    };
    Ok(whole(&body))
}

fn whole(body: &str) -> Response {
    let version = env!("CARGO_PKG_VERSION");
    let page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Jobhall</title>\n\
         <meta name=\"viewport\" content=\"width=device-width\"><meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"refresh\" content=\"{REFRESH_S}\"></head><body>\n<h1>Jobhall {version}</h1>\n{body}\
         <p><a href=\"/livez\">alive</a> · <a href=\"/readyz?verbose\">ready</a>\n</body></html>\n"
    );
    let mut response = error::body("text/html; charset=utf-8", page);
    let policy = HeaderValue::from_static(
        "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    );
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}

async fn inside(app: &App, who: &Identity) -> Result<String, ApiError> {
    let counts = app.engine.counts().await?;
    let states = vec![StateName::Failed, StateName::Crashed];
    let filter = JobFilter { states, ..JobFilter::default() };
    let failures = app.engine.list(filter, None, ROWS).await?.jobs;
    let mut body =
        format!("<p>Signed in as {}. Up for {} s.\n", text(&who.name), app.started.elapsed().as_secs());
    if who.is_browser() {
        body += "<form method=\"post\" action=\"/logout\"><button>Sign out</button></form>\n";
    }
    body += &glance(&counts);
    body += &queues(&counts.queues, counts.others.open());
    body += &workers(&app.sessions.workers(app.poll_sessions.workers()));
    body += &failed(&failures);
    Ok(body)
}

/// A table with a heading, or a note that it has no rows.
fn table(title: &str, heads: &[&str], rows: &[Vec<String>]) -> String {
    let mut out = format!("<h2>{title}</h2>\n");
    if rows.is_empty() {
        return out + "<p>None.\n";
    }
    let heads: String = heads.iter().map(|head| format!("<th>{head}")).collect();
    let _ = writeln!(out, "<table><tr>{heads}");
    for row in rows {
        let cells: String = row.iter().map(|cell| format!("<td>{}", text(cell))).collect();
        let _ = writeln!(out, "<tr>{cells}");
    }
    out + "</table>\n"
}

fn glance(counts: &Counts) -> String {
    let mut rows: Vec<_> =
        counts.open.states().map(|(state, n)| vec![state.to_string(), n.to_string()]).collect();
    rows.push(vec!["ready".to_owned(), counts.open.ready.to_string()]);
    rows.push(vec!["submitted since start".to_owned(), counts.submitted.to_string()]);
    let done = counts.completed.iter().filter(|(_, n)| *n > 0);
    rows.extend(done.map(|(outcome, n)| vec![format!("{outcome} since start"), n.to_string()]));
    table("Jobs", &["", "jobs"], &rows)
}

fn queues(queues: &[(QueueName, Tally)], others: u64) -> String {
    let row = |(name, tally): &(QueueName, Tally)| {
        let oldest = tally.oldest_ready.map(|since| format!("{} s", now().since(since) / 1_000));
        let numbers = [tally.open(), tally.ready].map(|n| n.to_string());
        [vec![name.to_string()], numbers.to_vec(), vec![oldest.unwrap_or_default()]].concat()
    };
    let mut fullest: Vec<_> = queues.iter().collect();
    fullest.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.open()));
    let rows: Vec<_> = fullest.iter().take(ROWS).map(|queue| row(queue)).collect();
    let hidden: u64 = fullest.iter().skip(ROWS).map(|(_, tally)| tally.open()).sum::<u64>() + others;
    let more = if hidden > 0 { format!("<p>Other queues have {hidden} open jobs.\n") } else { String::new() };
    table("Queues", &["queue", "open", "ready", "oldest waits"], &rows) + &more
}

fn workers(workers: &[Worker]) -> String {
    let row = |worker: &Worker| {
        let (free, busy) = (worker.slots.to_string(), worker.attempts.len().to_string());
        vec![
            worker.name.clone(),
            free,
            busy,
            worker.attempts.iter().take(ROWS).cloned().collect::<Vec<_>>().join(" "),
        ]
    };
    let rows: Vec<_> = workers.iter().take(ROWS).map(row).collect();
    let hidden = workers.len().saturating_sub(ROWS);
    let more = if hidden > 0 { format!("<p>And {hidden} more.\n") } else { String::new() };
    table("Workers", &["worker", "free", "busy", "attempts"], &rows) + &more
}

fn failed(jobs: &[Job]) -> String {
    let row = |job: &Job| {
        let reason = job.status.state.error().map(|error| error.reason.clone());
        vec![
            job.id.to_string(),
            job.status.state.name().to_string(),
            job.spec.job_type.to_string(),
            reason.unwrap_or_default(),
            job.status.state.ended_at().map(|at| Timestamp(at).to_string()).unwrap_or_default(),
        ]
    };
    let rows: Vec<_> = jobs.iter().map(row).collect();
    table("Newest failures", &["job", "state", "type", "reason", "ended"], &rows)
}

/// Escapes text for HTML.
fn text(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    for c in raw.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            other => out.push(other),
        }
    }
    out
}
