//! Captures: the packets that a link transmits, as pcapng (draft-ietf-opsawg-pcapng) with link type RAW.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption, InterfaceTsResolution,
};
use pcap_file::pcapng::blocks::opt_common::CommonOption;
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::pcapng::{PcapNgWriteError, PcapNgWriter};
use pcap_file::{DataLink, Endianness};
use warpline_core::packet::{Body, Ecn};
use warpline_core::record::{LinkEvent, LinkRecord};

use crate::address::AddressBook;
use crate::error::ResultError;
use crate::wire::{Frames, NoFrames, WireFormat};

/// Bytes kept of each packet unless more is asked for: all headers that there can be (20 + 60), and some payload.
pub const HEADERS_SNAP_LENGTH: u32 = 128;

/// What a capture holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CaptureOptions {
    /// Bytes kept of each packet; none keeps all, so that analysers can verify checksums.
    pub snap_length: Option<u32>,
    /// Whether packets that the link lost are shown too, on an interface of their own with the reason as comment.
    pub drops: bool,
    /// When the run began, since the epoch.
    pub begin: Duration,
}

impl Default for CaptureOptions {
    fn default() -> Self {
        CaptureOptions { snap_length: Some(HEADERS_SNAP_LENGTH), drops: false, begin: Duration::ZERO }
    }
}

/// Writes the capture of one link or of several. Times are those of the run, as if it had begun at the epoch unless the options say otherwise,
/// to the nanosecond.
pub struct CaptureWriter<W: Write> {
    writer: PcapNgWriter<W>,
    path: PathBuf,
    options: CaptureOptions,
    /// Packets marked here that have not been transmitted yet.
    marked: BTreeSet<u64>,
    /// Whether there is an interface for each link, by its number.
    several: bool,
}

impl<W: Write> std::fmt::Debug for CaptureWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaptureWriter").field("path", &self.path).finish_non_exhaustive()
    }
}

/// An error of the capture's file.
fn write_error(path: &Path, error: PcapNgWriteError) -> ResultError {
    match error {
        PcapNgWriteError::Io(error) => ResultError::io("write", path, error),
        other => ResultError::Encode { path: path.to_owned(), why: other.to_string() },
    }
}

impl<W: Write> CaptureWriter<W> {
    /// Begins a capture of the link called `link`. `path` is what errors call the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(out: W, path: &Path, link: &str, options: CaptureOptions) -> Result<Self, ResultError> {
        Self::begin(out, path, &[link], options, false)
    }

    /// Begins a capture of the links 0, 1 and so on, with these names, each an interface of its own; what they lose is not shown.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn of_links(
        out: W,
        path: &Path,
        links: &[&str],
        options: CaptureOptions,
    ) -> Result<Self, ResultError> {
        Self::begin(out, path, links, CaptureOptions { drops: false, ..options }, true)
    }

    fn begin(
        out: W,
        path: &Path,
        links: &[&str],
        options: CaptureOptions,
        several: bool,
    ) -> Result<Self, ResultError> {
        let application = concat!("Warpline ", env!("CARGO_PKG_VERSION"));
        let section = SectionHeaderBlock {
            // The same bytes on every machine.
            endianness: Endianness::Little,
            options: vec![SectionHeaderOption::UserApplication(application.into())],
            ..SectionHeaderBlock::default()
        };
        let interface = |name: String, description: String| InterfaceDescriptionBlock {
            linktype: DataLink::RAW,
            snaplen: options.snap_length.unwrap_or(0),
            options: vec![
                InterfaceDescriptionOption::IfName(name.into()),
                InterfaceDescriptionOption::IfDescription(description.into()),
                InterfaceDescriptionOption::IfTsResol(InterfaceTsResolution::NANO),
            ],
        };
        let fail = |error| write_error(path, error);
        let mut writer = PcapNgWriter::with_section_header(out, section).map_err(fail)?;
        for link in links {
            writer
                .write_pcapng_block(interface(
                    (*link).to_owned(),
                    format!("packets transmitted on link {link}"),
                ))
                .map_err(fail)?;
            if options.drops {
                let lost = interface(format!("{link} lost"), format!("packets lost on link {link}"));
                writer.write_pcapng_block(lost).map_err(fail)?;
            }
        }
        Ok(CaptureWriter { writer, path: path.to_owned(), options, marked: BTreeSet::new(), several })
    }

    /// Takes an event of the link: a transmitted packet is written, and a lost one where that is asked for.
    ///
    /// # Errors
    /// If it cannot be written, or an endpoint is not in the address book.
    pub fn record(
        &mut self,
        wire: &mut WireFormat,
        book: &AddressBook,
        record: &LinkRecord,
    ) -> Result<(), ResultError> {
        self.record_live(wire, book, record, &NoFrames)
    }

    /// As [`record`](Self::record), with the bytes of live packets from `frames`.
    ///
    /// # Errors
    /// As there, or if a frame's bytes are not at hand.
    pub fn record_live(
        &mut self,
        wire: &mut WireFormat,
        book: &AddressBook,
        record: &LinkRecord,
        frames: &dyn Frames,
    ) -> Result<(), ResultError> {
        let packet = &record.packet;
        let (interface_id, comment) = match record.event {
            LinkEvent::Transmit { .. } => {
                let comment = match (self.marked.remove(&packet.id), packet.ecn) {
                    (true, _) => Some("marked congestion-experienced by this link".into()),
                    (false, Ecn::Ce) => Some("arrived marked congestion-experienced".into()),
                    _ => None,
                };
                (if self.several { record.link.0 } else { 0 }, comment)
            }
            LinkEvent::Mark => {
                self.marked.insert(packet.id);
                return Ok(());
            }
            LinkEvent::Drop(reason) => {
                self.marked.remove(&packet.id);
                if !self.options.drops {
                    return Ok(());
                }
                (1, Some(Cow::Owned(format!("lost: {}", reason.name()))))
            }
            LinkEvent::Enqueue | LinkEvent::Duplicate | LinkEvent::Corrupt | LinkEvent::Deliver => {
                return Ok(());
            }
        };
        let wire = match packet.body {
            Body::Frame(_) => WireFormat::live_bytes(record, frames, self.options.snap_length),
            _ => wire.bytes(book, packet, self.options.snap_length),
        };
        let wire = wire.map_err(|why| ResultError::Encode { path: self.path.clone(), why })?;
        let block = EnhancedPacketBlock {
            interface_id,
            timestamp: self.options.begin + Duration::from_nanos(record.time.as_nanos()),
            original_len: wire.original_len,
            data: Cow::Borrowed(&wire.bytes),
            options: comment
                .map(|text| EnhancedPacketOption::Common(CommonOption::Comment(text)))
                .into_iter()
                .collect(),
        };
        self.writer.write_pcapng_block(block).map(|_| ()).map_err(|error| write_error(&self.path, error))
    }

    /// The file, complete.
    pub fn into_inner(self) -> W {
        self.writer.into_inner()
    }
}
