//! Results: rows, tables, the run directory, captures and qlog, the summary, and what is computed from several runs.
//!
//! A run hands its records and samples to a [`Recorder`] ([`RunWriter`] for a directory, [`MemoryRecorder`] for tables in
//! memory) and finishes it with a [`Summary`]. [`Run::open`] reads a directory back.

pub mod address;
pub(crate) mod column;
pub mod compare;
mod compare_text;
pub(crate) mod directory;
pub mod error;
pub mod events;
pub mod export;
pub mod guests;
mod influx;
pub mod live;
pub mod measures;
pub mod metrics;
pub mod pcapng;
pub mod qlog;
pub mod render;
pub mod replicate;
pub mod rows;
pub mod run;
pub mod set;
pub mod summary;
pub mod tables;
pub mod units;
pub mod wire;
pub mod writer;

pub use address::{AddressBook, EndpointAddress};
pub use column::{Row, Word};
pub use compare::{Change, Comparison, Method, Side, compare};
pub use compare_text::MOST_CHANGES;
pub use directory::discard_unfinished;
pub use error::ResultError;
pub use events::{PacketRow, TcpRow};
pub use export::{Export, TableKind};
pub use guests::{GuestMachine, GuestSummary};
pub use live::{DilationStep, LiveHost, LiveSummary, ProgramRow};
pub use measures::{Figure, Measure, Subject, measures, subjects};
pub use metrics::{Estimate, SpanStats};
pub use pcapng::{CaptureOptions, CaptureWriter};
pub use qlog::QlogWriter;
pub use render::render;
pub use replicate::{Replicated, Replications};
pub use rows::{FlowRow, FlowSample, LinkRow, LinkSample, TransferRow};
pub use run::Run;
pub use set::{RunSet, seed_directory, spoken_seeds};
pub use summary::{GroupSummary, InputFile, RunInfo, Summary, Totals};
pub use tables::{Table, Tables};
pub use units::Unit;
pub use wire::{Frames, NoFrames, WireBytes, WireFormat};
pub use writer::{MemoryRecorder, Recorder, RunWriter, SealedRun};
pub(crate) use writer::{capture_file, qlog_file};

#[cfg(test)]
mod example;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod wire_tests;
