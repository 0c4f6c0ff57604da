//! What only the summary of a run with guests has: the machines, their hosts, the programs and how they ended.

use serde::{Deserialize, Serialize};

use crate::live::{LiveHost, ProgramRow, render_programs};

/// The guests' part of a summary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GuestSummary {
    /// The versions of the guests' kernels, separated by commas.
    pub kernel: String,
    /// Whether the run depends on the seed alone. It does not by the real or a dilated clock, nor where a program computed for so long without a system call that it had to
    /// be pushed on by the machine's clock.
    pub reproducible: bool,
    /// How often that was.
    pub pushes: u64,
    /// The machines.
    pub machines: Vec<GuestMachine>,
    /// The guests.
    pub hosts: Vec<LiveHost>,
    /// Their programs.
    pub programs: Vec<ProgramRow>,
}

/// One kernel and what it did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GuestMachine {
    /// Its name.
    pub machine: String,
    /// The version of its kernel.
    pub kernel: String,
    /// How many guests are on it.
    pub hosts: u64,
    /// Bytes of its memory that the hosts took.
    pub hosts_memory: u64,
    /// Entries into user mode.
    pub entries: u64,
    /// How often it handed over to the simulation.
    pub turns: u64,
}

impl GuestSummary {
    /// What to say first of a run that is not reproducible.
    pub fn pushed(&self) -> Option<String> {
        (self.pushes > 0).then(|| {
            format!(
                "NOT REPRODUCIBLE: programs computed for seconds without a system call and were pushed on {} times by the \
                 machine's clock.",
                self.pushes
            )
        })
    }

    /// A line about the machines, and a table of the programs.
    pub(crate) fn render(&self, clock: &str, width: usize) -> String {
        let of = |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
        // A host that forwards has a row for each of its interfaces.
        let hosts: u64 = self.machines.iter().map(|machine| machine.hosts).sum();
        let line = format!(
            "Guests: {} on {}, Linux {}, {}\n",
            of(hosts as usize, "host"),
            of(self.machines.len(), "machine"),
            self.kernel,
            if clock == "virtual" { "in lock-step".to_owned() } else { format!("on the {clock} clock") }
        );
        line + &render_programs(&self.programs, width)
    }
}
