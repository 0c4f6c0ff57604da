//! Checks whether a program is ready: a listening port, a printed text, a file.
//!
//! Used inside guests, and beside them for programs in network namespaces of the machine.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

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
    /// This command has ended with exit code 0; it is tried again and again. The caller runs it.
    Command(Vec<String>),
}

/// Tables of sockets of a network namespace, by /proc/net's names: TCP first, then UDP; IPv4 before IPv6 (proc(5)).
const TABLES: [&str; 4] = ["tcp", "tcp6", "udp", "udp6"];
/// States in those tables (linux/net/tcp_states.h): a listening TCP socket, and a UDP socket that is not connected.
const LISTEN: &str = "0A";
const UNCONNECTED: &str = "07";

/// The tables of one network namespace, which can be read from any namespace.
#[derive(Debug)]
pub struct Sockets([Option<File>; 4]);

impl Sockets {
    /// The tables of the calling thread's namespace.
    ///
    /// # Errors
    /// If the system does not provide TCP's.
    pub fn open() -> io::Result<Self> {
        let open = |name: &str| File::open(Path::new("/proc/thread-self/net").join(name));
        let [tcp, tcp6, udp, udp6] = TABLES.map(open);
        // A kernel without IPv6 has only two of them.
        Ok(Sockets([Some(tcp?), tcp6.ok(), udp.ok(), udp6.ok()]))
    }

    /// Whether a socket in one of these tables matches. For each table the kernel goes through all of its connections, so only the
    /// necessary ones are read.
    fn any(
        &mut self,
        tables: std::ops::Range<usize>,
        matches: impl Fn(usize, &str, u16, &str) -> bool,
    ) -> io::Result<bool> {
        for (table, file) in self.0.iter_mut().enumerate().filter(|(table, _)| tables.contains(table)) {
            let Some(file) = file else { continue };
            let mut text = String::new();
            file.seek(SeekFrom::Start(0))?;
            file.read_to_string(&mut text)?;
            if text
                .lines()
                .filter_map(socket)
                .any(|(address, port, state)| matches(table, address, port, state))
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Address, port and state in a line of a table; address and state as hexadecimal text.
fn socket(line: &str) -> Option<(&str, u16, &str)> {
    let mut fields = line.split_whitespace().skip(1);
    let (address, port) = fields.next()?.split_once(':')?;
    let state = fields.nth(1)?;
    Some((address, u16::from_str_radix(port, 16).ok()?, state))
}

/// Whether a listening TCP socket with this address in table `table` accepts connections from other hosts.
fn takes(table: usize, address: &str, ipv6: bool) -> bool {
    /// The first twelve bytes of an IPv4 address in IPv6's form, and the loopback address, in the table's notation.
    const MAPPED: &str = "0000000000000000FFFF0000";
    const LOOPBACK: &str = "00000000000000000000000001000000";
    let loopback = |v4: &str| v4.ends_with("7F");
    match (table, address.strip_prefix(MAPPED)) {
        (0, _) => !ipv6 && !loopback(address),
        (1, Some(v4)) => !ipv6 && !loopback(v4),
        // The unspecified address accepts both.
        (1, None) => address != LOOPBACK && (ipv6 || address.bytes().all(|digit| digit == b'0')),
        _ => false,
    }
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

/// A growing file that may come to contain a text.
#[derive(Debug)]
struct Search {
    path: PathBuf,
    from: u64,
    /// The end of what was read, in which the text may have begun.
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
    /// A text, and the files in which it may appear.
    Prints(Vec<u8>, Vec<Output>),
    /// A file, and its previous state.
    File(PathBuf, Stamped),
    /// A command that the caller runs.
    Command,
}

/// A program's output, as far as it was read.
#[derive(Debug)]
pub struct Output(Search);

/// A file's state when the program began.
#[derive(Debug)]
pub struct Stamped(Stamp);

impl Probe {
    /// Begins a check; call it before the program starts.
    ///
    /// # Errors
    /// If the host's sockets cannot be read.
    pub fn begin(check: &Check, around: Surroundings) -> io::Result<Self> {
        let sockets = || around.sockets.ok_or_else(|| io::Error::other("the host's sockets cannot be seen"));
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

    /// Whether it holds now. Always false for a command.
    ///
    /// # Errors
    /// If it cannot be checked.
    pub fn holds(&mut self) -> io::Result<bool> {
        match self {
            Probe::Port(sockets, port) => sockets.any(0..4, |table, _, own, state| {
                own == *port && state == if table < 2 { LISTEN } else { UNCONNECTED }
            }),
            Probe::Listens(sockets, port, ipv6) => sockets
                .any(usize::from(*ipv6)..2, |table, address, own, state| {
                    own == *port && state == LISTEN && takes(table, address, *ipv6)
                }),
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

/// The words of a command that tries another one again and again until it succeeds.
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
    fn a_port_is_seen_when_something_listens() {
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
    fn a_text_is_found_though_it_comes_in_pieces_and_a_file_when_it_changes() {
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
    fn addresses_of_the_tables_are_told_apart() {
        let line = "   0: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 0:0";
        let (address, port, state) = socket(line).unwrap();
        assert_eq!((port, state), (8080, LISTEN));
        assert!(takes(1, address, true) && takes(1, address, false) && !takes(2, address, false));
        let own = "B80D0120000000000000000001000000"; // 2001:db8::1
        assert!(takes(1, own, true) && !takes(1, own, false));
        assert!(!takes(1, "00000000000000000000000001000000", true));
        let mapped = "0000000000000000FFFF00000100000A"; // 10.0.0.1
        assert!(takes(1, mapped, false) && !takes(1, mapped, true));
        assert!(takes(0, "0100000A", false) && !takes(0, "0100007F", false));
        assert_eq!(socket("  sl  local_address rem_address   st"), None);
    }
}
