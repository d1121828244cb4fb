//! Connecting to the server: the URL and its TLS options.

mod listen;
mod tls;
pub(crate) mod wire;

use std::net::IpAddr;
use std::time::Duration;

use deadpool_postgres::{ClientWrapper, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime, Timeouts};
use jobhall_store::StoreError;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::{Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::PgError;
use crate::options::Options;

use wire::Wire;

/// Time limit for opening a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Maximum time without an acknowledgement of sent data.
const SILENCE: Duration = Duration::from_secs(10);

/// The host of this URL, if it is on another machine and the connection to it may be unencrypted.
///
/// # Errors
/// The URL is invalid.
pub fn unencrypted_host(url: &str) -> Result<Option<String>, StoreError> {
    Ok(Connector::to(url, true)?.unencrypted_host())
}

#[derive(Clone)]
pub(crate) struct Connector {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    /// Whether statements may be prepared.
    pub(crate) prepares: bool,
}

impl Connector {
    /// For the URL of the options.
    pub(crate) fn new(options: &Options) -> Result<Connector, StoreError> {
        Connector::to(&options.url, !options.pooled)
    }

    /// For this URL.
    pub(crate) fn to(url: &str, prepares: bool) -> Result<Connector, StoreError> {
        let (plain, wanted) = tls::split(url)?;
        // The parser's message may contain parts of the URL, such as the password, so it is not shown.
        let mut config: Config = plain.parse().map_err(|error: tokio_postgres::Error| {
            PgError::from(error).while_doing("read the database url")
        })?;
        let tls = wanted.connector()?;
        config.ssl_mode(wanted.mode()).application_name("jobhall").connect_timeout(CONNECT);
        config.keepalives_idle(SILENCE).tcp_user_timeout(SILENCE);
        if config.get_hosts().len() > 1 {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        let local = config.get_hosts().iter().any(|host| matches!(host, Host::Unix(_)));
        if local && config.get_ssl_mode() == SslMode::Require {
            return Err(StoreError::new("failed to read the database url: there is no TLS on a unix socket"));
        }
        Ok(Connector { config, tls, prepares })
    }

    /// The first host on another machine to which the connection may be unencrypted. `prefer` counts: who is between can
    /// pretend that the server has no TLS.
    fn unencrypted_host(&self) -> Option<String> {
        let hosts = self.config.get_hosts().iter().filter_map(|host| match host {
            Host::Tcp(name) => Some(name),
            Host::Unix(_) => None,
        });
        let is_local =
            |name: &str| name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        let mut elsewhere = hosts.filter(|name| !is_local(name));
        if self.config.get_ssl_mode() == SslMode::Require { None } else { elsewhere.next().cloned() }
    }

    /// The name of the database, for people.
    pub(crate) fn name(&self) -> &str {
        self.config.get_dbname().or(self.config.get_user()).unwrap_or("")
    }

    /// A new connection; a task of the runtime drives it.
    pub(crate) async fn connect(&self) -> Result<ClientWrapper, PgError> {
        macro_rules! connect {
            ($tls:expr) => {{
                let (client, connection) = self.config.connect($tls).await?;
                // The next use of the client reports the end of the connection.
                let task = tokio::spawn(async move {
                    let _ = connection.await;
                });
                ClientWrapper::new(client, task)
            }};
        }
        let connecting = async {
            Ok::<_, PgError>(match &self.tls {
                Some(tls) => connect!(tls.clone()),
                None => connect!(NoTls),
            })
        };
        tokio::time::timeout(CONNECT * 2, connecting).await.map_err(|_| PgError::Late)?
    }

    /// A connection for the writer. Its statements are sent before the reply to BEGIN arrives. If session settings
    /// are possible, the session is read-only by default, so that no statement writes outside a transaction that
    /// allows it.
    pub(crate) async fn connect_writer(&self) -> Result<ClientWrapper, PgError> {
        let client = self.connect().await?;
        if self.prepares {
            client.batch_execute("SET default_transaction_read_only = on").await?;
        }
        Ok(client)
    }

    /// Wraps a connection of the pool, or another one, for statements.
    pub(crate) fn wire<'c>(&self, client: &'c ClientWrapper) -> Wire<'c> {
        Wire { client, prepares: self.prepares }
    }

    /// A pool of connections for reads.
    pub(crate) fn pool(&self, connections: usize, patience: Duration) -> Result<Pool, StoreError> {
        let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = match &self.tls {
            Some(tls) => Manager::from_config(self.config.clone(), tls.clone(), manager),
            None => Manager::from_config(self.config.clone(), NoTls, manager),
        };
        let timeouts = Timeouts { wait: Some(patience), create: Some(CONNECT * 2), recycle: Some(CONNECT) };
        Pool::builder(manager)
            .max_size(connections)
            .timeouts(timeouts)
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| StoreError::new(format!("failed to make a pool of connections: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use jobhall_throwaway::Cluster;

    use super::*;
    use crate::connect::wire::Step;

    #[test]
    fn audit_l13_an_unencrypted_connection_to_another_machine_is_found() {
        let found = |url: &str| unencrypted_host(url).expect("a url");
        for url in ["postgres://db.example/hall", "postgres://u:p@127.0.0.1,db.example/h?sslmode=disable"] {
            assert_eq!(found(url).as_deref(), Some("db.example"), "{url}");
        }
        assert_eq!(found("postgres://10.0.0.5:5433/h?sslmode=prefer").as_deref(), Some("10.0.0.5"));
        for url in
            ["postgres://localhost/h", "postgres://127.0.0.1/h", "postgres://[::1]/h", "postgres://%2Frun/h"]
        {
            assert_eq!(found(url), None, "{url}");
        }
        assert_eq!(found("postgres://db.example/h?sslmode=require"), None);
        assert_eq!(found("postgres://db.example/h?sslmode=verify-full"), None);
    }

    #[test]
    fn a_writer_whose_begin_failed_writes_nothing() {
        let shared = Cluster::shared();
        let database = shared.database();
        database.sql("CREATE SCHEMA jobhall; CREATE TABLE jobhall.meta (name text, value bigint)");
        database.sql("INSERT INTO jobhall.meta VALUES ('n', 1)");
        let connector = Connector::to(&database.url(), true).expect("a url");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let put = || Step::new(include_str!("sql/put_meta.sql")).with("n").with(2i64);
        let (begin, commit) = (include_str!("sql/begin.sql"), include_str!("sql/commit.sql"));
        let refused = runtime.block_on(async {
            let client = connector.connect_writer().await.expect("a connection");
            let wire = connector.wire(&client);
            let refused = wire.send(&[put(), Step::new(commit)]).await.expect_err("there is no transaction");
            wire.send(&[Step::new(begin), put(), Step::new(commit)]).await.expect("there is one");
            refused
        });
        assert!(refused.is_broken(), "the connection is not used again: {refused}");
        assert_eq!(database.sql("SELECT value FROM jobhall.meta"), "2");
    }
}
