//! Checks whether a program is ready: a listening port, a printed text, a file.
//!
//! Used inside guests, and on the machine for programs in network namespaces.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::listeners::{Listener, Listeners};

/// The sign that a program is ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// A TCP socket listens on this port, or a UDP socket is bound to it, at any address.
    Port(u16),
    /// A TCP socket listens on this port for connections from other hosts.
    Listens {
        /// The port.
        port: u16,
        /// Whether they use IPv6.
        ipv6: bool,
    },
    /// The program has printed this, to its standard output or error.
    Prints(String),
    /// This file exists (a relative path starts at the program's directory), and has changed if it existed before.
    File(String),
    /// This command has ended with exit code 0; until then it is run again and again. The caller runs it.
    Command(Vec<String>),
}

/// States of sockets (linux/net/tcp_states.h): a listening TCP socket, and a UDP socket that is not connected.
const LISTEN: u8 = 10;
const UNCONNECTED: u8 = 7;

/// The sockets of one network namespace, which can be read from any namespace.
#[derive(Debug)]
pub struct Sockets {
    tcp: Tcp,
    udp: Tables,
}

/// Where listening TCP sockets are looked up.
#[derive(Debug)]
enum Tcp {
    /// By asking the kernel (sock_diag).
    Asked(Listeners),
    /// In the tables of all connections, if the kernel does not support sock_diag.
    Read(Tables),
}

/// The tables of one network namespace, which can be read from any namespace.
#[derive(Debug)]
struct Tables([Option<File>; 2]);

impl Sockets {
    /// The tables of the calling thread's namespace.
    ///
    /// # Errors
    /// If the system does not provide TCP's.
    pub fn open() -> io::Result<Self> {
        let open = |name: &str| File::open(Path::new("/proc/thread-self/net").join(name));
        let tcp = match Listeners::open() {
            Ok(listeners) => Tcp::Asked(listeners),
            Err(_) => Tcp::Read(Tables([Some(open("tcp")?), open("tcp6").ok()])),
        };
        Ok(Sockets { tcp, udp: Tables(["udp", "udp6"].map(|name| open(name).ok())) })
    }

    /// The TCP sockets that listen on a port.
    fn listeners(&mut self, port: u16) -> io::Result<Vec<Listener>> {
        match &mut self.tcp {
            Tcp::Asked(listeners) => listeners.at(port),
            Tcp::Read(tables) => tables.at(port, LISTEN),
        }
    }
}

impl Tables {
    /// The sockets in this state that have this port.
    fn at(&mut self, port: u16, state: u8) -> io::Result<Vec<Listener>> {
        let mut found = Vec::new();
        for file in self.0.iter_mut().flatten() {
            let mut text = String::new();
            file.seek(SeekFrom::Start(0))?;
            file.read_to_string(&mut text)?;
            let sockets =
                text.lines().filter_map(socket).filter(|socket| (socket.1, socket.2) == (port, state));
            found.extend(sockets.map(|(address, ..)| Listener { address, only_ipv6: false }));
        }
        Ok(found)
    }
}

/// Address, port and state in a line of a table.
fn socket(line: &str) -> Option<(IpAddr, u16, u8)> {
    let mut fields = line.split_whitespace().skip(1);
    let (address, port) = fields.next()?.split_once(':')?;
    let state = fields.nth(1)?;
    // Addresses are written as four-byte numbers in this machine's byte order.
    let number = |at: usize| u32::from_str_radix(address.get(at..at + 8)?, 16).ok();
    let address = match address.len() {
        8 => IpAddr::from(number(0)?.to_ne_bytes()),
        32 => {
            let mut bytes = [0; 16];
            for (part, at) in bytes.chunks_exact_mut(4).zip([0, 8, 16, 24]) {
                part.copy_from_slice(&number(at)?.to_ne_bytes());
            }
            IpAddr::from(bytes)
        }
        _ => return None,
    };
    Some((address, u16::from_str_radix(port, 16).ok()?, u8::from_str_radix(state, 16).ok()?))
}

/// Whether a socket accepts connections from other hosts, by IPv6 or IPv4.
fn takes(listener: Listener, ipv6: bool) -> bool {
    let Listener { address, only_ipv6 } = listener;
    let both = address == IpAddr::V6(Ipv6Addr::UNSPECIFIED) && !only_ipv6;
    let address = address.to_canonical();
    !address.is_loopback() && (both || address.is_ipv6() == ipv6)
}

/// The surroundings of a program.
#[derive(Debug)]
pub struct Surroundings {
    /// The sockets of its host.
    pub sockets: Option<Sockets>,
    /// The files of its output.
    pub output: Vec<PathBuf>,
    /// Its working directory.
    pub directory: PathBuf,
}

/// A file's size and modification time; `None` if it does not exist.
type Stamp = Option<(u64, Option<SystemTime>)>;

fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.len(), metadata.modified().ok()))
}

/// Looks for a text in a growing file.
#[derive(Debug)]
struct Search {
    path: PathBuf,
    from: u64,
    /// The end of what was read so far: the text may have begun there.
    carry: Vec<u8>,
}

impl Search {
    fn finds(&mut self, text: &[u8]) -> io::Result<bool> {
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            other => other?,
        };
        file.seek(SeekFrom::Start(self.from))?;
        let before = self.carry.len();
        file.read_to_end(&mut self.carry)?;
        self.from += (self.carry.len() - before) as u64;
        let found = self.carry.windows(text.len().max(1)).any(|window| window == text);
        let keep = self.carry.len().min(text.len().saturating_sub(1));
        self.carry.drain(..self.carry.len() - keep);
        Ok(found)
    }
}

/// A running check.
#[derive(Debug)]
pub enum Probe {
    /// A port, of either protocol.
    Port(Sockets, u16),
    /// A port that accepts connections, and whether by IPv6.
    Listens(Sockets, u16, bool),
    /// A text in any of these files.
    Prints(Vec<u8>, Vec<Output>),
    /// A file, and its previous state.
    File(PathBuf, Stamped),
    /// A command that the caller runs.
    Command,
}

/// A program's output, with what has been read of it.
#[derive(Debug)]
pub struct Output(Search);

/// A file, and its state when the program started.
#[derive(Debug)]
pub struct Stamped(Stamp);

impl Probe {
    /// Begins a check. Call it before the program starts.
    ///
    /// # Errors
    /// If the host's sockets cannot be read.
    pub fn begin(check: &Check, around: Surroundings) -> io::Result<Self> {
        let sockets =
            || around.sockets.ok_or_else(|| io::Error::other("the host's sockets cannot be listed"));
        Ok(match check {
            Check::Port(port) => Probe::Port(sockets()?, *port),
            Check::Listens { port, ipv6 } => Probe::Listens(sockets()?, *port, *ipv6),
            Check::Prints(text) => {
                let search = |path| Output(Search { path, from: 0, carry: Vec::new() });
                Probe::Prints(text.clone().into_bytes(), around.output.into_iter().map(search).collect())
            }
            Check::File(name) => {
                let path = around.directory.join(name);
                let before = Stamped(stamp(&path));
                Probe::File(path, before)
            }
            Check::Command(_) => Probe::Command,
        })
    }

    /// Whether the condition holds now. Always false for a command.
    ///
    /// # Errors
    /// If it cannot be checked.
    pub fn holds(&mut self) -> io::Result<bool> {
        match self {
            Probe::Port(sockets, port) => {
                Ok(!sockets.listeners(*port)?.is_empty() || !sockets.udp.at(*port, UNCONNECTED)?.is_empty())
            }
            Probe::Listens(sockets, port, ipv6) => {
                Ok(sockets.listeners(*port)?.into_iter().any(|listener| takes(listener, *ipv6)))
            }
            Probe::Prints(text, files) => {
                for Output(search) in files {
                    if search.finds(text)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Probe::File(path, Stamped(before)) => {
                let now = stamp(path);
                Ok(now.is_some() && now != *before)
            }
            Probe::Command => Ok(false),
        }
    }
}

/// A command that repeats another one until that succeeds.
pub fn retried(words: &[String]) -> Vec<String> {
    const LOOP: &str = "until \"$@\"; do sleep 0.1; done";
    ["sh", "-c", LOOP, "sh"].map(str::to_owned).into_iter().chain(words.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    fn begun(check: &Check, directory: &Path) -> Probe {
        let sockets = Some(Sockets::open().unwrap());
        let output = vec![directory.join("stdout"), directory.join("stderr")];
        Probe::begin(check, Surroundings { sockets, output, directory: directory.to_owned() }).unwrap()
    }

    #[test]
    fn a_listening_port_is_found() {
        let nowhere = Path::new("/nonexistent");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut probe = begun(&Check::Port(port), nowhere);
        // No other host can connect to a loopback address.
        let mut from_elsewhere = begun(&Check::Listens { port, ipv6: false }, nowhere);
        assert!(probe.holds().unwrap() && !from_elsewhere.holds().unwrap());
        drop(listener);
        assert!(!probe.holds().unwrap());
        let everywhere = TcpListener::bind(("0.0.0.0", port)).unwrap();
        assert!(probe.holds().unwrap() && from_elsewhere.holds().unwrap());
        assert!(!begun(&Check::Listens { port, ipv6: true }, nowhere).holds().unwrap());
        drop(everywhere);
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(begun(&Check::Port(udp.local_addr().unwrap().port()), nowhere).holds().unwrap());
    }

    #[test]
    fn a_text_in_several_writes_and_a_changed_file_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let mut probe = begun(&Check::Prints("listening on".to_owned()), directory.path());
        assert!(!probe.holds().unwrap());
        let mut file = File::create(directory.path().join("stderr")).unwrap();
        for (part, found) in [("starting\nlisten", false), ("ing", false), (" on 80", true)] {
            file.write_all(part.as_bytes()).unwrap();
            assert_eq!(probe.holds().unwrap(), found, "{part}");
        }
        let own = directory.path().join("ready");
        fs::write(&own, "old").unwrap();
        let mut probe = begun(&Check::File("ready".to_owned()), directory.path());
        assert!(!probe.holds().unwrap());
        fs::write(&own, "newer").unwrap();
        assert!(probe.holds().unwrap());
    }

    #[test]
    fn lines_of_the_kernels_tables_are_parsed() {
        let line = "   0: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 0:0";
        assert_eq!(socket(line), Some((Ipv6Addr::UNSPECIFIED.into(), 8080, LISTEN)));
        let own = |text: &str| socket(&format!("0: {text}:0050 0:0 07")).unwrap().0.to_string();
        let numbers = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
        assert_eq!(own(&numbers([127, 0, 0, 1])), "127.0.0.1");
        let rest = [numbers([0; 4]), numbers([0; 4]), numbers([0, 0, 0, 1])].concat();
        assert_eq!(own(&(numbers([0x20, 1, 0xd, 0xb8]) + &rest)), "2001:db8::1");
        for wrong in ["  sl  local_address rem_address   st", "0: 0100:0050 0:0 07", "0: 0100007F:0050"] {
            assert_eq!(socket(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_address_of_a_socket_decides_which_connections_it_accepts() {
        // By IPv4, and by IPv6.
        for (address, only_ipv6, taken) in [
            ("10.0.0.1", false, (true, false)),
            ("0.0.0.0", false, (true, false)),
            ("127.0.0.1", false, (false, false)),
            ("::", false, (true, true)),
            ("::", true, (false, true)),
            ("::1", false, (false, false)),
            ("2001:db8::1", false, (false, true)),
            ("::ffff:10.0.0.1", false, (true, false)),
            ("::ffff:127.0.0.1", false, (false, false)),
        ] {
            let listener = Listener { address: address.parse().unwrap(), only_ipv6 };
            assert_eq!((takes(listener, false), takes(listener, true)), taken, "{address}");
        }
    }

    /// The tables, for kernels without sock_diag, give the same result.
    #[test]
    fn tables_and_sock_diag_agree() {
        let open = |name: &str| File::open(Path::new("/proc/thread-self/net").join(name)).ok();
        let mut read =
            Sockets { tcp: Tcp::Read(Tables(["tcp", "tcp6"].map(open))), ..Sockets::open().unwrap() };
        let mut asked = Sockets::open().unwrap();
        let [one, both] = ["127.0.0.1:0", "0.0.0.0:0"].map(|address| TcpListener::bind(address).unwrap());
        for listener in [one, both] {
            let address = listener.local_addr().unwrap();
            let found = [Listener { address: address.ip(), only_ipv6: false }];
            assert_eq!(read.listeners(address.port()).unwrap(), found);
            assert_eq!(asked.listeners(address.port()).unwrap(), found);
            drop(listener);
            assert_eq!(read.listeners(address.port()).unwrap(), []);
        }
    }
}
