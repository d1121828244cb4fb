//! Permissions: one row per route. A route without a row refuses every request.

use crate::auth::tokens::{Identity, Role};

/// Who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Anyone, without a token.
    Open,
    /// Tokens of these roles.
    Roles(&'static [Role]),
    /// The same, except tokens limited to some queues: the route covers all queues.
    Whole(&'static [Role]),
}

/// Roles that read.
const READ: Access = Access::Roles(&[Role::Viewer, Role::Client, Role::Admin]);
/// Roles that read data of all queues.
pub(crate) const READ_WHOLE: Access = Access::Whole(&[Role::Viewer, Role::Client, Role::Admin]);
/// Roles that change jobs in all queues.
const WRITE_WHOLE: Access = Access::Whole(&[Role::Client, Role::Admin]);
/// Roles that submit and change jobs.
const WRITE: Access = Access::Roles(&[Role::Client, Role::Admin]);
/// Roles that run jobs. It includes the administrator, so that a shell script can act as a first worker.
const WORK: Access = Access::Roles(&[Role::Worker, Role::Admin]);
/// All roles with a token.
const ANY: Access = Access::Roles(&[Role::Viewer, Role::Client, Role::Worker, Role::Admin]);
/// Roles that read one job, including its own process.
const READ_JOB: Access = Access::Roles(&[Role::Viewer, Role::Client, Role::Admin, Role::Job]);
/// Roles that act for an attempt under its lease, including its process.
const TELL: Access = Access::Roles(&[Role::Worker, Role::Admin, Role::Job]);
const JOIN: Access = Access::Roles(&[Role::Join]);
/// The administrator. Its routes concern the whole hall.
const ADMIN: Access = Access::Whole(&[Role::Admin]);

pub(crate) const TABLE: &[(&str, &str, Access)] = &[
    ("GET", "/", Access::Open),
    ("POST", "/logout", ANY),
    ("GET", "/livez", Access::Open),
    ("GET", "/readyz", Access::Open),
    ("GET", "/metrics", READ_WHOLE),
    ("GET", "/openapi.json", ANY),
    ("POST", "/api/v1/jobs", WRITE),
    ("GET", "/api/v1/jobs", READ),
    ("GET", "/api/v1/jobs/{id}", READ_JOB),
    ("PATCH", "/api/v1/jobs/{id}", WRITE),
    ("POST", "/api/v1/jobs/{id}/hold", WRITE),
    ("POST", "/api/v1/jobs/{id}/release", WRITE),
    ("POST", "/api/v1/jobs/{id}/run_now", WRITE),
    ("POST", "/api/v1/jobs/{id}/cancel", WRITE),
    ("POST", "/api/v1/jobs/{id}/retry", WRITE),
    ("GET", "/api/v1/jobs/{id}/explain", READ),
    ("GET", "/api/v1/jobs/{id}/attempts", READ),
    ("GET", "/api/v1/jobs/{id}/result", READ),
    ("GET", "/api/v1/jobs/{id}/artifacts", READ_JOB),
    ("GET", "/api/v1/jobs/{id}/artifacts/{*name}", READ_JOB),
    ("GET", "/api/v1/jobs/{id}/log", READ_JOB),
    ("GET", "/api/v1/jobs/{id}/events", READ),
    ("GET", "/api/v1/events", READ),
    ("POST", "/api/v1/groups", WRITE_WHOLE),
    ("GET", "/api/v1/groups", READ_WHOLE),
    ("GET", "/api/v1/groups/{id}", READ_WHOLE),
    ("POST", "/api/v1/groups/{id}/close", WRITE_WHOLE),
    ("POST", "/api/v1/groups/{id}/cancel", WRITE_WHOLE),
    ("POST", "/api/v1/groups/{id}/retry", WRITE_WHOLE),
    ("POST", "/api/v1/operations", WRITE_WHOLE),
    ("GET", "/api/v1/operations", READ_WHOLE),
    ("GET", "/api/v1/operations/{id}", READ_WHOLE),
    ("POST", "/api/v1/operations/{id}/cancel", WRITE_WHOLE),
    ("POST", "/api/v1/vacancies", WORK),
    ("POST", "/api/v1/attempts/{id}/accept", WORK),
    ("POST", "/api/v1/attempts/{id}/progress", TELL),
    ("POST", "/api/v1/attempts/{id}/log", WORK),
    ("POST", "/api/v1/attempts/{id}/outcome", WORK),
    ("POST", "/api/v1/attempts/{id}/jobs", TELL),
    ("POST", "/api/v1/attempts/{id}/wait", TELL),
    ("GET", "/api/v1/attempts/{id}/jobs/{job}/result", TELL),
    ("PUT", "/api/v1/attempts/{id}/artifacts/{*name}", TELL),
    ("GET", "/api/v1/attempts/{id}/inputs", TELL),
    ("GET", "/api/v1/attempts/{id}/inputs/{n}", TELL),
    ("GET", "/api/v1/attempts/{id}/inputs/{n}/artifacts/{*name}", TELL),
    ("PUT", "/api/v1/outcomes/{type}/{*key}", WRITE),
    ("GET", "/api/v1/attempts/{id}/values/{identity}", TELL),
    ("GET", "/api/v1/attempts/{id}/seen", TELL),
    // The job of the attempt must be a step of a query.
    ("POST", "/api/v1/attempts/{id}/queries", TELL),
    ("GET", "/api/v1/attempts/{id}/queries/{job}", TELL),
    // The routes of queries also require that the token reaches their queue.
    ("GET", "/q/{*query}", READ),
    ("POST", "/api/v1/queries", WRITE),
    ("GET", "/api/v1/queries", READ),
    ("GET", "/api/v1/queries/plan", READ),
    ("GET", "/api/v1/queries/{id}", READ),
    ("GET", "/api/v1/queries/{id}/steps", READ),
    ("GET", "/api/v1/queries/{id}/value", READ),
    ("GET", "/api/v1/commands", ANY),
    ("PUT", "/api/v1/commands", WORK),
    ("GET", "/api/v1/sources", READ),
    ("GET", "/api/v1/sources/{*key}", READ),
    ("PUT", "/api/v1/sources/{*key}", WRITE),
    ("DELETE", "/api/v1/sources/{*key}", WRITE),
    ("GET", "/api/v1/recipes", READ),
    ("POST", "/api/v1/recipes", WRITE),
    ("GET", "/api/v1/recipes/{*key}", READ),
    ("PUT", "/api/v1/recipes/{*key}", WRITE),
    ("DELETE", "/api/v1/recipes/{*key}", WRITE),
    ("GET", "/api/v1/cache", READ),
    ("DELETE", "/api/v1/cache", WRITE),
    ("GET", "/api/v1/cache/stats", READ),
    ("PUT", "/api/v1/cache/pins/{*query}", WRITE),
    ("DELETE", "/api/v1/cache/pins/{*query}", WRITE),
    ("POST", "/api/v1/cache/verify", WRITE),
    ("POST", "/api/v1/renewals", WORK),
    ("GET", "/api/v1/session", WORK),
    ("GET", "/api/v1/workers", READ_WHOLE),
    ("POST", "/api/v1/workers/{name}/pause", ADMIN),
    ("POST", "/api/v1/workers/{name}/resume", ADMIN),
    ("POST", "/api/v1/workers/{name}/drain", ADMIN),
    ("GET", "/api/v1/nodes", READ_WHOLE),
    ("GET", "/api/v1/queues", READ),
    ("GET", "/api/v1/queues/{name}", READ),
    ("PUT", "/api/v1/queues/{name}", ADMIN),
    ("DELETE", "/api/v1/queues/{name}", ADMIN),
    ("GET", "/api/v1/stats", READ_WHOLE),
    ("GET", "/api/v1/retention", READ_WHOLE),
    ("PUT", "/api/v1/retention", ADMIN),
    // Types and their settings belong to all queues.
    ("GET", "/api/v1/types", READ_WHOLE),
    ("GET", "/api/v1/types/{name}", READ_WHOLE),
    ("PUT", "/api/v1/types/{name}", ADMIN),
    ("DELETE", "/api/v1/types/{name}", ADMIN),
    ("GET", "/api/v1/schedules", READ_WHOLE),
    ("GET", "/api/v1/schedules/{name}", READ_WHOLE),
    ("PUT", "/api/v1/schedules/{name}", WRITE_WHOLE),
    ("DELETE", "/api/v1/schedules/{name}", WRITE_WHOLE),
    ("GET", "/api/v1/schedules/{name}/ticks", READ_WHOLE),
    ("POST", "/api/v1/schedules/{name}/run", WRITE_WHOLE),
    ("GET", "/api/v1/tokens", ADMIN),
    ("POST", "/api/v1/tokens", ADMIN),
    ("DELETE", "/api/v1/tokens/{id}", ADMIN),
    ("POST", "/api/v1/join", JOIN),
    ("GET", "/api/v1/audit", ADMIN),
];

/// The access of a route. `HEAD` has the same access as `GET`.
pub(crate) fn access(method: &str, path: &str) -> Option<Access> {
    let method = if method == "HEAD" { "GET" } else { method };
    let row = TABLE.iter().find(|(verb, route, _)| *verb == method && *route == path);
    row.map(|(_, _, access)| *access)
}

/// The path of a route as listed in the table.
pub(crate) fn listed(path: &str) -> Option<&'static str> {
    TABLE.iter().find(|(_, route, _)| *route == path).map(|(_, route, _)| *route)
}

/// The methods of a route.
pub(crate) fn methods(path: &str) -> Vec<&'static str> {
    TABLE.iter().filter(|(_, route, _)| *route == path).map(|(method, _, _)| *method).collect()
}

impl Access {
    /// The permitted roles; all roles if the route is open.
    pub(crate) fn roles(self) -> Option<&'static [Role]> {
        match self {
            Access::Open => None,
            Access::Roles(roles) | Access::Whole(roles) => Some(roles),
        }
    }

    /// Whether the identity has access.
    pub(crate) fn allows(self, who: &Identity) -> bool {
        let hidden = matches!(self, Access::Whole(_)) && !who.sees_all();
        !hidden && self.roles().is_none_or(|roles| roles.contains(&who.role))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_route_has_a_row_and_every_row_a_route() {
        let routes: BTreeSet<_> =
            crate::routes::all().iter().map(|route| (route.method, route.path)).collect();
        let rows: BTreeSet<_> = TABLE.iter().map(|(method, path, _)| (*method, *path)).collect();
        assert_eq!(routes, rows);
        assert_eq!((crate::routes::all().len(), TABLE.len()), (routes.len(), rows.len()), "each once");
    }

    /// The table of roles for people.
    fn page() -> String {
        let roles = Role::ALL.map(Role::as_str).join(" | ");
        let mut page = format!("| request | {roles} |\n|---|{}\n", "---|".repeat(Role::ALL.len()));
        for (method, path, access) in TABLE {
            let cell = |role: &Role| match access {
                Access::Open => "open",
                Access::Roles(roles) if roles.contains(role) => "yes",
                Access::Whole(roles) if roles.contains(role) => "all",
                _ => "",
            };
            let cells = Role::ALL.iter().map(cell).collect::<Vec<_>>().join(" | ");
            page += &format!("| `{method} {path}` | {cells} |\n");
        }
        page
    }

    #[test]
    fn the_roles_in_the_security_policy_are_those_of_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../SECURITY.md");
        let text = std::fs::read_to_string(path).unwrap();
        let (begin, end) = ("<!-- roles -->\n", "<!-- /roles -->");
        let (before, rest) = text.split_once(begin).unwrap();
        let (_, after) = rest.split_once(end).unwrap();
        let fresh = format!("{before}{begin}{}{end}{after}", page());
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, &fresh).unwrap();
        }
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text == fresh, "the table of roles in SECURITY.md is stale: run with UPDATE=1");
    }

    #[test]
    fn what_is_not_in_the_table_is_for_nobody() {
        assert_eq!(access("DELETE", "/api/v1/jobs"), None);
        assert_eq!(access("GET", "/api/v1/secrets"), None);
        assert_eq!(access("HEAD", "/livez"), Some(Access::Open));
    }

    #[test]
    fn only_health_and_the_first_page_are_open() {
        let open = TABLE.iter().filter(|row| row.2 == Access::Open).map(|row| row.1);
        assert_eq!(open.collect::<Vec<_>>(), ["/", "/livez", "/readyz"]);
    }
}
