//! TLS: the certificate of the server, and the handshake before the first request.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

/// Time limit for a handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// An error with a certificate or its key.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file cannot be read, or its content is invalid.
    #[error("failed to use {path}: {why}")]
    File { path: PathBuf, why: String },
    /// Every user of this machine can read the key.
    #[error("failed to use {0}: other users can read this key; set mode 600")]
    Open(PathBuf),
    /// Certificate and key do not match, or their kind is not supported.
    #[error("failed to use {certificate} with {key}: {source}")]
    Pair { certificate: PathBuf, key: PathBuf, source: rustls::Error },
}

/// A certificate and its key.
#[derive(Clone)]
pub struct Tls(Arc<ServerConfig>);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(…)")
    }
}

impl Tls {
    /// Reads a certificate with its intermediate certificates, and its key, all as PEM.
    pub fn read(certificate: &Path, key: &Path) -> Result<Tls, TlsError> {
        let chain = chain(certificate)?;
        let secret = secret(key)?;
        let pair =
            |source| TlsError::Pair { certificate: certificate.to_owned(), key: key.to_owned(), source };
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        // The default versions are TLS 1.2 and 1.3.
        let config = config.with_safe_default_protocol_versions().map_err(pair)?;
        let mut config = config.with_no_client_auth().with_single_cert(chain, secret).map_err(pair)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Tls(Arc::new(config)))
    }

    /// Performs the handshake; it fails for a client that does not use TLS.
    pub(crate) async fn shake<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let shaken = TlsAcceptor::from(self.0.clone()).accept(stream);
        tokio::time::timeout(HANDSHAKE_TIME, shaken).await.map_err(|_| io::ErrorKind::TimedOut)?
    }
}

fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |why: String| TlsError::File { path: path.to_owned(), why };
    let read = CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
    let chain: Vec<_> = read.collect::<Result<_, _>>().map_err(|error| wrong(error.to_string()))?;
    if chain.is_empty() { Err(wrong("it has no certificate in it".to_owned())) } else { Ok(chain) }
}

fn secret(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let wrong = |why: String| TlsError::File { path: path.to_owned(), why };
    let mode = fs::metadata(path).map_err(|error| wrong(error.to_string()))?.permissions().mode();
    // A key readable by a group is common; a key readable by everyone is refused.
    if mode & 0o007 != 0 {
        return Err(TlsError::Open(path.to_owned()));
    }
    PrivateKeyDer::from_pem_file(path).map_err(|error| wrong(error.to_string()))
}
