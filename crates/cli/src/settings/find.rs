//! Which server a command uses if none is named, and to which one the local token is sent.

use std::path::Path;

use super::{DEFAULT_SERVER, Origin, Setting, read_token};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::running::{self, Record};

/// The server that was named. One that a file names comes after the data directory of the command line or environment:
/// who names a data directory for one command means the server on it.
pub fn choose(
    named: Option<Setting>,
    data: &Setting<std::path::PathBuf>,
    running: &[Record],
) -> Outcome<Setting> {
    match named {
        Some(named) if is_of_command(&named.origin) || !is_of_command(&data.origin) => Ok(named),
        _ => server(data, running),
    }
}

/// Whether a value was given for this command, not in a file.
fn is_of_command(origin: &Origin) -> bool {
    matches!(origin, Origin::Flag(_) | Origin::Env(_))
}

/// The server on the data directory that was named, or the one running server of this user, or the default address.
fn server(data: &Setting<std::path::PathBuf>, running: &[Record]) -> Outcome<Setting> {
    if data.origin != Origin::Default {
        if let Some(record) = running::in_data(&data.value) {
            return Ok(setting(&record));
        }
        // A file names the data directory for the server; its user's commands may be for another one.
        if is_of_command(&data.origin) {
            return Err(not_in(&data.value));
        }
    }
    match running {
        [] => Ok(Setting { value: DEFAULT_SERVER.to_owned(), origin: Origin::Default }),
        [record] => Ok(setting(record)),
        several => Err(ambiguous(several)),
    }
}

fn setting(record: &Record) -> Setting {
    Setting { value: record.url.clone(), origin: Origin::Running(record.data.clone()) }
}

fn not_in(data: &Path) -> Failure {
    let data = data.display();
    Failure::new(Exit::Unreachable, format!("no server is running on the data directory {data}"))
        .why(format!("{data}/server.json is missing, cannot be read, or belongs to another user"))
        .fix(format!("start one with `jobhall up --data {data}`, or name one with --server URL"))
}

fn ambiguous(several: &[Record]) -> Failure {
    let one =
        |record: &Record| format!("{} (data {}, pid {})", record.url, record.data.display(), record.pid);
    let list: Vec<_> = several.iter().map(one).collect();
    Failure::usage("several servers are running, and none is named")
        .why(list.join(", "))
        .fix("name one with --server URL, JOBHALL_SERVER or --data DIR")
}

/// The administrator's token of a local server, but only if this server wrote its address beside the token.
pub fn local_token(server: &Setting, data: &Path, running: &[Record]) -> Option<Setting> {
    let of_record = match &server.origin {
        Origin::Running(data) => Some(data.as_path()),
        _ => None,
    };
    let of_running = running.iter().map(|record| record.data.as_path());
    of_record.into_iter().chain([data]).chain(of_running).find_map(|data| token_in(data, &server.value))
}

fn token_in(data: &Path, server: &str) -> Option<Setting> {
    let record = running::in_data(data)?;
    let path = data.join("admin.token");
    // Root reads the files of every user: the user who wrote the address must be the one who has the token.
    let same_owner = running::owner(&path) == running::record_owner(data);
    if !same_owner || !is_same(&record.url, server) {
        return None;
    }
    Some(Setting { value: read_token(&path).ok()?, origin: Origin::Local(path) })
}

fn is_same(a: &str, b: &str) -> bool {
    a.trim_end_matches('/') == b.trim_end_matches('/')
}

/// The certificate of a running server that was found by its record.
pub fn certificate(server: &Setting, running: &[Record]) -> Option<Setting> {
    let Origin::Running(data) = &server.origin else { return None };
    let of_running =
        running.iter().find(|record| record.data == *data && record.url == server.value).cloned();
    let record = of_running.or_else(|| running::in_data(data))?;
    let value = record.certificate?.to_str()?.to_owned();
    Some(Setting { value, origin: server.origin.clone() })
}
