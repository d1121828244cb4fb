//! The TLS options of the URL are applied.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

mod fixture;

use std::path::Path;

use fixture::{Database, Options};
use jobhall_throwaway::Cluster;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// A certificate authority, and a certificate for this name signed by it.
fn certified(name: &str) -> (String, String, String) {
    let authority_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(params, authority_key);
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    (authority.pem(), own.pem(), key.serialize_pem())
}

fn speaks_tls(cluster: &Cluster, host: &str, query: &str) -> Result<bool, String> {
    let url = format!("postgres://jobhall@{host}:{}/postgres{query}", cluster.port());
    let database = Database::open(Options::new(url)).map_err(|error| error.message)?;
    let tls = "SELECT bool_or(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'jobhall'";
    // The query leaves a connection of the pool open.
    fixture::wait(database.nodes()).unwrap();
    Ok(cluster.sql("postgres", tls) == "t")
}

fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().replace('/', "%2F")
}

#[test]
fn a_connection_is_encrypted_and_the_server_checked_as_the_url_says() {
    let (authority, certificate, key) = certified("localhost");
    let (stranger, ..) = certified("localhost");
    let cluster = Cluster::with_tls(&certificate, &key);
    // The cluster accepts every local connection.
    let folder = tempfile::tempdir().unwrap();
    let root = file(folder.path(), "root.pem", &authority);
    let other = file(folder.path(), "other.pem", &stranger);
    let empty = file(folder.path(), "empty.pem", "");
    assert_eq!(speaks_tls(&cluster, "127.0.0.1", "?sslmode=disable"), Ok(false));
    assert_eq!(speaks_tls(&cluster, "127.0.0.1", ""), Ok(true), "prefer is the default");
    assert_eq!(speaks_tls(&cluster, "127.0.0.1", "?sslmode=require"), Ok(true));
    let full = |root: &str| format!("?sslmode=verify-full&sslrootcert={root}&connect_timeout=20");
    assert_eq!(speaks_tls(&cluster, "localhost", &full(&root)), Ok(true));
    for (host, query, part) in [
        ("127.0.0.1", full(&root), "not valid for name"),
        ("localhost", full(&other), "invalid peer certificate"),
        ("localhost", format!("?sslmode=require&sslrootcert={other}"), "invalid peer certificate"),
        ("localhost", "?sslmode=verify-full&sslrootcert=system".to_owned(), "invalid peer certificate"),
        ("localhost", full(&empty), "sslrootcert has no certificate"),
    ] {
        let refused = speaks_tls(&cluster, host, &query).unwrap_err();
        assert!(refused.contains(part), "{host}{query}: {refused}");
    }
}

#[test]
fn a_server_without_tls_is_refused_where_tls_is_required() {
    let (_, certificate, key) = certified("localhost");
    let cluster = Cluster::with_tls(&certificate, &key);
    cluster.sql("postgres", "ALTER SYSTEM SET ssl = off");
    cluster.sql("postgres", "SELECT pg_reload_conf()");
    fixture::wait_until("TLS to be off", || cluster.sql("postgres", "SHOW ssl") == "off");
    assert_eq!(speaks_tls(&cluster, "127.0.0.1", ""), Ok(false), "prefer takes what there is");
    let refused = speaks_tls(&cluster, "127.0.0.1", "?sslmode=require").unwrap_err();
    assert!(refused.contains("TLS"), "{refused}");
}
