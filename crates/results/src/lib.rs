//! The results of a run: tables, captures, events and the summary, written, read back, compared and exported.
//!
//! A run hands its records and samples to a [`Recorder`] ([`RunWriter`] for a directory, [`MemoryRecorder`] for tables in
//! memory) and finishes it with a [`Summary`]. [`Run::open`] reads a directory back, [`RunSet::open`] the runs of several seeds;
//! [`Comparison`] and [`Replications`] work on their summaries, [`Export`] hands their tables to other programs.
//!
//! Nothing here knows a network or a scenario: rows come in, files go out. `warpline-lab` makes the runs, `warpline-report` draws them.

pub mod address;
mod cells;
mod column;
pub mod compare;
mod compare_text;
pub mod condition;
mod declaration;
pub mod describe;
mod directory;
pub mod error;
pub mod events;
pub mod export;
pub mod fast_forward;
pub mod guests;
mod influx;
mod kinds;
pub mod live;
pub mod measures;
pub mod metrics;
pub mod named;
pub mod openmetrics;
pub mod pcapng;
pub mod period;
pub mod qlog;
mod real;
pub mod render;
pub mod replicate;
pub mod rows;
pub mod run;
pub mod set;
mod sizes;
pub mod summary;
pub mod tables;
mod text_table;
pub mod units;
pub mod wire;
pub mod writer;

pub use address::{AddressBook, EndpointAddress};
pub use column::{Row, Word};
pub use compare::{Change, ChangedKeys, Comparison, KeyChange, Method, Side, welch};
pub use compare_text::SCREEN;
pub use condition::{Condition, Relation};
pub use declaration::{Column, ColumnInfo, Fold, Kind, Scalar, heading_of};
pub use directory::{discard_unfinished, unfinished};
pub use error::ResultError;
pub use events::{PacketRow, TcpRow};
pub use export::Export;
pub use fast_forward::{AuditedMeasure, FastForwardSummary, Stretch};
pub use guests::{GuestCpu, GuestMachine, GuestSummary};
pub use kinds::{TableKind, Tables};
pub use live::{DilationStep, LiveHost, LiveSummary, ProgramRow};
pub use measures::{Figure, Subject, subjects};
pub use metrics::{Estimate, SpanStats};
pub use named::{About, NamedMeasure, NoMeasure};
pub use pcapng::{CaptureOptions, CaptureWriter};
pub use qlog::QlogWriter;
pub use render::render;
pub use replicate::{Replicated, Replications};
pub use rows::{FlowRow, FlowSample, LinkRow, LinkSample, TransferRow};
pub use run::Run;
pub use set::{RunSet, seed_directory, seeds_in, spoken_seeds};
pub use sizes::SizeSummary;
pub use summary::{GroupSummary, InputFile, RunInfo, Summary, Totals};
pub use tables::Table;
pub use units::Unit;
pub use wire::{Frames, NoFrames, Opposite, WireBytes, WireFormat};
pub use writer::{MemoryRecorder, Recorder, RunWriter, SealedRun, capture_file, qlog_file};

#[cfg(test)]
mod example;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod wire_tests;
