//! Machines outside, behind interfaces of this machine.

use std::net::IpAddr;

use warpline_live::emulator::Emulator;
use warpline_live::outside::{Outside, OutsideConfig, OutsideError};
use warpline_live::port::SegmentConfig;
use warpline_live::privilege;
use warpline_results::{LiveHost, ProgramRow};
use warpline_scenario::addresses::{AddressPlan, Surroundings};
use warpline_scenario::endpoint::Interface;
use warpline_scenario::{Expanded, Scenario};

use super::course::Account;
use super::endpoints::{Accounting, Attached, Ending, Ground, Named, Paced, Planned};
use super::programs::Readiness;
use super::session::Session;
use super::{RunError, live_error};
use warpline_core::Timestamp;

/// The machines outside of a scenario.
#[derive(Debug)]
pub(super) struct InterfacePlan {
    hosts: Vec<Named>,
    interfaces: Vec<(Interface, Surroundings)>,
}

impl InterfacePlan {
    pub(super) fn new(scenario: &Scenario, expanded: &Expanded, addresses: &AddressPlan) -> Self {
        let known = scenario.outside();
        let known = known.filter_map(|(host, own)| Some((host, own, expanded.nodes.find(&host.name)?)));
        let (hosts, interfaces) = known
            .map(|(host, own, node)| {
                let around = addresses.surroundings(own, node as usize);
                ((host.name.clone(), node), (own.clone(), around))
            })
            .unzip();
        InterfacePlan { hosts, interfaces }
    }
}

impl Planned for InterfacePlan {
    fn hosts(&self) -> &[Named] {
        &self.hosts
    }

    fn gateways(&self) -> Vec<Option<Vec<IpAddr>>> {
        self.interfaces.iter().map(|(_, around)| Some(around.gateways.clone())).collect()
    }

    fn attach(
        self: Box<Self>,
        ground: Ground<'_>,
        session: &mut Session<'_>,
    ) -> Result<Box<dyn Attached>, RunError> {
        if privilege::in_user_namespace() {
            return Err(RunError::Live(
                "an ordinary user has no way to this machine's interfaces, as endpoint = \"interface\" needs; run as root (CAP_NET_RAW and \
                 CAP_NET_ADMIN)"
                    .to_owned(),
            ));
        }
        let hosts = self.hosts.iter().zip(self.interfaces);
        let config = |((name, node), (own, around)): (&Named, (Interface, Surroundings))| OutsideConfig {
            host: name.clone(),
            device: own.device,
            mtu: ground.mtu[*node as usize],
            force: own.force,
            segment: SegmentConfig {
                mac: [0; 6],
                vlan: own.vlan,
                machines: around.machines,
                routes: around.routes,
                elsewhere: around.elsewhere,
                gateways: around.gateways,
            },
        };
        let configs: Vec<OutsideConfig> = hosts.map(config).collect();
        let what = format!("warpline run ({})", session.scenario.name);
        let outside = Outside::open(&what, &configs).map_err(|error| refused(&error, &configs))?;
        Ok(Box::new(Interfaces { outside }))
    }
}

/// Why an interface cannot be used, with the host that wants it.
fn refused(error: &OutsideError, configs: &[OutsideConfig]) -> RunError {
    let mut text = error.to_string();
    if let OutsideError::NoDevice { device, .. } = error {
        let host = configs.iter().find(|config| config.device == *device).map(|config| config.host.as_str());
        text = format!("host {}: {text}", host.unwrap_or_default());
    }
    live_error(text)
}

/// The interfaces of a run.
#[derive(Debug)]
struct Interfaces {
    outside: Outside,
}

// What is outside runs in its own time.
impl Paced for Interfaces {}

impl Attached for Interfaces {
    fn largest(&self) -> u32 {
        self.outside.mtu()
    }

    fn add_ports(&mut self, emulator: &mut Emulator) -> Result<(), RunError> {
        for port in self.outside.ports().map_err(live_error)? {
            emulator.add_port(Box::new(port));
        }
        emulator.note_offloads(&self.outside.offloads);
        Ok(())
    }

    fn look(&mut self, _: Timestamp, _: &mut Readiness) -> Option<String> {
        None
    }

    fn end(&mut self, _: Ending) -> Result<(), RunError> {
        Ok(())
    }

    fn account(
        &mut self,
        _: &Accounting<'_>,
        _: &mut Session<'_>,
        _: &mut Account,
    ) -> Result<Vec<ProgramRow>, RunError> {
        Ok(Vec::new())
    }

    fn summarise(&mut self, hosts: Vec<LiveHost>, _: Vec<ProgramRow>, account: &mut Account) {
        if let Some(live) = &mut account.live {
            live.hosts.extend(hosts);
        }
    }
}
