//! A simulated host against Linux's TCP, over an emulated network. Needs root; otherwise says so and does nothing.

#![cfg(target_os = "linux")]

#[cfg(test)]
mod bed;

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use warpline_core::{Rate, TimeDelta};
    use warpline_live::wire::{HostConfig, Service, UdpService};
    use warpline_net::qdisc::{CodelParams, QdiscConfig};
    use warpline_transport::tcp::Outcome;

    use crate::bed::{Bed, LINUX_V4, LINUX_V6, Path, python};

    const MEGABYTES_10: usize = 10 << 20;
    /// Enough packets to lose some of them, each of which takes a while.
    const MEGABYTES_2: usize = 2 << 20;

    /// A bed; without one, prints why and ends the test.
    macro_rules! bed {
        ($path:expr, $change:expr) => {
            match Bed::make(&$path, $change) {
                Ok(bed) => bed,
                Err((what, why)) => return warpline_skip::skip(what, why),
            }
        };
    }

    fn as_it_is(_: &mut HostConfig) {}

    fn lossy(loss: f64) -> Path {
        Path { loss, rate: Some(Rate::from_bps(200_000_000)), ..Path::default() }
    }

    #[test]
    fn curl_fetches_megabytes() {
        for (loss, whole) in [(0.0, MEGABYTES_10), (0.01, MEGABYTES_2)] {
            let mut bed = bed!(lossy(loss), as_it_is);
            bed.world.host.listen(80, Service::Http { size: None }).unwrap();
            let size = whole.to_string();
            for host in ["192.0.2.2", "[2001:db8::2]"] {
                let url = format!("http://{host}/bytes/{size}");
                let format = "%{http_code} %{size_download} bytes in %{time_total} s";
                let said = bed.run(&["curl", "--silent", "--noproxy", "*", "-o", "page", "-w", format, &url]);
                println!("loss {loss}, {host}: {}", said.out);
                assert!(said.ok && said.out.starts_with(&format!("200 {size}")), "{said:?}");
                assert_eq!(bed.check_pattern("page"), (whole, 0));
            }
            for report in bed.reports(2) {
                assert_eq!(report.outcome, Some(Outcome::Complete));
                assert!(report.bytes_acked > whole as u64);
            }
            let lost: u64 = bed.links().iter().map(|link| link.drops_loss).sum();
            assert_eq!(lost > 0, loss > 0.0);
            println!("{:?}", bed.world.host.counters());
        }
    }

    /// Sends a file and reports what was negotiated, as the kernel sees it (struct tcp_info in linux/tcp.h).
    const SEND: &str = "
import subprocess
s = socket.create_connection((V6 if sys.argv[1] == '6' else V4, 9))
data = open('pattern', 'rb').read()
at = time.time()
s.sendall(data)
info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
print(subprocess.run(['ss', '-tin', 'dport', '=', ':9'], capture_output=True, text=True).stdout)
s.shutdown(socket.SHUT_WR)
assert s.recv(1) == b''
print('%.2f s' % (time.time() - at))
print('options=%d scales=%d,%d mss=%d' % (info[5], info[6] & 15, info[6] >> 4, struct.unpack_from('I', info, 16)[0]))
";

    fn send(bed: &mut Bed, family: &str) -> String {
        let program = python(SEND);
        let said = bed.run(&["python3", "-c", &program, family]);
        println!("{}", said.out);
        assert!(said.ok);
        said.out
    }

    #[test]
    fn linux_sends_megabytes() {
        for (loss, whole) in [(0.0, MEGABYTES_10), (0.01, MEGABYTES_2)] {
            let mut bed = bed!(lossy(loss), as_it_is);
            bed.world.host.listen(9, Service::Verify).unwrap();
            bed.write_pattern("pattern", whole);
            for (family, mss) in [("4", 1448), ("6", 1428)] {
                let said = send(&mut bed, family);
                // Timestamps, SACK, window scaling; our scale for a buffer of 256 KiB is 3.
                assert!(said.contains("options=7 "), "{said}");
                assert!(said.contains("scales=3,") && said.contains(&format!("mss={mss}")), "{said}");
            }
            for report in bed.reports(2) {
                assert_eq!((report.outcome, report.differences), (Some(Outcome::Complete), 0));
                assert_eq!(report.bytes_received, whole as u64);
            }
            println!("loss {loss}: {:?}", bed.world.host.counters());
        }
    }

    #[test]
    fn the_host_connects_to_linux() {
        let mut bed = bed!(lossy(0.01), as_it_is);
        let server = python(
            "
l = socket.create_server(('::' if sys.argv[1] == '6' else '0.0.0.0', 5000), family=socket.AF_INET6 if sys.argv[1] == '6' else socket.AF_INET)
print('ready', flush=True)
c, _ = l.accept()
data = bytearray()
while True:
    part = c.recv(1 << 20)
    if not part: break
    data += part
open('got', 'wb').write(data)
c.sendall(data[:1000000])
c.close()
",
        );
        for (family, address) in [("4", LINUX_V4.into()), ("6", LINUX_V6.into())] {
            let mut child = bed.start(&["python3", "-c", &server, family]);
            // The first attempts may find no listener.
            let report = loop {
                let count = bed.reports(0).len() + 1;
                let service = Service::Source { bytes: Some(MEGABYTES_2 as u64) };
                let now = bed.now();
                bed.world.host.connect(now, SocketAddr::new(address, 5000), service).unwrap();
                let report = bed.reports(count)[count - 1];
                if report.outcome != Some(Outcome::Reset) || report.bytes_acked > 0 || count > 500 {
                    break report;
                }
            };
            assert!(bed.finish(&mut child).ok);
            assert_eq!(bed.check_pattern("got"), (MEGABYTES_2, 0));
            let carried = (report.outcome, report.bytes_acked, report.bytes_received);
            assert_eq!(carried, (Some(Outcome::Complete), MEGABYTES_2 as u64, 1_000_000));
        }
    }

    #[test]
    fn options_of_old_and_ecn() {
        for old in [true, false] {
            let marking = QdiscConfig::Codel(CodelParams { ecn: true, ..CodelParams::default() });
            let path = Path { rate: Some(Rate::from_bps(50_000_000)), qdisc: marking, ..Path::default() };
            let mut bed = bed!(path, |config| config.tcp.ecn = true);
            bed.world.host.listen(9, Service::Verify).unwrap();
            bed.world.host.listen(80, Service::Http { size: None }).unwrap();
            bed.write_pattern("pattern", MEGABYTES_10);
            if old {
                for name in ["tcp_timestamps", "tcp_sack", "tcp_window_scaling"] {
                    bed.set(&format!("ipv4/{name}"), "0");
                }
            } else {
                bed.set("ipv4/tcp_ecn", "1");
            }
            let said = send(&mut bed, "4");
            let url = format!("http://192.0.2.2/bytes/{MEGABYTES_10}");
            assert!(bed.run(&["curl", "--silent", "--noproxy", "*", "-o", "page", &url]).ok);
            assert_eq!(bed.check_pattern("page"), (MEGABYTES_10, 0));
            if old {
                assert!(said.contains("options=0 ") && said.contains("mss=1460"), "{said}");
            } else {
                // ECN, and the mark was seen.
                let options: u32 =
                    said.split("options=").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
                assert_eq!(options & 8, 8, "{said}");
            }
            for report in bed.reports(2) {
                assert_eq!((report.outcome, report.differences), (Some(Outcome::Complete), 0));
            }
            let marked = bed.links().map(|link| link.marks);
            println!("old {old}: marked {marked:?}");
            assert!(old || marked.iter().all(|&count| count > 0));
        }
    }

    #[test]
    fn an_echo_with_half_close_and_a_slow_reader() {
        let mut bed = bed!(lossy(0.005), as_it_is);
        bed.world.host.listen(7, Service::Echo).unwrap();
        bed.world.host.listen(19, Service::Source { bytes: Some(MEGABYTES_2 as u64) }).unwrap();
        bed.write_pattern("pattern", 3 << 20);
        let said = bed.python(
            "
import threading
s = socket.create_connection((V4, 7))
data = open('pattern', 'rb').read()
def write():
    s.sendall(data); s.shutdown(socket.SHUT_WR)
t = threading.Thread(target=write); t.start()
# The host's window closes: it cannot send back what is not taken here.
while not (info(s, NOTSENT) > 0 and info(s, SND_WND) < info(s, SND_MSS)): time.sleep(0.01)
got = b''
while len(got) < len(data):
    part = s.recv(1 << 20)
    if not part: break
    got += part
assert got == data, len(got)
assert s.recv(1) == b''
# A reader that stops until the host has probed the closed window several times: segments come, and no new bytes in them.
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 20000); s.connect((V4, 19))
got = segments = 0
while got == 0 or info(s, SEGS_IN) < segments + 3:
    if info(s, DATA_SEGS_IN) > got: got, segments = info(s, DATA_SEGS_IN), info(s, SEGS_IN)
    time.sleep(0.01)
with open('got', 'wb') as f:
    while True:
        part = s.recv(1 << 20)
        if not part: break
        f.write(part)
",
        );
        assert!(said.ok);
        assert_eq!(bed.check_pattern("got"), (MEGABYTES_2, 0));
        for report in bed.reports(2) {
            assert_eq!(report.outcome, Some(Outcome::Complete));
        }
    }

    /// The host closes first, so that its end is in TIME-WAIT when Linux opens a new connection from the same port.
    #[test]
    fn a_port_is_used_again_at_once() {
        let mut bed = bed!(lossy(0.0), |config| config.tcp.time_wait = TimeDelta::from_secs(60));
        bed.world.host.listen(80, Service::Http { size: None }).unwrap();
        let said = bed.python(
            "
for _ in range(5):
    s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(('', 6000))
    while True:
        # Not before the last acknowledgement of the connection before has come.
        try: s.connect((V4, 80)); break
        except OSError as error: assert error.errno == errno.EADDRNOTAVAIL; time.sleep(0.01)
    s.sendall(b'GET /bytes/1000 HTTP/1.1\\r\\n\\r\\n')
    got = b''
    while True:
        part = s.recv(100000)
        if not part: break
        got += part
    assert got.startswith(b'HTTP/1.1 200 OK') and len(got) > 1000
    s.close()
",
        );
        assert!(said.ok);
        // Four made way for the next; the fifth waits.
        assert_eq!((bed.reports(4).len(), bed.world.host.connections()), (4, 1));
        let counters = bed.world.host.counters();
        assert_eq!((counters.refused, counters.resets), (0, 0), "{counters:?}");
    }

    #[test]
    fn keep_alives_resets_and_closed_ports() {
        let mut bed = bed!(lossy(0.0), as_it_is);
        bed.world.host.listen(9, Service::Discard).unwrap();
        bed.world.host.listen(19, Service::Source { bytes: None }).unwrap();
        bed.world.host.listen_udp(7, UdpService::Echo).unwrap();
        let said = bed.python(
            "
for family, address in ((socket.AF_INET, V4), (socket.AF_INET6, V6)):
    # Three keep-alives, of which none may be missed.
    s = socket.socket(family); s.connect((address, 9))
    for name, value in ((socket.TCP_KEEPIDLE, 1), (socket.TCP_KEEPINTVL, 1), (socket.TCP_KEEPCNT, 1)):
        s.setsockopt(socket.IPPROTO_TCP, name, value)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    answered = info(s, SEGS_IN) + 3
    while info(s, SEGS_IN) < answered: time.sleep(0.01)
    s.sendall(b'alive'); s.shutdown(socket.SHUT_WR); assert s.recv(1) == b''
    # Closed with unread data: a reset.
    s = socket.socket(family); s.connect((address, 19)); s.recv(1000); select.select([s], [], []); s.close()
    # Closed ports.
    try: socket.socket(family).connect((address, 81)); assert False
    except ConnectionRefusedError: pass
    u = socket.socket(family, socket.SOCK_DGRAM); u.settimeout(2)
    u.connect((address, 7)); u.send(b'hello'); assert u.recv(100) == b'hello'
    u.connect((address, 8)); u.send(b'hello')
    try: u.recv(100); assert False
    except ConnectionRefusedError: pass
",
        );
        assert!(said.ok);
        let reports = bed.reports(4);
        let outcomes: Vec<_> = reports.iter().map(|report| report.outcome).collect();
        let [complete, reset] = [Some(Outcome::Complete), Some(Outcome::Reset)];
        let mut sorted = outcomes.clone();
        sorted.sort_by_key(|outcome| *outcome == reset);
        assert_eq!(sorted, [complete, complete, reset, reset], "{outcomes:?}");
        for (flag, address) in [("-4", "192.0.2.2"), ("-6", "2001:db8::2")] {
            let said = bed.run(&["ping", flag, "-c", "2", "-i", "1", "-W", "30", address]);
            assert!(said.ok && said.out.contains(" 0% packet loss"), "{said:?}");
        }
        // We reset: Linux sees it.
        let mut child = bed.start(&[
            "python3",
            "-c",
            &python(
                "
s = socket.create_connection((V4, 9))
try: s.recv(1); assert False
except ConnectionResetError: pass
",
            ),
        ]);
        let seen = bed.world.events.len();
        let mut aborted = false;
        let now = bed.now() + TimeDelta::from_secs(1);
        bed.run_until(|world| {
            if let Some(&warpline_live::wire::HostEvent::Opened { id, .. }) = world.events[seen..].first() {
                world.host.abort(now, id);
                aborted = true;
            }
            aborted
        });
        assert!(aborted && bed.finish(&mut child).ok);
    }
}
