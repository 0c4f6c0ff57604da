//! Keys: a program's identity, and the keys that it trusts.
//!
//! An identity is an Ed25519 key pair in a file (PKCS#8, PEM). The public half is one line of text, `ed25519:` and 43 characters, for
//! lists of trusted keys. Both ends of a connection prove that they hold a key on the other's list (TLS 1.3 with raw public keys, RFC 7250).
//! There are no names, certificates or dates. One key file for all machines works as a shared secret; a file for each machine
//! distinguishes them.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use quinn::EndpointConfig;
use quinn_proto::HashedConnectionIdGenerator;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::sign::SigningKey;
use subtle::ConstantTimeEq as _;

/// The prefix of a public key.
const PREFIX: &str = "ed25519:";

/// SubjectPublicKeyInfo of an Ed25519 key (RFC 8410), up to the key's 32 bytes.
const SPKI_HEAD: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// PKCS#8 of an Ed25519 key (RFC 8410 section 7), up to the secret's 32 bytes.
const PKCS8_HEAD: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// Why a key or a list of keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read or written.
    #[error("cannot {action} the key file {}: {source}", path.display())]
    File {
        /// The operation that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The file holds no key.
    #[error("{} holds no Ed25519 secret key in PEM (PKCS#8); make one with `warpline replicate keygen`", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// Other users may read the file.
    #[error("others than its owner can read {}, which holds a secret key: chmod 600 {}", path.display(), path.display())]
    Readable {
        /// The file.
        path: PathBuf,
    },
    /// Not a public key.
    #[error(
        "{}line {line}: `{text}` is not a public key; one looks like {PREFIX} and 43 letters, digits, `-` or `_`",
        place(path)
    )]
    NoPublicKey {
        /// The file, if it is in one.
        path: Option<PathBuf>,
        /// The line, from 1.
        line: usize,
        /// The text of the line.
        text: String,
    },
    /// A list without a key.
    #[error("{} lists no public key, so no peer would be trusted", path.display())]
    Nobody {
        /// The file.
        path: PathBuf,
    },
    /// The system's random numbers failed.
    #[error("cannot make a key: the system's random numbers failed")]
    Random,
}

fn place(path: &Option<PathBuf>) -> String {
    path.as_ref().map_or_else(String::new, |path| format!("{}, ", path.display()))
}

/// A public key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// The key in SubjectPublicKeyInfo form, as in TLS; `None` if it is of another kind.
    pub(super) fn from_spki(spki: &[u8]) -> Option<Self> {
        let key = spki.strip_prefix(&SPKI_HEAD)?;
        Some(PublicKey(key.try_into().ok()?))
    }

    pub(super) fn spki(&self) -> Vec<u8> {
        [&SPKI_HEAD[..], &self.0].concat()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let wrong = || KeyError::NoPublicKey { path: None, line: 1, text: text.to_owned() };
        let key = text.trim().strip_prefix(PREFIX).ok_or_else(wrong)?;
        let bytes = URL_SAFE_NO_PAD.decode(key).map_err(|_| wrong())?;
        Ok(PublicKey(bytes.try_into().map_err(|_| wrong())?))
    }
}

/// A key pair: the identity of this program.
#[derive(Clone)]
pub struct Identity {
    public: PublicKey,
    signing: Arc<dyn SigningKey>,
    /// Derived from the secret key, so the same after a restart.
    derived: ring::hmac::Key,
}

impl fmt::Debug for Identity {
    /// Shows only the public half.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identity").field(&self.public).finish()
    }
}

impl Identity {
    /// A new key pair, in this process only.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn generate() -> Result<Self, KeyError> {
        Self::from_pkcs8(Self::fresh()?.as_ref()).ok_or(KeyError::Random)
    }

    /// The key pair of a secret, for hosts of a simulated network. None if the cryptographic library refuses it.
    pub(crate) fn of_secret(secret: &[u8; 32]) -> Option<Self> {
        Self::from_pkcs8(&[&PKCS8_HEAD[..], secret].concat())
    }

    fn fresh() -> Result<ring::pkcs8::Document, KeyError> {
        Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| KeyError::Random)
    }

    fn from_pkcs8(der: &[u8]) -> Option<Self> {
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).ok()?;
        let public = PublicKey(pair.public_key().as_ref().try_into().ok()?);
        let signing = rustls::crypto::ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(der)).ok()?;
        let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, der);
        let derived = ring::hmac::sign(&secret, b"warpline: endpoint of this identity");
        let derived = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, derived.as_ref());
        Some(Identity { public, signing, derived })
    }

    /// Makes a key pair and writes it to a new file that only its owner may read.
    ///
    /// # Errors
    /// If the file exists or cannot be written.
    pub fn create(path: &Path) -> Result<Self, KeyError> {
        let document = Self::fresh()?;
        let identity = Self::from_pkcs8(document.as_ref()).ok_or(KeyError::Random)?;
        let failed = |source| KeyError::File { action: "write", path: path.to_owned(), source };
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path).map_err(failed)?;
        let encoded = STANDARD.encode(document.as_ref());
        let mut text = String::from("-----BEGIN PRIVATE KEY-----\n");
        for line in encoded.as_bytes().chunks(64) {
            text += &String::from_utf8_lossy(line);
            text.push('\n');
        }
        text += "-----END PRIVATE KEY-----\n";
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        Ok(identity)
    }

    /// Reads a key file.
    ///
    /// # Errors
    /// If it cannot be read, holds no Ed25519 key, or others may read it.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let failed = |source| KeyError::File { action: "read", path: path.to_owned(), source };
        let text = fs::read(path).map_err(failed)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(path).map_err(failed)?.permissions().mode();
            if mode & 0o077 != 0 {
                return Err(KeyError::Readable { path: path.to_owned() });
            }
        }
        PrivatePkcs8KeyDer::from_pem_slice(&text)
            .ok()
            .and_then(|der| Self::from_pkcs8(der.secret_pkcs8_der()))
            .ok_or_else(|| KeyError::NoKey { path: path.to_owned() })
    }

    /// The public half, for lists of trusted keys.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// The configuration of an endpoint whose reset key and connection IDs stay the same. So a program that was killed and restarted resets
    /// old connections at once, and they need not time out (RFC 9000 section 10.3).
    pub(super) fn endpoint(&self) -> EndpointConfig {
        let mut config = EndpointConfig::new(Arc::new(self.derived.clone()));
        let tag = ring::hmac::sign(&self.derived, b"connection IDs");
        let key = tag.as_ref().iter().take(8).fold(0, |key, byte| key << 8 | u64::from(*byte));
        config.cid_generator(move || Box::new(HashedConnectionIdGenerator::from_key(key)));
        config
    }

    pub(super) fn signing(&self) -> Arc<dyn SigningKey> {
        self.signing.clone()
    }
}

/// The trusted keys of peers. A key may be bound to hosts: then it is valid for connections to these only, so a compromised receiver cannot
/// impersonate another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust(Vec<Trusted>);

/// A key of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Trusted {
    key: PublicKey,
    /// Hosts as "host" (any port) or "host:port"; `None` for any host.
    hosts: Option<Vec<String>>,
}

impl From<PublicKey> for Trusted {
    fn from(key: PublicKey) -> Self {
        Trusted { key, hosts: None }
    }
}

/// Host and port of `host:port`, `[address]:port`, `host`, or a bare address. The case of names and the spelling of addresses do not matter.
fn host_and_port(text: &str) -> (String, Option<u16>) {
    let text = text.trim();
    let (host, port) = match text.parse::<std::net::Ipv6Addr>() {
        Ok(_) => (text, None),
        Err(_) => match text.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>())) {
            Some((host, Ok(port))) => (host, Some(port)),
            _ => (text, None),
        },
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let host = host
        .parse::<std::net::IpAddr>()
        .map_or_else(|_| host.to_lowercase(), |it| it.to_canonical().to_string());
    (host, port)
}

impl Trusted {
    fn is_for(&self, address: &str) -> bool {
        let Some(hosts) = &self.hosts else { return true };
        let (host, port) = host_and_port(address);
        hosts.iter().any(|listed| {
            let (name, listed) = host_and_port(listed);
            name == host && (listed.is_none() || listed == port)
        })
    }
}

impl Trust {
    /// One key, for any host.
    pub fn only(key: PublicKey) -> Self {
        Trust(vec![key.into()])
    }

    /// These keys, for any host.
    pub fn any_of(keys: Vec<PublicKey>) -> Self {
        Trust(keys.into_iter().map(Trusted::from).collect())
    }

    /// The keys that are valid for a connection to `address`, "host:port".
    pub fn of(&self, address: &str) -> Self {
        Trust(self.0.iter().filter(|trusted| trusted.is_for(address)).cloned().collect())
    }

    /// Whether no key is trusted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether any key is bound to hosts. A server cannot use such keys: it knows peers only by their keys.
    pub fn names_hosts(&self) -> bool {
        self.0.iter().any(|trusted| trusted.hosts.is_some())
    }

    /// Reads a list: each line has a public key, optionally preceded by the hosts that it belongs to (`host1,host2:4433 ed25519:...`; without a port,
    /// any port) and followed by any text; `#` begins a comment.
    ///
    /// # Errors
    /// If the file cannot be read, a line has no key, or there are none.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let failed = |source| KeyError::File { action: "read", path: path.to_owned(), source };
        let text = fs::read_to_string(path).map_err(failed)?;
        let keys = Self::parse(&text).map_err(|error| match error {
            KeyError::NoPublicKey { line, text, .. } => {
                KeyError::NoPublicKey { path: Some(path.to_owned()), line, text }
            }
            other => other,
        })?;
        if keys.is_empty() {
            return Err(KeyError::Nobody { path: path.to_owned() });
        }
        Ok(keys)
    }

    /// Reads the text of a list.
    ///
    /// # Errors
    /// At the first line without a key.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
        lines
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
            .map(|(line, text)| {
                let mut words = text.split_whitespace();
                let first = words.next().unwrap_or_default();
                let wrong = || KeyError::NoPublicKey { path: None, line, text: first.to_owned() };
                if let Ok(key) = first.parse::<PublicKey>() {
                    return Ok(Trusted::from(key));
                }
                // This is either a list of hosts before the key, or a misspelt key.
                let key = words.next().and_then(|word| word.parse().ok()).ok_or_else(wrong)?;
                let hosts = first.split(',').filter(|host| !host.is_empty()).map(ToOwned::to_owned).collect();
                Ok(Trusted { key, hosts: Some(hosts) })
            })
            .collect::<Result<_, _>>()
            .map(Trust)
    }

    /// Whether `key` is on the list, in constant time.
    pub(super) fn holds(&self, key: &PublicKey) -> bool {
        self.0.iter().fold(0u8, |found, trusted| found | trusted.key.0.ct_eq(&key.0).unwrap_u8()) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_same_after_its_file_and_its_line_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.key");
        let made = Identity::create(&path).unwrap();
        assert_eq!(Identity::load(&path).unwrap().public(), made.public());
        let line = made.public().to_string();
        assert_eq!(line.parse::<PublicKey>().unwrap(), made.public());
        let list = Trust::parse(&format!("# ours\n\n{line} rack 7\n")).unwrap();
        assert!(list.holds(&made.public()));
        assert!(!list.holds(&Identity::generate().unwrap().public()));
        assert!(Identity::create(&path).unwrap_err().to_string().starts_with("cannot write the key file"));
    }

    #[cfg(unix)]
    #[test]
    fn a_secret_key_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.key");
        Identity::create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Identity::load(&path), Err(KeyError::Readable { .. })));
    }

    #[test]
    fn a_key_is_valid_for_the_hosts_that_it_is_listed_for() {
        let keys: Vec<PublicKey> = (0..3).map(|_| Identity::generate().unwrap().public()).collect();
        let text =
            format!("Alpha,192.0.2.7:99 {} rack 1\n[2001:DB8::1]:5 {}\n{}\n", keys[0], keys[1], keys[2]);
        let list = Trust::parse(&text).unwrap();
        assert!(list.names_hosts() && !Trust::only(keys[0]).names_hosts());
        for (address, good) in [
            ("alpha:4433", [true, false, true]),
            ("ALPHA:5", [true, false, true]),
            ("192.0.2.7:99", [true, false, true]),
            ("192.0.2.7:98", [false, false, true]),
            ("[2001:db8:0::1]:5", [false, true, true]),
            ("[2001:db8::1]:6", [false, false, true]),
            ("beta:4433", [false, false, true]),
        ] {
            let trust = list.of(address);
            assert_eq!(keys.iter().map(|key| trust.holds(key)).collect::<Vec<_>>(), good, "{address}");
        }
    }

    #[test]
    fn errors_name_the_line_that_is_not_a_key() {
        let error = Trust::parse("\ned25519:short\n").unwrap_err().to_string();
        assert!(error.starts_with("line 2: `ed25519:short` is not a public key"), "{error}");
        assert!(PublicKey::from_spki(b"\x30\x2a").is_none());
    }
}
