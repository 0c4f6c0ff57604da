//! The way from the emulated network to the world beyond this machine: forwarding, and address translation by nftables.

use std::fs;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};

use crate::doctor::in_path;
use crate::registry::{Session, Setting};
use crate::shell::address;

/// How far packets from inside get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// Wherever the namespace outside gets.
    World,
    /// To the namespace outside only.
    Base,
}

/// Runs one command or script of `nft`.
///
/// # Errors
/// If there is no `nft`, or if it refuses.
pub fn nft(script: &str) -> io::Result<()> {
    let program = in_path(&["nft"]).ok_or(io::ErrorKind::NotFound)?;
    let mut child = Command::new(program)
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(script.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// A way out for packets from inside.
#[derive(Debug)]
pub struct Way<'a> {
    /// Their addresses: prefixes with lengths.
    pub networks: &'a [(IpAddr, u8)],
    /// The interface by which they come in.
    pub interface: &'a str,
    /// In a namespace that is the emulator's own making: its address towards them, and the address at which the machine is found.
    /// What they send to the one by TCP and UDP goes to the other.
    pub machine: Option<(Ipv4Addr, Ipv4Addr)>,
    /// Whether the namespace is the emulator's own. Packets that fit no connection are dropped then: they would not be translated
    /// back, and the namespace would answer with a reset (pasta of 2023 sends window updates without the ACK flag).
    pub own: bool,
}

/// Families of the tables that sessions make.
const FAMILIES: [&str; 2] = ["ip", "inet"];

/// The name of the table that the session `id` makes.
pub(crate) fn table(id: &str) -> String {
    format!("warpline_{}", id.replace('-', "_"))
}

/// Whether the session `id` makes this table, named with its family.
pub(crate) fn is_table(named: &str, id: &str) -> bool {
    FAMILIES.iter().any(|family| named == format!("{family} {}", table(id)))
}

/// Removes a table of a session, named with its family.
///
/// # Errors
/// If there is none, or without permission.
pub(crate) fn remove(table: &str) -> io::Result<()> {
    nft(&format!("delete table {table}"))
}

/// Lets packets go wherever this namespace gets, under its own address. What is changed is noted in `session`, which takes it
/// back. IPv4 packets are forwarded from then on; for those of IPv6 see [`forward`].
///
/// Forwarding is of the whole namespace. So packets that are no session's are dropped where nothing was forwarded before, and nobody outside
/// opens a connection to the inside.
///
/// # Errors
/// If there is no `nft` or the kernel has no nftables: then packets get as far as this namespace.
pub fn masquerade(session: &mut Session, way: &Way<'_>) -> io::Result<()> {
    let table = table(&session.id);
    let [ip, both] = FAMILIES;
    let family = if way.networks.iter().any(|(network, _)| network.is_ipv6()) { both } else { ip };
    let interface = way.interface;
    let mut script =
        format!("table {family} {table} {{\nchain leave {{ type nat hook postrouting priority srcnat;\n");
    for (network, len) in way.networks {
        let protocol = if network.is_ipv6() { "ip6" } else { "ip" };
        script += &format!("{protocol} saddr {network}/{len} oifname != \"{interface}\" masquerade\n");
    }
    script += "}\n";
    if way.own {
        script += "chain tidy { type filter hook input priority filter;\nct state invalid drop\n}\n";
    } else {
        // Rules of all sessions hold for all packets: those of any session pass each.
        let sessions = address::interfaces().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
        script += &format!(
            "chain pass {{ type filter hook forward priority filter;\n\
               oifname \"{interface}\" iifname != {{ {sessions} }} ct state != {{ established, related }} drop\n"
        );
        if session.before(Setting::ForwardIpv4)? == "0" {
            script += &format!("iifname != {{ {sessions} }} oifname != {{ {sessions} }} drop\n");
        }
        script += "}\n";
    }
    if let Some((near, machine)) = way.machine {
        script += &format!(
            "chain enter {{ type nat hook prerouting priority dstnat;\n\
               iifname \"{interface}\" ip daddr {near} meta l4proto {{ tcp, udp }} dnat ip to {machine}\n}}\n"
        );
    }
    script += "}\n";
    nft(&script)?;
    session.tables.push(format!("{family} {table}"));
    session.set(Setting::ForwardIpv4, "1")
}

/// Lets this namespace, which is the emulator's own making, forward packets.
pub fn forward() {
    // Where it cannot be set (no IPv6, a read-only /proc) shells inside a shell reach one level less.
    let _ = Setting::ForwardIpv4.write("1");
    let _ = fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1");
}

#[cfg(test)]
mod tests;
