//! TLS towards a server: the machine's own roots, and those that the operator adds.

use std::sync::{Arc, OnceLock};

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// The certificates in a PEM text; `None` if it holds none, or one that cannot be read.
pub(super) fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().ok()?;
    let mut store = RootCertStore::empty();
    let readable = certificates.iter().all(|certificate| store.add(certificate.clone()).is_ok());
    (readable && !certificates.is_empty()).then_some(certificates)
}

/// What begins TLS on a connection. Reads the machine's roots the first time.
///
/// # Errors
/// There is nothing that a server's certificate could be checked against.
pub(super) async fn connector(extra: Vec<CertificateDer<'static>>) -> Result<TlsConnector, String> {
    let reading = tokio::task::spawn_blocking(native_roots);
    let mut roots = reading.await.map_err(|_| "the root certificates could not be read".to_owned())?.clone();
    roots.add_parsable_certificates(extra);
    if roots.is_empty() {
        return Err(
            "this machine has no root certificates; install ca-certificates, or configure one".to_owned()
        );
    }
    #[allow(deprecated, reason = "the other provider needs a C toolchain wherever this is built")]
    let provider = ring::default_provider();
    let config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The machine's own, read once: it takes milliseconds and blocks.
fn native_roots() -> &'static RootCertStore {
    static ROOTS: OnceLock<RootCertStore> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        // One that cannot be read takes no other away.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots
    })
}
