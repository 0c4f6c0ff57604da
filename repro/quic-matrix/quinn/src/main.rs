//! A transfer over QUIC with quinn. The README of the folder above says what it speaks.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Endpoint, Incoming, ServerConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};

type Outcome = Result<(), Box<dyn Error>>;

const ALPN: &[u8] = b"hq-interop";
/// The bytes of a transfer repeat after this many.
const PERIOD: u64 = 251;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["server", certificate, key, port] => serve(certificate, key, port.parse()?).await,
        ["client", host, port, bytes] => fetch(SocketAddr::new(host.parse()?, port.parse()?), bytes.parse()?).await,
        _ => Err("usage: server CERTIFICATE KEY PORT | client ADDRESS PORT BYTES".into()),
    }
}

async fn serve(certificate: &str, key: &str, port: u16) -> Outcome {
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<Vec<_>, _>>()?;
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(key)?)?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    let endpoint = Endpoint::server(config, (Ipv4Addr::UNSPECIFIED, port).into())?;
    println!("ready");
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            if let Err(error) = answer(incoming).await {
                eprintln!("{error}");
            }
        });
    }
    Ok(())
}

/// Answers the first request of a connection.
async fn answer(incoming: Incoming) -> Outcome {
    let connection = incoming.await?;
    let (mut to, mut from) = connection.accept_bi().await?;
    let request = String::from_utf8(from.read_to_end(64).await?)?;
    let bytes: u64 = request.trim().strip_prefix("GET /").ok_or("no request")?.parse()?;
    let mut sent = 0;
    while sent < bytes {
        let chunk: Vec<u8> = (sent..bytes.min(sent + 64 * PERIOD)).map(|at| (at % PERIOD) as u8).collect();
        to.write_all(&chunk).await?;
        sent += chunk.len() as u64;
    }
    to.finish()?;
    connection.closed().await;
    Ok(())
}

async fn fetch(server: SocketAddr, bytes: u64) -> Outcome {
    let provider = Arc::new(ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
        .with_no_client_auth();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let mut endpoint = Endpoint::client((Ipv4Addr::UNSPECIFIED, 0).into())?;
    endpoint.set_default_client_config(ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?)));
    let begun = Instant::now();
    let connection = endpoint.connect(server, "server")?.await?;
    let (mut to, mut from) = connection.open_bi().await?;
    to.write_all(format!("GET /{bytes}\r\n").as_bytes()).await?;
    to.finish()?;
    let mut read = 0;
    let mut buffer = vec![0; 65536];
    while let Some(count) = from.read(&mut buffer).await? {
        for (at, byte) in (read..).zip(&buffer[..count]) {
            if u64::from(*byte) != at % PERIOD {
                return Err(format!("byte {at} is wrong").into());
            }
        }
        read += count as u64;
    }
    if read != bytes {
        return Err(format!("{read} bytes of {bytes} came").into());
    }
    println!("{:.6}", begun.elapsed().as_secs_f64());
    connection.close(0_u32.into(), b"");
    endpoint.wait_idle().await;
    Ok(())
}

/// Accepts every certificate: the server's is its own, made when the programs are built.
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
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
