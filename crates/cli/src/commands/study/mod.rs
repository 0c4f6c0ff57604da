//! `warpline study`: studies of many runs, a subcommand each.

use std::path::Path;

use clap::Subcommand;
use warpline_report::write_whole;

use crate::failure::{Code, Failure};
use crate::output;

/// Declares the studies: their modules, and a subcommand for each.
macro_rules! studies {
    ($($module:ident: $name:ident),* $(,)?) => {
        $(mod $module;)*

        /// The subcommands of `warpline study`.
        #[derive(Debug, Subcommand)]
        enum Study {
            $($name($module::Args),)*
        }

        impl Study {
            fn execute(&self) -> Result<Code, Failure> {
                match self {
                    $(Study::$name(args) => $module::execute(args),)*
                }
            }
        }
    };
}

// A new study is one file beside this one, with `Args` and `execute`, and one line here. `cargo fmt` does not look behind the macro: `make format` does.
studies! {
    run: Run,
    judge: Judge,
    prune: Prune,
    import: Import,
    evidence: Evidence,
    agreement: Agreement,
    programs: Programs,
    stacks: Stacks,
}

/// Studies of many runs whose results are kept
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    study: Study,
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    args.study.execute()
}

/// Writes scenarios, given with the names of their files without endings.
fn write_scenarios(directory: &Path, all: &[(String, String)]) -> Result<Code, Failure> {
    std::fs::create_dir_all(directory)
        .map_err(|error| Failure::output(format!("cannot create {}: {error}", directory.display())))?;
    for (name, text) in all {
        write_whole(text.as_bytes(), &directory.join(format!("{name}.toml"))).map_err(Failure::output)?;
    }
    output::print(&format!("{} scenarios in {}\n", all.len(), directory.display()))?;
    Ok(Code::Success)
}
