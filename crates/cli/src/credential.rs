//! A worker's credential: obtained once with a join token, then stored in a file that only its owner can read.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use jobhall_client::{Client, ClientError};
use jobhall_protocol::{Code, Renewals};

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

/// The file of this worker's credential for this server.
fn place(state: &Path, server: &str, name: &str) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let server: String = server.trim_end_matches('/').chars().map(plain).collect();
    state.join(format!("{name}@{server}.token"))
}

/// The client of a worker: with its stored credential, or with a new one from its join token.
pub async fn client(context: &Context, join: Option<&str>, state: &Path, name: &str) -> Outcome<Client> {
    let server = &context.settings.server()?.value;
    let path = place(state, server, name);
    let trust = || context.settings.trust();
    let kept = read(&path)?;
    if let Some(token) = &kept {
        let client = Client::trusting(server, Some(token), trust())?;
        // Without a join token there is no other credential.
        if join.is_none() || !is_refused(&client).await? {
            context.output.detail(&format!("credential: {}", path.display()));
            return Ok(client);
        }
    }
    let Some(join) = join else { return context.client() };
    let made = Client::trusting(server, Some(join), trust())?.join(name).await.map_err(not_joined)?;
    write(&path, &made.secret).map_err(|error| {
        Failure::new(Exit::Unexpected, format!("failed to store the credential in {}", path.display()))
            .why(error.to_string())
    })?;
    context.output.say(&format!("joined as {name}; the credential is stored in {}", path.display()));
    Ok(Client::trusting(server, Some(&made.secret), trust())?)
}

/// A join token that is no longer valid is named as such; the server does not know it any more.
fn not_joined(error: ClientError) -> Failure {
    let spent = |code| code == Code::Unauthorized || named(code) == "join_token_spent";
    if error.code().is_some_and(spent) {
        return Failure::new(Exit::Auth, "this join token was used or has expired")
            .why(error.to_string())
            .fix("make another with `jobhall token create --join`");
    }
    error.into()
}

/// The name of a code on the wire.
fn named(code: Code) -> String {
    let name = serde_json::to_value(code).ok();
    name.and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Whether the server refuses this credential.
async fn is_refused(client: &Client) -> Outcome<bool> {
    match client.renew(&Renewals { attempts: Vec::new() }).await {
        Ok(_) => Ok(false),
        Err(error) if error.code() == Some(Code::Unauthorized) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

fn read(path: &Path) -> Outcome<Option<String>> {
    let failed = |why: String| Failure::usage(format!("failed to use {}", path.display())).why(why);
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error.to_string())),
    };
    let mode = fs::metadata(path).map_err(|error| failed(error.to_string()))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(failed("users other than its owner can read it".to_owned()).fix("make it mode 600"));
    }
    Ok(Some(text.trim().to_owned()))
}

/// Writes a temporary file and renames it, so that a crash leaves no partial credential.
fn write(path: &Path, token: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let _ = fs::remove_file(&beside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    writeln!(file, "{token}")?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_private_and_one_of_each_hall_and_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = place(&folder.path().join("new"), "https://hall:7450/", "gpu-1");
        assert!(path.ends_with("gpu-1@https---hall-7450.token"));
        assert_eq!(read(&path).unwrap(), None);
        write(&path, "jh_x").unwrap();
        write(&path, "jh_y").unwrap();
        assert_eq!(read(&path).unwrap().as_deref(), Some("jh_y"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(read(&path).unwrap_err().exit, Exit::Usage);
    }
}
