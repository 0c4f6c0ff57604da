//! UDP sockets that lose nothing where the network card cannot split batches of datagrams.
//!
//! Linux takes several datagrams at once (`UDP_SEGMENT`), for which the card must compute checksums. Before Linux 6.11 it refuses them with EIO if the card does not
//! (net/ipv4/udp.c, `udp_send_skb`): WireGuard, many tunnels, a guest's plain card. quinn learns of it by the first batch, and drops that. To the congestion control it
//! is a loss in the first round trips, and slow start ends there. Here the datagrams of a batch that was refused are sent one by one.

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime, UdpPoller};

/// Tokio, with such sockets.
#[derive(Debug)]
pub(super) struct Tokio;

impl Runtime for Tokio {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        TokioRuntime.new_timer(at)
    }
    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        TokioRuntime.spawn(future);
    }
    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        Ok(Arc::new(Socket(TokioRuntime.wrap_udp_socket(socket)?)))
    }
    fn now(&self) -> Instant {
        TokioRuntime.now()
    }
}

/// A socket of quinn's, which sends no batches any more once one was refused, but drops that one.
#[derive(Debug)]
struct Socket(Arc<dyn AsyncUdpSocket>);

impl Socket {
    fn takes_batches(&self) -> bool {
        self.0.max_transmit_segments() > 1
    }
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        self.0.clone().create_io_poller()
    }
    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let batch = transmit.segment_size.filter(|&size| size < transmit.contents.len());
        if batch.is_none() || self.takes_batches() {
            self.0.try_send(transmit)?;
        }
        let Some(size) = batch.filter(|_| !self.takes_batches()) else { return Ok(()) };
        for (number, contents) in transmit.contents.chunks(size).enumerate() {
            let one = Transmit { contents, segment_size: None, ..*transmit };
            match self.0.try_send(&one) {
                // The caller would send those again that have left: the rest is lost instead.
                Err(error) if number > 0 && error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                other => other?,
            }
        }
        Ok(())
    }
    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_recv(context, buffers, meta)
    }
    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
    fn max_transmit_segments(&self) -> usize {
        self.0.max_transmit_segments()
    }
    fn max_receive_segments(&self) -> usize {
        self.0.max_receive_segments()
    }
    fn may_fragment(&self) -> bool {
        self.0.may_fragment()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A socket that refuses batches as quinn's does, and blocks after so many datagrams. It keeps what it sends.
    #[derive(Debug)]
    struct Plain {
        segments: AtomicUsize,
        refuses: bool,
        room: usize,
        sent: Mutex<Vec<Vec<u8>>>,
    }

    impl AsyncUdpSocket for Plain {
        fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
            unreachable!("nothing waits here")
        }
        fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
            let mut sent = self.sent.lock().unwrap();
            if sent.len() >= self.room {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            if self.refuses && transmit.segment_size.is_some() {
                self.segments.store(1, Ordering::Relaxed);
            } else {
                let size = transmit.segment_size.unwrap_or(transmit.contents.len());
                sent.extend(transmit.contents.chunks(size).map(<[u8]>::to_vec));
            }
            Ok(())
        }
        fn poll_recv(
            &self,
            _: &mut Context<'_>,
            _: &mut [IoSliceMut<'_>],
            _: &mut [RecvMeta],
        ) -> Poll<io::Result<usize>> {
            Poll::Pending
        }
        fn local_addr(&self) -> io::Result<SocketAddr> {
            Ok(([127, 0, 0, 1], 1).into())
        }
        fn max_transmit_segments(&self) -> usize {
            self.segments.load(Ordering::Relaxed)
        }
    }

    /// What a socket sends of a batch of three datagrams, sent twice, and the results.
    fn sent(refuses: bool, room: usize) -> (Vec<Vec<u8>>, [bool; 2]) {
        let plain = Arc::new(Plain { segments: AtomicUsize::new(64), refuses, room, sent: Mutex::default() });
        let socket = Socket(plain.clone());
        let batch = Transmit {
            destination: ([127, 0, 0, 1], 2).into(),
            ecn: None,
            contents: b"aabbc",
            segment_size: Some(2),
            src_ip: None,
        };
        let results = [socket.try_send(&batch).is_ok(), socket.try_send(&batch).is_ok()];
        let sent = plain.sent.lock().unwrap().clone();
        (sent, results)
    }

    #[test]
    fn a_batch_that_is_refused_is_sent_one_by_one_and_so_are_all_that_follow() {
        let all: Vec<Vec<u8>> = ["aa", "bb", "c", "aa", "bb", "c"].map(|text| text.into()).to_vec();
        assert_eq!(sent(true, 10), (all.clone(), [true, true]));
        assert_eq!(sent(false, 10), (all.clone(), [true, true]));
        // Nothing leaves twice, if the socket blocks meanwhile; a batch of which nothing has left is the caller's again.
        assert_eq!(sent(true, 4), (all[..4].to_vec(), [true, true]));
        assert_eq!(sent(true, 3), (all[..3].to_vec(), [true, false]));
    }

    #[test]
    fn a_single_datagram_is_sent_as_it_is() {
        let plain = Arc::new(Plain {
            segments: AtomicUsize::new(1),
            refuses: true,
            room: 10,
            sent: Mutex::default(),
        });
        let one = Transmit {
            destination: ([127, 0, 0, 1], 2).into(),
            ecn: None,
            contents: b"aa",
            segment_size: None,
            src_ip: None,
        };
        Socket(plain.clone()).try_send(&one).unwrap();
        assert_eq!(*plain.sent.lock().unwrap(), [b"aa"]);
    }
}
