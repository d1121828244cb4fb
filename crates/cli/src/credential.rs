//! A worker's credential: obtained once with a join token, then stored under the identity of the hall, so that it is
//! found again when the addresses of the hall change.

mod stored;

use std::path::{Path, PathBuf};

use jobhall_client::{Client, ClientError};
use jobhall_protocol::{Code, CreatedToken, Renewals};

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::settings::{Origin, Setting};
use stored::{Credential, Stored};

/// The client of a worker: with its stored credential, or with a new one from its join token.
pub async fn client(context: &Context, join: Option<&str>, state: &Path, name: &str) -> Outcome<Client> {
    let server = context.settings.server()?;
    let known = stored::of_worker(state, name)?;
    let kept = find(&known, server)?;
    let old = stored::place_by_address(state, &server.value, name);
    let (path, token) = match kept {
        Some(kept) => (kept.path.clone(), Some(kept.credential.token.clone())),
        None => (old.clone(), stored::read(&old)?),
    };
    if let Some(token) = &token {
        let client = Client::trusting(&server.value, Some(token), context.settings.trust())?;
        // Without a join token there is no other credential.
        if join.is_none() || !is_refused(&client).await? {
            context.output.detail(&format!("credential: {}", path.display()));
            learn(context, kept, server);
            return Ok(client);
        }
    }
    let Some(join) = join else {
        return match known.is_empty() || context.settings.token.is_some() {
            true => context.client(),
            false => Err(elsewhere(name, server, &known)),
        };
    };
    let joining = Client::trusting(&server.value, Some(join), context.settings.trust())?;
    let made = joining.join(name).await.map_err(not_joined)?;
    let path = keep(state, name, server, &made)?;
    context.output.say(&format!("joined as {name}; the credential is stored in {}", path.display()));
    Ok(Client::trusting(&server.value, Some(&made.secret), context.settings.trust())?)
}

/// The newest credential that was used at one of these addresses. A checked-out `.jobhall.toml` is not trusted: it must
/// not send the credential to an address at which it was not used.
fn find<'a>(known: &'a [Stored], server: &Setting) -> Outcome<Option<&'a Stored>> {
    let addresses = stored::addresses(&server.value);
    let Some(kept) = known.iter().find(|stored| stored.credential.knows_any(&addresses)) else {
        return Ok(None);
    };
    match kept.credential.unknown(&addresses) {
        Some(address) if matches!(server.origin, Origin::Project(_)) => {
            Err(Failure::usage(format!("the credential in {} is not sent to {address}", kept.path.display()))
                .why(format!("that address comes from {}, which may come from someone else", server.origin))
                .fix("give the addresses with --server or JOBHALL_SERVER"))
        }
        _ => Ok(Some(kept)),
    }
}

/// Records the addresses that are new.
fn learn(context: &Context, kept: Option<&Stored>, server: &Setting) {
    let addresses = stored::addresses(&server.value);
    let Some(kept) = kept.filter(|kept| kept.credential.unknown(&addresses).is_some()) else { return };
    let mut credential = kept.credential.clone();
    credential.learn(&addresses);
    if let Err(error) = credential.write(&kept.path) {
        let path = kept.path.display();
        context.output.say(&format!("note: failed to record the server's addresses in {path}: {error}"));
    }
}

/// Stores a new credential; returns its file. It replaces the one of the same hall.
fn keep(state: &Path, name: &str, server: &Setting, made: &CreatedToken) -> Outcome<PathBuf> {
    let (path, written) = match made.hall.as_deref().filter(|hall| stored::is_hall(hall)) {
        Some(hall) => {
            let path = stored::place(state, hall, name);
            // Only the addresses of this join: any server can claim to be this hall.
            let servers = stored::addresses(&server.value);
            let credential = Credential { hall: hall.to_owned(), servers, token: made.secret.clone() };
            let written = credential.write(&path);
            (path, written)
        }
        // A server of an earlier version has no identity.
        None => {
            let path = stored::place_by_address(state, &server.value, name);
            let written = stored::write(&path, &made.secret);
            (path, written)
        }
    };
    written.map_err(|error| {
        Failure::new(Exit::Unexpected, format!("failed to store the credential in {}", path.display()))
            .why(error.to_string())
    })?;
    Ok(path)
}

/// The worker has credentials, but none that was used at one of these addresses.
fn elsewhere(name: &str, server: &Setting, known: &[Stored]) -> Failure {
    let halls: Vec<_> = known.iter().map(|stored| stored.credential.servers.join(",")).collect();
    Failure::new(Exit::Auth, format!("worker {name} has no credential for {}", server.value))
        .why(format!("it joined at {}", halls.join(" and at ")))
        .fix(format!(
            "if this is another address of that server, name both once: --server {},{}; else join with --join TOKEN",
            halls.first().map_or("", String::as_str),
            server.value
        ))
}

/// The server removes join tokens that were used or have expired, so it cannot say which of these is the case.
fn not_joined(error: ClientError) -> Failure {
    if error.code() == Some(Code::Unauthorized) {
        return Failure::new(
            Exit::Auth,
            "this join token is not valid: it was used, has expired or never existed",
        )
        .why(error.to_string())
        .fix("make another with `jobhall token create --join`");
    }
    error.into()
}

/// Whether the server refuses this credential.
async fn is_refused(client: &Client) -> Outcome<bool> {
    match client.renew(&Renewals { attempts: Vec::new() }).await {
        Ok(_) => Ok(false),
        Err(error) if error.code() == Some(Code::Unauthorized) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(servers: &str) -> Stored {
        let servers = stored::addresses(servers);
        Stored {
            path: PathBuf::from("/state/w.token"),
            credential: Credential { hall: "0".repeat(32), servers, token: "jh_secret".to_owned() },
        }
    }

    fn server(value: &str, origin: Origin) -> Setting {
        Setting { value: value.to_owned(), origin }
    }

    #[test]
    fn the_newest_credential_with_a_common_address_is_used() {
        let known = [known("http://a"), known("http://b,http://c"), known("http://c")];
        let flag = |value: &str| server(value, Origin::Flag("--server"));
        assert_eq!(find(&known, &flag("http://d,http://c/")).unwrap(), Some(&known[1]));
        assert_eq!(find(&known, &flag("http://d")).unwrap(), None);
    }

    #[test]
    fn a_project_file_cannot_lead_the_credential_to_another_address() {
        let known = [known("http://a,http://b")];
        let project = |value: &str| server(value, Origin::Project("/work/.jobhall.toml".into()));
        assert_eq!(find(&known, &project("http://b")).unwrap(), Some(&known[0]));
        let failure = find(&known, &project("http://b,http://evil")).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.what.ends_with("is not sent to http://evil"), "{failure}");
        assert!(!failure.to_string().contains("jh_secret"));
    }

    #[test]
    fn the_known_addresses_are_named_if_none_of_them_is_given() {
        let at = server("http://c", Origin::Flag("--server"));
        let failure = elsewhere("gpu-1", &at, &[known("http://a,http://b")]);
        assert_eq!(failure.exit, Exit::Auth);
        assert!(failure.fix.unwrap().contains("--server http://a,http://b,http://c"));
    }
}
