//! The routes, one file per resource. Each route is listed once with its method, path and handler; `access` states
//! who may use it.

mod artifacts;
mod attempts;
mod audit;
mod cache;
mod commands;
mod edit;
mod events;
mod groups;
mod health;
mod history;
mod inputs;
mod job_log;
mod jobs;
mod large;
mod list;
mod log_form;
mod nodes;
mod openapi;
mod operations;
mod outcomes;
mod page;
mod queries;
mod query_metadata;
mod query_steps;
mod queue_settings;
mod queues;
mod recipes;
mod retention;
mod schedules;
mod seen;
mod session;
mod sources;
mod stats;
mod sub_jobs;
mod sub_queries;
mod submit;
mod tokens;
mod types;
mod values;
mod versions;
mod warm;
mod worker_settings;
mod workers;

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};

use crate::auth::access::access;
use crate::auth::{Guarded, nowhere};
use crate::server::app::App;

pub(crate) struct Route {
    pub method: &'static str,
    pub path: &'static str,
    to: MethodRouter<Arc<App>>,
}

fn get<H: Handler<T, Arc<App>>, T: 'static>(path: &'static str, handler: H) -> Route {
    Route { method: "GET", path, to: on(MethodFilter::GET, Guarded::new("GET", path, handler)) }
}

fn post<H: Handler<T, Arc<App>>, T: 'static>(path: &'static str, handler: H) -> Route {
    Route { method: "POST", path, to: on(MethodFilter::POST, Guarded::new("POST", path, handler)) }
}

fn delete<H: Handler<T, Arc<App>>, T: 'static>(path: &'static str, handler: H) -> Route {
    Route { method: "DELETE", path, to: on(MethodFilter::DELETE, Guarded::new("DELETE", path, handler)) }
}

fn patch<H: Handler<T, Arc<App>>, T: 'static>(path: &'static str, handler: H) -> Route {
    Route { method: "PATCH", path, to: on(MethodFilter::PATCH, Guarded::new("PATCH", path, handler)) }
}

fn put<H: Handler<T, Arc<App>>, T: 'static>(path: &'static str, handler: H) -> Route {
    Route { method: "PUT", path, to: on(MethodFilter::PUT, Guarded::new("PUT", path, handler)) }
}

pub(crate) fn all() -> Vec<Route> {
    vec![
        get("/", page::page),
        post("/logout", page::logout),
        get("/livez", health::livez),
        get("/readyz", health::readyz),
        get("/metrics", health::metrics),
        get("/openapi.json", openapi::openapi),
        post("/api/v1/jobs", submit::submit),
        get("/api/v1/jobs", list::list),
        get("/api/v1/jobs/{id}", jobs::show),
        patch("/api/v1/jobs/{id}", edit::edit),
        post("/api/v1/jobs/{id}/hold", edit::hold),
        post("/api/v1/jobs/{id}/release", edit::release),
        post("/api/v1/jobs/{id}/run_now", edit::run_now),
        post("/api/v1/jobs/{id}/cancel", jobs::cancel),
        post("/api/v1/jobs/{id}/retry", jobs::retry),
        get("/api/v1/jobs/{id}/explain", jobs::explain),
        get("/api/v1/jobs/{id}/result", jobs::result),
        get("/api/v1/jobs/{id}/attempts", history::list),
        get("/api/v1/jobs/{id}/log", job_log::log),
        get("/api/v1/jobs/{id}/artifacts", artifacts::list),
        get("/api/v1/jobs/{id}/artifacts/{*name}", artifacts::get),
        get("/api/v1/jobs/{id}/events", events::of_job),
        get("/api/v1/events", events::of_all),
        post("/api/v1/groups", groups::create),
        get("/api/v1/groups", groups::list),
        get("/api/v1/groups/{id}", groups::show),
        post("/api/v1/groups/{id}/close", groups::close),
        post("/api/v1/groups/{id}/cancel", groups::cancel),
        post("/api/v1/groups/{id}/retry", groups::retry),
        post("/api/v1/operations", operations::start),
        get("/api/v1/operations", operations::list),
        get("/api/v1/operations/{id}", operations::show),
        post("/api/v1/operations/{id}/cancel", operations::cancel),
        post("/api/v1/vacancies", workers::vacancy),
        post("/api/v1/attempts/{id}/accept", attempts::accept),
        post("/api/v1/attempts/{id}/progress", attempts::progress),
        post("/api/v1/attempts/{id}/log", attempts::log),
        post("/api/v1/attempts/{id}/outcome", attempts::outcome),
        post("/api/v1/attempts/{id}/jobs", sub_jobs::ask),
        post("/api/v1/attempts/{id}/wait", sub_jobs::wait),
        get("/api/v1/attempts/{id}/jobs/{job}/result", sub_jobs::result),
        post("/api/v1/attempts/{id}/queries", sub_queries::ask),
        get("/api/v1/attempts/{id}/queries/{job}", sub_queries::show),
        put("/api/v1/attempts/{id}/artifacts/{*name}", artifacts::put),
        get("/api/v1/attempts/{id}/inputs", inputs::list),
        get("/api/v1/attempts/{id}/inputs/{n}", inputs::result),
        get("/api/v1/attempts/{id}/inputs/{n}/artifacts/{*name}", inputs::artifact),
        get("/api/v1/attempts/{id}/values/{identity}", values::get),
        get("/api/v1/attempts/{id}/seen", seen::get),
        get("/q/{*query}", warm::evaluate),
        post("/api/v1/queries", queries::submit),
        get("/api/v1/queries", query_metadata::show),
        get("/api/v1/queries/plan", query_steps::explain),
        get("/api/v1/queries/{id}", queries::show),
        get("/api/v1/queries/{id}/steps", query_steps::list),
        get("/api/v1/queries/{id}/value", queries::value),
        get("/api/v1/commands", commands::list),
        put("/api/v1/commands", commands::declare),
        get("/api/v1/sources", sources::list),
        get("/api/v1/sources/{*key}", sources::get),
        put("/api/v1/sources/{*key}", sources::put),
        delete("/api/v1/sources/{*key}", sources::remove),
        get("/api/v1/recipes", recipes::list),
        post("/api/v1/recipes", recipes::make),
        get("/api/v1/recipes/{*key}", recipes::show),
        put("/api/v1/recipes/{*key}", recipes::put),
        delete("/api/v1/recipes/{*key}", recipes::remove),
        get("/api/v1/cache", cache::list),
        delete("/api/v1/cache", cache::remove),
        get("/api/v1/cache/stats", cache::stats),
        put("/api/v1/cache/pins/{*query}", cache::pin),
        delete("/api/v1/cache/pins/{*query}", cache::unpin),
        post("/api/v1/cache/verify", cache::verify),
        put("/api/v1/outcomes/{type}/{*key}", outcomes::finish),
        post("/api/v1/renewals", workers::renewals),
        get("/api/v1/session", session::session),
        get("/api/v1/workers", workers::workers),
        post("/api/v1/workers/{name}/pause", worker_settings::pause),
        post("/api/v1/workers/{name}/resume", worker_settings::resume),
        post("/api/v1/workers/{name}/drain", worker_settings::drain),
        get("/api/v1/nodes", nodes::list),
        get("/api/v1/queues", queues::queues),
        get("/api/v1/queues/{name}", queues::show),
        put("/api/v1/queues/{name}", queue_settings::set),
        delete("/api/v1/queues/{name}", queue_settings::reset),
        get("/api/v1/stats", stats::stats),
        get("/api/v1/retention", retention::show),
        put("/api/v1/retention", retention::set),
        get("/api/v1/types", types::types),
        get("/api/v1/types/{name}", types::show),
        put("/api/v1/types/{name}", types::set),
        delete("/api/v1/types/{name}", types::reset),
        get("/api/v1/schedules", schedules::list),
        get("/api/v1/schedules/{name}", schedules::show),
        put("/api/v1/schedules/{name}", schedules::set),
        delete("/api/v1/schedules/{name}", schedules::remove),
        get("/api/v1/schedules/{name}/ticks", schedules::ticks),
        post("/api/v1/schedules/{name}/run", schedules::run),
        get("/api/v1/tokens", tokens::list),
        post("/api/v1/tokens", tokens::create),
        delete("/api/v1/tokens/{id}", tokens::remove),
        post("/api/v1/join", tokens::join),
        get("/api/v1/audit", audit::list),
    ]
}

/// The routes behind authentication.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let listed = all().into_iter().filter(|route| access(route.method, route.path).is_some());
    let routes = listed.fold(Router::new(), |router, route| router.route(route.path, route.to));
    routes.fallback(nowhere).method_not_allowed_fallback(nowhere).with_state(app.clone())
}
