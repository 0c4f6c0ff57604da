//! The command line from outside: the program is started as a user starts it.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

#[cfg(target_os = "linux")]
mod calibrate;
#[cfg(target_os = "linux")]
mod cap;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod ci;
mod completions;
#[cfg(target_os = "linux")]
mod control;
mod crosscheck;
#[cfg(target_os = "linux")]
mod dilate;
mod docs;
mod evaluate;
mod help;
#[cfg(target_os = "linux")]
mod infer;
mod inputs;
#[cfg(target_os = "linux")]
mod interface;
#[cfg(unix)]
mod interrupt;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod kernel;
#[cfg(target_os = "linux")]
mod killed;
#[cfg(unix)]
mod lab;
#[cfg(target_os = "linux")]
mod live;
#[cfg(target_os = "linux")]
mod meet;
#[cfg(target_os = "linux")]
mod nice;
mod pages;
#[cfg(target_os = "linux")]
mod prefetch;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod programs;
#[cfg(target_os = "linux")]
mod rebind;
#[cfg(unix)]
mod replicate;
#[cfg(target_os = "linux")]
mod replicate_disk;
mod run;
mod scenario;
mod search;
mod sets;
#[cfg(target_os = "linux")]
mod shell;
#[cfg(target_os = "linux")]
mod stacks;
mod stream;
mod study;
mod support;
#[cfg(target_os = "linux")]
mod terminal;
