//! What is recorded of a live link that is no run: a capture as it goes, and a run directory with a report at the end (`warpline shell`).

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use warpline_core::record::LinkRecord;
use warpline_core::{Body, Frame, LinkId, Rate, TimeDelta, Timestamp};
use warpline_live::crossing::Account;
use warpline_live::pool::Pool;
use warpline_live::router;
use warpline_net::{LinkStats, Network};

use warpline_results::set::SCENARIO_FILE;

use super::RunError;
use super::counters::Counters;
use super::links::{DIRECTIONS, Duplex, ENDS};
use super::measure::{LinkInfo, Meter};
use crate::hosts::reading::Ending;
use crate::report::write_report;
use warpline_results::{
    AddressBook, CaptureOptions, CaptureWriter, Frames, LiveSummary, Recorder, ResultError, RunInfo,
    RunWriter, Summary, WireFormat,
};

/// How often what was captured is written to the file, and links are sampled, at the least.
const INTERVAL: TimeDelta = TimeDelta::from_millis(100);
/// More than this is not kept back.
const MOST_HELD: usize = 1 << 20;

/// What to record.
#[derive(Debug, Default)]
pub struct RecordingOptions {
    /// An open file for the capture, and its path.
    pub capture: Option<(File, PathBuf)>,
    /// When the session begins, since the epoch: the times of the capture are those of the wall clock.
    pub begin: std::time::Duration,
    /// A directory to write at the end, with a report.
    pub report: Option<PathBuf>,
    /// What the session is called there.
    pub name: String,
    /// Seed of loss, jitter and random queues.
    pub seed: u64,
}

/// Bytes of whole blocks that are not in the file yet.
#[derive(Clone, Debug, Default)]
struct Held(Rc<RefCell<Vec<u8>>>);

impl Write for Held {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A capture that is whole at any moment: whoever kills us leaves a file that ends with a block.
#[derive(Debug)]
struct Capture {
    writer: CaptureWriter<Held>,
    wire: WireFormat,
    book: AddressBook,
    held: Held,
    file: File,
    path: PathBuf,
}

/// The bytes of the frames in the network.
struct Bytes<'a>(&'a Pool);

impl Frames for Bytes<'_> {
    fn frame(&self, record: &LinkRecord) -> Option<Vec<u8>> {
        let Body::Frame(Frame { handle }) = record.packet.body else { return None };
        let mut bytes = self.0.datagram(handle).to_vec();
        router::set_ecn(&mut bytes, record.packet.ecn);
        Some(bytes)
    }
}

impl Capture {
    fn record(&mut self, records: &[LinkRecord], pool: &Pool) -> Result<(), ResultError> {
        // What is not IP, as between two interfaces, has no place in a capture of IP packets.
        let is_ip = |record: &&LinkRecord| match record.packet.body {
            Body::Frame(Frame { handle }) => pool.header(handle).version > 0,
            _ => true,
        };
        for record in records.iter().filter(is_ip) {
            self.writer.record_live(&mut self.wire, &self.book, record, &Bytes(pool))?;
        }
        if self.held.0.borrow().len() > MOST_HELD { self.write() } else { Ok(()) }
    }

    /// Puts what is held into the file, in one piece.
    fn write(&mut self) -> Result<(), ResultError> {
        let bytes = std::mem::take(&mut *self.held.0.borrow_mut());
        self.file.write_all(&bytes).map_err(|error| ResultError::io("write", &self.path, error))
    }
}

/// The recording of a session.
#[derive(Debug)]
pub struct Recording {
    capture: Option<Capture>,
    writer: Option<RunWriter>,
    meter: Meter,
    links: [LinkInfo; 2],
    /// Which have no rate limit, at first and now.
    unlimited: [bool; 2],
    unlimited_now: [bool; 2],
    next: Timestamp,
    name: String,
    seed: u64,
    /// What could not be written; nothing more is then.
    failure: Option<ResultError>,
}

impl Recording {
    /// Begins the recording, before the links carry anything. Links whose packets are to be captured must be recorded
    /// ([`warpline_net::LinkConfig::record`]).
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn open(duplex: &Duplex, options: RecordingOptions) -> Result<Recording, ResultError> {
        let capture = match options.capture {
            Some((file, path)) => {
                let held = Held::default();
                let what =
                    CaptureOptions { snap_length: None, begin: options.begin, ..CaptureOptions::default() };
                let writer = CaptureWriter::of_links(held.clone(), &path, &DIRECTIONS, what)?;
                let (wire, book) = (WireFormat::new(), AddressBook::new());
                let mut capture = Capture { writer, wire, book, held, file, path };
                capture.write()?;
                Some(capture)
            }
            None => None,
        };
        let writer = match options.report {
            Some(out) => Some(RunWriter::create(&out, false, AddressBook::new())?),
            None => None,
        };
        let links = [0, 1].map(|index| LinkInfo {
            link: warpline_core::LinkId(index as u32),
            from: ENDS[index].into(),
            to: ENDS[1 - index].into(),
            name: duplex.links[index].name.clone(),
            delay: duplex.links[index].delay,
            capacity: duplex.capacities[index].clone(),
        });
        Ok(Recording {
            capture,
            writer,
            meter: Meter::default(),
            links,
            unlimited: duplex.unlimited,
            unlimited_now: duplex.unlimited,
            next: Timestamp::ZERO + INTERVAL,
            name: options.name,
            seed: options.seed,
            failure: None,
        })
    }

    /// Takes what has happened in a turn of the emulator; `pool` has the bytes of the packets.
    pub fn turn(&mut self, network: &mut Network, pool: &Pool) {
        let records = network.take_records();
        if self.failure.is_some() {
            return;
        }
        let mut taken = match &mut self.capture {
            Some(capture) if !records.is_empty() => capture.record(&records, pool),
            _ => Ok(()),
        };
        if network.now() >= self.next {
            self.next = network.now() + INTERVAL;
            taken = taken.and_then(|()| self.capture.as_mut().map_or(Ok(()), Capture::write));
            if let Some(writer) = &mut self.writer {
                let (_, mut samples) = self.meter.sample(Counters::take(network, &[]), &self.links);
                for (sample, _) in
                    samples.iter_mut().zip(self.unlimited_now).filter(|(_, unlimited)| *unlimited)
                {
                    sample.capacity_bps = None;
                }
                taken = taken.and_then(|()| writer.link_samples(&samples));
            }
        }
        self.failure = taken.err();
    }

    /// A direction has another rate from `at` on.
    pub fn changed(&mut self, link: LinkId, at: Timestamp, rate: Rate) {
        if let Some(info) = self.links.get_mut(link.index()) {
            info.capacity = info.capacity.clone().changed(&[(at, rate)]);
            self.unlimited_now[link.index()] = false;
        }
    }

    /// Writes what is left, with the scenario of the link. Returns the path of the report, if one was asked for.
    ///
    /// # Errors
    /// If something could not be written, now or while the session went on.
    pub fn finish(
        mut self,
        Account { audit, network }: &mut Account,
        scenario: &str,
    ) -> Result<Option<PathBuf>, RunError> {
        if let Some(failure) = self.failure {
            return Err(failure.into());
        }
        if let Some(capture) = &mut self.capture {
            capture.write()?;
        }
        let Some(mut writer) = self.writer else { return Ok(None) };
        writer.add_file(SCENARIO_FILE, scenario.as_bytes())?;
        let end = Counters::take(network, &[]);
        let (_, _, mut rows) = self.meter.finish(end, &Ending::default(), &[], &self.links);
        for (row, _) in rows.iter_mut().zip(self.unlimited).filter(|(_, unlimited)| *unlimited) {
            (row.rate_bps, row.utilisation) = (None, None);
        }
        let seconds = network.now().as_secs_f64();
        let info = RunInfo {
            scenario: self.name,
            seed: self.seed,
            clock: "real".to_owned(),
            duration_s: seconds,
            simulated_s: seconds,
            complete: true,
            packet_hops: network.packet_hops(),
            events: network.events(),
            ..RunInfo::default()
        };
        let mut summary = Summary::new(info, Vec::new(), rows);
        summary.live = Some(LiveSummary {
            kept_pace: audit.summary.kept_pace(),
            audit: audit.summary.clone(),
            ..LiveSummary::default()
        });
        let sealed = writer.seal(&summary, &[])?;
        write_report(&[sealed.path()], &sealed.path().join(REPORT))?;
        Ok(Some(sealed.publish()?.join(REPORT)))
    }
}

/// The report's file.
const REPORT: &str = "report.html";

/// What a link does now: rates since the last reading, and counts since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pulse {
    /// Bits per second sent.
    pub rate_bps: f64,
    /// Packets that wait.
    pub waiting: u32,
    /// Packets lost since the beginning.
    pub lost: u64,
}

/// Makes readings of both links, now and then.
#[derive(Debug, Default)]
pub struct PulseMeter {
    last: Option<(Timestamp, [LinkStats; 2])>,
}

impl PulseMeter {
    /// Reads the links, if the last reading is `interval` ago.
    pub fn read(&mut self, network: &mut Network, interval: TimeDelta) -> Option<[Pulse; 2]> {
        let now = network.now();
        let (at, before) = self.last.get_or_insert_with(|| (now, Default::default()));
        let span = now.saturating_since(*at);
        if span < interval {
            return None;
        }
        let stats = [0, 1].map(|link| network.link_stats(warpline_core::LinkId(link)));
        let pulse = |index: usize| Pulse {
            rate_bps: (stats[index].sent_bytes - before[index].sent_bytes) as f64 * 8.0 / span.as_secs_f64(),
            waiting: stats[index].backlog_packets,
            lost: stats[index].drops(),
        };
        let pulses = [pulse(0), pulse(1)];
        self.last = Some((now, stats));
        Some(pulses)
    }
}

/// Opens a file for a capture. What is there is replaced.
///
/// # Errors
/// If it cannot be made.
pub fn create_capture(path: &Path) -> Result<(File, PathBuf), ResultError> {
    let file = File::create(path).map_err(|error| ResultError::io("create", path, error))?;
    Ok((file, path.to_owned()))
}
