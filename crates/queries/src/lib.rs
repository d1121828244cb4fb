//! Queries on the kernel: a query is planned by a pure function ([`jobhall_core::query`]) into nodes, and each node is one
//! job.
//!
//! ```text
//! query ── plan ──▶ nodes ── successes (one read) ──▶ what is missing ── one submit, one commit ──▶ jobs ── wait ──▶ value
//! ```
//!
//! | of a node | of its job |
//! |---|---|
//! | last command | type `q.COMMAND`; only this crate creates jobs of such types |
//! | identity | key: one execution at a time, and its success is the cached value |
//! | inputs | dependencies, in the same order |
//! | value | result, or an artifact of the attempt if it has more than 64 KiB |
//!
//! There is no other cache and no invalidation: a changed command or argument is another key. The crate decides nothing
//! about jobs; what is pending or completed is decided by the kernel within the commit.
//!
//! A query may begin with stored data ([`sources`]), whose digest is part of the identity, or with a key whose value another
//! query makes ([`recipes`]). Data that is elsewhere is known by the answer of a check ([`checks`]).
//!
//! It knows no HTTP: routes are in the server.
#![forbid(unsafe_code)]

mod ask;
mod asked;
mod cache;
mod checks;
mod facts;
mod identity;
mod job;
mod metadata;
mod objects;
mod promise;
mod recipes;
mod registry;
mod seen;
mod sources;
mod steps;

pub use ask::{Asked, Found, Planned, Refresh, Request, Warmth};
pub use asked::{Asker, Inline, SubAsked, Within};
pub use cache::counts::{CommandCounts, Misses};
pub use cache::evict::Removed;
pub use cache::pins::PINS_MAX;
pub use cache::removal::{Dropped, Which};
pub use cache::upkeep::Upkeep;
pub use cache::values::{CacheStats, Cached, CachedPage, Verified};
pub use cache::{CacheBounds, Warm};
pub use checks::{CheckAnswer, CheckFailure, CheckState};
pub use identity::{Blake3, identity_of};
pub use promise::outdated::{CHECK_CHANGED, VERSION_CHANGED};
pub use promise::{Content, Ended, EndedHow, Pending, Value};
pub use recipes::status::{RecipeState, RecipeStatus};
pub use recipes::{RECIPE_TEXT_BYTES_MAX, RECIPES_MAX, StoredRecipe};
pub use registry::{DeclaredFile, Declaring, Known, Origin};
pub use sources::{BY_DIGEST, PutSource, SOURCES_BYTES_MAX, SOURCES_MAX, StoredSource};
pub use steps::{Answered, StepJob, StepOf};

use std::sync::Arc;

use jobhall_blobs::Blobs;
use jobhall_core::query::QueryError;
use jobhall_core::{Application, ReservedTypes};
use jobhall_engine::{Engine, Rejected};
use jobhall_store::{Store, StoreError};
use thiserror::Error;

use asked::fresh::Fresh;
use asked::open::OpenAsks;
use cache::Cache;
use checks::Checks;
use objects::Objects;
use promise::Promises;
use recipes::Recipes;
use registry::Registry;
use sources::Sources;
use steps::LastJobs;

/// The application, by the prefix of its types.
pub const QUERIES: Application = Application("q.");
/// Its types. A retry by hand is the same work again, so everyone may ask for it.
pub const RESERVED: ReservedTypes = ReservedTypes { application: QUERIES, retry_with: None };
/// The queue of all jobs of queries. A token that reaches it may ask.
pub const QUEUE: &str = "queries";

/// Why a query was not answered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// The query is wrong; nothing was submitted.
    #[error("{}", .0.kind)]
    Query(QueryError),
    /// The kernel refused the jobs.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A declaration is wrong.
    #[error("{0}")]
    Refused(String),
    /// A stored command or value cannot be read.
    #[error("{0}")]
    Damaged(String),
    /// The stored bytes of values and sources could not be read.
    #[error("{0}")]
    Blobs(String),
    /// A command asks for a query that waits for it: each of these asks for the next.
    #[error("a query that waits for itself: {}", .0.join(" asks for "))]
    Cycle(Vec<String>),
    /// There is no promise of this number.
    #[error("there is no query {0}")]
    NoSuchPromise(u64),
}

impl From<QueryError> for Error {
    fn from(error: QueryError) -> Error {
        Error::Query(error)
    }
}

/// A handle to the queries of a hall. All clones share the commands and the waiting askers.
#[derive(Clone)]
pub struct Queries(Arc<Inner>);

struct Inner {
    engine: Engine,
    store: Arc<dyn Store>,
    registry: Arc<Registry>,
    sources: Sources,
    recipes: Recipes,
    checks: Checks,
    objects: Objects,
    promises: Promises,
    last_jobs: LastJobs,
    cache: Arc<Cache>,
    fresh: Arc<Fresh>,
    asks: Arc<OpenAsks>,
}

impl Queries {
    /// Queries over this engine. Commands and sources are read from the store when they are first needed.
    #[must_use]
    pub fn new(engine: Engine, store: Arc<dyn Store>, blobs: Arc<Blobs>) -> Queries {
        Queries::with_cache(engine, store, blobs, CacheBounds::default())
    }

    /// The same, with these bounds of the cache. They hold while [`Queries::keep_cache`] runs.
    #[must_use]
    pub fn with_cache(
        engine: Engine,
        store: Arc<dyn Store>,
        blobs: Arc<Blobs>,
        bounds: CacheBounds,
    ) -> Queries {
        let (fresh, asks) = (Arc::new(Fresh::default()), Arc::new(OpenAsks::new(engine.clone())));
        let registry = Arc::new(Registry::new(engine.clone(), fresh.clone()));
        let sources = Sources::new(engine.clone(), fresh.clone());
        let cache = Cache::new(bounds, &engine, fresh.clone());
        let promises =
            Promises::new(engine.clone(), store.clone(), registry.clone(), cache.clone(), asks.clone());
        let (objects, last_jobs) = (Objects::new(blobs), LastJobs::default());
        let (recipes, checks) = (Recipes::new(engine.clone(), fresh.clone()), Checks::default());
        Queries(Arc::new(Inner {
            engine,
            store,
            registry,
            sources,
            recipes,
            checks,
            objects,
            promises,
            last_jobs,
            cache,
            fresh,
            asks,
        }))
    }
}
