//! Which servers a client trusts: a server behind `https` must present a certificate signed by a trusted authority.
//!
//! The program has one cryptography provider (ring). It is named here instead of being installed for the whole
//! process, so that no other library can install a different one first.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::error::ClientError;

/// The trusted certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Certificates signed by an authority that this machine trusts.
    #[default]
    System,
    /// Also certificates signed by an authority in this file.
    Authority(PathBuf),
    /// Only the certificate in this file, regardless of its name.
    Certificate(PathBuf),
}

/// The TLS configuration, for `https` and for `wss`.
///
/// # Errors
/// A file cannot be read or contains no certificate, or this machine has no trusted authority.
pub fn tls_config(trust: &Trust) -> Result<Arc<ClientConfig>, ClientError> {
    let config = match trust {
        Trust::System => with_roots(system()?)?,
        Trust::Authority(path) => {
            // The machine's authorities are added if there are any; a machine with its own authority may have no
            // others.
            let mut roots = system().unwrap_or_else(|_| RootCertStore::empty());
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| unusable(path, &error))?;
            }
            with_roots(roots)?
        }
        Trust::Certificate(path) => {
            let only = Arc::new(Only { certificates: certificates(path)?, provider: provider() });
            let builder = builder()?.dangerous().with_custom_certificate_verifier(only);
            builder.with_no_client_auth()
        }
    };
    Ok(Arc::new(config))
}

/// For a server without TLS: no certificate is trusted.
pub(crate) fn no_tls() -> Result<Arc<ClientConfig>, ClientError> {
    with_roots(RootCertStore::empty()).map(Arc::new)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

type Builder = rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>;

fn builder() -> Result<Builder, ClientError> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    builder.map_err(|error| ClientError::Protocol(format!("failed to set up TLS: {error}")))
}

fn with_roots(roots: RootCertStore) -> Result<ClientConfig, ClientError> {
    let mut config = builder()?.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn system() -> Result<RootCertStore, ClientError> {
    let mut roots = RootCertStore::empty();
    // Unreadable certificates of the machine are skipped.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        let words = "this machine has no trusted certificate authorities; name the server's with --ca FILE";
        return Err(ClientError::Trust(words.to_owned()));
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let read = CertificateDer::pem_file_iter(path).map_err(|error| unusable(path, &error))?;
    let certificates: Vec<_> = read.collect::<Result<_, _>>().map_err(|error| unusable(path, &error))?;
    if certificates.is_empty() {
        return Err(unusable(path, &"it has no certificate in it"));
    }
    Ok(certificates)
}

fn unusable(path: &Path, why: &dyn std::fmt::Display) -> ClientError {
    ClientError::Trust(format!("failed to use the certificates in {}: {why}", path.display()))
}

/// Trusts the given certificates, compared byte by byte. The server must also sign with the key.
#[derive(Debug)]
struct Only {
    certificates: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Only {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        // The first certificate of a chain is the server's.
        match self.certificates.first() {
            Some(own) if own == end_entity => Ok(ServerCertVerified::assertion()),
            _ => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// What is wrong with the certificate, if that is why a call failed.
pub(crate) fn distrust(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    match tls_error(error)? {
        rustls::Error::InvalidCertificate(why) => Some(match why {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "no trusted authority has signed it".to_owned()
            }
            CertificateError::ApplicationVerificationFailure => "it is not the expected one".to_owned(),
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "it has expired".to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!("it is for another name: {why}")
            }
            other => other.to_string(),
        }),
        _ => None,
    }
}

/// Whether the server does not use TLS.
pub(crate) fn no_tls_there(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(tls_error(error), Some(rustls::Error::InvalidMessage(_)))
}

/// An I/O error does not include its inner error in the chain of sources, so the inner error is checked first.
fn tls_error<'a>(mut error: &'a (dyn std::error::Error + 'static)) -> Option<&'a rustls::Error> {
    loop {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        let carried = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        error = match carried {
            Some(carried) => carried,
            None => error.source()?,
        };
    }
}
