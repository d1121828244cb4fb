//! `sslmode` and `sslrootcert` of a URL. The driver supports neither `verify-full` nor `sslrootcert`, so both are
//! removed from the URL and handled here.

use std::fs;
use std::sync::Arc;

use jobhall_store::StoreError;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

/// The TLS options of a URL.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    mode: Mode,
    roots: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    Disable,
    #[default]
    Prefer,
    Require,
    VerifyFull,
}

/// Splits a URL into the URL without TLS options, and those options.
pub(super) fn split(url: &str) -> Result<(String, Wanted), StoreError> {
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(refused("it must begin with postgres://"));
    }
    let Some((place, query)) = url.split_once('?') else { return Ok((url.to_owned(), Wanted::default())) };
    let mut wanted = Wanted::default();
    let mut others = Vec::new();
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some(("sslmode", mode)) => wanted.mode = Mode::of(mode)?,
            Some(("sslrootcert", path)) => wanted.roots = Some(decoded(path)?),
            _ => others.push(pair),
        }
    }
    let query = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
    Ok((format!("{place}{query}"), wanted))
}

fn refused(why: &str) -> StoreError {
    StoreError::new(format!("failed to read the database url: {why}"))
}

fn decoded(text: &str) -> Result<String, StoreError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let (byte, behind) = if first == b'%' {
            let digits = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
            let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            (byte.ok_or_else(|| refused("sslrootcert is not percent-encoded well"))?, &behind[2..])
        } else {
            (first, behind)
        };
        bytes.push(byte);
        rest = behind;
    }
    String::from_utf8(bytes).map_err(|_| refused("sslrootcert is not UTF-8"))
}

impl Mode {
    fn of(text: &str) -> Result<Mode, StoreError> {
        match text {
            "disable" => Ok(Mode::Disable),
            "prefer" => Ok(Mode::Prefer),
            "require" => Ok(Mode::Require),
            "verify-full" => Ok(Mode::VerifyFull),
            _ => Err(refused("sslmode must be disable, prefer, require or verify-full")),
        }
    }
}

impl Wanted {
    /// The setting for the driver.
    pub(super) fn mode(&self) -> SslMode {
        match self.mode {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyFull => SslMode::Require,
        }
    }

    /// The TLS connector; none if TLS is disabled.
    pub(super) fn connector(&self) -> Result<Option<MakeRustlsConnect>, StoreError> {
        if self.mode == Mode::Disable {
            return Ok(None);
        }
        let provider = Arc::new(ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| refused(&format!("no TLS: {error}")))?;
        let checks = self.mode == Mode::VerifyFull || (self.mode == Mode::Require && self.roots.is_some());
        let config = if checks {
            builder.with_root_certificates(self.trusted()?).with_no_client_auth()
        } else {
            let anyone = Arc::new(Anyone(provider));
            builder.dangerous().with_custom_certificate_verifier(anyone).with_no_client_auth()
        };
        Ok(Some(MakeRustlsConnect::new(config)))
    }

    fn trusted(&self) -> Result<RootCertStore, StoreError> {
        let mut roots = RootCertStore::empty();
        match self.roots.as_deref() {
            None | Some("system") => {
                // System certificates that cannot be read are not trusted.
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
            Some(path) => {
                let text =
                    fs::read(path).map_err(|error| refused(&format!("sslrootcert {path}: {error}")))?;
                for certificate in CertificateDer::pem_slice_iter(&text) {
                    let added = certificate.map_err(|error| error.to_string());
                    let added = added.and_then(|one| roots.add(one).map_err(|error| error.to_string()));
                    added.map_err(|error| refused(&format!("sslrootcert {path}: {error}")))?;
                }
            }
        }
        if roots.is_empty() {
            return Err(refused("sslrootcert has no certificate"));
        }
        Ok(roots)
    }
}

/// `prefer` and `require` protect only against passive eavesdropping: any server's certificate is accepted.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
