//! `warpline study`: studies of many runs, a subcommand each.

use clap::Subcommand;

use crate::failure::{Code, Failure};

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
    agreement: Agreement,
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
