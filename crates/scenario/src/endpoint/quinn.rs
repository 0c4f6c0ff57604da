//! quinn: QUIC in Rust, by its crate quinn-proto.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warpline_core::parameter::Choice as _;
use warpline_transport::cc::Algorithm;

use super::{About, Buffers, Kind, Protocol, Traffic};
use crate::ClockMode;
use crate::checker::Check;
use crate::document::entry;
use crate::quantity::Size;

/// Allowed initial windows in bytes. quinn sends nothing with less than two datagrams (RFC 9002 section 7.2).
const INITIAL_WINDOWS: std::ops::RangeInclusive<u64> = 2400..=1 << 30;

/// Warpline's congestion controls, the default first.
static WARPLINE: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let usual = Algorithm::default().kind();
    let others = Algorithm::KINDS.iter().copied().filter(|kind| *kind != usual);
    std::iter::once(usual).chain(others).collect()
});

/// Whose congestion controls a host has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Controls {
    /// quinn's: cubic, newreno, bbr.
    #[default]
    Quinn,
    /// Those of the built-in model, with their parameters.
    Warpline,
}

/// The keys of a host with `endpoint = "stack:quinn"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quinn {
    /// Sizes of its sockets' buffers.
    #[serde(flatten)]
    pub buffers: Buffers,
    /// Whose congestion controls `cc` of a flow from this host names. Default quinn.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"warpline")]
    pub congestion_controls: Option<Controls>,
    /// Initial window of quinn's congestion controls. Default: 12000B; for bbr 240000B.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"24KB")]
    pub initial_window: Option<Size>,
}

impl Quinn {
    /// quinn's congestion controls, its default first.
    pub const CONGESTION_CONTROLS: &'static [&'static str] = &["cubic", "newreno", "bbr"];

    /// Whose congestion controls it has.
    pub fn controls(&self) -> Controls {
        self.congestion_controls.unwrap_or_default()
    }
}

impl Kind for Quinn {
    const ABOUT: About = About {
        name: "stack:quinn",
        what: "The QUIC stack quinn, in this process.",
        clocks: &[ClockMode::Virtual, ClockMode::Real, ClockMode::Dilated],
        why: "",
        traffic: Traffic::Stack,
        protocol: Protocol::Quic,
        needs: "Linux",
    };

    fn congestion_controls(&self) -> Option<&'static [&'static str]> {
        Some(match self.controls() {
            Controls::Quinn => Quinn::CONGESTION_CONTROLS,
            Controls::Warpline => &WARPLINE,
        })
    }

    fn has_parameters(&self) -> bool {
        self.controls() == Controls::Warpline
    }

    fn check(&self, check: &mut Check<'_>, number: usize) {
        self.buffers.check(check, number, "quinn");
        let Some(window) = self.initial_window else { return };
        let wrong = match self.controls() {
            Controls::Warpline => Some((
                "`initial_window` is for quinn's congestion controls, and this host has Warpline's",
                "leave it out: theirs is ten datagrams",
            )),
            Controls::Quinn => (!INITIAL_WINDOWS.contains(&window.0.0))
                .then_some(("`initial_window` is out of range", "quinn takes 2400B to 1GiB")),
        };
        if let Some((message, help)) = wrong {
            check.error(&entry("host", number, &["initial_window"]), message, help);
        }
    }
}
