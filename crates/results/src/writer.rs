//! Recording a run while it is under way: into a run directory, or into tables in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use warpline_core::packet::{Body, EndpointId, FlowId, LinkId, NodeId};
use warpline_core::record::{LinkRecord, TcpRecord};
use warpline_disk::{Directory, OsDirectory};

use crate::address::AddressBook;
use crate::directory::PartialDirectory;
use crate::error::ResultError;
use crate::events::{PacketRow, TcpRow};
use crate::kinds::{TableKind, Tables};
use crate::pcapng::{CaptureOptions, CaptureWriter};
use crate::qlog::{ENDING, QlogWriter};
use crate::real;
use crate::rows::{FlowSample, LinkSample, TransferRow};
use crate::summary::{SUMMARY_FILE, Summary};
use crate::tables::{Table, TableSink, finish_file, write_table};
use crate::wire::{Frames, NoFrames, WireFormat};

/// Takes what a run records, as it goes.
pub trait Recorder {
    /// A connection was opened: what follows from its ends belongs to this flow.
    fn connection_opened(&mut self, flow: FlowId, opener: (EndpointId, NodeId), other: (EndpointId, NodeId));
    /// Takes events of recorded links, in the order of time. Each goes where its link was registered.
    ///
    /// # Errors
    /// If a file cannot be written.
    fn link_records(&mut self, records: &[LinkRecord]) -> Result<(), ResultError> {
        self.live_records(records, &NoFrames)
    }
    /// As [`link_records`](Self::link_records), with the bytes of live packets from `frames`.
    ///
    /// # Errors
    /// If a file cannot be written.
    fn live_records(&mut self, records: &[LinkRecord], frames: &dyn Frames) -> Result<(), ResultError>;
    /// Takes events of recorded TCP endpoints, in the order of time. Each goes where its flow was registered.
    ///
    /// # Errors
    /// If a file cannot be written.
    fn tcp_records(&mut self, records: &[TcpRecord]) -> Result<(), ResultError>;
    /// Takes samples of flows, in the order of time.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn flow_samples(&mut self, samples: &[FlowSample]) -> Result<(), ResultError>;
    /// Takes samples of links, in the order of time.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn link_samples(&mut self, samples: &[LinkSample]) -> Result<(), ResultError>;
}

/// The tables that grow during a run, wherever they are kept, and which links and flows go into them.
#[derive(Debug)]
struct Streams {
    book: AddressBook,
    packet_links: BTreeSet<LinkId>,
    tcp_flows: BTreeSet<FlowId>,
    real: real::Streams,
    packets: TableSink<PacketRow>,
    tcp: TableSink<TcpRow>,
    flows: TableSink<FlowSample>,
    links: TableSink<LinkSample>,
}

impl Streams {
    fn packets(&mut self, records: &[LinkRecord], frames: &dyn Frames) -> Result<(), ResultError> {
        for record in records.iter().filter(|record| self.packet_links.contains(&record.link)) {
            let mut row = PacketRow::from(record);
            if let (Body::Frame(_), Some(datagram)) = (&record.packet.body, frames.frame(record)) {
                self.real.fill(&mut row, &datagram, frames.opposite(record, &datagram));
            }
            self.packets.push(row)?;
        }
        Ok(())
    }
    fn tcp(&mut self, records: &[TcpRecord]) -> Result<(), ResultError> {
        let chosen = records.iter().filter(|record| self.tcp_flows.contains(&record.flow));
        chosen.map(|record| TcpRow::new(record, &self.book)).try_for_each(|row| self.tcp.push(row))
    }
    fn flow_samples(&mut self, samples: &[FlowSample]) -> Result<(), ResultError> {
        samples.iter().try_for_each(|sample| self.flows.push(sample.clone()))
    }
    fn link_samples(&mut self, samples: &[LinkSample]) -> Result<(), ResultError> {
        samples.iter().try_for_each(|sample| self.links.push(sample.clone()))
    }
}

/// Records a run into tables in memory, for callers that want no files.
#[derive(Debug)]
pub struct MemoryRecorder {
    streams: Streams,
}

impl MemoryRecorder {
    /// A recorder for the endpoints in the address book.
    pub fn new(book: AddressBook) -> Self {
        MemoryRecorder {
            streams: Streams {
                book,
                packet_links: BTreeSet::new(),
                tcp_flows: BTreeSet::new(),
                real: real::Streams::default(),
                packets: TableSink::memory(),
                tcp: TableSink::memory(),
                flows: TableSink::memory(),
                links: TableSink::memory(),
            },
        }
    }
    /// Takes this link's events into the packets table.
    pub fn record_packets(&mut self, link: LinkId) {
        self.streams.packet_links.insert(link);
    }
    /// Takes this flow's events into the tcp table.
    pub fn record_tcp(&mut self, flow: FlowId) {
        self.streams.tcp_flows.insert(flow);
    }
    /// The tables.
    ///
    /// # Errors
    /// Passes on Arrow's own checks, which hold for every row type here.
    pub fn finish(self, summary: &Summary, transfers: &[TransferRow]) -> Result<Tables, ResultError> {
        Ok(Tables {
            flows: Table::of(&summary.flows)?,
            transfers: Table::of(transfers)?,
            links: Table::of(&summary.links)?,
            series_flows: self.streams.flows.close()?,
            series_links: self.streams.links.close()?,
            tcp: self.streams.tcp.close()?,
            packets: self.streams.packets.close()?,
            dilation: Table::of(summary.dilation_steps())?,
        })
    }
}

impl Recorder for MemoryRecorder {
    fn connection_opened(&mut self, flow: FlowId, opener: (EndpointId, NodeId), other: (EndpointId, NodeId)) {
        // Nothing else tells the ends apart.
        if !self.streams.tcp_flows.is_empty() {
            self.streams.book.add_connection(flow, opener, other);
        }
    }
    fn live_records(&mut self, records: &[LinkRecord], frames: &dyn Frames) -> Result<(), ResultError> {
        self.streams.packets(records, frames)
    }
    fn tcp_records(&mut self, records: &[TcpRecord]) -> Result<(), ResultError> {
        self.streams.tcp(records)
    }
    fn flow_samples(&mut self, samples: &[FlowSample]) -> Result<(), ResultError> {
        self.streams.flow_samples(samples)
    }
    fn link_samples(&mut self, samples: &[LinkSample]) -> Result<(), ResultError> {
        self.streams.link_samples(samples)
    }
}

/// Records a run into a run directory, which appears whole or not at all.
///
/// ```no_run
/// # use std::path::Path;
/// # use warpline_results::{AddressBook, Recorder, ResultError, RunWriter, Summary};
/// # fn run(book: AddressBook, summary: &Summary) -> Result<(), ResultError> {
/// let mut writer = RunWriter::create(Path::new("runs/first"), false, book)?;
/// // While the run is under way: writer.flow_samples(..), writer.link_records(..) and so on.
/// let directory = writer.finish(summary, &[])?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RunWriter<D: Directory = OsDirectory> {
    streams: Streams,
    names: BTreeSet<String>,
    wire: WireFormat,
    captures: BTreeMap<LinkId, Capture<D::File>>,
    qlogs: BTreeMap<FlowId, Qlog<D::File>>,
    /// Last: it is removed, if the run fails, when nobody writes there any more.
    directory: PartialDirectory<D>,
}

#[derive(Debug)]
struct Capture<F: Write> {
    path: PathBuf,
    writer: CaptureWriter<BufWriter<F>>,
}

/// The qlog of a flow: a trace per end; the far end's file begins with its first event.
#[derive(Debug)]
struct Qlog<F: Write> {
    name: String,
    sides: [Option<(PathBuf, QlogWriter<BufWriter<F>>)>; 2],
}

/// A file name from the name of a link or flow: "r1>r2" becomes "r1-r2".
fn file_stem(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || ".-_".contains(c) { c } else { '-' };
    name.chars().map(plain).collect()
}

/// The file of a link's capture.
pub fn capture_file(link: &str) -> String {
    format!("{}.pcapng", file_stem(link))
}

/// The file of a flow's qlog, as its opener (0) or the other end (1) saw it.
pub fn qlog_file(flow: &str, side: usize) -> String {
    format!("{}{}.{ENDING}", file_stem(flow), ["", ".server"][side])
}

impl RunWriter {
    /// Begins a run directory at `out`. An earlier run there is replaced only with `force`; anything else that is there is
    /// left alone. What killed runs left behind is cleared away.
    ///
    /// # Errors
    /// If something else is at `out`, or the directory cannot be made.
    pub fn create(out: &Path, force: bool, book: AddressBook) -> Result<RunWriter, ResultError> {
        Self::create_at(OsDirectory::here(), out, force, book)
    }
}

impl<D: Directory> RunWriter<D> {
    /// As [`create`](RunWriter::create), below the directory `at`.
    pub(crate) fn create_at(at: D, out: &Path, force: bool, book: AddressBook) -> Result<Self, ResultError> {
        let directory = PartialDirectory::create(at, out, force)?;
        let (at, path) = (directory.at(), directory.path());
        let streams = Streams {
            book,
            packet_links: BTreeSet::new(),
            tcp_flows: BTreeSet::new(),
            real: real::Streams::default(),
            packets: TableSink::file(at, path)?,
            tcp: TableSink::file(at, path)?,
            flows: TableSink::file(at, path)?,
            links: TableSink::file(at, path)?,
        };
        Ok(RunWriter {
            directory,
            streams,
            // Nothing else may take the names of the tables.
            names: TableKind::all().iter().map(TableKind::file).collect(),
            wire: WireFormat::new(),
            captures: BTreeMap::new(),
            qlogs: BTreeMap::new(),
        })
    }

    /// Where files are written until the run is finished.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Takes this link's events into `packets.parquet`.
    pub fn record_packets(&mut self, link: LinkId) {
        self.streams.packet_links.insert(link);
    }

    /// Takes this flow's events into `tcp.parquet`.
    pub fn record_tcp(&mut self, flow: FlowId) {
        self.streams.tcp_flows.insert(flow);
    }

    /// Captures this link into `LINK.pcapng` ("r1>r2" becomes r1-r2.pcapng).
    ///
    /// # Errors
    /// If the file cannot be made, or another link's has the same name.
    pub fn record_capture(
        &mut self,
        link: LinkId,
        name: &str,
        options: CaptureOptions,
    ) -> Result<(), ResultError> {
        let (path, file) = self.new_file(&capture_file(name))?;
        let writer = CaptureWriter::new(file, &path, name, options)?;
        self.captures.insert(link, Capture { path, writer });
        Ok(())
    }

    /// Writes this flow's qlog: `FLOW.sqlog` as its opener sees it and, where the other end was recorded too,
    /// `FLOW.server.sqlog`.
    ///
    /// # Errors
    /// If the file cannot be made, or another flow's has the same name.
    pub fn record_qlog(&mut self, flow: FlowId, name: &str) -> Result<(), ResultError> {
        self.qlogs.insert(flow, Qlog { name: name.to_owned(), sides: [None, None] });
        self.open_qlog(flow, 0)
    }

    fn open_qlog(&mut self, flow: FlowId, side: usize) -> Result<(), ResultError> {
        let Some(name) = self.qlogs.get(&flow).map(|qlog| qlog.name.clone()) else { return Ok(()) };
        let (path, file) = self.new_file(&qlog_file(&name, side))?;
        let writer = QlogWriter::new(file, flow, &name, side as u8)
            .map_err(|error| ResultError::io("write", &path, error))?;
        if let Some(qlog) = self.qlogs.get_mut(&flow) {
            qlog.sides[side] = Some((path, writer));
        }
        Ok(())
    }

    /// Adds a file of the caller's own (the scenario's text, an audit).
    ///
    /// # Errors
    /// If it cannot be written, or the name is taken.
    pub fn add_file(&mut self, name: &str, contents: &[u8]) -> Result<(), ResultError> {
        let (path, mut file) = self.new_file(name)?;
        file.write_all(contents).map_err(|error| ResultError::io("write", &path, error))?;
        finish_file(&path, file)
    }

    fn new_file(&mut self, name: &str) -> Result<(PathBuf, BufWriter<D::File>), ResultError> {
        if !self.names.insert(name.to_lowercase()) {
            return Err(ResultError::SameName { name: name.to_owned() });
        }
        self.directory.new_file(name)
    }

    /// Writes the remaining tables and the summary and brings everything to disk. The run is not in place before
    /// [`SealedRun::publish`], so that a report can still be added.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn seal(mut self, summary: &Summary, transfers: &[TransferRow]) -> Result<SealedRun<D>, ResultError> {
        let path = self.directory.path().to_owned();
        let at = self.directory.at().clone();
        write_table(&at, &path, &summary.flows)?;
        write_table(&at, &path, transfers)?;
        write_table(&at, &path, &summary.links)?;
        if !summary.dilation_steps().is_empty() {
            write_table(&at, &path, summary.dilation_steps())?;
        }
        // Piece by piece: of a large network the text is longer than all the rest.
        let (place, mut file) = self.new_file(SUMMARY_FILE)?;
        summary.write_json(&mut file).map_err(|error| ResultError::io("write", &place, error))?;
        finish_file(&place, file)?;
        self.streams.flows.close()?;
        self.streams.links.close()?;
        self.streams.tcp.close()?;
        self.streams.packets.close()?;
        for Capture { path, writer } in self.captures.into_values() {
            finish_file(&path, writer.into_inner())?;
        }
        for (path, writer) in self.qlogs.into_values().flat_map(|qlog| qlog.sides).flatten() {
            finish_file(&path, writer.into_inner())?;
        }
        Ok(SealedRun { directory: self.directory })
    }

    /// Writes everything and puts the run directory in place; returns its path.
    ///
    /// # Errors
    /// If a file cannot be written or the directory cannot be put in place; then nothing is left of it.
    pub fn finish(self, summary: &Summary, transfers: &[TransferRow]) -> Result<PathBuf, ResultError> {
        self.seal(summary, transfers)?.publish()
    }
}

impl<D: Directory> Recorder for RunWriter<D> {
    fn connection_opened(&mut self, flow: FlowId, opener: (EndpointId, NodeId), other: (EndpointId, NodeId)) {
        // All or none: the ports count the connections.
        if !self.captures.is_empty() || !self.qlogs.is_empty() || !self.streams.tcp_flows.is_empty() {
            self.streams.book.add_connection(flow, opener, other);
        }
    }
    fn live_records(&mut self, records: &[LinkRecord], frames: &dyn Frames) -> Result<(), ResultError> {
        if !self.captures.is_empty() {
            for record in records {
                // Windows of one direction are scaled by what the other direction's SYN offered too.
                self.wire.learn(&self.streams.book, &record.packet);
                if let Some(capture) = self.captures.get_mut(&record.link) {
                    capture.writer.record_live(&mut self.wire, &self.streams.book, record, frames)?;
                }
            }
        }
        self.streams.packets(records, frames)
    }
    fn tcp_records(&mut self, records: &[TcpRecord]) -> Result<(), ResultError> {
        for record in records {
            let side = usize::from(self.streams.book.side(record.flow, record.endpoint));
            if self.qlogs.get(&record.flow).is_some_and(|qlog| qlog.sides[side].is_none()) {
                self.open_qlog(record.flow, side)?;
            }
            if let Some(qlog) = self.qlogs.get_mut(&record.flow)
                && let Some((path, writer)) = &mut qlog.sides[side]
            {
                writer.record(record).map_err(|error| ResultError::io("write", path, error))?;
            }
        }
        self.streams.tcp(records)
    }
    fn flow_samples(&mut self, samples: &[FlowSample]) -> Result<(), ResultError> {
        self.streams.flow_samples(samples)
    }
    fn link_samples(&mut self, samples: &[LinkSample]) -> Result<(), ResultError> {
        self.streams.link_samples(samples)
    }
}

/// A run whose tables and summary are written, but which is not in place yet. [`crate::Run::open`] reads it at its path.
#[derive(Debug)]
pub struct SealedRun<D: Directory = OsDirectory> {
    directory: PartialDirectory<D>,
}

impl<D: Directory> SealedRun<D> {
    /// Where it is for now.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Adds a file made from the results (a report).
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add_file(&mut self, name: &str, contents: &[u8]) -> Result<(), ResultError> {
        let (path, mut file) = self.directory.new_file(name)?;
        file.write_all(contents).map_err(|error| ResultError::io("write", &path, error))?;
        finish_file(&path, file)
    }

    /// Puts the run directory in place; returns its path.
    ///
    /// # Errors
    /// If that fails; then nothing is left of it.
    pub fn publish(self) -> Result<PathBuf, ResultError> {
        self.directory.publish()
    }
}
