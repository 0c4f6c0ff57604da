//! The guests of a run under the real or a dilated clock: boots the machines, joins them to the emulator, sets their time, watches and ends them.

use std::collections::BTreeMap;
use std::path::Path;

use warpline_core::{Pace, Tdf};
use warpline_guest::dilation::{follow, nudge};
use warpline_guest::order::{GRACE, Notice, Report};
use warpline_guest::time::host_now;
use warpline_guest::{GuestError, Kernel, Machine};
use warpline_live::port::LivePort;
use warpline_scenario::addresses::AddressPlan;

use super::plan::{Guests, environment};
use super::ports::{SharedDevice, discard, has_notices, ports, send, take_notices, was_slow};
use super::results::{GuestResults, cpu_row};
use crate::run::RunError;
use crate::run::control::Entrance;
use crate::run::endpoints::{Ending, Paced};
use crate::run::programs::Readiness;

/// Seconds of real time that a guest has to boot, and to end.
const PATIENCE: u64 = 60;
/// Nanoseconds of real time that all guests together have to send their reports after a run was stopped, since the user is waiting. A program
/// that does not end when it is asked to uses up its time before its guest reports. No guest's clock is slower than the machine's by then.
pub(in crate::run) const HASTE: u64 = GRACE + 500_000_000;

/// All machines of a run.
#[derive(Debug)]
pub(in crate::run) struct Machines {
    guests: Guests,
    /// The kernel of each machine.
    kernels: Vec<Kernel>,
    machines: Vec<Machine>,
    devices: Vec<SharedDevice>,
    /// The report of each machine at the end.
    reports: Vec<Report>,
}

fn guest_error(error: GuestError) -> RunError {
    RunError::Live(error.to_string())
}

impl Machines {
    /// The machines of `guests`, not yet booted.
    ///
    /// # Errors
    /// If there is no kernel for a guest. Paths of kernels are relative to `directory`.
    pub(in crate::run) fn new(guests: Guests, directory: &Path) -> Result<Self, RunError> {
        let kernels = guests.kernels(directory)?;
        Ok(Machines { guests, kernels, machines: Vec::new(), devices: Vec::new(), reports: Vec::new() })
    }

    /// A machine, by its number.
    pub(in crate::run) fn machine(&mut self, number: usize) -> &mut Machine {
        &mut self.machines[number]
    }

    /// Boots all machines in parallel. Their time stands still until the run starts. `go_on` is called now and then; false if it said stop.
    pub(in crate::run) fn boot(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<bool, RunError> {
        for (kernel, config) in self.kernels.iter().zip(&self.guests.machines) {
            self.machines.push(Machine::boot(kernel, config).map_err(guest_error)?);
        }
        for machine in &mut self.machines {
            if !machine.wait_ready(PATIENCE, go_on).map_err(guest_error)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The ways into the hosts.
    pub(super) fn entrances(&self, plan: &AddressPlan) -> BTreeMap<String, Entrance> {
        let mut entrances = BTreeMap::new();
        for (machine, config) in self.machines.iter().zip(&self.guests.machines) {
            for (number, host) in config.order.hosts.iter().enumerate() {
                let Some(node) = plan.find(&host.name) else { continue };
                let door = machine.door(number as u32, environment(plan, node).collect());
                entrances.insert(host.name.clone(), Entrance::Guest(door));
            }
        }
        entrances
    }

    /// Whether a guest has sent a notice.
    pub(in crate::run) fn has_notices(&self) -> bool {
        self.devices.iter().any(has_notices)
    }

    /// Passes on notices, from the guests and to them.
    pub(in crate::run) fn exchange_notices(&self, readiness: &mut Readiness) {
        for notice in self.devices.iter().flat_map(take_notices) {
            readiness.handle(notice);
        }
        for (machine, notice) in readiness.take_notices() {
            if let Some(device) = self.devices.get(machine) {
                send(device, notice);
            }
        }
    }

    /// Ends the guests and takes their reports.
    ///
    /// # Errors
    /// If a guest of a run that reached its end does not end.
    pub(super) fn end(&mut self, ending: Ending) -> Result<(), RunError> {
        if ending.early {
            self.devices.iter().for_each(|device| send(device, Notice::End));
        }
        self.reports = if ending.complete { self.finish()? } else { self.hurry() };
        Ok(())
    }

    /// Takes the reports that arrive soon, from guests that were asked to end. A missing report is empty.
    fn hurry(&mut self) -> Vec<Report> {
        let devices = &self.devices;
        let begun = host_now();
        let mut reports = Vec::new();
        for machine in &mut self.machines {
            let left = HASTE.saturating_sub(host_now() - begun);
            let reported = machine.wait_report(left, || devices.iter().for_each(discard));
            reports.push(if reported { machine.report().unwrap_or_default() } else { Report::default() });
        }
        reports
    }

    /// The ports of all guests, in order.
    pub(in crate::run) fn ports(&mut self) -> Result<Vec<Box<dyn LivePort>>, RunError> {
        let mut all = Vec::new();
        for (machine, config) in self.machines.iter_mut().zip(&self.guests.machines) {
            let Some(nic) = machine.take_nic() else { continue };
            let name = |number: usize| config.order.hosts[number].name.clone();
            let guests: Vec<_> = config.order.ports().map(|(number, vlan)| (name(number), vlan)).collect();
            let made = ports(nic, &guests);
            let (device, own) =
                made.map_err(|error| RunError::Live(format!("cannot watch a guest: {error}")))?;
            self.devices.push(device);
            all.extend(own);
        }
        Ok(all)
    }

    /// Limits machines to their shares of a core, in a run with the factor `tdf`, or lifts the limits.
    pub(in crate::run) fn limit(&self, tdf: Option<Tdf>) -> Result<(), RunError> {
        self.machines.iter().try_for_each(|machine| machine.limit(tdf)).map_err(guest_error)
    }

    /// Notes which machines their shares of a core held back. Call it after the clock has stopped, before the audit.
    pub(in crate::run) fn settle(&self) {
        for (machine, device) in self.machines.iter().zip(&self.devices) {
            if machine.cpu_used().map(cpu_row).is_some_and(|cpu| cpu.was_short()) {
                was_slow(device);
            }
        }
    }

    /// Checks all machines. Returns why one has ended that should still run.
    pub(in crate::run) fn look(&mut self) -> Option<String> {
        let dead = self.machines.iter_mut().find_map(|machine| {
            // A machine that has finished its work may be ahead of an emulator that is late.
            (!machine.is_alive() && !machine.has_finished()).then(|| machine.post_mortem())
        });
        dead.map(|error| error.to_string())
    }

    /// Lets the guests end by themselves, and takes their reports.
    fn finish(&mut self) -> Result<Vec<Report>, RunError> {
        let devices = &self.devices;
        let mut reports = Vec::new();
        for machine in &mut self.machines {
            if !machine.wait_end(PATIENCE, || devices.iter().for_each(discard)) {
                let (name, console) = (machine.name().to_owned(), machine.console_tail());
                return Err(guest_error(GuestError::Hung { name, task: "end", seconds: PATIENCE, console }));
            }
            reports.push(machine.report().map_err(guest_error)?);
        }
        Ok(reports)
    }

    /// The guests as planned, and their results. Takes the reports out.
    pub(super) fn results(&mut self) -> GuestResults<'_> {
        GuestResults::new(&self.guests, std::mem::take(&mut self.reports), &self.machines)
    }
}

impl Paced for Machines {
    fn follow(&self, pace: &Pace) {
        follow(&self.machines, pace);
    }
    fn nudge(&self, tdf: Tdf) {
        nudge(&self.machines);
        self.machines.iter().for_each(|machine| machine.renew_limit(tdf));
    }
    /// The clocks of the kernels.
    fn processes(&self) -> Vec<u32> {
        self.machines.iter().map(Machine::pid).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use warpline_core::dilation::Clocks;
    use warpline_core::{NodeId, Rate, TimeDelta};
    use warpline_guest::frame::mac;
    use warpline_guest::machine::Timing;
    use warpline_guest::order::{FlowOrder, HostOrder, Order, REPORT, Role};
    use warpline_guest::{Console, MachineConfig};
    use warpline_live::crossing::Crossing;
    use warpline_live::emulator::{Emulator, EmulatorConfig};
    use warpline_net::{Control, LinkConfig, RateConfig};

    use super::*;
    use crate::run::pacer::Pacer;
    use warpline_scenario::{Clock, ClockMode};

    /// When the guest ends, on its own clock.
    const END: TimeDelta = TimeDelta::from_millis(100);

    /// One machine with two hosts, the first of which tries to reach the second; none if there is no guest kernel.
    fn machines() -> Option<Machines> {
        if let Err(error) = Kernel::find() {
            warpline_skip::skip("program", error);
            return None;
        }
        let host = |node: u32| {
            let vlan = 1 + node as u16;
            let (v4, v6) = (NodeId(node).ipv4(), None);
            HostOrder {
                name: format!("h{node}"),
                vlan,
                mac: mac(vlan),
                v4,
                v6,
                mtu: 1500,
                cc: None,
                sysctl: vec![],
                interfaces: vec![],
                tc: vec![],
            }
        };
        let role = Role::Send { to: NodeId(1).ipv4().into(), port: 5001, bytes: None };
        let flow =
            FlowOrder { id: 0, host: 0, role, start: 0, stop: None, cc: None, after: vec![], verify: false };
        let order = Order {
            end: END.as_nanos(),
            hosts: vec![host(0), host(1)],
            flows: vec![flow],
            ..Order::default()
        };
        let machine = MachineConfig {
            name: "g".to_owned(),
            kernel: None,
            memory: 256 << 20,
            seed: 1,
            timing: Timing::Dilated,
            fastest: None,
            cpu: None,
            clocks: Clocks::default(),
            own_tsc: false,
            console: Console::File,
            order,
        };
        let hosts = vec![("h0".to_owned(), 0), ("h1".to_owned(), 1)];
        let mut machines = Machines::new(Guests::of(hosts, vec![machine]), Path::new("")).unwrap();
        assert!(machines.boot(&mut || true).unwrap());
        Some(machines)
    }

    /// Runs the guests' time, without carrying what they send, until the machine has ended.
    fn let_end(machines: &mut Machines, emulator: &mut Emulator) {
        let mut pacer = Pacer::new(&Clock { mode: ClockMode::Real, tdf: None, max_lag: None });
        pacer.begin(emulator, std::slice::from_ref(machines), TimeDelta::ZERO);
        let machine = machines.machine(0);
        assert!(machine.wait_end(PATIENCE, || {}), "{}", machine.console_tail());
    }

    #[test]
    fn a_guest_that_ends_before_a_late_emulator_is_not_an_error() {
        let Some(mut machines) = machines() else { return };
        let link = || LinkConfig {
            rate: RateConfig::Constant(Rate::from_bps(10_000_000)),
            ..LinkConfig::new("link", NodeId(0), NodeId(1))
        };
        let (mut network, mut crossing) = Crossing::network([&link(), &link()], 1);
        let mut emulator = Emulator::new(EmulatorConfig::default());
        for port in machines.ports().unwrap() {
            emulator.add_port(port);
        }
        assert_eq!(machines.look(), None);
        let_end(&mut machines, &mut emulator);
        // What it has sent is still carried, although its kernel has closed the other end of its device.
        let until = emulator.clock().now() + TimeDelta::from_millis(50);
        emulator.run(&mut network, &mut crossing, until, &[], |_| Control::Continue).unwrap();
        assert!(emulator.audit().ports[0].counters.received_packets > 0);
        assert_eq!(machines.look(), None);
        assert_eq!(machines.finish().unwrap()[0].flows.len(), 1);
    }

    #[test]
    fn a_guest_that_ends_without_a_report_or_is_killed_is_an_error() {
        let Some(mut machines) = machines() else { return };
        let_end(&mut machines, &mut Emulator::new(EmulatorConfig::default()));
        std::fs::remove_file(machines.machine(0).shared(REPORT)).unwrap();
        let error = machines.look().unwrap();
        assert!(error.starts_with("guest g: its kernel ended with exit code 0"), "{error}");

        let Some(mut machines) = self::machines() else { return };
        assert_eq!(machines.look(), None);
        let kernel = machines.processes()[0].to_string();
        assert!(Command::new("kill").args(["-KILL", &kernel]).status().unwrap().success());
        assert!(machines.machine(0).wait_end(PATIENCE, || {}));
        let error = machines.look().unwrap();
        assert!(error.starts_with("guest g: its kernel was killed by signal 9"), "{error}");
    }
}
