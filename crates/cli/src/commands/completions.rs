//! `warpline completions`: scripts that let a shell complete the command line.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::Cli;
use crate::failure::{Code, Failure};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  Bash, for this user (with the package bash-completion):
    mkdir -p ~/.local/share/bash-completion/completions
    warpline completions bash > ~/.local/share/bash-completion/completions/warpline
  Zsh, in a directory of $fpath:
    warpline completions zsh > ~/.zfunc/_warpline
  Fish:
    warpline completions fish > ~/.config/fish/completions/warpline.fish";

/// Print the script that completes Warpline's commands in a shell
///
/// The script goes to standard output; its place depends on the shell.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "warpline", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(Code::Success)
}
