//! The outputs of a run while it is in progress, and how they are put in their place.

use std::path::PathBuf;

use warpline_net::Network;
use warpline_results::set::SCENARIO_FILE;
use warpline_results::{
    AddressBook, CaptureOptions, Frames, InputFile, MemoryRecorder, Recorder, ResultError, RunWriter,
    Summary, Tables, TransferRow,
};
use warpline_scenario::files::{Copy, Inputs};
use warpline_scenario::{FlowRecordKind, LinkRecordKind, Scenario};

use super::build::Records;
use super::{RunError, RunOptions};
use crate::hosts::ModelHosts;
use crate::report::write_report;

/// The run directory, the tables in memory, or both.
pub(super) struct Sinks {
    writer: Option<RunWriter>,
    memory: Option<MemoryRecorder>,
    /// The files that the scenario reads, as they were at the start of the run.
    inputs: Inputs,
}

impl Sinks {
    /// Opens the outputs of `options`.
    pub(super) fn open(
        scenario: &Scenario,
        options: &RunOptions,
        records: &Records,
    ) -> Result<Sinks, ResultError> {
        let unreadable = |(path, error): (PathBuf, _)| ResultError::io("read", &path, error);
        let mut sinks = Sinks {
            inputs: Inputs::read(scenario).map_err(unreadable)?,
            writer: match &options.out {
                Some(out) => Some(RunWriter::create(out, options.force, AddressBook::new())?),
                None => None,
            },
            memory: options.tables.then(|| MemoryRecorder::new(AddressBook::new())),
        };
        for (flow, name, kinds) in &records.flows {
            for kind in kinds {
                if let Some(memory) = &mut sinks.memory
                    && *kind == FlowRecordKind::Tcp
                {
                    memory.record_tcp(*flow);
                }
                match (&mut sinks.writer, kind) {
                    (Some(writer), FlowRecordKind::Tcp) => writer.record_tcp(*flow),
                    (Some(writer), FlowRecordKind::Qlog) => writer.record_qlog(*flow, name)?,
                    _ => {}
                }
            }
        }
        for (link, name, kinds) in &records.links {
            for kind in kinds {
                let table = matches!(kind, LinkRecordKind::Packets | LinkRecordKind::Queue);
                if let Some(memory) = &mut sinks.memory
                    && table
                {
                    memory.record_packets(*link);
                }
                match (&mut sinks.writer, kind) {
                    (Some(writer), _) if table => writer.record_packets(*link),
                    (Some(writer), LinkRecordKind::Pcap) => {
                        writer.record_capture(*link, name, CaptureOptions::default())?;
                    }
                    _ => {}
                }
            }
        }
        Ok(sinks)
    }

    pub(super) fn each(
        &mut self,
        mut f: impl FnMut(&mut dyn Recorder) -> Result<(), ResultError>,
    ) -> Result<(), ResultError> {
        if let Some(writer) = &mut self.writer {
            f(writer)?;
        }
        if let Some(memory) = &mut self.memory {
            f(memory)?;
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.writer.is_none() && self.memory.is_none()
    }

    /// The directory that is being written, if there is one.
    #[cfg(target_os = "linux")]
    pub(super) fn directory(&self) -> Option<&std::path::Path> {
        self.writer.as_ref().map(RunWriter::path)
    }

    /// Passes on everything recorded since the last call.
    pub(super) fn drain(
        &mut self,
        network: &mut Network,
        world: &mut ModelHosts,
        frames: &dyn Frames,
    ) -> Result<(), ResultError> {
        self.drain_links(network, world, frames)?;
        let tcp = world.take_records();
        world.drain_latencies();
        self.each(|sink| sink.tcp_records(&tcp))
    }

    /// Passes on the records of links. Those of live packets must be taken at once.
    pub(super) fn drain_links(
        &mut self,
        network: &mut Network,
        world: &mut ModelHosts,
        frames: &dyn Frames,
    ) -> Result<(), ResultError> {
        for opened in world.take_opened() {
            self.each(|sink| {
                sink.connection_opened(opened.flow, opened.opener, opened.other);
                Ok(())
            })?;
        }
        let links = network.take_records();
        if links.is_empty() { Ok(()) } else { self.each(|sink| sink.live_records(&links, frames)) }
    }

    /// Writes the reports of measuring tools: `btc-FLOW.json`.
    pub(super) fn reports(&mut self, network: &Network, world: &mut ModelHosts) -> Result<(), ResultError> {
        for (name, text) in world.reports(network.now()) {
            if let Some(writer) = &mut self.writer {
                writer.add_file(&name, text.as_bytes())?;
            }
        }
        Ok(())
    }

    /// Writes the rest, with copies of the files that the scenario reads, and puts the run directory in its place. Returns its path
    /// and the tables. The summary gets the names of the copies.
    pub(super) fn publish(
        self,
        scenario: &Scenario,
        options: &RunOptions,
        summary: &mut Summary,
        transfers: &[TransferRow],
    ) -> Result<(Option<PathBuf>, Option<Tables>), RunError> {
        let listed = |copy: &Copy| InputFile {
            file: copy.path.clone(),
            bytes: copy.contents.len() as u64,
            hash: copy.hash.clone(),
        };
        summary.inputs = self.inputs.copies.iter().map(listed).collect();
        let directory = match self.writer {
            Some(mut writer) => {
                for copy in &self.inputs.copies {
                    writer.add_file(&copy.path, &copy.contents)?;
                }
                let copied = self.inputs.scenario(scenario);
                writer.add_file(SCENARIO_FILE, copied.to_toml().as_bytes())?;
                let sealed = writer.seal(summary, transfers)?;
                if options.report {
                    let report = sealed.path().join("report.html");
                    write_report(&[sealed.path()], &report)?;
                }
                Some(sealed.publish()?)
            }
            None => None,
        };
        let tables = match self.memory {
            Some(memory) => Some(memory.finish(summary, transfers)?),
            None => None,
        };
        Ok((directory, tables))
    }
}
