//! The lab: a page in the browser in which networks are drawn, run and watched (`warpline lab`).
//!
//! A server on the loopback interface gives the page and an interface of JSON. It reads and writes only below the folder of scenarios and below
//! the folder of runs (`files`, `runs`), and answers only a page that it gave itself (`guard`). A run is a process of its own.

mod answer;
mod assets;
mod course;
mod drawing;
mod edit;
mod files;
mod gallery;
mod guard;
mod live;
mod naming;
mod packets;
mod runs;
mod server;
mod sketch;
mod sweep;
#[cfg(unix)]
mod terminal;

pub use server::{LabError, Options, Server};
