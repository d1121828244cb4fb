use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jobhall_server::{Running, Server, Tls};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject as _};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

use crate::server::{Reply, TestServer};

pub fn certify(dir: &Path, name: &str) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(dir.join(format!("{name}.crt")), made.cert.pem()).unwrap();
    let key = dir.join(format!("{name}.key"));
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// A second server of the hall, with TLS.
async fn serve(hall: &TestServer, files: &TempDir, address: &str) -> Running {
    let blobs = jobhall_blobs::Blobs::open(&files.path().join("blobs")).unwrap();
    let tls = Tls::read(&files.path().join("a.crt"), &files.path().join("a.key")).unwrap();
    let listener = TcpListener::bind(address).await.unwrap();
    let listen = jobhall_server::Listen { tls: Some(tls), ..Default::default() };
    Server::serve(listener, listen, hall.options(blobs)).unwrap()
}

async fn get(running: &Running, files: &TempDir, version: &'static SupportedProtocolVersion) -> Reply {
    get_path(running, files, version, "/livez").await
}

async fn get_path(
    running: &Running,
    files: &TempDir,
    version: &'static SupportedProtocolVersion,
    path: &str,
) -> Reply {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(files.path().join("a.crt")).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let stream = TcpStream::connect(("127.0.0.1", running.address.port())).await.unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let mut stream = connector.connect("localhost".try_into().unwrap(), stream).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    Reply::parse(&bytes)
}

/// Reads until the server closes the connection.
async fn answer(running: &Running, said: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(said).await.unwrap();
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(40), stream.read_to_end(&mut bytes)).await;
    // The server may close with unread bytes, which is a reset; that also ends the connection.
    let _ = read.expect("an end");
    bytes
}

/// The hello of a client that supports only TLS 1.0 or 1.1.
fn old_hello(minor: u8) -> Vec<u8> {
    let mut body = vec![3, minor];
    body.extend([7; 32]);
    // No session; two old cipher suites and one that TLS 1.2 also has; no compression; no extensions.
    body.extend([0, 0, 6, 0xc0, 0x13, 0xc0, 0x14, 0xc0, 0x2f, 1, 0]);
    let length = u8::try_from(body.len()).unwrap();
    let mut hello = vec![22, 3, 1, 0, length + 4, 1, 0, 0, length];
    hello.extend(body);
    hello
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_answered_over_tls_and_over_nothing_older_than_1_2() {
    let (hall, files) = (TestServer::start().await, tempfile::tempdir().unwrap());
    certify(files.path(), "a");
    let running = serve(&hall, &files, "127.0.0.1:0").await;
    for version in [&TLS12, &TLS13] {
        assert_eq!(get(&running, &files, version).await.status, 200, "{version:?}");
    }
    for minor in [1, 2] {
        let answer = answer(&running, &old_hello(minor)).await;
        assert_eq!(answer.first(), Some(&21), "an alert, no handshake: {answer:?}");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_speaks_in_the_clear_or_says_nothing_to_a_hall_with_tls_is_shown_out() {
    let (hall, files) = (TestServer::start().await, tempfile::tempdir().unwrap());
    certify(files.path(), "a");
    let running = serve(&hall, &files, "127.0.0.1:0").await;
    let clear = answer(&running, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(!String::from_utf8_lossy(&clear).contains("HTTP/1.1"), "{clear:?}");
    assert!(answer(&running, b"").await.is_empty());
    assert_eq!(get(&running, &files, &TLS13).await.status, 200);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cookie_of_a_browser_that_came_over_tls_stays_on_tls() {
    let (hall, files) = (TestServer::start().await, tempfile::tempdir().unwrap());
    certify(files.path(), "a");
    let running = serve(&hall, &files, "127.0.0.1:0").await;
    let path = format!("/?code={}", hall.tokens.code());
    let entered = get_path(&running, &files, &TLS13, &path).await;
    assert_eq!(entered.status, 303);
    assert!(entered.header("set-cookie").unwrap().ends_with("; Secure"), "{entered:?}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_tls_other_machines_are_served() {
    let (hall, files) = (TestServer::start().await, tempfile::tempdir().unwrap());
    certify(files.path(), "a");
    let running = serve(&hall, &files, "0.0.0.0:0").await;
    assert_eq!(get(&running, &files, &TLS13).await.status, 200);
    running.stop().await;
}

#[test]
fn keys_that_are_open_and_pairs_that_do_not_fit_are_refused() {
    let files = tempfile::tempdir().unwrap();
    certify(files.path(), "a");
    certify(files.path(), "b");
    let read = |certificate: &str, key: &str| {
        let read = Tls::read(&files.path().join(certificate), &files.path().join(key));
        read.map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(read("a.crt", "a.key"), Ok(()));
    assert!(read("a.crt", "b.key").unwrap_err().contains("b.key"));
    assert!(read("a.key", "a.key").unwrap_err().contains("no certificate"));
    assert!(read("a.crt", "a.crt").is_err());
    assert!(read("gone.crt", "a.key").unwrap_err().contains("gone.crt"));
    let open = std::fs::Permissions::from_mode(0o604);
    std::fs::set_permissions(files.path().join("a.key"), open).unwrap();
    assert!(read("a.crt", "a.key").unwrap_err().contains("mode 600"));
}
