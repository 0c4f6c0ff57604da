//! `warpline doctor`: what this machine can do.

use std::path::Path;

use anstyle::{AnsiColor, Style};
use warpline_live::doctor::{Finding, examine};

use crate::failure::{Code, Failure};
use crate::output;

const EXAMPLES: &str = "\
Each feature is tested, not guessed. Simulation needs none of them.

Examples:
  warpline doctor
  sudo warpline doctor
  warpline doctor --json | jq '.[] | select(.ok | not)'";

/// Say what this machine can do for live runs, what is missing, and how to install it
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    let mut findings = examine();
    findings.push(guest_kernel());
    findings.push(tc());
    findings.push(sessions());
    findings.extend(super::service::examine());
    if args.json {
        output::print_json(&findings)?;
        return Ok(Code::Success);
    }
    let mut text = String::new();
    for finding in &findings {
        let (sign, colour) = if finding.ok { ("yes", AnsiColor::Green) } else { ("no ", AnsiColor::Yellow) };
        let sign = output::styled(Style::new().fg_color(Some(colour.into())), sign);
        text += &format!("{sign}  {:<18}  {}\n", finding.name, finding.found);
        if !finding.ok {
            text += &format!("     {:<18}  for: {}\n", "", finding.used_for);
            text += &format!("     {:<18}  get it: {}\n", "", finding.remedy);
        }
    }
    output::print(&text)?;
    Ok(Code::Success)
}

/// Where sessions are recorded.
fn sessions() -> Finding {
    let found = warpline_live::registry::directory();
    Finding {
        name: "sessions",
        ok: found.is_ok(),
        found: match &found {
            Ok(directory) => format!("recorded in {}", directory.path().display()),
            Err(error) => error.to_string(),
        },
        used_for: "removing what killed shells, runs and commands left behind (warpline clean)",
        remedy: if found.is_ok() {
            ""
        } else {
            "remove that directory (as root, if it belongs to another user), or set XDG_RUNTIME_DIR to a directory of your own"
        },
    }
}

/// The kernel of guests, inspected as before a run.
fn guest_kernel() -> Finding {
    let (ok, found) = look_for_kernel();
    Finding {
        name: "guest kernel",
        ok,
        found,
        used_for: "guests: Linux kernels in the time of a simulation (endpoint = \"guest\")",
        remedy: if ok { "" } else { "apt install user-mode-linux (Debian, Ubuntu; x86-64)" },
    }
}

/// The program that sets up the queues of guests.
fn tc() -> Finding {
    /// Where guests look for it.
    const PLACES: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    let found = PLACES.iter().map(|place| Path::new(place).join("tc")).find(|file| file.is_file());
    Finding {
        name: "tc",
        ok: found.is_some(),
        found: match &found {
            Some(file) => file.display().to_string(),
            None => "no tc".to_owned(),
        },
        used_for: "queues of Linux in guests (`tc` of a [[host]]), and what they counted",
        remedy: if found.is_some() { "" } else { "apt install iproute2 (Debian, Ubuntu)" },
    }
}

#[cfg(guests)]
fn look_for_kernel() -> (bool, String) {
    match warpline_guest::Kernel::find() {
        Ok(kernel) => {
            let controls = kernel.congestion_controls().len();
            let path = kernel.path.display();
            (true, format!("{path}, Linux {}, with {controls} congestion controls", kernel.version))
        }
        Err(warpline_guest::GuestError::NoKernel) => (false, "no User-Mode Linux (linux.uml)".to_owned()),
        Err(error) => (false, error.to_string()),
    }
}

#[cfg(not(guests))]
fn look_for_kernel() -> (bool, String) {
    (false, warpline_lab::run::NO_GUESTS.to_owned())
}
