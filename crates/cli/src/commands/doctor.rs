//! `warpline doctor`: what this machine can do.

use anstyle::{AnsiColor, Style};
use warpline_live::doctor::examine;

use crate::failure::{Code, Failure};
use crate::output;

const EXAMPLES: &str = "\
Each ability is tried, not guessed. Simulation needs none of them.

Examples:
  warpline doctor
  sudo warpline doctor
  warpline doctor --json | jq '.[] | select(.ok | not)'";

/// Say what this machine can do for live runs, what is missing, and how to get it
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    let findings = examine();
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
