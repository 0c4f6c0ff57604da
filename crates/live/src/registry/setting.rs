//! Kernel settings that sessions change outside namespaces of their own: the complete list. Other settings in a session's file
//! are ignored.

use std::fs;
use std::io;

use serde::{Deserialize, Serialize};

/// A setting that sessions change in the network namespace that they start from, and restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Setting {
    /// Whether IPv4 packets are forwarded between interfaces (ip-sysctl in the kernel's documentation).
    ForwardIpv4,
}

impl Setting {
    /// All of them.
    pub const ALL: [Setting; 1] = [Setting::ForwardIpv4];

    /// Its file.
    pub const fn path(self) -> &'static str {
        match self {
            Setting::ForwardIpv4 => "/proc/sys/net/ipv4/ip_forward",
        }
    }

    /// Whether this is a possible value of it.
    pub(super) fn allows(self, value: &str) -> bool {
        match self {
            Setting::ForwardIpv4 => matches!(value, "0" | "1"),
        }
    }

    /// Its value in the network namespace of this thread.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn value(self) -> io::Result<String> {
        Ok(fs::read_to_string(self.path())?.trim().to_owned())
    }

    /// Sets it in the network namespace of this thread.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(self, value: &str) -> io::Result<()> {
        fs::write(self.path(), value)
    }
}

impl From<Setting> for String {
    fn from(setting: Setting) -> Self {
        setting.path().to_owned()
    }
}

impl TryFrom<String> for Setting {
    type Error = String;

    fn try_from(path: String) -> Result<Self, String> {
        let known = Setting::ALL.into_iter().find(|setting| setting.path() == path);
        known.ok_or_else(|| format!("no session changes {path}"))
    }
}
