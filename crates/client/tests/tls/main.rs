//! A client and a server with TLS: which certificates are trusted.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jobhall_client::{Client, ClientError, Trust};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A server with a certificate for `localhost`, signed by its own authority.
struct Server {
    port: u16,
    folder: TempDir,
}

fn authority(path: &Path) -> Issuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    std::fs::write(path, params.self_signed(&key).unwrap().pem()).unwrap();
    Issuer::new(params, key)
}

impl Server {
    async fn start() -> Server {
        let folder = tempfile::tempdir().unwrap();
        let authority = authority(&folder.path().join("ca.pem"));
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap();
        std::fs::write(folder.path().join("own.pem"), certificate.pem()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::clone(certificate.der())],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(config))));
        Server { port, folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    async fn ask(&self, host: &str, trust: Trust) -> Result<(), ClientError> {
        let client = Client::trusting(&format!("https://{host}:{}", self.port), None, trust)?;
        client.livez().await.map(drop)
    }
}

async fn serve(listener: TcpListener, tls: TlsAcceptor) {
    while let Ok((stream, _)) = listener.accept().await {
        let tls = tls.clone();
        tokio::spawn(async move {
            let Ok(mut stream) = tls.accept(stream).await else { return };
            let mut head = [0; 4096];
            if stream.read(&mut head).await.is_ok_and(|n| n > 0) {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
            }
        });
    }
}

#[track_caller]
fn untrusted(asked: Result<(), ClientError>, words: &str) {
    match asked {
        Err(ClientError::Untrusted { why, .. }) => assert!(why.contains(words), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_hall_is_believed_if_a_known_authority_signed_its_certificate_for_that_name() {
    let server = Server::start().await;
    server.ask("localhost", Trust::Authority(server.file("ca.pem"))).await.unwrap();
    let named = server.ask("127.0.0.1", Trust::Authority(server.file("ca.pem"))).await;
    untrusted(named, "another name");
    authority(&server.file("other.pem"));
    let signed = server.ask("localhost", Trust::Authority(server.file("other.pem"))).await;
    untrusted(signed, "no trusted authority has signed it");
}

#[tokio::test]
async fn a_pinned_certificate_is_believed_under_every_name_and_no_other_is() {
    let server = Server::start().await;
    server.ask("127.0.0.1", Trust::Certificate(server.file("own.pem"))).await.unwrap();
    let other = server.ask("localhost", Trust::Certificate(server.file("ca.pem"))).await;
    untrusted(other, "not the expected one");
}

#[tokio::test]
async fn who_cannot_be_asked_about_certificates_is_told_so_before_anything_is_sent() {
    let server = Server::start().await;
    std::fs::write(server.file("empty.pem"), "nothing here\n").unwrap();
    for (file, words) in [("empty.pem", "no certificate"), ("gone.pem", "gone.pem")] {
        match server.ask("localhost", Trust::Authority(server.file(file))).await {
            Err(ClientError::Trust(why)) => assert!(why.contains(words), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_hall_without_tls_is_not_taken_for_one_with_a_bad_certificate() {
    let server = Server::start().await;
    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = plain.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = plain.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
            let _ = stream.read(&mut [0; 4096]).await;
        }
    });
    let trust = Trust::Authority(server.file("ca.pem"));
    let client = Client::trusting(&format!("https://localhost:{port}"), None, trust).unwrap();
    match client.livez().await {
        Err(ClientError::Unreachable { why, .. }) => assert!(why.contains("does not speak TLS"), "{why}"),
        other => panic!("{other:?}"),
    }
}
