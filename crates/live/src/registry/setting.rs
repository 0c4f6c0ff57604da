//! Kernel settings that sessions change outside namespaces of their own: the complete list. Other settings in a session's file
//! are ignored.

use std::fmt;
use std::fs;
use std::io;

use serde::{Deserialize, Serialize};

use crate::offload::Merging;

/// A setting that sessions change in the network namespace that they start from, and restore. In a session's file it is its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Setting {
    /// Whether IPv4 packets are forwarded between interfaces (ip-sysctl in the kernel's documentation).
    ForwardIpv4,
    /// Whether an interface merges the packets that it receives.
    Merging(Merging, String),
}

/// The file of [`Setting::ForwardIpv4`].
const FORWARD_IPV4: &str = "/proc/sys/net/ipv4/ip_forward";

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::ForwardIpv4 => f.write_str(FORWARD_IPV4),
            Setting::Merging(merging, interface) => write!(f, "{} of {interface}", merging.name()),
        }
    }
}

impl Setting {
    /// Whether this is a possible value of it.
    pub(super) fn allows(&self, value: &str) -> bool {
        matches!(value, "0" | "1")
    }

    /// Its value in the network namespace of this thread: 0 or 1.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn value(&self) -> io::Result<String> {
        match self {
            Setting::ForwardIpv4 => Ok(fs::read_to_string(FORWARD_IPV4)?.trim().to_owned()),
            Setting::Merging(merging, interface) => {
                Ok(if merging.is_on(interface)? { "1" } else { "0" }.to_owned())
            }
        }
    }

    /// Sets it in the network namespace of this thread.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, value: &str) -> io::Result<()> {
        match self {
            Setting::ForwardIpv4 => fs::write(FORWARD_IPV4, value),
            Setting::Merging(merging, interface) => merging.set(interface, value == "1"),
        }
    }
}

impl From<Setting> for String {
    fn from(setting: Setting) -> Self {
        setting.to_string()
    }
}

impl TryFrom<String> for Setting {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == FORWARD_IPV4 {
            return Ok(Setting::ForwardIpv4);
        }
        let merging = text.split_once(" of ").and_then(|(name, interface)| {
            let merging = Merging::ALL.into_iter().find(|merging| merging.name() == name)?;
            is_interface(interface).then(|| Setting::Merging(merging, interface.to_owned()))
        });
        merging.ok_or_else(|| format!("no session changes {text}"))
    }
}

/// Whether an interface may have this name (the kernel's `dev_valid_name`).
fn is_interface(name: &str) -> bool {
    let wrong = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
    !name.is_empty() && name.len() <= 15 && name != "." && name != ".." && !name.contains(wrong)
}
