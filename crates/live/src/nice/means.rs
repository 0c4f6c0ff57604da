//! By what means a command is made to yield: the best that the kernel and the user's privileges allow.

use std::fmt;
use std::fs::{self, File};
use std::io;

use serde::Serialize;

use super::cgroup::Cgroup;
use super::{NiceConfig, NiceError};
use crate::bpf::background::{Background, Governing};
use crate::bpf::control::{self, Hold};
use crate::bpf::{BpfError, Counts, NAME};
use crate::registry::Entry;

/// What makes a command yield.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Way {
    /// TCP Nice in the kernel.
    Nice {
        /// Whether what is received is held back as well.
        receive: bool,
    },
    /// Another congestion control for background traffic that the kernel has.
    BuiltIn {
        /// Its name.
        name: &'static str,
        /// Why it is not TCP Nice.
        reason: String,
    },
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::Nice { receive: false } => write!(f, "TCP Nice in the kernel"),
            Way::Nice { receive: true } => write!(f, "TCP Nice in the kernel, for what is received too"),
            Way::BuiltIn { name, reason } => {
                write!(f, "the kernel's own {name} in place of TCP Nice: {reason}")
            }
        }
    }
}

/// The means, held as long as the command runs.
#[derive(Debug)]
pub(super) struct Means {
    way: Way,
    // In the order in which they are given up.
    background: Background,
    cgroup: Cgroup,
    _hold: Option<Hold>,
}

/// Congestion controls of the kernel that yield to others, the best first.
const BUILT_IN: [&str; 1] = ["lp"];

fn available() -> Vec<String> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

impl Means {
    /// Gets hold of the best means that are to be had.
    pub(super) fn prepare(config: &NiceConfig, entry: &mut Entry) -> Result<Self, NiceError> {
        match control::hold(config.parameters.as_ref()) {
            Ok(hold) => {
                let way = Way::Nice { receive: config.receive };
                let receiving = config.receive.then(|| config.parameters.unwrap_or_default());
                Means::attach(way, Governing { sending: Some(NAME), receiving }, Some(hold), entry)
            }
            Err(error @ (BpfError::Otherwise(_) | BpfError::Parameter { .. })) => Err(error.into()),
            Err(reason) => {
                let own = available();
                let Some(name) = BUILT_IN.into_iter().find(|name| own.iter().any(|other| other == name))
                else {
                    return Err(reason.into());
                };
                if config.strict {
                    let instead = format!("the kernel's own {name} would be used");
                    return Err(NiceError::Strict { reason, instead });
                }
                let way = Way::BuiltIn { name, reason: reason.to_string() };
                Means::attach(way, Governing { sending: Some(name), receiving: None }, None, entry)
            }
        }
    }

    fn attach(
        way: Way,
        governing: Governing<'_>,
        hold: Option<Hold>,
        entry: &mut Entry,
    ) -> Result<Self, NiceError> {
        let name = format!("warpline-nice-{}", entry.session.id);
        let cgroup = Cgroup::create(&name)
            .map_err(super::system("make a control group (cgroups of version 2; see warpline doctor)"))?;
        entry.session.cgroups.push(cgroup.path().to_owned());
        entry.save();
        let background = Background::attach(cgroup.fd(), &governing)?;
        Ok(Means { way, background, cgroup, _hold: hold })
    }

    pub(super) fn way(&self) -> &Way {
        &self.way
    }

    /// What the command writes `0` to.
    pub(super) fn door(&self) -> Option<io::Result<File>> {
        Some(self.cgroup.door())
    }

    pub(super) fn counts(&self) -> Option<Counts> {
        Some(self.background.counts())
    }

    /// Where the command's connections can be read: the map of receivers' states and the control group.
    pub(super) fn readable(&self) -> Option<(Option<u32>, u64)> {
        matches!(self.way, Way::Nice { .. })
            .then(|| Some((self.background.receivers(), self.cgroup.id().ok()?)))?
    }
}
