//! The command line from outside: the program is started as a user starts it.

mod completions;
mod docs;
mod help;
mod inputs;
#[cfg(unix)]
mod interrupt;
mod run;
mod support;
