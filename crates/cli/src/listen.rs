//! The address and TLS of the listener and the database: flags first, then environment and files.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::Args;
use jobhall_engine::Config;
use jobhall_protocol::{Span, SpanError};
use jobhall_server::{CacheBounds, Listen, RESERVED, Tls};

use crate::database::{Database, address};
use crate::failure::{Failure, Outcome};
use crate::limits::Limits;
use crate::settings::{Origin, Setting, Settings};
use crate::size::Size;
use crate::{hall_key, hosts};

/// Minimum and maximum lease in milliseconds. A shorter lease leaves a busy machine too little time to renew.
const LEASE_MS: std::ops::RangeInclusive<u64> = 3_000..=24 * 3_600_000;

/// Parses the flag `--lease`.
fn lease(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error: SpanError| error.to_string())?;
    if LEASE_MS.contains(&span.0) {
        return Ok(span);
    }
    Err(format!("a lease of {span} is outside {} to {}", Span(*LEASE_MS.start()), Span(*LEASE_MS.end())))
}

/// Bounds of the flags of the cache.
const CACHE_BYTES_MIN: u64 = 1 << 20;
const CACHE_VALUES: std::ops::RangeInclusive<u64> = 1..=100_000_000;

/// Parses the flag `--cache-size`.
pub fn cache_size(text: &str) -> Result<Size, String> {
    let size: Size = text.parse()?;
    if size.0 >= CACHE_BYTES_MIN {
        return Ok(size);
    }
    Err(format!("a cache of {} bytes is below 1MiB", size.0))
}

/// Parses the flag `--cache-values`.
pub fn cache_values(text: &str) -> Result<u64, String> {
    let values = text.parse().ok().filter(|values| CACHE_VALUES.contains(values));
    values.ok_or_else(|| {
        format!("{text:?} is not a number from {} to {}", CACHE_VALUES.start(), CACHE_VALUES.end())
    })
}

/// A tenth of the disk with the data, at most the default.
fn default_cache_bytes(data: Option<&Path>) -> u64 {
    let most = CacheBounds::default().bytes;
    let disk = data.and_then(|data| rustix::fs::statvfs(data).ok());
    disk.map_or(most, |disk| most.min(disk.f_blocks.saturating_mul(disk.f_frsize) / 10))
}

/// The listener and the database of a server.
#[derive(Clone, Debug, Args)]
pub struct ListenArgs {
    /// Address to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7450")]
    pub listen: SocketAddr,
    /// TLS certificate as PEM, with the intermediate certificates [env: JOBHALL_TLS_CERT]
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate as PEM; only its owner may read it [env: JOBHALL_TLS_KEY]
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Host name that the server answers to besides localhost; may be repeated. Without one, a server that other
    /// machines can reach answers to any name [env: JOBHALL_HOST]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = hosts::name)]
    pub host: Vec<String>,
    /// Serve other machines without TLS: tokens can be read on the network
    #[arg(long)]
    pub insecure: bool,
    /// How long a worker may be silent before its jobs are given to other workers [default: 30s]
    #[arg(long, value_name = "SPAN", value_parser = lease)]
    pub lease: Option<Span>,
    /// Database URL: sqlite:PATH, or postgres://… for several nodes; @FILE or - reads it from a file or standard
    /// input. A variable or a file hides its password from other users of this machine [env: JOBHALL_DATABASE]
    /// [default: jobs.db in the data directory]
    #[arg(long, value_name = "URL", hide_default_value = true)]
    pub database: Option<String>,
    /// Direct URL of the same database, without its pooler: postgres://…, or @FILE with the URL [env:
    /// JOBHALL_DATABASE_DIRECT]
    #[arg(long, value_name = "URL")]
    pub database_direct: Option<String>,
    /// The database is behind a pooler in transaction mode [env: JOBHALL_DATABASE_POOLED]
    #[arg(long)]
    pub database_pooled: bool,
    /// URL at which other nodes reach this one [env: JOBHALL_ADVERTISE] [default: the address it listens on]
    #[arg(long, value_name = "URL")]
    pub advertise: Option<String>,
    /// File with the key of the hall, the same on every node; the first node creates it [env: JOBHALL_KEY_FILE]
    /// [default: hall.key in the data directory]
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Size of the stored values of queries, such as 10GiB: those used longest ago are removed above it [env:
    /// JOBHALL_CACHE_SIZE] [default: 10GiB, or a tenth of the disk if that is less]
    #[arg(long, value_name = "SIZE", value_parser = cache_size)]
    pub cache_size: Option<Size>,
    /// Number of stored values of queries [env: JOBHALL_CACHE_VALUES] [default: 1000000]
    #[arg(long, value_name = "N", value_parser = cache_values)]
    pub cache_values: Option<u64>,
    /// Limits lower than the default ones, for tests: write_ms, per_address, per_loopback, sessions_per_token,
    /// waiting_per_token, pages_per_token, open_jobs_per_queue
    #[arg(long, value_name = "NAME=NUMBER,…", hide = true)]
    pub limits: Option<Limits>,
}

impl ListenArgs {
    /// Any free port of this machine, without TLS.
    pub fn anywhere() -> ListenArgs {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        ListenArgs {
            listen,
            tls_cert: None,
            tls_key: None,
            host: Vec::new(),
            insecure: false,
            lease: None,
            database: None,
            database_direct: None,
            database_pooled: false,
            advertise: None,
            key_file: None,
            cache_size: None,
            cache_values: None,
            limits: None,
        }
    }

    /// The files of the server outside of its data directory that others must not read.
    pub fn private_files(&self, settings: &Settings) -> Vec<PathBuf> {
        let set = [&settings.database, &settings.database_direct].into_iter().flatten();
        let given = [&self.database, &self.database_direct].into_iter().flatten();
        let given = given.chain(set.map(|setting| &setting.value));
        let stored = given.flat_map(|given| match (given.strip_prefix('@'), given.strip_prefix("sqlite:")) {
            (Some(file), _) => vec![PathBuf::from(file)],
            (None, Some(file)) => {
                ["", "-wal", "-shm"].map(|end| PathBuf::from(format!("{file}{end}"))).into()
            }
            (None, None) => Vec::new(),
        });
        stored.chain(self.key_file.clone()).chain(self.tls_key.clone()).collect()
    }

    /// Adds the values of the environment and the files for flags that are not given.
    pub fn with(&self, settings: &Settings) -> Outcome<ListenArgs> {
        let file = |flag: &Option<PathBuf>, setting: &Option<Setting>| {
            let given = flag.clone().or_else(|| Some(PathBuf::from(&setting.as_ref()?.value)))?;
            // Absolute, because jobs of the local worker get this path and run in other directories.
            Some(std::path::absolute(&given).unwrap_or(given))
        };
        let text = |flag: &Option<String>, setting: &Option<Setting>| {
            flag.clone().or_else(|| Some(setting.as_ref()?.value.clone()))
        };
        let advertise = text(&self.advertise, &settings.advertise);
        if let Some(url) = &advertise {
            jobhall_server::check_address(url)
                .map_err(|why| Failure::usage(format!("--advertise: {why}")))?;
        }
        // Read once, because it may come from standard input.
        let database = text(&self.database, &settings.database);
        let direct = text(&self.database_direct, &settings.database_direct);
        Ok(ListenArgs {
            tls_cert: file(&self.tls_cert, &settings.tls_cert),
            tls_key: file(&self.tls_key, &settings.tls_key),
            host: self.hosts(settings)?,
            database: database.map(|given| address(&given, "--database")).transpose()?,
            database_direct: direct.map(|given| address(&given, "--database-direct")).transpose()?,
            database_pooled: self.database_pooled
                || settings.database_pooled.as_ref().is_some_and(|pooled| pooled.value == "true"),
            advertise,
            key_file: hall_key::named(self.key_file.as_deref(), settings)?,
            // The values of the environment and the files were checked when they were read.
            cache_size: self.cache_size.or_else(|| cache_size(&settings.cache_size.as_ref()?.value).ok()),
            cache_values: self
                .cache_values
                .or_else(|| cache_values(&settings.cache_values.as_ref()?.value).ok()),
            ..self.clone()
        })
    }

    /// How the server listens.
    pub fn listener(&self, tls: Option<Tls>) -> Listen {
        let limits = self.limits.unwrap_or_default().connections;
        Listen { hosts: self.host.clone(), tls, insecure: self.insecure, limits }
    }

    /// How many values of queries are stored; `data` is the directory of the store, if it is on this machine.
    pub fn cache(&self, data: Option<&Path>) -> CacheBounds {
        let usual = CacheBounds::default();
        CacheBounds {
            bytes: self.cache_size.map_or_else(|| default_cache_bytes(data), |size| size.0),
            values: self.cache_values.unwrap_or(usual.values),
            ..usual
        }
    }

    /// The configuration of the engine.
    pub fn config(&self) -> Config {
        let Config { lease_ms, .. } = Config::default();
        Config {
            lease_ms: self.lease.map_or(lease_ms, |span| span.0),
            open_jobs_per_queue: self.limits.unwrap_or_default().open_jobs_per_queue,
            reserved: RESERVED,
            ..Config::default()
        }
    }

    /// The host names that the server answers to.
    fn hosts(&self, settings: &Settings) -> Outcome<Vec<String>> {
        hosts::few(&self.host).map_err(|why| Failure::usage(format!("--host: {why}")))?;
        match &settings.hosts {
            _ if !self.host.is_empty() => Ok(self.host.clone()),
            None => Ok(Vec::new()),
            // A checked-out file is not trusted: it could let a web page under its host name call the server.
            Some(Setting { origin: Origin::Project(path), .. }) => {
                Err(Failure::usage(format!("the hosts in {} are not trusted", path.display()))
                    .why("that file may come from someone else")
                    .fix("give them with --host NAME or JOBHALL_HOST, or in your own configuration file"))
            }
            Some(named) => Ok(named.value.clone()),
        }
    }

    /// The database, if one is configured.
    pub fn database(&self) -> Outcome<Option<Database>> {
        let wrong = |flag: &str, why: String| Failure::usage(format!("{flag}: {why}"));
        let read = self.database.as_deref().map(Database::parse).transpose();
        let database = read.map_err(|why| wrong("--database", why))?;
        let direct = self.database_direct.as_deref().map(Database::parse).transpose();
        let direct = direct.map_err(|why| wrong("--database-direct", why))?;
        if direct.is_some_and(|direct| !matches!(direct, Database::Postgres(_))) {
            return Err(wrong("--database-direct", "it must be postgres://…".to_owned()));
        }
        Ok(database)
    }

    /// The key file of a server with this data directory.
    pub fn key_path(&self, data: &Path) -> PathBuf {
        self.key_file.clone().unwrap_or_else(|| data.join(hall_key::FILE))
    }

    /// The URL at which other nodes reach this one.
    pub fn advertised(&self, address: SocketAddr) -> String {
        match &self.advertise {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None if address.ip().is_unspecified() => {
                format!("{}://{}:{}", self.scheme(), jobhall_worker::host_name(), address.port())
            }
            None => format!("{}://{address}", self.scheme()),
        }
    }

    /// The URL at which this machine reaches it.
    pub fn own_url(&self, address: SocketAddr) -> String {
        format!("{}://{}", self.scheme(), reachable(address))
    }

    fn scheme(&self) -> &'static str {
        if self.tls_cert.is_some() { "https" } else { "http" }
    }

    /// The TLS certificate. Other machines are not served without TLS unless `--insecure` is given.
    pub fn tls(&self) -> Outcome<Option<Tls>> {
        match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                let tls = Tls::read(certificate, key);
                tls.map(Some).map_err(|error| Failure::usage(error.to_string()))
            }
            (None, None) if self.listen.ip().is_loopback() || self.insecure => Ok(None),
            (None, None) => {
                Err(Failure::usage(format!("{} is not on this machine, and there is no TLS", self.listen))
                    .why("tokens could be read on the network")
                    .fix(
                        "give --tls-cert FILE and --tls-key FILE, or use --insecure behind a proxy with TLS",
                    ))
            }
            _ => Err(Failure::usage("a certificate needs its key, and a key its certificate")
                .fix("give both --tls-cert FILE and --tls-key FILE")),
        }
    }
}

/// The address at which this machine reaches the listener: loopback if it listens on all addresses.
fn reachable(address: SocketAddr) -> SocketAddr {
    let own = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(own, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_a_span_within_bounds() {
        assert_eq!(lease("3s").map(|span| span.0), Ok(3_000));
        for wrong in ["2s", "25h", "soon", ""] {
            assert!(lease(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(lease("2d").unwrap_err(), "a lease of 2d is outside 3s to 1d");
    }
}
