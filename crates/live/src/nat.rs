//! The way from the emulated network to the world beyond this machine: forwarding, and address translation by nftables.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::registry::Session;

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
    let mut child = Command::new("nft")
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

/// Lets packets of `network` (an IPv4 prefix) that come in by `interface` go wherever this namespace gets, under its own
/// address. What is changed is noted in `session`, which takes it back.
///
/// # Errors
/// If there is no `nft` or the kernel has no nftables: then packets get as far as this namespace.
pub fn masquerade(session: &mut Session, network: &str, interface: &str) -> io::Result<()> {
    let table = format!("warpline_{}", session.id.replace('-', "_"));
    let script = format!(
        "table ip {table} {{\n\
           chain leave {{ type nat hook postrouting priority srcnat; policy accept;\n\
             ip saddr {network} oifname != \"{interface}\" masquerade\n\
           }}\n\
         }}\n"
    );
    nft(&script)?;
    session.tables.push(format!("ip {table}"));
    let setting = PathBuf::from("/proc/sys/net/ipv4/ip_forward");
    let before = fs::read_to_string(&setting)?.trim().to_owned();
    if before == "0" {
        fs::write(&setting, "1")?;
        session.settings.push((setting, before));
    }
    Ok(())
}

/// Lets this namespace, which is the emulator's own making, forward packets.
pub fn forward() {
    for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        // Where it cannot be set (no IPv6, a read-only /proc) shells inside a shell reach one level less.
        let _ = fs::write(format!("/proc/sys/net/{setting}"), "1");
    }
}
