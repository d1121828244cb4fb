//! The database that the nodes of a hall share: opens it, requests its leadership, and lists the other nodes.

mod hall_key;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deadpool_postgres::{ClientWrapper, Pool};
use jobhall_store::{Later, StoreError};
use tokio::runtime::Runtime;
use tokio::sync::{oneshot, watch};
use tokio_postgres::Row;

use crate::Postgres;
use crate::connect::Connector;
use crate::connect::wire::{Step, Wire};
use crate::error::{POOLED, PgError, damaged};
use crate::leadership::{FORGET_MS, LeaderSeen, Node, Term, term_ms};
use crate::migrations::{self, Migration};
use crate::options::Options;
use crate::rows::row::get;

pub use hall_key::{KeyRecord, NewKey};

/// The oldest supported server version.
const OLDEST: i32 = 140_000;

/// The result of a request for the leadership.
#[derive(Debug)]
pub enum Leadership {
    /// This node leads.
    Mine(Arc<Postgres>),
    /// Another node leads.
    Theirs(LeaderSeen),
}

/// A node with a recent heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSeen {
    pub node: Node,
    /// The version of its program.
    pub version: String,
    /// Its first heartbeat, in milliseconds since 1970 on the database's clock.
    pub started_ms: u64,
    /// Its last heartbeat, likewise.
    pub seen_ms: u64,
    pub leads: bool,
    /// Whether its last heartbeat was more than ten seconds ago.
    pub gone: bool,
}

/// The runtime that drives the connections. Dropping it does not wait, so it may be dropped anywhere.
pub(crate) struct Home(Option<Runtime>);

impl Home {
    /// Runs a future on this runtime and returns its result; callers need no runtime.
    pub(crate) fn run<T: Send + 'static>(
        self: &Arc<Home>,
        doing: impl Future<Output = T> + Send + 'static,
    ) -> Later<Option<T>> {
        let (reply, answer) = oneshot::channel();
        if let Some(runtime) = &self.0 {
            runtime.spawn(async move {
                // The caller may have stopped waiting.
                let _ = reply.send(doing.await);
            });
        }
        let home = self.clone();
        Box::pin(async move {
            let answer = answer.await.ok();
            drop(home);
            answer
        })
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// The database of a hall. Clones share the connections.
#[derive(Clone)]
pub struct Database {
    pub(crate) home: Arc<Home>,
    pub(crate) connector: Connector,
    pub(crate) pool: Pool,
    pub(crate) options: Options,
    /// Receives changes of the leadership; never notified if listening is not possible.
    changes: watch::Receiver<()>,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Database {
    /// Connects, refuses an unsupported server, and migrates the schema. Blocks until that is done.
    pub fn open(options: Options) -> Result<Database, StoreError> {
        Database::open_with(options, migrations::ALL)
    }

    pub(crate) fn open_with(options: Options, list: &'static [Migration]) -> Result<Database, StoreError> {
        check(&options)?;
        let connector = Connector::new(&options)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("store")
            .enable_all()
            .build()
            .map_err(|error| StoreError::new(format!("failed to start: {error}")))?;
        let home = Arc::new(Home(Some(runtime)));
        let opening = connector.clone();
        let (tell, opened) = std::sync::mpsc::channel();
        drop(home.run(async move {
            let _ = tell.send(open(&opening, list).await);
        }));
        opened.recv().map_err(|_| ended())??;
        let pool = connector.pool(options.readers, options.patience)?;
        let (told, changes) = watch::channel(());
        if let Some(listener) = listener(&connector, &options)? {
            drop(home.run(listener.listen("jobhall_leadership", told)));
        }
        Ok(Database { home, connector, pool, options, changes })
    }

    /// Takes the leadership if it is free or expired; otherwise returns the leader. The call is also the heartbeat of
    /// the node, so a follower calls it about every second.
    pub fn lead(&self, node: Node) -> Later<Result<Leadership, StoreError>> {
        let database = self.clone();
        let taking = self.home.run(async move { database.take(node).await });
        Box::pin(async move { taking.await.unwrap_or_else(|| Err(ended())) })
    }

    async fn take(self, node: Node) -> Result<Leadership, StoreError> {
        let failed = |trouble: PgError| trouble.while_doing("ask for the leadership");
        let begun = Instant::now();
        let (sent, rows) = loop {
            let sent = Instant::now();
            let step = Step::new(include_str!("sql/take_leadership.sql"))
                .with(node.name.clone())
                .with(node.url.clone());
            match self.ask(step.with(env!("CARGO_PKG_VERSION")).with(term_ms(&self.options))).await {
                // A commit of the previous leader is still in progress.
                Err(trouble) if trouble.is_passing() && begun.elapsed() < self.options.patience => {}
                asked => break (sent, asked.map_err(failed)?),
            }
        };
        let found = rows.first().ok_or_else(|| failed(damaged("leadership", "it is missing")))?;
        let (mine, holder) = holder(found).map_err(failed)?;
        if !mine {
            return Ok(Leadership::Theirs(holder));
        }
        let term = Arc::new(Term::new(sent, self.options.term));
        Postgres::begin(self, holder.epoch, term).await.map(|store| Leadership::Mine(Arc::new(store)))
    }

    /// Waits until the leadership may have changed, at most this long. The database sends a notification, over the
    /// direct URL if there is a pooler; without one this waits the whole time.
    pub fn changed(&self, at_most: Duration) -> Later<()> {
        let mut changes = self.changes.clone();
        let waiting = self.home.run(async move {
            changes.mark_unchanged();
            // If there is no listener, its sender was dropped; that is not a notification.
            let told = async {
                if changes.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            let _ = tokio::time::timeout(at_most, told).await;
        });
        Box::pin(async move { waiting.await.unwrap_or(()) })
    }

    /// A pool of connections for other data of this node in the same database, such as its blobs.
    pub fn connections(&self, most: usize) -> Result<Pool, StoreError> {
        self.connector.pool(most, self.options.patience)
    }

    /// Every node with a heartbeat in the last 30 seconds, ordered by start.
    pub fn nodes(&self) -> Later<Result<Vec<NodeSeen>, StoreError>> {
        let step = || Step::new(include_str!("sql/nodes.sql")).with(FORGET_MS);
        self.look("list the nodes", step, |rows| rows.iter().map(node_seen).collect())
    }

    /// Removes the row of a node that stops without leading, so that the other nodes do not have to wait until it
    /// expires.
    pub fn forget(&self, name: String) -> Later<Result<(), StoreError>> {
        let step = move || Step::new(include_str!("sql/forget_node.sql")).with(name.clone());
        self.look("forget a node", step, |_| Ok(()))
    }

    pub(crate) fn look<T: Send + 'static>(
        &self,
        what: &'static str,
        step: impl FnOnce() -> Step + Send + 'static,
        read: impl FnOnce(&[Row]) -> Result<T, PgError> + Send + 'static,
    ) -> Later<Result<T, StoreError>> {
        let database = self.clone();
        let looking = self.home.run(async move {
            let found = database.ask(step()).await.and_then(|rows| read(&rows));
            found.map_err(|trouble| trouble.while_doing(what))
        });
        Box::pin(async move { looking.await.unwrap_or_else(|| Err(ended())) })
    }

    /// Sends one step on a read connection.
    pub(crate) async fn ask(&self, step: Step) -> Result<Vec<Row>, PgError> {
        let client = self.client().await?;
        let wire = self.connector.wire(&client);
        tokio::time::timeout(self.options.patience, wire.ask(step)).await.map_err(|_| PgError::Late)?
    }

    /// A read connection.
    pub(crate) async fn client(&self) -> Result<deadpool_postgres::Client, PgError> {
        use deadpool_postgres::PoolError;
        self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => PgError::Sql(error),
            _ => PgError::Late,
        })
    }
}

/// The error of a caller whose runtime has ended.
pub(crate) fn ended() -> StoreError {
    StoreError::new("the store ended unexpectedly")
}

/// How to listen to the database, if that is possible.
pub(crate) fn listener(connector: &Connector, options: &Options) -> Result<Option<Connector>, StoreError> {
    match &options.direct_url {
        Some(url) => Connector::to(url, true).map(Some),
        None => Ok((!options.pooled).then(|| connector.clone())),
    }
}

fn check(options: &Options) -> Result<(), StoreError> {
    let bounds = Duration::from_millis(10)..=Duration::from_secs(3_600);
    if !bounds.contains(&options.term) || options.renew_every * 2 > options.term {
        return Err(StoreError::new(
            "the leadership's term must be 10 ms to 1 h, and at least twice the time of renewing",
        ));
    }
    if options.readers == 0 || options.waiting == 0 {
        return Err(StoreError::new("at least one reading connection and one waiting call must be allowed"));
    }
    Ok(())
}

async fn open(connector: &Connector, list: &[Migration]) -> Result<(), StoreError> {
    let failed = |trouble: PgError| trouble.while_doing("open the database");
    let client: ClientWrapper = connector.connect().await.map_err(failed)?;
    if connector.prepares && is_pooled(connector, &client).await.map_err(failed)? {
        return Err(StoreError::new(format!("{POOLED}; nothing was changed in it")));
    }
    let wire = connector.wire(&client);
    let rows = wire.ask(Step::new(include_str!("sql/server.sql"))).await.map_err(failed)?;
    let server = rows.first().ok_or_else(|| failed(damaged("server", "it returned no row")))?;
    Server::read(server).map_err(failed)?.suits()?;
    migrations::run(&wire, list).await
}

/// Whether a pooler in transaction mode is detected: two open connections have the same server process,
/// or the process of one changes. Other clients of the pooler may hide that, so [`PgError`] detects it too.
async fn is_pooled(connector: &Connector, client: &ClientWrapper) -> Result<bool, PgError> {
    let other = connector.connect().await?;
    let mut seen = Vec::new();
    for client in [client, &other, client, &other] {
        let rows = Wire { client, prepares: false }.ask(Step::new(include_str!("sql/backend.sql"))).await?;
        let told = rows.first().ok_or_else(|| damaged("server", "it returned no row"))?;
        seen.push(get::<String>(told, 0)?);
    }
    Ok(seen[0] == seen[1] || seen[0] != seen[2] || seen[1] != seen[3])
}

/// Properties of a server that are checked before it is used.
#[derive(Debug)]
struct Server<'a> {
    version: i32,
    fsync: &'a str,
    encoding: &'a str,
    standby: bool,
}

impl Server<'_> {
    fn read(found: &Row) -> Result<Server<'_>, PgError> {
        Ok(Server {
            version: get(found, 0)?,
            fsync: get(found, 1)?,
            encoding: get(found, 2)?,
            standby: get(found, 3)?,
        })
    }

    /// Refuses an unsupported server.
    fn suits(&self) -> Result<(), StoreError> {
        let Server { version, fsync, encoding, standby } = self;
        let refused = |why: String| Err(StoreError::new(format!("{why}; nothing was changed in it")));
        if *version < OLDEST {
            return refused(format!("the server is PostgreSQL {}, 14 or newer is needed", version / 10_000));
        }
        if *fsync != "on" {
            return refused(
                "the server runs with fsync=off: a crash would lose what was acknowledged".to_owned(),
            );
        }
        if *encoding != "UTF8" {
            return refused(format!("the database is encoded as {encoding}, UTF8 is needed"));
        }
        if *standby {
            return refused("the server is a standby that takes no writes".to_owned());
        }
        Ok(())
    }
}

fn holder(found: &Row) -> Result<(bool, LeaderSeen), PgError> {
    let node = Node { name: get(found, 2)?, url: get(found, 3)? };
    let (epoch, left_ms) = (get::<i64>(found, 1)?, get::<i64>(found, 4)?);
    Ok((get(found, 0)?, LeaderSeen { node, epoch: epoch.cast_unsigned(), left_ms: left_ms.cast_unsigned() }))
}

fn node_seen(found: &Row) -> Result<NodeSeen, PgError> {
    Ok(NodeSeen {
        node: Node { name: get(found, 0)?, url: get(found, 1)? },
        version: get(found, 2)?,
        started_ms: get::<i64>(found, 3)?.cast_unsigned(),
        seen_ms: get::<i64>(found, 4)?.cast_unsigned(),
        leads: get(found, 5)?,
        gone: get(found, 6)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_server_is_refused_and_the_oldest_good_one_is_not() {
        let server = |version| Server { version, fsync: "on", encoding: "UTF8", standby: false };
        let error = server(130_021).suits().expect_err("13 is too old");
        assert!(error.message.starts_with("the server is PostgreSQL 13, 14 or newer is needed"), "{error}");
        assert_eq!(server(140_000).suits(), Ok(()));
        assert_eq!(server(180_001).suits(), Ok(()));
    }
}
