//! The messages of sender and receiver, on one QUIC stream per push.
//!
//! The sender opens the stream with [`Hello`] and the encoded manifest. Then the receiver leads: it reports, requests chunks, and ends with
//! [`Say::Done`] or [`Say::Failed`]; the sender answers every [`Say::Want`], in order. A message consists of its length (four bytes,
//! little-endian) and its content in postcard. The receiver accepts only what passes the checks of the manifest and the hashes of chunks.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::build::{Built, Progress};
use super::manifest::{MAX_CHUNK, MAX_MANIFEST};

/// Version of the protocol.
pub const VERSION: u32 = 1;

/// Largest message in bytes: a chunk and its overhead.
const MAX_MESSAGE: u32 = MAX_CHUNK as u32 + 1024;

/// Code with which a receiver closes a connection when another push takes over.
pub const SUPERSEDED: u32 = 1;

/// Code with which a receiver with too many connections closes a new one. Trying again may help.
pub const BUSY: u32 = 2;

/// The sender's first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`].
    pub version: u32,
    /// Bytes of the encoded manifest, which follows.
    pub manifest: u64,
    /// Whether every byte of an existing version must be read.
    pub verify: bool,
}

/// The receiver's messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Say {
    /// Its progress.
    Progress(Progress),
    /// A request for a chunk of an entry, both by number.
    Want {
        /// Number of the entry in the manifest.
        entry: u32,
        /// Number of the chunk in the entry.
        chunk: u32,
    },
    /// The version is in use, and on the disk.
    Done(Built),
    /// It failed.
    Failed {
        /// The reason.
        reason: String,
        /// Whether another attempt may help.
        passing: bool,
    },
}

/// The sender's answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The chunk.
    Chunk(#[serde(with = "serde_bytes")] Vec<u8>),
    /// There is no such chunk any more: the file has changed.
    Gone,
}

fn invalid(problem: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

/// Sends a message.
///
/// # Errors
/// If the stream breaks.
pub fn send(stream: &mut dyn Write, message: &impl Serialize) -> io::Result<()> {
    let mut bytes = postcard::to_extend(message, vec![0; 4]).map_err(invalid)?;
    let length = bytes.len() as u32 - 4;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    stream.write_all(&bytes)
}

/// Receives a message.
///
/// # Errors
/// If the stream breaks or ends, or the bytes are not such a message.
pub fn receive<T: DeserializeOwned>(stream: &mut dyn Read) -> io::Result<T> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > MAX_MESSAGE {
        return Err(invalid("a message is too long"));
    }
    let mut bytes = vec![0; length as usize];
    stream.read_exact(&mut bytes)?;
    decode(&bytes).ok_or_else(|| invalid("a message cannot be decoded"))
}

/// Decodes a message without its length; `None` if it is invalid.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Some(message),
        _ => None,
    }
}

/// Receives the encoded manifest that a [`Hello`] announces.
///
/// # Errors
/// If the stream breaks, or the sender uses another version, or announces too much.
pub fn receive_manifest(stream: &mut dyn Read, hello: &Hello) -> io::Result<Vec<u8>> {
    if hello.version != VERSION {
        let text =
            format!("the sender speaks version {} of the protocol, this receiver {VERSION}", hello.version);
        return Err(invalid(text));
    }
    if hello.manifest > MAX_MANIFEST {
        return Err(invalid(format!("the description of the tree is longer than {MAX_MANIFEST} bytes")));
    }
    // Memory is allocated as bytes arrive, not as announced.
    let mut encoded = Vec::new();
    stream.take(hello.manifest).read_to_end(&mut encoded)?;
    if encoded.len() as u64 == hello.manifest {
        Ok(encoded)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

#[cfg(test)]
mod tests {
    use super::super::build::Step;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let said = [
            Say::Progress(Progress { step: Step::Fetching, done: 5, total: u64::MAX }),
            Say::Want { entry: 7, chunk: u32::MAX },
            Say::Done(Built { unchanged: true, total: 1, fetched: 0 }),
            Say::Failed { reason: "disk".into(), passing: false },
        ];
        let mut wire = Vec::new();
        said.iter().for_each(|message| send(&mut wire, message).unwrap());
        let chunk = Answer::Chunk(vec![9; MAX_CHUNK as usize]);
        send(&mut wire, &chunk).unwrap();
        let mut wire = &wire[..];
        for message in said {
            assert_eq!(receive::<Say>(&mut wire).unwrap(), message);
        }
        assert_eq!(receive::<Answer>(&mut wire).unwrap(), chunk);
        assert_eq!(receive::<Say>(&mut wire).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn long_messages_are_refused_before_they_are_read() {
        let error = receive::<Say>(&mut &u32::MAX.to_le_bytes()[..]).unwrap_err();
        assert_eq!(error.to_string(), "a message is too long");
        let hello = Hello { version: VERSION, manifest: MAX_MANIFEST + 1, verify: false };
        assert!(receive_manifest(&mut io::empty(), &hello).is_err());
        let short = Hello { version: VERSION, manifest: 10, verify: false };
        assert_eq!(
            receive_manifest(&mut &b"nine...."[..], &short).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = decode::<Hello>(&bytes);
            let _ = decode::<Answer>(&bytes);
            if let Some(message) = decode::<Say>(&bytes) {
                let mut wire = Vec::new();
                send(&mut wire, &message).unwrap();
            }
        }
    }
}
