//! The outputs of a run while it is in progress, and how they are put in their place.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use warpline_core::TimeDelta;
use warpline_core::record::{LinkRecord, TcpRecord};
use warpline_net::Network;
use warpline_results::set::SCENARIO_FILE;
use warpline_results::{
    AddressBook, CaptureOptions, FlowSample, Frames, InputFile, LinkSample, MemoryRecorder, Recorder,
    ResultError, RunWriter, Summary, Tables, TransferRow,
};
use warpline_scenario::files::{Copy, Inputs};
use warpline_scenario::{FlowRecordKind, LinkRecordKind, Scenario};

use super::build::Records;
use super::team::Team;
use super::watch::{Lateness, Sample, Watch, Watchers};
use super::{RunError, RunOptions};
use crate::hosts::ModelHosts;
use crate::hosts::flow::Opened;
use crate::hosts::reading::merge;
use crate::report::write_report;

/// What has been recorded in some parts since it was last taken, in the order of time.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Recorded {
    opened: Vec<Opened>,
    links: Vec<LinkRecord>,
    tcp: Vec<TcpRecord>,
}

impl Recorded {
    /// What has been recorded of links, and the connections that have been opened.
    fn of_links(network: &mut Network, world: &mut [ModelHosts]) -> Recorded {
        let opened = merge(world.iter_mut().map(ModelHosts::take_opened).collect(), Opened::order);
        Recorded { opened, links: network.take_records(), tcp: Vec::new() }
    }

    /// What has been recorded of TCP.
    fn tcp(world: &mut [ModelHosts]) -> Vec<TcpRecord> {
        let mut records: Vec<TcpRecord> = world.iter_mut().flat_map(ModelHosts::take_records).collect();
        records.sort_by_key(TcpRecord::order);
        records
    }

    /// All of these.
    fn together(all: Vec<Recorded>) -> Recorded {
        let (mut opened, mut links, mut tcp) = (Vec::new(), Vec::new(), Vec::new());
        for one in all {
            opened.push(one.opened);
            links.push(one.links);
            tcp.push(one.tcp);
        }
        Recorded {
            opened: merge(opened, Opened::order),
            links: merge(links, LinkRecord::order),
            tcp: merge(tcp, TcpRecord::order),
        }
    }
}

/// The run directory, the tables in memory, or both. Only the first process of a run has them.
pub(super) struct Sinks {
    /// Whether some process has any.
    wanted: bool,
    writer: Option<RunWriter>,
    memory: Option<MemoryRecorder>,
    watchers: Watchers,
    /// How the emulator keeps pace, if there is one.
    pub(super) lateness: Option<Lateness>,
    /// The files that the scenario reads, as they were at the start of the run.
    inputs: Inputs,
}

impl Sinks {
    /// Opens the outputs of `options`.
    pub(super) fn open(
        scenario: &Scenario,
        options: &RunOptions,
        records: &Records,
        team: &Team<'_>,
    ) -> Result<Sinks, ResultError> {
        let watched = !options.watchers.0.is_empty();
        let wanted = options.out.is_some() || options.tables || watched;
        if !team.is_first() {
            return Ok(Sinks {
                wanted,
                writer: None,
                memory: None,
                watchers: Watchers::default(),
                lateness: None,
                inputs: Inputs::default(),
            });
        }
        let book = || AddressBook::with(records.addresses.clone());
        let unreadable = |(path, error): (PathBuf, _)| ResultError::io("read", &path, error);
        let mut sinks = Sinks {
            wanted,
            inputs: Inputs::read(scenario).map_err(unreadable)?,
            writer: match &options.out {
                Some(out) => Some(RunWriter::create(out, options.force, book())?),
                None => None,
            },
            memory: options.tables.then(|| MemoryRecorder::new(book())),
            watchers: options.watchers.clone(),
            lateness: None,
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

    /// Passes on the samples of the interval that ends at `time`, in a run of this duration.
    pub(super) fn samples(
        &mut self,
        (time, duration): (TimeDelta, TimeDelta),
        flows: &[FlowSample],
        links: &[LinkSample],
    ) -> Result<(), ResultError> {
        self.each(|sink| {
            sink.flow_samples(flows)?;
            sink.link_samples(links)
        })?;
        self.watchers.sample(&Sample { time, duration, flows, links, lateness: self.lateness });
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.wanted
    }

    /// The directory that is being written, if there is one.
    #[cfg(live)]
    pub(super) fn directory(&self) -> Option<&std::path::Path> {
        self.writer.as_ref().map(RunWriter::path)
    }

    /// Passes on everything recorded since the last call, in all processes.
    pub(super) fn drain(
        &mut self,
        network: &mut Network,
        world: &mut [ModelHosts],
        frames: &dyn Frames,
        team: &mut Team<'_>,
    ) -> Result<(), RunError> {
        world.iter_mut().for_each(ModelHosts::drain_latencies);
        let own = Recorded { tcp: Recorded::tcp(world), ..Recorded::of_links(network, world) };
        if let Some(all) = team.gather(own)? {
            self.write(all, frames)?;
        }
        Ok(())
    }

    /// Passes on the records of links. Those of live packets must be taken at once.
    pub(super) fn drain_links(
        &mut self,
        network: &mut Network,
        world: &mut [ModelHosts],
        frames: &dyn Frames,
    ) -> Result<(), ResultError> {
        self.write(vec![Recorded::of_links(network, world)], frames)
    }

    fn write(&mut self, all: Vec<Recorded>, frames: &dyn Frames) -> Result<(), ResultError> {
        let Recorded { opened, links, tcp } = Recorded::together(all);
        self.each(|sink| {
            for Opened { flow, opener, other, .. } in &opened {
                sink.connection_opened(*flow, (opener.0.id(), opener.1), (other.0.id(), other.1));
            }
            if !links.is_empty() {
                sink.live_records(&links, frames)?;
            }
            if tcp.is_empty() { Ok(()) } else { sink.tcp_records(&tcp) }
        })
    }

    /// Writes the reports of measuring tools: `btc-FLOW.json`.
    pub(super) fn reports(
        &mut self,
        network: &Network,
        world: &mut [ModelHosts],
        team: &mut Team<'_>,
    ) -> Result<(), RunError> {
        let own: Vec<_> = world.iter_mut().flat_map(|hosts| hosts.reports(network.now())).collect();
        for (name, text) in team.gather(own)?.into_iter().flatten().flatten() {
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
