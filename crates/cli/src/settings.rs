//! The settings: flags, then environment, then files, then defaults. Each value keeps its origin.

pub mod file;
mod find;

use std::fmt;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use jobhall_client::Trust;

use crate::failure::{Failure, Outcome};
use crate::hosts;
use crate::running::{self, Record};
use crate::worker_file::project;
use file::Layer;

pub const DEFAULT_SERVER: &str = "http://127.0.0.1:7450";
const SYSTEM: &str = "/etc/jobhall/config.toml";
/// A name that is not read, because people take it for the file of a repository.
const SIMILAR: &str = "jobhall.toml";
/// Maximum length of a token line.
const TOKEN_BYTES: u64 = 4_096;

/// The origin of a value, the highest precedence first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Flag(&'static str),
    Env(&'static str),
    /// The file of the repository.
    Project(PathBuf),
    /// The file of the user.
    User(PathBuf),
    /// The file of the machine.
    System(PathBuf),
    /// The file that the server wrote on its first start.
    Local(PathBuf),
    /// The data directory of a running server.
    Running(PathBuf),
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag(name) => write!(f, "flag {name}"),
            Origin::Env(name) => write!(f, "environment {name}"),
            Origin::Project(path) | Origin::User(path) | Origin::System(path) | Origin::Local(path) => {
                write!(f, "{}", path.display())
            }
            Origin::Running(data) => write!(f, "server running on {}", data.display()),
            Origin::Default => f.write_str("default"),
        }
    }
}

/// A value and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting<T = String> {
    pub value: T,
    pub origin: Origin,
}

/// The inputs of the settings; tests create their own.
#[derive(Clone, Debug, Default)]
pub struct Given {
    pub flags: Layer,
    /// The environment, by name.
    pub env: Vec<(String, String)>,
    pub directory: PathBuf,
    /// The file of the machine, if not the default one.
    pub system: Option<PathBuf>,
}

impl Given {
    /// The inputs of this process.
    pub fn from_process(flags: Layer) -> Given {
        let env = std::env::vars().filter(|(_, value)| !value.is_empty()).collect();
        Given { flags, env, directory: std::env::current_dir().unwrap_or_default(), system: None }
    }

    fn var(&self, name: &str) -> Option<&str> {
        self.env.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn home(&self, variable: &str, below: &str) -> Option<PathBuf> {
        let absolute = self.var(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute.or_else(|| self.var("HOME").map(|home| Path::new(home).join(below)))?;
        Some(base.join("jobhall"))
    }

    /// Where servers of this user write their records: the first directory that can be used. A server and a command
    /// may be started with different variables, so that a command reads both.
    fn record_directories(&self) -> Vec<PathBuf> {
        let runtime = self.var("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
        let runtime = runtime.map(|path| path.join("jobhall"));
        [runtime, self.home("XDG_STATE_HOME", ".local/state")].into_iter().flatten().collect()
    }
}

/// The settings in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The URL of the server, or why none can be chosen.
    server: Outcome<Setting>,
    /// The running servers of this user.
    pub running: Vec<Record>,
    /// Where a server of this user writes its record.
    pub record_directories: Vec<PathBuf>,
    pub token: Option<Setting>,
    /// The file that the token was read from, if any.
    pub token_file: Option<PathBuf>,
    /// The data directory of a local server.
    pub data: Setting<PathBuf>,
    /// When to use colours: `auto`, `always` or `never`.
    pub color: Setting,
    /// The log level: one of [`file::LEVELS`].
    pub log: Setting,
    /// The log format: `text` or `json`.
    pub log_format: Setting,
    /// The CA that signed the server's certificate, besides those of this machine.
    pub ca: Option<Setting>,
    /// The exact certificate of the server; overrides `ca`.
    pub pin: Option<Setting>,
    /// The TLS certificate of a server on this machine.
    pub tls_cert: Option<Setting>,
    /// The key of that certificate.
    pub tls_key: Option<Setting>,
    /// Host names that a server on this machine answers to.
    pub hosts: Option<Setting<Vec<String>>>,
    /// The database URL of a server on this machine. It may contain a password.
    pub database: Option<Setting>,
    /// The URL of the same database without the pooler.
    pub database_direct: Option<Setting>,
    /// Whether the database is behind a transaction pooler: `true` or `false`.
    pub database_pooled: Option<Setting>,
    /// The URL at which other nodes reach this one.
    pub advertise: Option<Setting>,
    /// The key file of a server on this machine.
    pub key_file: Option<Setting>,
    /// Size of the stored values of queries.
    pub cache_size: Option<Setting>,
    /// Number of stored values of queries.
    pub cache_values: Option<Setting>,
}

/// The layers with their origins, the highest precedence first. The origin of a flag or variable depends on the key.
struct Layers(Vec<(Source, Layer)>);

enum Source {
    Flags,
    Env,
    File(Origin),
}

impl Source {
    fn origin(&self, flag: &'static str, env: &'static str) -> Origin {
        match self {
            Source::Flags => Origin::Flag(flag),
            Source::Env => Origin::Env(env),
            Source::File(origin) => origin.clone(),
        }
    }
}

impl Layers {
    fn read(given: &Given) -> Outcome<Layers> {
        let system = given.system.clone().unwrap_or_else(|| PathBuf::from(SYSTEM));
        let user = given.home("XDG_CONFIG_HOME", ".config").map(|home| home.join("config.toml"));
        let var = |name: &str| given.var(name).map(str::to_owned);
        let env = Layer {
            server: var("JOBHALL_SERVER"),
            token: var("JOBHALL_TOKEN"),
            token_file: var("JOBHALL_TOKEN_FILE"),
            data: var("JOBHALL_DATA"),
            color: var("JOBHALL_COLOR"),
            log: var("JOBHALL_LOG"),
            log_format: var("JOBHALL_LOG_FORMAT"),
            ca: var("JOBHALL_CA"),
            pin: var("JOBHALL_PIN"),
            tls_cert: var("JOBHALL_TLS_CERT"),
            tls_key: var("JOBHALL_TLS_KEY"),
            hosts: var("JOBHALL_HOST"),
            database: var("JOBHALL_DATABASE"),
            database_direct: var("JOBHALL_DATABASE_DIRECT"),
            database_pooled: var("JOBHALL_DATABASE_POOLED"),
            advertise: var("JOBHALL_ADVERTISE"),
            key_file: var("JOBHALL_KEY_FILE"),
            cache_size: var("JOBHALL_CACHE_SIZE"),
            cache_values: var("JOBHALL_CACHE_VALUES"),
        };
        refuse_similar(&given.directory)?;
        let project = project::find(&given.directory).map(Origin::Project);
        let files = [project, user.map(Origin::User), Some(Origin::System(system))];
        let mut layers = vec![(Source::Flags, given.flags.clone()), (Source::Env, env)];
        for origin in files.into_iter().flatten() {
            let layer = match &origin {
                Origin::Project(path) => file::read_project(path)?,
                Origin::User(path) | Origin::System(path) => file::read(path)?,
                _ => continue,
            };
            layers.push((Source::File(origin), layer));
        }
        Ok(Layers(layers))
    }

    fn first(
        &self,
        flag: &'static str,
        env: &'static str,
        of: impl Fn(&Layer) -> &Option<String>,
    ) -> Option<Setting> {
        let found = |(source, layer): &(Source, Layer)| {
            Some(Setting { value: of(layer).clone()?, origin: source.origin(flag, env) })
        };
        self.0.iter().find_map(found)
    }

    /// Within one layer the token has precedence over the token file.
    fn token(&self) -> Outcome<Option<Setting>> {
        for (source, layer) in &self.0 {
            if let Some(token) = &layer.token {
                let origin = source.origin("--token", "JOBHALL_TOKEN");
                return Ok(Some(Setting { value: token.trim().to_owned(), origin }));
            }
            if let Some(path) = &layer.token_file {
                let origin = source.origin("--token-file", "JOBHALL_TOKEN_FILE");
                return Ok(Some(Setting { value: read_token(Path::new(path))?, origin }));
            }
        }
        Ok(None)
    }
}

impl Layers {
    fn token_file(&self) -> Option<PathBuf> {
        let has_token = |layer: &Layer| layer.token.is_some() || layer.token_file.is_some();
        let (source, layer) = self.0.iter().find(|(_, layer)| has_token(layer))?;
        let path = match (source, &layer.token, &layer.token_file) {
            (_, None, Some(path)) => PathBuf::from(path),
            (Source::File(Origin::Project(path) | Origin::User(path) | Origin::System(path)), ..) => {
                path.clone()
            }
            _ => return None,
        };
        // Not a pipe, which can be read only once.
        path.is_file().then_some(path)
    }
}

impl Settings {
    /// Resolves the settings from all layers.
    pub fn resolve(given: &Given) -> Outcome<Settings> {
        let layers = Layers::read(given)?;
        let default = |value: &str| Setting { value: value.to_owned(), origin: Origin::Default };
        let data = match layers.first("--data", "JOBHALL_DATA", |layer| &layer.data) {
            Some(found) => Setting { value: PathBuf::from(found.value), origin: found.origin },
            None => Setting { value: default_data(given)?, origin: Origin::Default },
        };
        let record_directories = given.record_directories();
        let running = running::servers(&record_directories);
        let server = layers.first("--server", "JOBHALL_SERVER", |layer| &layer.server);
        let server = find::choose(server, &data, &running);
        let color = layers.first("--color", "JOBHALL_COLOR", |layer| &layer.color);
        let color = checked("color", color.unwrap_or_else(|| default("auto")))?;
        let log = layers.first("--log", "JOBHALL_LOG", |layer| &layer.log);
        let log = checked("log", log.unwrap_or_else(|| default("warn")))?;
        let log_format = layers.first("--log-format", "JOBHALL_LOG_FORMAT", |layer| &layer.log_format);
        let log_format = checked("log_format", log_format.unwrap_or_else(|| default("text")))?;
        let ca = layers.first("--ca", "JOBHALL_CA", |layer| &layer.ca);
        let mut pin = layers.first("JOBHALL_PIN", "JOBHALL_PIN", |layer| &layer.pin);
        let mut token = layers.token()?;
        if let Ok(server) = &server {
            token = match token {
                Some(token) => Some(guarded(server, token)?),
                None => find::local_token(server, &data.value, &running),
            };
            confirmed(server, ca.as_ref())?;
            confirmed(server, pin.as_ref())?;
            if ca.is_none() && pin.is_none() {
                pin = find::certificate(server, &running);
            }
        }
        let tls_cert = layers.first("--tls-cert", "JOBHALL_TLS_CERT", |layer| &layer.tls_cert);
        let tls_key = layers.first("--tls-key", "JOBHALL_TLS_KEY", |layer| &layer.tls_key);
        let hosts = layers.first("--host", "JOBHALL_HOST", |layer| &layer.hosts).map(named).transpose()?;
        let text = |key, flag, env, of: fn(&Layer) -> &Option<String>| {
            layers.first(flag, env, of).map(|found| checked(key, found)).transpose()
        };
        let database = text("database", "--database", "JOBHALL_DATABASE", |layer| &layer.database)?;
        let direct = ("--database-direct", "JOBHALL_DATABASE_DIRECT");
        let database_direct = text("database", direct.0, direct.1, |layer| &layer.database_direct)?;
        let pooled = ("--database-pooled", "JOBHALL_DATABASE_POOLED");
        let database_pooled = text("database_pooled", pooled.0, pooled.1, |layer| &layer.database_pooled)?;
        let advertise = layers.first("--advertise", "JOBHALL_ADVERTISE", |layer| &layer.advertise);
        let key_file = layers.first("--key-file", "JOBHALL_KEY_FILE", |layer| &layer.key_file);
        let size = ("--cache-size", "JOBHALL_CACHE_SIZE");
        let cache_size = text("cache_size", size.0, size.1, |layer| &layer.cache_size)?;
        let values = ("--cache-values", "JOBHALL_CACHE_VALUES");
        let cache_values = text("cache_values", values.0, values.1, |layer| &layer.cache_values)?;
        Ok(Settings {
            server,
            running,
            record_directories,
            token,
            token_file: layers.token_file(),
            data,
            color,
            log,
            log_format,
            ca,
            pin,
            tls_cert,
            tls_key,
            hosts,
            database,
            database_direct,
            database_pooled,
            advertise,
            key_file,
            cache_size,
            cache_values,
        })
    }

    /// These settings for a server on this data directory.
    pub fn at(&self, url: &str, token: &str, data: &Path) -> Settings {
        let setting =
            |value: &str| Setting { value: value.to_owned(), origin: Origin::Running(data.to_owned()) };
        Settings {
            server: Ok(setting(url)),
            token: Some(setting(token)),
            ca: None,
            pin: None,
            ..self.clone()
        }
    }

    /// The URL of the server.
    pub fn server(&self) -> Outcome<&Setting> {
        self.server.as_ref().map_err(Clone::clone)
    }

    /// Which server certificates are trusted.
    pub fn trust(&self) -> Trust {
        // Absolute, because a worker passes the path to its jobs, which run in other directories.
        let path = |setting: &Setting| {
            std::path::absolute(&setting.value).unwrap_or_else(|_| (&setting.value).into())
        };
        match (&self.pin, &self.ca) {
            (Some(pin), _) => Trust::Certificate(path(pin)),
            (None, Some(ca)) => Trust::Authority(path(ca)),
            (None, None) => Trust::System,
        }
    }
}

/// Validates a variable; flags and files are validated where they are read.
fn checked(key: &str, setting: Setting) -> Outcome<Setting> {
    file::check(key, &setting.value, &setting.origin.to_string())?;
    Ok(setting)
}

fn named(setting: Setting) -> Outcome<Setting<Vec<String>>> {
    let Setting { value, origin } = setting;
    let value = hosts::names(&value).map_err(|why| Failure::usage(format!("{origin}: hosts: {why}")))?;
    Ok(Setting { value, origin })
}

fn default_data(given: &Given) -> Outcome<PathBuf> {
    given.home("XDG_DATA_HOME", ".local/share").ok_or_else(|| {
        Failure::usage("no data directory is known").why("HOME is not set").fix("set one with --data DIR")
    })
}

fn refuse_similar(directory: &Path) -> Outcome<()> {
    let path = directory.join(SIMILAR);
    if !path.is_file() {
        return Ok(());
    }
    Err(Failure::usage(format!("{} is not read", path.display()))
        .why(format!("the settings of a repository are in the table [client] of {}", project::NAME))
        .fix(format!("move its keys there, and remove {SIMILAR}")))
}

/// A checked-out `.jobhall.toml` is not trusted: it must not send the user's token to a host of its choice.
fn guarded(server: &Setting, token: Setting) -> Outcome<Setting> {
    let foreign = matches!(server.origin, Origin::Project(_)) && !is_loopback(&server.value);
    if foreign && matches!(token.origin, Origin::User(_) | Origin::System(_)) {
        return Err(Failure::usage(format!("the token of {} is not sent to {}", token.origin, server.value))
            .why(format!("that address comes from {}, which may come from someone else", server.origin))
            .fix("give the token of that server with JOBHALL_TOKEN, or the address with --server"));
    }
    Ok(token)
}

/// Nor may it choose the trusted certificate for a server that was configured elsewhere.
fn confirmed(server: &Setting, certificate: Option<&Setting>) -> Outcome<()> {
    let Some(certificate) = certificate else { return Ok(()) };
    let of_project = |setting: &Setting| matches!(setting.origin, Origin::Project(_));
    if server.value.contains("https") && of_project(certificate) && !of_project(server) {
        let what = format!("the certificate of {} is not trusted for {}", certificate.origin, server.value);
        return Err(Failure::usage(what)
            .why(format!(
                "that address comes from {}, and the certificate may come from someone else",
                server.origin
            ))
            .fix("give the certificate with --ca FILE or JOBHALL_CA"));
    }
    Ok(())
}

/// Whether a URL is on this machine; of several, whether all are.
pub fn is_loopback(server: &str) -> bool {
    server.split(',').all(|one| is_here(one.trim()))
}

fn is_here(server: &str) -> bool {
    let authority = server.split_once("://").map_or(server, |(_, rest)| rest);
    let authority = authority.split(['/', '\\', '?', '#']).next().unwrap_or("");
    let authority = authority.rsplit('@').next().unwrap_or("");
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(""),
        None => authority.split(':').next().unwrap_or(""),
    };
    host == "localhost" || host.parse().is_ok_and(|host: std::net::IpAddr| host.is_loopback())
}

/// Reads a token from a file.
pub fn read_token(path: &Path) -> Outcome<String> {
    let mut text = String::new();
    // Only the first line: a worker's token comes through a pipe that stays open.
    let read = File::open(path).and_then(|file| BufReader::new(file.take(TOKEN_BYTES)).read_line(&mut text));
    read.map_err(|error| {
        Failure::usage(format!("failed to read the token in {}", path.display())).why(error.to_string())
    })?;
    let token = text.trim();
    if token.is_empty() {
        return Err(Failure::usage(format!("{} contains no token", path.display())));
    }
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests;
