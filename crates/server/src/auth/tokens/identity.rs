//! The identity behind a token: its name, role and scope.

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use jobhall_core::needs::Accepts;
use jobhall_core::{AttemptId, Job, JobId, LeaseId, Scope, WorkerName};

use super::browser::BrowserSession;

/// The role of a token; `access` lists the routes of each role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Reads.
    Viewer,
    /// Reads, submits, cancels and retries.
    Client,
    /// Takes jobs and reports on its own attempts only.
    Worker,
    /// May do everything.
    Admin,
    /// The process of a job: reads its own job and reports progress while the lease is valid.
    Job,
    /// Can be exchanged once for a worker token.
    Join,
}

impl Role {
    pub const ALL: [Role; 6] = [Role::Viewer, Role::Client, Role::Worker, Role::Admin, Role::Job, Role::Join];

    /// The name of the role on the wire and in the store.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Client => "client",
            Role::Worker => "worker",
            Role::Admin => "admin",
            Role::Job => "job",
            Role::Join => "join",
        }
    }
}

/// The attempt that a job's token is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    pub attempt: AttemptId,
    pub lease: LeaseId,
    /// The worker that runs it.
    pub worker: WorkerName,
}

/// What a token says about its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenFacts {
    /// The public part of its token.
    pub id: String,
    /// The name of its token; for a worker, the worker's.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// The queues that it may access.
    pub scope: Scope,
    /// For the process of a job, its attempt.
    pub bound: Option<Bound>,
}

/// The identity behind a request. Its requests share what its token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub(crate) facts: Arc<TokenFacts>,
    /// The address of the request; none before a request is made.
    pub(crate) from: Option<IpAddr>,
    /// For a browser, its session.
    pub(crate) browser: Option<BrowserSession>,
    /// The worker that an administrator acts for, if it is not named after the token.
    pub worker: Option<WorkerName>,
}

impl Deref for Identity {
    type Target = TokenFacts;

    fn deref(&self) -> &TokenFacts {
        &self.facts
    }
}

impl Identity {
    /// An identity with access to every queue.
    #[must_use]
    pub fn new(id: &str, name: &str, role: Role) -> Identity {
        let (id, name, scope) = (id.to_owned(), name.to_owned(), Scope::default());
        let facts = Arc::new(TokenFacts { id, name, role, scope, bound: None });
        Identity { facts, from: None, browser: None, worker: None }
    }

    /// The same identity with these queues only.
    #[must_use]
    pub fn within(mut self, scope: Scope) -> Identity {
        Arc::make_mut(&mut self.facts).scope = scope;
        self
    }

    /// The same identity, bound to an attempt.
    pub(super) fn bound_to(mut self, bound: Bound) -> Identity {
        Arc::make_mut(&mut self.facts).bound = Some(bound);
        self
    }

    /// Whether it is known by the cookie of a browser.
    pub(crate) fn is_browser(&self) -> bool {
        self.browser.is_some()
    }

    /// Whether it may see all jobs.
    pub(crate) fn sees_all(&self) -> bool {
        self.scope.is_all() && self.bound.is_none()
    }

    /// Whether it may see this job.
    pub(crate) fn sees(&self, job: &Job) -> bool {
        self.sees_id(job.id) && self.scope.reaches(job.spec.queue.as_str())
    }

    /// Whether it could see a job with this id.
    pub(crate) fn sees_id(&self, id: JobId) -> bool {
        self.bound.as_ref().is_none_or(|bound| bound.attempt.job == id)
    }

    /// Restricts what a worker accepts to its scope.
    pub(crate) fn takes(&self, accepts: Accepts) -> Accepts {
        accepts.within(self.scope.clone())
    }
}
