//! Guests at the emulator's ports: one port for each guest, all those of one machine over its one network device.
//!
//! Frames come with the instant at which the guest's kernel sent them, so that a late look delays nothing.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpline_core::Timestamp;
use warpline_guest::order::Notice;
use warpline_guest::{Nic, Nonsense, frame};
use warpline_live::clock::RealClock;
use warpline_live::pool::Pool;
use warpline_live::port::{Arrival, LivePort, PortCounters, PortError, PortId, take};

/// Frames taken at a time: some tens of microseconds of work.
const BATCH: usize = 256;

/// A machine's network device and the guests behind it.
#[derive(Debug)]
pub(super) struct Device {
    nic: Nic,
    /// Guests by VLAN.
    by_vlan: Vec<Option<u16>>,
    counters: Vec<PortCounters>,
    /// What the machine has told.
    notices: Vec<Notice>,
    /// What it is to be told, and there was no room for.
    untold: VecDeque<Notice>,
}

/// What ports of one machine share.
pub(super) type SharedDevice = Arc<Mutex<Device>>;

/// A guest's port.
#[derive(Debug)]
struct GuestPort {
    name: String,
    vlan: u16,
    /// Number of the guest on its machine. The ports of a machine are one behind the other, and the first receives for all.
    number: usize,
    device: SharedDevice,
    /// The machine's bell, at the first.
    bell: Option<OwnedFd>,
}

fn lock(device: &SharedDevice) -> MutexGuard<'_, Device> {
    device.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The device of a machine whose guests have these names and VLANs, and their ports, to be added in this order.
///
/// # Errors
/// If a descriptor cannot be had.
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
    let device =
        Arc::new(Mutex::new(Device { nic, by_vlan, counters, notices: Vec::new(), untold: VecDeque::new() }));
    let port = |(number, (name, vlan)): (usize, &(String, u16))| -> Box<dyn LivePort> {
        let (device, bell) = (Arc::clone(&device), bell.take());
        Box::new(GuestPort { name: name.clone(), vlan: *vlan, number, device, bell })
    };
    let ports = guests.iter().enumerate().map(port).collect();
    Ok((device, ports))
}

impl Device {
    /// Tells the machine what it is to be told, as far as there is room.
    fn tell(&mut self) {
        while let Some(notice) = self.untold.front() {
            if !self.nic.transmit(&[&notice.frame()]) {
                break;
            }
            self.untold.pop_front();
        }
        self.nic.flush();
    }
}

/// Tells a machine something, now or as soon as there is room.
pub(super) fn tell(device: &SharedDevice, notice: Notice) {
    let mut device = lock(device);
    device.untold.push_back(notice);
    device.tell();
}

/// Whether a machine has told something.
pub(super) fn has_notices(device: &SharedDevice) -> bool {
    !lock(device).notices.is_empty()
}

/// What a machine has told since the last call.
pub(super) fn take_notices(device: &SharedDevice) -> Vec<Notice> {
    let mut device = lock(device);
    device.tell();
    std::mem::take(&mut device.notices)
}

/// Throws away what the guests of a machine have sent: nobody may wait for room when the run is over.
pub(super) fn discard(device: &SharedDevice) {
    let mut device = lock(device);
    let _ = device.nic.receive(usize::MAX, |_, _| {});
    device.tell();
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
        // The other end is the kernel's: it is closed when that ends, which it may well do before an emulator that is late. Whether it
        // should have is known to the fleet, which looks soon; what it has sent is taken still.
        self.bell = None;
        Ok(())
    }

    fn counters(&mut self) -> PortCounters {
        lock(&self.device).counters[self.number]
    }
}
