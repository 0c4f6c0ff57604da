//! TLS 1.3 with pinned raw public keys (RFC 7250): each end shows an Ed25519 key that must be on the other's list.

use std::sync::Arc;

use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring as provider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible,
    ServerConfig, SignatureScheme,
};

use super::identity::{Identity, PublicKey, Trust};

/// The protocol's name (ALPN).
const ALPN: &[u8] = b"warpline/1";

/// Accepts the keys of a list.
#[derive(Debug)]
struct Pinned {
    trust: Trust,
    provider: Arc<CryptoProvider>,
}

impl Pinned {
    fn check(&self, shown: &CertificateDer<'_>) -> Result<(), Error> {
        let key = PublicKey::from_spki(shown.as_ref()).ok_or(CertificateError::BadEncoding)?;
        if self.trust.holds(&key) { Ok(()) } else { Err(CertificateError::UnknownIssuer.into()) }
    }

    fn signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature_with_raw_key(
            message,
            &SubjectPublicKeyInfoDer::from(shown.as_ref()),
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }
}

/// Neither end supports TLS 1.2.
fn too_old() -> Result<HandshakeSignatureValid, Error> {
    Err(PeerIncompatible::Tls12NotOffered.into())
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        too_old()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        too_old()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

fn shown(identity: &Identity) -> Arc<CertifiedKey> {
    let spki = CertificateDer::from(identity.public().spki());
    Arc::new(CertifiedKey::new(vec![spki], identity.signing()))
}

/// A client that shows `identity` and accepts servers with a key of `trust`.
///
/// # Errors
/// If the TLS library fails.
pub fn client(identity: &Identity, trust: &Trust) -> Result<ClientConfig, Error> {
    client_by(identity, trust, Arc::new(provider::default_provider()))
}

/// The same with the cryptography, and the random numbers, of `provider`.
pub(crate) fn client_by(
    identity: &Identity,
    trust: &Trust,
    provider: Arc<CryptoProvider>,
) -> Result<ClientConfig, Error> {
    let pinned = Arc::new(Pinned { trust: trust.clone(), provider: provider.clone() });
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(pinned)
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(shown(identity))));
    config.alpn_protocols = vec![ALPN.to_vec()];
    // Sessions are never resumed, so a key that was removed from a list is refused at once.
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}

/// A server that shows `identity` and accepts clients with a key of `trust`.
///
/// # Errors
/// If the TLS library fails.
pub fn server(identity: &Identity, trust: &Trust) -> Result<ServerConfig, Error> {
    server_by(identity, trust, Arc::new(provider::default_provider()))
}

/// The same with the cryptography, and the random numbers, of `provider`.
pub(crate) fn server_by(
    identity: &Identity,
    trust: &Trust,
    provider: Arc<CryptoProvider>,
) -> Result<ServerConfig, Error> {
    let pinned = Arc::new(Pinned { trust: trust.clone(), provider: provider.clone() });
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(pinned)
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(shown(identity))));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.send_tls13_tickets = 0;
    Ok(config)
}
