//! The route from an ordinary user's namespaces to the machine's network: pasta (passt.top), if it is installed.
//!
//! The kernel does not let an ordinary user connect a new namespace to the machine's network. pasta carries packets that arrive at
//! a tap device there through sockets of the user's own. It has to be started outside the namespaces, by a process that stays
//! there; so a small `sh` is started before they are made, and waits for the signal that they exist. It ends pasta when it gets
//! SIGTERM, which it also gets when the emulator dies, however that dies. pasta itself would not get it, since the kernel forgets that
//! setting when a process joins a user namespace (prctl(2), PR_SET_PDEATHSIG).

use std::fs;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::process::pause;
use crate::signals::Signals;
use crate::start::{self, in_path};

/// Waits for a line, then runs pasta, which is $2, on the namespaces of the process $1, forwarding nothing inwards.
const SCRIPT: &str = "read -r go || exit 0\n\
    \"$2\" --foreground --quiet --config-net -t none -u none -T none -U none \
    --netns \"/proc/$1/ns/net\" --userns \"/proc/$1/ns/user\" &\n\
    trap 'kill $!' TERM\n\
    wait $!";

/// How long to wait for pasta, in steps of 50 ms: if something is wrong it ends by itself. After the first part of that time a note says so.
const PATIENCE: u32 = 600;
const SILENCE: u32 = 40;
/// The device with which pasta makes the namespace's interface.
pub(crate) const TUN: &str = "/dev/net/tun";

/// Whether this user may use that device.
///
/// # Errors
/// The system's error, and what helps.
pub(crate) fn tun() -> io::Result<()> {
    let opened = fs::OpenOptions::new().read(true).write(true).open(TUN);
    opened.map(drop).map_err(|error| {
        let text = format!("this user cannot open {TUN}, which pasta needs ({error}); as root: modprobe tun; chmod 0666 {TUN}");
        io::Error::other(text)
    })
}

/// The process that provides the route, as long as this value exists.
#[derive(Debug)]
pub(super) struct Outward {
    child: Child,
}

impl Outward {
    /// Starts the process that waits. To be called before this process enters its namespaces.
    ///
    /// # Errors
    /// If there is no pasta, or no `sh`, or this user may not use what pasta needs.
    pub(super) fn prepare() -> io::Result<Self> {
        let program = in_path(&["pasta"]).ok_or(io::ErrorKind::NotFound)?;
        tun()?;
        let parent = std::process::id();
        let mut command = Command::new("sh");
        command
            .args(["-c", SCRIPT, "sh", &parent.to_string(), &program])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Ctrl-C is for the shell's command; and both end together.
            .process_group(0);
        let child = start::start(&mut command, rustix::process::Signal::TERM, || Ok(()))?;
        Ok(Outward { child })
    }

    /// Connects this process's network namespace, by now one of its own. Returns the address of the machine itself
    /// in it: pasta passes what is sent to the gateway to the machine's loopback. None if the machine has IPv6 only. Calls `warn` if it takes long.
    ///
    /// # Errors
    /// If pasta ends, with its last line, or does not connect within half a minute, or if a signal ends the wait.
    pub(super) fn connect(&mut self, warn: fn(&str), signals: &Signals) -> io::Result<Option<Ipv4Addr>> {
        if let Some(mut stdin) = self.child.stdin.take() {
            stdin.write_all(b"go\n")?;
        }
        for turn in 0..PATIENCE {
            // IPv6 first: pasta sets up IPv4 before it, so where that is missing afterwards it does not come. A kernel may have no IPv6.
            let v6 = fs::read_to_string("/proc/thread-self/net/ipv6_route").unwrap_or_default();
            let gateway = gateway(&fs::read_to_string("/proc/thread-self/net/route")?);
            if gateway.is_some() || has_default_v6(&v6) {
                return Ok(gateway);
            }
            if signals.early_end().is_some() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if turn == SILENCE {
                warn(
                    "waiting for pasta to connect this shell to the machine's network, for half a minute at most",
                );
            }
            if self.child.try_wait()?.is_some() {
                let mut said = String::new();
                if let Some(mut stderr) = self.child.stderr.take() {
                    let _ = stderr.read_to_string(&mut said);
                }
                let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
                return Err(io::Error::other(format!("pasta ended: {}", last.trim())));
            }
            pause();
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "pasta did not connect within half a minute"))
    }
}

impl Drop for Outward {
    fn drop(&mut self) {
        // Before it has been told to begin, it ends with its standard input.
        drop(self.child.stdin.take());
        let _ = killpg(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

/// The gateway of the default route, in a table in the format of `/proc/net/route`: addresses in hexadecimal, in the machine's byte order.
fn gateway(table: &str) -> Option<Ipv4Addr> {
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (destination, gateway) = (fields.next()?, fields.next()?);
        let gateway = u32::from_str_radix(gateway, 16).ok()?;
        (destination == "00000000" && gateway != 0).then(|| Ipv4Addr::from(gateway.to_ne_bytes()))
    })
}

/// Whether a table in the format of `/proc/net/ipv6_route` has a default route: to a network of no bits. The kernel itself has one to the loopback
/// interface, which refuses packets.
fn has_default_v6(table: &str) -> bool {
    table.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        matches!(fields[..], [_, "00", _, _, _, _, _, _, _, interface] if interface != "lo")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gateway_is_the_default_routes() {
        let head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n";
        let gateway_text = format!("{:08X}", u32::from_ne_bytes([192, 0, 2, 1]));
        let subnet = format!("{:08X}", u32::from_ne_bytes([192, 0, 2, 0]));
        let on_link = format!("eth0\t{subnet}\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n");
        assert_eq!(gateway(head), None);
        assert_eq!(gateway(&format!("{head}{on_link}")), None);
        let default = format!("eth0\t00000000\t{gateway_text}\t0003\t0\t0\t0\t00000000\t0\t0\t0\n");
        assert_eq!(gateway(&format!("{head}{on_link}{default}")), Some(Ipv4Addr::new(192, 0, 2, 1)));
        // Cut off in the middle of a line.
        assert_eq!(gateway(&format!("{head}eth0\t0000")), None);
    }

    #[test]
    fn a_default_route_of_ipv6_is_not_the_kernel_s_own() {
        let line = |to: &str, len: &str, via: &str, flags: &str, interface: &str| {
            let none = "0".repeat(32);
            format!("{to} {len} {none} 00 {via} 00000400 00000001 00000000 {flags} {interface:>8}\n")
        };
        let (none, router) = ("0".repeat(32), "fe800000000000000000000000000001");
        let own = line(&none, "00", &none, "00200200", "lo");
        let on_link = line("fd776172706c64420000000000000000", "40", &none, "00000001", "wl0");
        let default = line(&none, "00", router, "00000003", "eth0");
        assert!(!has_default_v6(""));
        assert!(!has_default_v6(&format!("{on_link}{own}")));
        assert!(has_default_v6(&format!("{on_link}{default}{own}")));
        // Cut off in the middle of a line.
        assert!(!has_default_v6(&format!("{none} 00 {none} 00")));
    }
}
