//! A network namespace of this machine, in which real programs run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{About, Kind, Protocol, Real, Traffic};
use crate::ClockMode;
use crate::checker::Check;
use crate::semantics_program::program_path;

/// The keys of a host with `endpoint = "live"`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Live {
    /// Its addresses and programs.
    #[serde(flatten)]
    pub real: Real,
}

impl Kind for Live {
    const ABOUT: About = About {
        name: "live",
        what: "A network namespace of this machine in which real programs run. Under a dilated clock its network is dilated, but its programs \
               and their CPU are not.",
        clocks: &[ClockMode::Real, ClockMode::Dilated],
        why: "its programs run in real time",
        traffic: Traffic::Programs,
        protocol: Protocol::Tcp,
        needs: "Linux",
    };

    fn real(&self) -> Option<&Real> {
        Some(&self.real)
    }

    fn real_mut(&mut self) -> Option<&mut Real> {
        Some(&mut self.real)
    }

    fn check(&self, check: &mut Check<'_>, number: usize) {
        if let Some(program) = self.real.program.iter().position(|program| !program.collect.is_empty()) {
            let path = program_path(number, program, &["collect"]);
            let help = "what a program on a live host writes is on this machine already";
            check.error(&path, "`collect` is for guests", help);
        }
    }
}
