//! The route from the emulated network to the world beyond this machine: forwarding, and address translation by nftables.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};

use serde_json::Value;

use crate::address;
use crate::nftables::{FAMILIES, printed, run, table};
use crate::registry::{Entry, Setting};

/// How far packets from inside can travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// Wherever the namespace outside can reach.
    World,
    /// To the namespace outside only.
    Base,
}

/// A way out for packets from inside.
#[derive(Debug)]
pub struct Way<'a> {
    /// Their addresses: prefixes with lengths.
    pub networks: &'a [(IpAddr, u8)],
    /// The interface by which they arrive.
    pub interface: &'a str,
    /// For a namespace that the emulator made itself: its address towards them, and the machine's address.
    /// TCP and UDP sent to the former go to the latter.
    pub machine: Option<(Ipv4Addr, Ipv4Addr)>,
    /// Whether the emulator made the namespace itself. Then packets that match no connection are dropped: they would not be translated
    /// back, and the namespace would answer with a reset (pasta of 2023 sends window updates without the ACK flag).
    pub own: bool,
}

/// Lets packets travel wherever this namespace can reach, under its own address. Records each change in `entry` before it makes it, so that it is
/// undone however this process ends. IPv4 packets are forwarded from then on; for IPv6 see [`forward`].
///
/// Forwarding applies to the whole namespace. So if nothing was forwarded before, packets that belong to no session are dropped, and hosts outside
/// cannot open connections to the inside.
///
/// # Errors
/// If there is no `nft` or the kernel has no nftables: then packets travel only as far as this namespace.
pub fn masquerade(entry: &mut Entry, way: &Way<'_>) -> io::Result<()> {
    let table = table(&entry.session.id);
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
        // The rules of every session see all packets, so each lets packets of any session pass.
        let sessions = address::interfaces().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
        script += &format!(
            "chain pass {{ type filter hook forward priority filter;\n\
               oifname \"{interface}\" iifname != {{ {sessions} }} ct state != {{ established, related }} drop\n"
        );
        if entry.session.before(&Setting::ForwardIpv4)? == "0" {
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
    entry.session.tables.push(format!("{family} {table}"));
    entry.save();
    run(&script)?;
    entry.change(Setting::ForwardIpv4, "1")
}

/// What may stop packets that [`masquerade`] lets pass from and to this interface: a chain of this namespace's own that drops what no rule accepts
/// (Docker and ufw make one). The text says which, and what to add. A table with a rule for the interface counts as one that lets them pass. None, too,
/// if `nft` cannot list them.
pub fn obstacle(interface: &str) -> Option<String> {
    let chains = dropping(&printed(&["-j", "list", "chains"]).ok()?);
    let knows_it = |[family, table, _]: &[String; 3]| {
        printed(&["list", "table", family, table])
            .is_ok_and(|text| text.contains(&format!("\"{interface}\"")))
    };
    let chains: Vec<String> =
        chains.into_iter().filter(|chain| !knows_it(chain)).map(|chain| chain.join(" ")).collect();
    let rules = chains.iter().flat_map(|chain| {
        ["iifname", "oifname"].map(|way| format!("nft insert rule {chain} {way} {interface} accept"))
    });
    let rules = rules.collect::<Vec<_>>().join("; ");
    (!chains.is_empty()).then(|| {
        format!(
            "this machine drops what it forwards unless a rule accepts it (nftables: {}), so packets may reach this machine only; to let them pass: {rules}",
            chains.join(", ")
        )
    })
}

/// The chains that see forwarded IPv4 packets and drop what no rule accepts, each with its family and table, in the JSON that `nft` prints of all chains.
fn dropping(chains: &str) -> Vec<[String; 3]> {
    let listed: Value = serde_json::from_str(chains).unwrap_or_default();
    let chains = listed["nftables"].as_array().into_iter().flatten().map(|item| &item["chain"]);
    let found = chains.filter_map(|chain| {
        let drops = chain["hook"] == "forward" && chain["policy"] == "drop";
        let [family, table, name] = ["family", "table", "name"].map(|key| chain[key].as_str());
        let known = FAMILIES.contains(&family?);
        (drops && known).then_some([family?.to_owned(), table?.to_owned(), name?.to_owned()])
    });
    found.collect()
}

/// Lets this namespace, which the emulator made itself, forward packets.
pub fn forward() {
    // If this fails (no IPv6, a read-only /proc) shells inside a shell reach one level less.
    let _ = Setting::ForwardIpv4.write("1");
    let _ = fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1");
}

#[cfg(test)]
mod tests;
