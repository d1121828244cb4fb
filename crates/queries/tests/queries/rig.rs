//! An engine, and a worker that is a function.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jobhall_blobs::Blobs;
use jobhall_core::needs::{Abilities, Accepts};
use jobhall_core::query::{
    CommandName, Declaration, Declared, Modes, NodeParams, Parameter, ParameterType, Query, StoredValue,
    TEXT_BYTES_MAX, Version,
};
use jobhall_core::{Failure, Json, Report, Reserved, WorkerName};
use jobhall_engine::{Config, Engine, Opening, SessionEvent, SystemClock};
use jobhall_queries::{
    Asked, CacheBounds, Content, Ended, EndedHow, Error, Found, Queries, RESERVED, Refresh, Request, Value,
};
use jobhall_store::{Memory, Store};
use tempfile::TempDir;

pub struct Hall {
    pub engine: Engine,
    pub store: Arc<dyn Store>,
    pub queries: Queries,
    pub blobs: Arc<Blobs>,
    pub folder: TempDir,
}

pub async fn hall() -> Hall {
    hall_on(Arc::new(Memory::new()), CacheBounds::default()).await
}

/// A hall on this store, as after a restart.
pub async fn hall_on(store: Arc<dyn Store>, bounds: CacheBounds) -> Hall {
    let config = Config { reserved: Reserved(&[RESERVED]), ..Config::default() };
    let engine = Engine::start(store.clone(), config, SystemClock::default()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let blobs = Arc::new(Blobs::open(&folder.path().join("blobs")).unwrap());
    let queries = Queries::with_cache(engine.clone(), store.clone(), blobs.clone(), bounds);
    Hall { engine, store, queries, blobs, folder }
}

pub fn declared(name: &str, version: &str, modes: Modes) -> Declared {
    let text = |name: &str| Parameter {
        name: name.to_owned(),
        kind: ParameterType::Text,
        values: Vec::new(),
        default: Some(String::new()),
        help: None,
        ignore: false,
        dash: false,
    };
    let name = CommandName::new(name).unwrap();
    let declaration = Declaration { args: vec![text("x")], modes, ..Declaration::new(name) };
    Declared { declaration, version: Version::new(version).unwrap() }
}

pub fn query(text: &str) -> Query {
    Query::parse(text, TEXT_BYTES_MAX).unwrap_or_else(|error| panic!("{}", error.message(text)))
}

impl Hall {
    /// The commands a, b and c are declared in version 1, and `v`, which is volatile.
    pub async fn with_commands() -> Hall {
        Hall::with_cache(CacheBounds::default()).await
    }

    /// The same, with these bounds of the cache.
    pub async fn with_cache(bounds: CacheBounds) -> Hall {
        let hall = hall_on(Arc::new(Memory::new()), bounds).await;
        let volatile = Modes { volatile: true, ..Modes::default() };
        let plain = ["a", "b", "c"].map(|name| declared(name, "1", Modes::default()));
        let all = plain.into_iter().chain([declared("v", "1", volatile)]);
        hall.queries.declare(all.collect()).await.unwrap();
        hall
    }

    /// Stops the engine and starts another one on the same store.
    pub async fn restart(self, bounds: CacheBounds) -> Hall {
        self.engine.stop().await;
        let hall = hall_on(self.store, bounds).await;
        hall.queries.commands().await.unwrap();
        hall
    }

    pub async fn ask_with(&self, text: &str, compute: bool) -> Result<Asked, Error> {
        let request =
            Request { query: query(text), compute, stale: false, priority: 50, owner: None, within: None };
        self.queries.ask(request).await
    }

    /// Computes a query anew.
    pub async fn refresh(&self, text: &str, refresh: Refresh) -> Result<Asked, Error> {
        let request = Request {
            query: query(text),
            compute: true,
            stale: false,
            priority: 50,
            owner: None,
            within: None,
        };
        self.queries.ask_refreshing(request, Some(&refresh)).await.map(|(asked, _)| asked)
    }

    pub async fn promise(&self, text: &str) -> Found {
        match self.ask_with(text, true).await.unwrap() {
            Asked::Promise(found) => found,
            other => panic!("{other:?}"),
        }
    }

    /// The value, however it comes to be.
    pub async fn value(&self, text: &str) -> String {
        text_of(self.ended(text).await.as_ref())
    }

    pub async fn ended(&self, text: &str) -> Arc<Ended> {
        match self.ask_with(text, true).await.unwrap() {
            Asked::Hit(ended) => ended,
            Asked::Promise(found) => self.queries.wait(found.job).await.unwrap(),
            Asked::NotComputed(_) | Asked::Source(_) => panic!("it may be computed"),
        }
    }
}

pub fn text_of(ended: &Ended) -> String {
    match &ended.how {
        EndedHow::Value(Value { content: Content::Inline(bytes), .. }) => {
            String::from_utf8(bytes.to_vec()).unwrap()
        }
        EndedHow::Value(value) => panic!("{value:?}"),
        EndedHow::Failure { failure, .. } => panic!("{failure:?}"),
    }
}

/// Waits until this is true.
pub async fn until<T: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> T) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds().await {
        assert!(Instant::now() < end, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What the worker has run, one text for each job: its query.
#[derive(Clone, Default)]
pub struct Ran {
    queries: Arc<Mutex<Vec<String>>>,
    count: Arc<AtomicUsize>,
    checks: Arc<AtomicUsize>,
}

impl Ran {
    pub fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// How many of them were checks.
    pub fn checks(&self) -> usize {
        self.checks.load(Ordering::SeqCst)
    }

    pub fn queries(&self) -> Vec<String> {
        self.queries.lock().unwrap().clone()
    }
}

/// Runs jobs of these commands, given as `a@1`, until the engine stops. The value of a node is what `run` makes of it;
/// its text begins with the number of the run, so that another run is another value.
pub async fn worker(
    hall: &Hall,
    commands: &[&str],
    run: impl Fn(&NodeParams) -> Result<String, Failure> + Send + 'static,
) -> Ran {
    let made = move |number: usize, params: &NodeParams| {
        run(params).map(|text| StoredValue::new("text/plain", format!("{number} {text}").into_bytes()))
    };
    working(hall, ("w", ""), commands, made).await
}

/// The same with this name and these abilities besides its commands.
pub async fn worker_with(
    hall: &Hall,
    (name, abilities): (&str, &str),
    commands: &[&str],
    run: impl Fn(&NodeParams) -> Result<String, Failure> + Send + 'static,
) -> Ran {
    let made = move |number: usize, params: &NodeParams| {
        run(params).map(|text| StoredValue::new("text/plain", format!("{number} {text}").into_bytes()))
    };
    working(hall, (name, abilities), commands, made).await
}

/// The same with values that this function stores.
pub async fn large_worker(
    hall: &Hall,
    commands: &[&str],
    store: impl Fn() -> StoredValue + Send + 'static,
) -> Ran {
    working(hall, ("w", ""), commands, move |_, _| Ok(store())).await
}

/// The same with values of exactly this text, which is given the number of the run.
pub async fn raw_worker(
    hall: &Hall,
    commands: &[&str],
    run: impl Fn(usize, &NodeParams) -> Result<String, Failure> + Send + 'static,
) -> Ran {
    let made = move |number: usize, params: &NodeParams| {
        run(number, params).map(|text| StoredValue::new("text/plain", text.into_bytes()))
    };
    working(hall, ("w", ""), commands, made).await
}

async fn working(
    hall: &Hall,
    (name, abilities): (&str, &str),
    commands: &[&str],
    run: impl Fn(usize, &NodeParams) -> Result<StoredValue, Failure> + Send + 'static,
) -> Ran {
    let types: BTreeSet<String> =
        commands.iter().map(|command| format!("q.{}", command.split('@').next().unwrap())).collect();
    let types: Vec<String> = types.into_iter().collect();
    let opening = Opening {
        worker: WorkerName::new(name).unwrap(),
        abilities: Abilities::parse(&format!("commands=[{}]{abilities}", commands.join(","))).unwrap(),
        accepts: Accepts::parse(&format!("type in ({})", types.join(","))).unwrap(),
        attempts: Vec::new(),
        lease_ms: None,
        fresh: true,
    };
    let mut session = hall.engine.open(opening).await.unwrap();
    let ran = Ran::default();
    let seen = ran.clone();
    session.credit(1).await.unwrap();
    tokio::spawn(async move {
        let mut taken = 0;
        while let Some(event) = session.next().await {
            let SessionEvent::Assigned(assignment) = event else { continue };
            taken += 1;
            let (attempt, lease) = (assignment.attempt, assignment.lease);
            let params: NodeParams = serde_json::from_str(assignment.spec.params.as_str()).unwrap();
            session.accept(attempt, lease).await.unwrap();
            let number = seen.count.fetch_add(1, Ordering::SeqCst) + 1;
            seen.queries.lock().unwrap().push(params.query.clone());
            seen.checks.fetch_add(usize::from(params.check), Ordering::SeqCst);
            let report = match run(number, &params) {
                Ok(value) => Report::Succeeded(Json::value(&serde_json::to_string(&value).unwrap()).unwrap()),
                Err(failure) => Report::Failed(failure, None),
            };
            session.report(attempt, lease, report).await.unwrap();
            session.credit(taken + 1).await.unwrap();
        }
    });
    ran
}
