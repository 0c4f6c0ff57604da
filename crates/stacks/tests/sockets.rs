//! QUIC over real sockets of this machine: messages arrive completely, and keys that are not trusted are refused.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::{self, Read as _, Write as _};
use std::thread;
use std::time::Duration;

use warpline_core::parameter::Choice;
use warpline_stacks::quic::{Client, Identity, Message, QuicError, Server, Settings, Trust};
use warpline_transport::cc::{Algorithm, FixedParams};

const PATIENCE: Duration = Duration::from_secs(20);

struct Two {
    key: Identity,
    server: Server,
    address: String,
}

fn two(trusted: Option<Trust>) -> Two {
    let key = Identity::generate().unwrap();
    let trust = trusted.unwrap_or_else(|| Trust::only(key.public()));
    let server = Server::bind("127.0.0.1:0", &key, &trust, &Settings::default()).unwrap();
    let address = server.local_addr().unwrap().to_string();
    Two { key, server, address }
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at * 31 % 251) as u8).collect()
}

#[test]
fn a_message_arrives_completely_with_every_algorithm() {
    let Two { key, server, address } = two(None);
    let trust = Trust::only(key.public());
    let data = bytes(300_000);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in Algorithm::KINDS {
                let connection = server.accept(PATIENCE).unwrap().unwrap();
                assert_eq!(connection.peer(), Some(key.public()));
                let mut message = Message::accept(&connection).unwrap();
                let mut got = Vec::new();
                message.read_to_end(&mut got).unwrap();
                assert!(got == data);
                message.taken().unwrap();
                // The answer must get through before the connection ends.
                assert!(Message::accept(&connection).is_err());
            }
        });
        for name in Algorithm::KINDS {
            let settings = Settings::with(Algorithm::of_kind(name).unwrap());
            let connection = Client::new(&key, &trust, &settings).unwrap().connect(&address).unwrap();
            let sent = connection.send(&mut &data[..]).unwrap();
            assert_eq!((sent.bytes, sent.congestion.unwrap().algorithm), (300_000, *name));
        }
    });
}

#[test]
fn the_gate_of_a_small_window_opens_by_itself() {
    let Two { key, server, address } = two(None);
    let half = Settings::with(Algorithm::Fixed(FixedParams { segments: 0.5 }));
    let data = bytes(20_000);
    thread::scope(|scope| {
        scope.spawn(|| {
            let connection = server.accept(PATIENCE).unwrap().unwrap();
            let mut message = Message::accept(&connection).unwrap();
            let got = io::copy(&mut message, &mut io::sink()).unwrap();
            assert_eq!(got, 20_000);
            message.taken().unwrap();
            let _ = Message::accept(&connection);
        });
        let connection =
            Client::new(&key, &Trust::only(key.public()), &half).unwrap().connect(&address).unwrap();
        connection.send(&mut &data[..]).unwrap();
        let stats = connection.stats();
        assert!(
            stats.path.sent_packets < 80,
            "{} packets: the gate let too many through",
            stats.path.sent_packets
        );
    });
}

#[test]
fn a_server_with_an_untrusted_key_is_refused() {
    let Two { key, server: _listening, address } = two(None);
    let stranger = Trust::only(Identity::generate().unwrap().public());
    let error = Client::new(&key, &stranger, &Settings::default()).unwrap().connect(&address).unwrap_err();
    assert!(matches!(error, QuicError::Untrusted { .. }), "{error}");
}

#[test]
fn a_client_that_is_not_on_the_list_is_refused() {
    let Two { key, server, address } = two(None);
    let stranger = Identity::generate().unwrap();
    let client = Client::new(&stranger, &Trust::only(key.public()), &Settings::default()).unwrap();
    let outcome = client.connect(&address).map_err(io::Error::from).and_then(|it| it.send(&mut &b"x"[..]));
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
    assert!(error.to_string().ends_with("does not trust our key"), "{error}");
    assert!(matches!(server.accept(PATIENCE), Err(QuicError::Untrusted { .. })));
}

#[test]
fn a_sender_that_gives_up_does_not_leave_a_shorter_message() {
    let Two { key, server, address } = two(None);
    thread::scope(|scope| {
        scope.spawn(|| {
            let client = Client::new(&key, &Trust::only(key.public()), &Settings::default()).unwrap();
            let connection = client.connect(&address).unwrap();
            let (mut stream, mut answer) = connection.open().unwrap();
            stream.write_all(b"the first half").unwrap();
            drop(stream);
            let _ = answer.read(&mut [0]);
        });
        let connection = server.accept(PATIENCE).unwrap().unwrap();
        let mut message = Message::accept(&connection).unwrap();
        assert!(message.read_to_end(&mut Vec::new()).is_err());
    });
}

#[test]
fn errors_name_invalid_addresses() {
    let key = Identity::generate().unwrap();
    let client = Client::new(&key, &Trust::only(key.public()), &Settings::default()).unwrap();
    let error = client.connect("nowhere").unwrap_err().to_string();
    assert!(
        error.starts_with("`nowhere` is not an address") && error.ends_with("write host:port"),
        "{error}"
    );
}
