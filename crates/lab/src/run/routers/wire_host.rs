//! A host whose packets are real, whatever makes them: the built-in TCP model, or a transport stack of this process.

use std::net::SocketAddr;

use warpline_core::Timestamp;
use warpline_live::wire::{ConnectionId, HostError, HostEvent, ModelHost, Service, Stack};
use warpline_stacks::stack::{Outcome as SocketOutcome, SocketError, SocketId, SocketOptions};
use warpline_transport::cc::Controller;
use warpline_transport::tcp::{Connection, Outcome};

use super::foreign::{Duty, Foreign, Happened};
use crate::hosts::counters::FlowTotals;
use crate::hosts::wire::{OpenConnections, Progress};

/// Names a connection of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Name {
    Model(ConnectionId),
    Stack(SocketId),
}

/// What one end of a flow's connections is like.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// For the model.
    pub(super) tcp: Stack,
    /// For a stack.
    pub(super) options: SocketOptions,
    /// What it does by itself.
    pub(super) service: Service,
    /// Whether what it receives is the pattern.
    pub(super) checks: bool,
}

impl Settings {
    /// What a stack's socket does by itself. None for a service that only the model has.
    pub(super) fn duty(&self) -> Option<Duty> {
        match self.service {
            Service::Driven => Some(Duty::Driven),
            Service::Discard => Some(Duty::Discard),
            Service::Source { bytes } => Some(Duty::Source(bytes)),
            Service::Echo => Some(Duty::Echo),
            Service::Http { size } => Some(Duty::Http(size)),
            Service::Verify => None,
        }
    }
}

/// What has happened to a connection.
#[derive(Debug)]
pub(super) enum Event {
    /// Its handshake is complete.
    Opened { name: Name, local: SocketAddr, remote: Option<SocketAddr> },
    /// It has ended.
    Closed { name: Name, gone: Gone },
}

/// A connection that has ended.
#[derive(Debug)]
pub(super) struct Gone {
    pub(super) outcome: Outcome,
    pub(super) differences: u64,
    pub(super) progress: Progress,
    /// The state machine of a model's connection.
    pub(super) connection: Option<Box<Connection<Controller>>>,
}

/// A host.
#[derive(Debug)]
pub(super) enum WireHost {
    Model(Box<ModelHost>),
    Stack(Box<Foreign>),
}

/// Why a connection cannot be begun, in the words of a flow's outcome.
fn model_refusal(error: &HostError) -> &'static str {
    match error {
        HostError::Ports(_) | HostError::Taken(_) => "no port left",
        HostError::Full => "no memory left",
        HostError::Tcp(_) | HostError::NoAddress(_) => "cannot connect",
    }
}

fn stack_refusal(error: &SocketError) -> &'static str {
    match error {
        SocketError::Ports(_) | SocketError::Taken(_) => "no port left",
        SocketError::Full => "no socket left",
        SocketError::NoAddress(_) | SocketError::Cc { .. } | SocketError::Other(_) => "cannot connect",
    }
}

fn outcome(outcome: SocketOutcome) -> Outcome {
    match outcome {
        SocketOutcome::Complete => Outcome::Complete,
        SocketOutcome::Reset => Outcome::Reset,
        SocketOutcome::TimedOut => Outcome::TimedOut,
        SocketOutcome::Aborted => Outcome::Aborted,
    }
}

impl WireHost {
    /// Whether it is a stack, which says less of its connections.
    pub(super) fn is_stack(&self) -> bool {
        matches!(self, WireHost::Stack(_))
    }

    /// Handles a datagram. Returns the connection of a model that it was for; a stack says later what has changed.
    pub(super) fn handle_datagram(&mut self, now: Timestamp, bytes: &[u8]) -> Option<(Name, Progress)> {
        match self {
            WireHost::Model(host) => {
                let id = host.handle_datagram(now, bytes)?;
                Some((Name::Model(id), host.connection(id)?.into()))
            }
            WireHost::Stack(host) => {
                host.handle_datagram(now, bytes);
                None
            }
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Timestamp) {
        match self {
            WireHost::Model(host) => host.handle_timeout(now),
            WireHost::Stack(host) => host.handle_timeout(now),
        }
    }

    pub(super) fn poll_transmit(&mut self, now: Timestamp, out: &mut Vec<u8>) -> bool {
        match self {
            WireHost::Model(host) => host.poll_transmit(now, out),
            WireHost::Stack(host) => host.poll_transmit(now, out),
        }
    }

    pub(super) fn poll_timeout(&mut self) -> Timestamp {
        match self {
            WireHost::Model(host) => host.poll_timeout(),
            WireHost::Stack(host) => host.poll_timeout(),
        }
    }

    /// Listens on a port.
    ///
    /// # Errors
    /// Why it cannot.
    pub(super) fn listen(&mut self, now: Timestamp, port: u16, settings: &Settings) -> Result<(), String> {
        match self {
            WireHost::Model(host) => {
                let listening = host.listen_with(port, settings.service, settings.tcp.clone());
                listening.map_err(|error| error.to_string())
            }
            WireHost::Stack(host) => {
                let Some(duty) = settings.duty() else {
                    return Err("a stack has no such service".to_owned());
                };
                let listening = host.listen(now, (port, duty, settings.checks), &settings.options);
                listening.map_err(|error| error.to_string())
            }
        }
    }

    pub(super) fn stop_listening(&mut self, now: Timestamp, port: u16) {
        match self {
            WireHost::Model(host) => host.stop_listening(port),
            WireHost::Stack(host) => host.stop_listening(now, port),
        }
    }

    /// Connects, and returns the connection and this end's address.
    ///
    /// # Errors
    /// Why it cannot, in the words of a flow's outcome.
    pub(super) fn connect(
        &mut self,
        now: Timestamp,
        remote: SocketAddr,
        settings: &Settings,
    ) -> Result<(Name, SocketAddr), &'static str> {
        match self {
            WireHost::Model(host) => {
                let made = host.connect_with(now, remote, settings.service, &settings.tcp);
                let id = made.map_err(|error| model_refusal(&error))?;
                Ok((Name::Model(id), host.ends(id).map_or(remote, |(local, _)| local)))
            }
            WireHost::Stack(host) => {
                let made = host.connect(now, remote, settings.checks, &settings.options);
                let (socket, local) = made.map_err(|error| stack_refusal(&error))?;
                Ok((Name::Stack(socket), local))
            }
        }
    }

    /// Sends so many bytes more on a connection.
    pub(super) fn write(&mut self, now: Timestamp, name: Name, bytes: u64) {
        match (self, name) {
            (WireHost::Model(host), Name::Model(id)) => {
                host.drive(id, |connection| connection.write(bytes));
            }
            (WireHost::Stack(host), Name::Stack(socket)) => host.write(now, socket, bytes),
            _ => {}
        }
    }

    /// Sends without end on a connection.
    pub(super) fn write_on(&mut self, now: Timestamp, name: Name) {
        match (self, name) {
            (WireHost::Model(host), Name::Model(id)) => {
                host.drive(id, |connection| connection.set_unlimited(true));
            }
            (WireHost::Stack(host), Name::Stack(socket)) => host.write(now, socket, u64::MAX),
            _ => {}
        }
    }

    /// Closes this end of a connection; what was to be sent still is.
    pub(super) fn close(&mut self, now: Timestamp, name: Name) {
        match (self, name) {
            (WireHost::Model(host), Name::Model(id)) => {
                host.drive(id, Connection::close);
            }
            (WireHost::Stack(host), Name::Stack(socket)) => host.close(now, socket),
            _ => {}
        }
    }

    /// What has happened, one by one.
    pub(super) fn poll_event(&mut self) -> Option<Event> {
        match self {
            WireHost::Model(host) => Some(match host.poll_event()? {
                HostEvent::Opened { id, local, remote } => {
                    Event::Opened { name: Name::Model(id), local, remote: Some(remote) }
                }
                HostEvent::Closed { id, report, connection } => {
                    let gone = Gone {
                        outcome: connection.outcome().unwrap_or(Outcome::Aborted),
                        differences: report.differences,
                        progress: (&*connection).into(),
                        connection: Some(connection),
                    };
                    Event::Closed { name: Name::Model(id), gone }
                }
            }),
            WireHost::Stack(host) => Some(match host.poll_event()? {
                Happened::Opened { socket, local, remote } => {
                    Event::Opened { name: Name::Stack(socket), local, remote }
                }
                Happened::Closed { socket, outcome: how, differences, progress } => {
                    let gone = Gone { outcome: outcome(how), differences, progress, connection: None };
                    Event::Closed { name: Name::Stack(socket), gone }
                }
            }),
        }
    }

    /// Why it does nothing any more, if it is a stack whose assertion has failed.
    pub(super) fn failure(&self) -> Option<String> {
        match self {
            WireHost::Model(_) => None,
            WireHost::Stack(host) => host.failure(),
        }
    }

    /// Takes a connection of a stack that has come further.
    pub(super) fn poll_progress(&mut self) -> Option<(Name, Progress)> {
        match self {
            WireHost::Model(_) => None,
            WireHost::Stack(host) => {
                host.poll_progress().map(|(socket, progress)| (Name::Stack(socket), progress))
            }
        }
    }

    /// How far a connection is.
    pub(super) fn progress(&self, name: Name) -> Option<Progress> {
        match (self, name) {
            (WireHost::Model(host), Name::Model(id)) => host.connection(id).map(Progress::from),
            (WireHost::Stack(host), Name::Stack(socket)) => host.info(socket).map(|(progress, _)| progress),
            _ => None,
        }
    }

    /// Adds what an open connection says of itself.
    pub(super) fn add_to(&self, name: Name, sends: bool, paired: bool, reading: &mut OpenConnections) {
        match (self, name) {
            (WireHost::Model(host), Name::Model(id)) => {
                let Some(connection) = host.connection(id) else { return };
                reading.totals.add_wire(connection, sends, paired);
                if sends {
                    reading.window.add(connection);
                }
            }
            (WireHost::Stack(host), Name::Stack(socket)) => {
                let Some((progress, info)) = host.info(socket) else { return };
                reading.totals.add_socket(&progress, sends, paired);
                if sends {
                    reading.window.add_values(info.cwnd, info.ssthresh, info.in_flight, info.srtt);
                }
            }
            _ => {}
        }
    }

    /// Runs `action` on a model's connection.
    pub(super) fn drive(&mut self, name: Name, action: impl FnOnce(&mut Connection<Controller>)) {
        if let (WireHost::Model(host), Name::Model(id)) = (self, name) {
            host.drive(id, action);
        }
    }
}

impl Gone {
    /// What it adds to its flow's counters. `sends` is whether its end sent the flow's data, and `paired` whether both ends are here.
    pub(super) fn totals(&self, sends: bool, paired: bool) -> FlowTotals {
        let mut totals = FlowTotals::default();
        match &self.connection {
            Some(connection) => totals.add_wire(connection, sends, paired),
            None => totals.add_socket(&self.progress, sends, paired),
        }
        totals
    }
}
