//! A server with many half-open handshakes: peers that can prove their address get through, and memory for the others is bounded.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::crypto::rustls::QuicClientConfig;
use quinn_proto::{ClientConfig, Endpoint, EndpointConfig};

use super::{Client, Identity, Server, Settings, Trust, tls};

/// The first datagram of a handshake that never continues.
fn initial(identity: &Identity, to: SocketAddr, now: Instant) -> Vec<u8> {
    let tls = tls::client(identity, &Trust::only(identity.public())).unwrap();
    let config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
    let (_, mut connection) = endpoint.connect(now, config, to, "warpline").unwrap();
    let mut datagram = Vec::new();
    let transmit = connection.poll_transmit(now, 1, &mut datagram).unwrap();
    datagram[..transmit.size].to_vec()
}

/// Whether a datagram is a Retry packet (RFC 9000 section 17.2.5).
fn is_retry(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first & 0xf0 == 0xf0)
}

#[test]
fn honest_clients_get_through_many_half_open_handshakes() {
    #[expect(clippy::disallowed_methods, reason = "real sockets have real time")]
    let now = Instant::now();
    let key = Identity::generate().unwrap();
    let trust = Trust::only(key.public());
    let server = Server::bind("127.0.0.1:0", &key, &trust, &Settings::default()).unwrap();
    let address = server.local_addr().unwrap();
    let strangers: Vec<UdpSocket> = (0..200)
        .map(|_| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
            socket.send_to(&initial(&key, address, now), address).unwrap();
            socket
        })
        .collect();
    // The last one is answered too, so all before it were processed, or lost: a server that has to wait for a core has no room for all of them. So
    // the last one asks again, as QUIC does.
    let mut buffer = [0; 2048];
    let last = strangers.last().unwrap();
    let mut answers = (0..100).map(|_| {
        last.send_to(&initial(&key, address, now), address).unwrap();
        last.recv(&mut buffer)
    });
    let last = answers.find_map(Result::ok).unwrap();
    assert!(is_retry(&buffer[..last]), "{:02x}", buffer[0]);
    assert!(server.handshakes.count() <= 16, "{} handshakes are held", server.handshakes.count());
    let client = Client::new(&key, &trust, &Settings::default()).unwrap();
    std::thread::scope(|scope| {
        let sent =
            scope.spawn(|| client.connect(&address.to_string()).unwrap().send(&mut &b"hello"[..]).unwrap());
        let connection = loop {
            // An abandoned handshake must not end the server.
            if let Ok(Some(connection)) = server.accept(Duration::from_secs(20)) {
                break connection;
            }
        };
        let mut message = super::Message::accept(&connection).unwrap();
        std::io::copy(&mut message, &mut std::io::sink()).unwrap();
        message.taken().unwrap();
        assert_eq!(sent.join().unwrap().bytes, 5);
    });
}

#[test]
fn a_key_of_another_host_is_refused() {
    let (own, receiver) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let server =
        Server::bind("127.0.0.1:0", &receiver, &Trust::only(own.public()), &Settings::default()).unwrap();
    let address = server.local_addr().unwrap().to_string();
    let connect = |list: String| {
        let trust = Trust::parse(&list).unwrap();
        Client::new(&own, &trust, &Settings::default()).unwrap().connect(&address).map(|_| ())
    };
    let other = Identity::generate().unwrap().public();
    // The key is on the list, but for another host, which cannot impersonate this one.
    let error = connect(format!("elsewhere {}\n127.0.0.1 {other}", receiver.public())).unwrap_err();
    assert!(error.to_string().ends_with("shows a key that is not trusted here"), "{error}");
    let error = connect(format!("elsewhere {}", receiver.public())).unwrap_err();
    assert!(error.to_string().contains("has none for 127.0.0.1:"), "{error}");
    connect(format!("{address} {}", receiver.public())).unwrap();
    connect(format!("{}", receiver.public())).unwrap();
}
