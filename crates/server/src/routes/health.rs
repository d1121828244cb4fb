//! Health, metrics and the first page.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, Method, Request, header};
use jobhall_protocol::Code;
use serde::Deserialize;

use crate::app::App;
use crate::error::{self, Answer, Trouble};
use crate::tokens::SESSION_TIME;
use crate::{audit, gate, params};

/// The process answers.
pub(super) async fn livez() -> Answer {
    Ok(error::body("text/plain; charset=utf-8", "ok\n"))
}

/// The hall takes work: it is not stopping, and its store answers.
pub(super) async fn readyz(State(app): State<Arc<App>>) -> Answer {
    if app.is_draining() {
        return Err(Trouble::new(Code::Unavailable, "the hall is stopping"));
    }
    app.store.blocks().await.map_err(|error| {
        tracing::error!("not ready: {error}");
        Trouble::new(Code::Unavailable, "the store does not answer")
    })?;
    Ok(error::body("text/plain; charset=utf-8", "ok\n"))
}

pub(super) async fn metrics(State(app): State<Arc<App>>) -> Answer {
    let text = app.metrics.text(app.floor.workers().len(), app.floor.held());
    Ok(error::body("application/openmetrics-text; version=1.0.0; charset=utf-8", text))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// From a link: lets the browser in, once.
    code: Option<String>,
}

/// The first page. A code in its address is exchanged for a cookie, and gone from the address.
pub(super) async fn first(State(app): State<Arc<App>>, request: Request<Body>) -> Answer {
    let asked: Asked = params::query(request.uri())?;
    // Whoever only looks at the headers of a link, such as a preview of it, does not use it up.
    let code = asked.code.filter(|_| request.method() == Method::GET);
    let Some(code) = code else { return page(&app) };
    let Some(secret) = app.tokens.browsers.enter(&code) else {
        let trouble = gate::wrong(&app, &request);
        return Err(
            trouble.saying("this link was used already, or is too old; `jobhall up` prints a new one")
        );
    };
    let secure = if app.secure { "; Secure" } else { "" };
    let (name, age) = (gate::SESSION_COOKIE, SESSION_TIME.as_secs());
    let cookie = format!("{name}={secret}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}");
    app.write_down(audit::entry("admin", "browser_entered", "", String::new())).await;
    Ok(error::see_other("/", &cookie))
}

/// Counts alone: this page asks for no token, so it names nobody.
fn page(app: &App) -> Answer {
    let rows = [
        ("workers", app.floor.workers().len().to_string()),
        ("attempts in hand", app.floor.held().to_string()),
        ("vacancies waiting", app.metrics.waiting.get().to_string()),
        ("jobs taken since start", app.metrics.enqueued.get().to_string()),
        ("up for", format!("{} s", app.started.elapsed().as_secs())),
    ];
    let rows: String = rows.iter().map(|(name, value)| format!("<tr><th>{name}<td>{value}\n")).collect();
    let version = env!("CARGO_PKG_VERSION");
    let page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Jobhall</title>\n<h1>Jobhall {version}</h1>\n\
         <table>\n{rows}</table>\n<p>The hall is open. Its API is at <code>/api/v1</code>; every request needs a token.\n\
         <p><a href=\"/livez\">alive</a> · <a href=\"/readyz\">ready</a>\n"
    );
    let mut response = error::body("text/html; charset=utf-8", page);
    let policy = HeaderValue::from_static("default-src 'none'");
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    Ok(response)
}
