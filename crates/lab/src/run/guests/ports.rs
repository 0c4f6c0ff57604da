//! Guests at the emulator's ports. Each guest has a port; those of one machine share its network device.
//!
//! Each frame has the time at which the guest's kernel sent it, so a late look at the device delays nothing.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpline_core::Timestamp;
use warpline_guest::order::Notice;
use warpline_guest::{Nic, Nonsense, frame};
use warpline_live::clock::RealClock;
use warpline_live::pool::Pool;
use warpline_live::port::{Arrival, BATCH, LivePort, PortCounters, PortError, PortId, take};

/// A machine's network device and the guests behind it.
#[derive(Debug)]
pub(super) struct Device {
    nic: Nic,
    /// Index of the guest by VLAN.
    by_vlan: Vec<Option<u16>>,
    counters: Vec<PortCounters>,
    /// Whether its `cpu_share` was too little: then what found no room in its ring was dropped by its network card, as on any slow machine.
    slow: bool,
    /// Notices from the machine.
    notices: Vec<Notice>,
    /// Notices to the machine that are not yet sent.
    outgoing: VecDeque<Notice>,
}

/// A device, shared by the ports of one machine.
pub(super) type SharedDevice = Arc<Mutex<Device>>;

/// A guest's port.
#[derive(Debug)]
struct GuestPort {
    name: String,
    vlan: u16,
    /// Index of the guest on its machine. The ports of a machine are consecutive, and the first receives for all.
    number: usize,
    device: SharedDevice,
    /// The machine's bell; only the first port has it.
    bell: Option<OwnedFd>,
}

fn lock(device: &SharedDevice) -> MutexGuard<'_, Device> {
    device.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The device of a machine whose guests have these names and VLANs, and their ports, which must be added in this order.
///
/// # Errors
/// If a file descriptor cannot be duplicated.
pub(super) fn ports(
    nic: Nic,
    guests: &[(String, u16)],
) -> std::io::Result<(SharedDevice, Vec<Box<dyn LivePort>>)> {
    let mut by_vlan = vec![None; 4096];
    for (number, (_, vlan)) in guests.iter().enumerate() {
        by_vlan[usize::from(*vlan)] = Some(number as u16);
    }
    let mut bell = Some(nic.fd().try_clone_to_owned()?);
    let counters = vec![PortCounters::default(); guests.len()];
    let device = Arc::new(Mutex::new(Device {
        nic,
        by_vlan,
        counters,
        slow: false,
        notices: Vec::new(),
        outgoing: VecDeque::new(),
    }));
    let port = |(number, (name, vlan)): (usize, &(String, u16))| -> Box<dyn LivePort> {
        let (device, bell) = (Arc::clone(&device), bell.take());
        Box::new(GuestPort { name: name.clone(), vlan: *vlan, number, device, bell })
    };
    let ports = guests.iter().enumerate().map(port).collect();
    Ok((device, ports))
}

impl Device {
    /// Sends waiting notices to the machine, as far as there is room.
    fn send_notices(&mut self) {
        while let Some(notice) = self.outgoing.front() {
            if !self.nic.transmit(&[&notice.frame()]) {
                break;
            }
            self.outgoing.pop_front();
        }
        self.nic.flush();
    }
}

/// Sends a notice to a machine, now or as soon as there is room.
pub(super) fn send(device: &SharedDevice, notice: Notice) {
    let mut device = lock(device);
    device.outgoing.push_back(notice);
    device.send_notices();
}

/// Whether a machine has sent a notice.
pub(super) fn has_notices(device: &SharedDevice) -> bool {
    !lock(device).notices.is_empty()
}

/// The notices from a machine since the last call.
pub(super) fn take_notices(device: &SharedDevice) -> Vec<Notice> {
    let mut device = lock(device);
    device.send_notices();
    std::mem::take(&mut device.notices)
}

/// Notes that a machine's share of a core was too little for it.
pub(super) fn was_slow(device: &SharedDevice) {
    lock(device).slow = true;
}

/// Discards what the guests of a machine have sent, so that none waits for room after the run.
pub(super) fn discard(device: &SharedDevice) {
    let mut device = lock(device);
    let _ = device.nic.receive(usize::MAX, |_, _| {});
    device.send_notices();
}

impl LivePort for GuestPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.bell.as_ref().map(AsFd::as_fd)
    }

    fn pending(&self) -> Option<bool> {
        Some(self.number == 0 && lock(&self.device).nic.pending())
    }

    fn tells_late(&self) -> bool {
        true
    }

    fn on_readable(&mut self) {
        lock(&self.device).nic.silence();
    }

    fn receive(
        &mut self,
        id: PortId,
        _: &RealClock,
        _: Timestamp,
        pool: &mut Pool,
        into: &mut Vec<Arrival>,
    ) -> Result<(), PortError> {
        if self.number != 0 {
            return Ok(());
        }
        let Device { nic, by_vlan, counters, notices, .. } = &mut *lock(&self.device);
        let received = nic.receive(BATCH, |at, bytes| {
            let Some((vlan, datagram)) = frame::parse(bytes) else {
                match Notice::parse(bytes) {
                    Some(notice) => notices.push(notice),
                    None => counters[0].ignored += 1,
                }
                return;
            };
            let Some(number) = by_vlan[usize::from(vlan)] else { return };
            let Some((handle, _)) = take(datagram, pool, &mut counters[usize::from(number)]) else { return };
            let port = PortId(id.0 + u32::from(number));
            into.push(Arrival { at: Timestamp::from_nanos(at), port, handle });
        });
        received.map_err(|nonsense: Nonsense| PortError::System {
            name: self.name.clone(),
            what: "understand its guest",
            source: std::io::Error::other(nonsense),
        })
    }

    fn transmit(&mut self, pool: &mut Pool, handles: &[u32]) -> Result<(), PortError> {
        let Device { nic, counters, .. } = &mut *lock(&self.device);
        let counters = &mut counters[self.number];
        for &handle in handles {
            let datagram = pool.datagram(handle);
            if nic.transmit(&[&frame::header(self.vlan, datagram), datagram]) {
                counters.sent_packets += 1;
                counters.sent_bytes += datagram.len() as u64;
            } else {
                counters.send_errors += 1;
            }
        }
        nic.flush();
        Ok(())
    }

    fn check(&mut self) -> Result<(), PortError> {
        // The kernel closes the other end when it ends, which may happen before a late emulator notices. `Machines::look` decides
        // soon whether it should have ended. What it has sent is still received.
        self.bell = None;
        Ok(())
    }

    fn counters(&mut self) -> PortCounters {
        let device = lock(&self.device);
        let counters = device.counters[self.number];
        match device.slow {
            true => PortCounters { card_drops: counters.send_errors, send_errors: 0, ..counters },
            false => counters,
        }
    }
}
