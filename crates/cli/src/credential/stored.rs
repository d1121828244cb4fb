//! The files of credentials: one per hall and name of a worker, readable by their owner only.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Outcome};

/// Number of digits of a hall's identity.
const HALL_DIGITS: usize = 32;
/// Addresses that are recorded of one hall; the oldest are forgotten.
const SERVERS: usize = 100;

/// What a file contains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credential {
    /// The identity of the hall that the token is for.
    pub hall: String,
    /// The addresses that the token may be sent to.
    pub servers: Vec<String>,
    pub token: String,
}

impl Credential {
    /// Whether it was used at one of these addresses.
    pub fn knows_any(&self, addresses: &[String]) -> bool {
        addresses.iter().any(|address| self.servers.contains(address))
    }

    /// The first of these addresses at which it was not used.
    pub fn unknown<'a>(&self, addresses: &'a [String]) -> Option<&'a String> {
        addresses.iter().find(|address| !self.servers.contains(*address))
    }

    /// Records these addresses too.
    pub fn learn(&mut self, addresses: &[String]) {
        let new: Vec<_> =
            addresses.iter().filter(|address| !self.servers.contains(*address)).cloned().collect();
        self.servers.extend(new);
        let excess = self.servers.len().saturating_sub(SERVERS);
        self.servers.drain(..excess);
    }

    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        write(path, &serde_json::to_string(self)?)
    }
}

/// A credential and its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub path: PathBuf,
    pub credential: Credential,
}

/// The addresses of a server setting.
pub fn addresses(server: &str) -> Vec<String> {
    let one = |address: &str| address.trim().trim_end_matches('/').to_owned();
    server.split(',').map(one).filter(|address| !address.is_empty()).collect()
}

/// Whether this is the identity of a hall. It becomes part of a file's name.
pub fn is_hall(hall: &str) -> bool {
    hall.len() == HALL_DIGITS
        && hall.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// The file of this worker's credential for this hall.
pub fn place(state: &Path, hall: &str, name: &str) -> PathBuf {
    state.join(format!("{name}@{hall}.token"))
}

/// The file that earlier versions wrote: it is named after the address and contains only the token.
pub fn place_by_address(state: &Path, server: &str, name: &str) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let server: String = server.trim_end_matches('/').chars().map(plain).collect();
    state.join(format!("{name}@{server}.token"))
}

/// The credentials of this worker, the newest first.
pub fn of_worker(state: &Path, name: &str) -> Outcome<Vec<Stored>> {
    let failed = |error: std::io::Error| {
        Failure::usage(format!("failed to read {}", state.display())).why(error.to_string())
    };
    let entries = match fs::read_dir(state) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(failed(error)),
    };
    let mut found: Vec<(SystemTime, Stored)> = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let file = entry.file_name();
        let hall = file.to_str().and_then(|file| file.strip_prefix(name)?.strip_prefix('@'));
        if !hall.and_then(|hall| hall.strip_suffix(".token")).is_some_and(is_hall) {
            continue;
        }
        let path = entry.path();
        let Some(text) = read(&path)? else { continue };
        let credential = serde_json::from_str(&text).map_err(|error| {
            Failure::usage(format!("failed to use {}", path.display()))
                .why(error.to_string())
                .fix("remove the file and join again with --join TOKEN")
        })?;
        let written = entry.metadata().and_then(|about| about.modified()).map_err(failed)?;
        found.push((written, Stored { path, credential }));
    }
    found.sort_by(|a, b| (b.0, &b.1.path).cmp(&(a.0, &a.1.path)));
    Ok(found.into_iter().map(|(_, stored)| stored).collect())
}

/// The content of a file; none if it does not exist.
pub fn read(path: &Path) -> Outcome<Option<String>> {
    let failed = |why: String| Failure::usage(format!("failed to use {}", path.display())).why(why);
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(failed(error.to_string())),
    };
    let mode = fs::metadata(path).map_err(|error| failed(error.to_string()))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(failed("users other than its owner can read it".to_owned()).fix("make it mode 600"));
    }
    Ok(Some(text.trim().to_owned()))
}

/// Writes a temporary file and renames it, so that a crash leaves no partial credential.
pub fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let _ = fs::remove_file(&beside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    const HALL: &str = "0123456789abcdef0123456789abcdef";

    fn credential(servers: &str) -> Credential {
        Credential { hall: HALL.to_owned(), servers: addresses(servers), token: "jh_x".to_owned() }
    }

    #[test]
    fn a_credential_is_private_and_one_of_each_hall_and_name() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("new");
        assert_eq!(of_worker(&state, "gpu-1").unwrap(), []);
        let path = place(&state, HALL, "gpu-1");
        credential("http://a").write(&path).unwrap();
        let newer = Credential { token: "jh_y".to_owned(), ..credential("http://a") };
        newer.write(&path).unwrap();
        credential("http://a").write(&place(&state, HALL, "gpu-10")).unwrap();
        assert_eq!(of_worker(&state, "gpu-1").unwrap(), [Stored { path: path.clone(), credential: newer }]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(of_worker(&state, "gpu-1").unwrap_err().exit, Exit::Usage);
    }

    #[test]
    fn addresses_are_compared_one_by_one() {
        let mut known = credential("http://a/, http://b");
        assert!(known.knows_any(&addresses("http://c,http://b/")));
        assert!(!known.knows_any(&addresses("http://c")));
        assert_eq!(known.unknown(&addresses("http://a,http://c")).unwrap(), "http://c");
        known.learn(&addresses("http://c,http://a"));
        assert_eq!(known.servers, ["http://a", "http://b", "http://c"]);
    }

    #[test]
    fn files_of_earlier_versions_are_named_by_address() {
        let folder = tempfile::tempdir().unwrap();
        let path = place_by_address(folder.path(), "https://hall:7450/", "gpu-1");
        assert!(path.ends_with("gpu-1@https---hall-7450.token"));
        write(&path, "jh_x").unwrap();
        assert_eq!(of_worker(folder.path(), "gpu-1").unwrap(), []);
        assert_eq!(read(&path).unwrap().as_deref(), Some("jh_x"));
    }

    #[test]
    fn a_hall_cannot_choose_the_path_of_a_file() {
        assert!(is_hall(HALL));
        for bad in ["", "../../../../../../../../../etc/pass", &HALL[1..], &HALL.to_uppercase()] {
            assert!(!is_hall(bad), "{bad}");
        }
    }
}
