//! `warpline run --metrics`: OpenMetrics text of flows, links and lateness over HTTP, for Prometheus, while a run goes on.
//!
//! The run only leaves its newest samples here. Threads of their own answer: whatever a client does, no packet waits for it.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use warpline_core::TimeDelta;
use warpline_lab::run::watch::{Lateness, Sample, Watch};
use warpline_results::openmetrics::{CONTENT_TYPE, Text};
use warpline_results::{FlowSample, LinkSample};
use warpline_scenario::Scenario;

use crate::failure::Failure;
use crate::output;
use crate::watched::Watched;

/// The path of the metrics, as Prometheus asks for it.
const PATH: &str = "/metrics";
/// So many clients are answered at the same time; others are hung up on.
const CLIENTS: usize = 16;
/// How long a read or a write may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// A request has at most so many bytes, in at most so many pieces.
const REQUEST: usize = 8192;
const PIECES: usize = 8;

/// Where to serve: "9000" is port 9000 of 127.0.0.1.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let local = |port: u16| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    text.parse().or_else(|_| text.parse().map(local)).map_err(|_| {
        format!("\"{text}\" is not an address with its port; write 127.0.0.1:9000, [::1]:9000, or a port of this machine alone: 9000")
    })
}

/// The newest samples.
#[derive(Debug, Default)]
struct Newest {
    time: TimeDelta,
    flows: Vec<FlowSample>,
    links: Vec<LinkSample>,
    lateness: Option<Lateness>,
}

/// What the threads answer from.
#[derive(Debug)]
pub(crate) struct Metrics {
    watched: Watched,
    newest: Mutex<Arc<Newest>>,
}

/// A socket that listens. It is opened before the process may move into a namespace of its own.
///
/// # Errors
/// If the address cannot be had.
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    let listener = TcpListener::bind(address).map_err(|error| {
        Failure::run(format!("cannot serve metrics at {address}: {error}; name another address or port"))
    })?;
    if let Ok(local) = listener.local_addr() {
        output::note(&format!("metrics: http://{local}{PATH}"));
    }
    Ok(listener)
}

impl Metrics {
    /// Serves the metrics of a run until the process ends.
    pub(crate) fn serve(listener: TcpListener, scenario: &Scenario) -> Arc<Metrics> {
        let metrics = Arc::new(Metrics { watched: Watched::new(scenario), newest: Mutex::default() });
        let own = Arc::clone(&metrics);
        std::thread::spawn(move || own.accept(&listener));
        metrics
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        let clients = Arc::new(AtomicUsize::new(0));
        for client in listener.incoming() {
            let Ok(client) = client else {
                // No descriptors are left, for now.
                std::thread::park_timeout(Duration::from_millis(100));
                continue;
            };
            if clients.fetch_add(1, Ordering::Relaxed) >= CLIENTS {
                clients.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let (own, count) = (Arc::clone(self), Arc::clone(&clients));
            std::thread::spawn(move || {
                let _ = own.answer(client);
                count.fetch_sub(1, Ordering::Relaxed);
            });
        }
    }

    fn answer(&self, mut client: TcpStream) -> io::Result<()> {
        client.set_read_timeout(Some(PATIENCE))?;
        client.set_write_timeout(Some(PATIENCE))?;
        let request = request(&mut client)?;
        let mut words = request.split(|byte| *byte == b' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let target = target.split(|byte| *byte == b'?').next().unwrap_or_default();
        let (status, kind, body) = match (method, target) {
            (b"GET", target) if target == PATH.as_bytes() => ("200 OK", CONTENT_TYPE, self.text()),
            (b"GET", _) => ("404 Not Found", "text/plain", format!("the metrics are at {PATH}\n")),
            _ => ("405 Method Not Allowed", "text/plain", "only GET is answered\n".to_owned()),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        client.write_all(head.as_bytes())?;
        client.write_all(body.as_bytes())
    }

    fn text(&self) -> String {
        let newest = Arc::clone(&self.newest.lock().unwrap_or_else(PoisonError::into_inner));
        let (watched, run) = (&self.watched, self.watched.run_labels());
        let mut text = Text::default();
        text.begin("warpline_run", "info", None, "What runs.");
        text.sample("warpline_run_info", &run, 1);
        text.begin(
            "warpline_run_time_seconds",
            "gauge",
            Some("seconds"),
            "The run's time at the newest samples.",
        );
        text.sample("warpline_run_time_seconds", &run, newest.time.as_secs_f64());
        if let Some(Lateness { packets, late }) = newest.lateness {
            let counts = [
                ("sent", packets, "Packets that left the emulated network."),
                ("late", late, "Those of them that left late."),
            ];
            for (which, count, about) in counts {
                let name = format!("warpline_emulator_{which}_packets");
                text.begin(&name, "counter", Some("packets"), about);
                text.sample(&format!("{name}_total"), &run, count);
            }
        }
        let labels: Vec<String> =
            newest.flows.iter().map(|sample| watched.flow_labels(sample.flow)).collect();
        text.rows(&newest.flows, &labels);
        let labels: Vec<String> =
            newest.links.iter().map(|sample| watched.link_labels(sample.link)).collect();
        text.rows(&newest.links, &labels);
        text.finish()
    }
}

/// Reads a request up to the end of its head, of which only the first line counts.
fn request(client: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    let mut piece = [0; REQUEST / PIECES];
    for _ in 0..PIECES {
        let length = client.read(&mut piece)?;
        request.extend_from_slice(&piece[..length]);
        if length == 0 || request.windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(request);
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

impl Watch for Metrics {
    fn sample(&self, sample: &Sample<'_>) {
        let newest = Arc::new(Newest {
            time: sample.time,
            flows: sample.flows.to_vec(),
            links: sample.links.to_vec(),
            lateness: sample.lateness,
        });
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = newest;
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn scenario() -> Scenario {
        let text = "name = \"two\"\nduration = \"1s\"\nlink = [{ between = [\"a\", \"b\"], rate = \"1Mbit/s\" }]\nflow = [{ name = \"up\", from = \"a\", to = \"b\" }]";
        Scenario::from_toml("test.toml", text, &[]).unwrap()
    }

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(request).unwrap();
        let mut answer = String::new();
        BufReader::new(client).read_to_string(&mut answer).unwrap();
        answer
    }

    fn served() -> (SocketAddr, Arc<Metrics>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        (address, Metrics::serve(listener, &scenario()))
    }

    #[test]
    fn the_newest_samples_are_served() {
        let (address, metrics) = served();
        let before = ask(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(before.starts_with("HTTP/1.1 200 OK\r\n") && before.contains(CONTENT_TYPE), "{before}");
        assert!(before.ends_with("# EOF\n") && !before.contains("warpline_flow"), "{before}");
        metrics.sample(&Sample {
            time: TimeDelta::from_millis(500),
            duration: TimeDelta::from_secs(1),
            flows: &[FlowSample::new(0.5, 0, 1e6, 1.1e6)],
            links: &[LinkSample {
                link: 1,
                backlog_packets: 3,
                queue_delay_ms: Some(2.5),
                ..LinkSample::default()
            }],
            lateness: Some(Lateness { packets: 100, late: 2 }),
        });
        let answer = ask(address, b"GET /metrics?x=1 HTTP/1.0\r\n\r\n");
        insta::assert_snapshot!(answer.split_once("\r\n\r\n").unwrap().1);
    }

    #[test]
    fn a_client_that_misbehaves_is_refused_and_keeps_nobody_waiting() {
        let (address, _metrics) = served();
        // These say nothing; the limit is reached without them.
        let _idle: Vec<_> = (0..CLIENTS - 1).map(|_| TcpStream::connect(address).unwrap()).collect();
        let answer = |request: &[u8]| ask(address, request);
        assert!(answer(b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(answer(b"DELETE /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    }

    #[test]
    fn a_request_ends() {
        assert_eq!(
            request(&mut &b"GET /metrics HTTP/1.1\r\n\r\nmore"[..]).unwrap(),
            b"GET /metrics HTTP/1.1\r\n\r\nmore"
        );
        assert_eq!(request(&mut &b"GET"[..]).unwrap(), b"GET");
        assert!(request(&mut &[b'x'; 2 * REQUEST][..]).is_err());
    }

    #[test]
    fn a_port_alone_is_on_this_machine() {
        assert_eq!(address("9000").unwrap().to_string(), "127.0.0.1:9000");
        assert_eq!(address("[::]:9000").unwrap().to_string(), "[::]:9000");
        for wrong in ["", "localhost:9000", "127.0.0.1", "99999"] {
            assert!(address(wrong).unwrap_err().contains("127.0.0.1:9000"));
        }
    }
}
