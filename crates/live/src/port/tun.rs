//! A port on a TUN device: the kernel passes IP datagrams, without link-layer headers, one by one.
//!
//! The device exists as long as the port. The kernel does not report when a datagram was sent: its timestamp is the instant
//! at which it was read, so a late wake-up adds to its delay, unlike with [`super::af_packet`]. For machines without veth.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::errno::Errno;
use nix::libc;
use warpline_core::Timestamp;

use super::{Arrival, BATCH, LivePort, PortCounters, PortError, PortId, take};
use crate::clock::RealClock;
use crate::offload::interface_request;
use crate::pool::Pool;

/// A port on a TUN device.
#[derive(Debug)]
pub struct TunPort {
    name: String,
    device: File,
    buffer: Vec<u8>,
    counters: PortCounters,
}

mod request {
    //! The one request to the driver (`linux/if_tun.h`).
    nix::ioctl_write_ptr_bad!(
        /// Makes the device, or attaches to it.
        set_interface,
        nix::libc::TUNSETIFF,
        nix::libc::ifreq
    );
}

impl TunPort {
    /// Makes the device `name` in the network namespace of the calling thread, for datagrams of up to `mtu` bytes.
    ///
    /// # Errors
    /// Without `/dev/net/tun` or `CAP_NET_ADMIN`, or if the name is taken or too long.
    pub fn open(name: &str, mtu: u32) -> Result<Self, PortError> {
        let fail = |what: &'static str| {
            let name = name.to_owned();
            move |source: io::Error| PortError::System { name, what, source }
        };
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")
            .map_err(fail("open /dev/net/tun (the module tun must be loaded, and the file be readable)"))?;
        let mut request =
            interface_request(name).map_err(fail("use its name: it has more than 15 characters"))?;
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as i16;
        // SAFETY: the request is an ifreq, as this ioctl takes, and lives through the call.
        unsafe { request::set_interface(device.as_raw_fd(), &raw const request) }
            .map_err(|errno| fail("make the TUN device (needs CAP_NET_ADMIN)")(errno.into()))?;
        let room = mtu as usize + 1;
        Ok(TunPort {
            name: name.to_owned(),
            device,
            buffer: vec![0; room],
            counters: PortCounters::default(),
        })
    }
}

impl LivePort for TunPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.device.as_fd())
    }

    fn pending(&self) -> Option<bool> {
        None
    }

    fn receive(
        &mut self,
        id: PortId,
        clock: &RealClock,
        _: Timestamp,
        pool: &mut Pool,
        into: &mut Vec<Arrival>,
    ) -> Result<(), PortError> {
        for _ in 0..BATCH {
            let len = match rustix::io::read(&self.device, &mut self.buffer[..]) {
                Ok(0) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => break,
                Ok(len) => len,
                Err(_) => return Err(PortError::Vanished(self.name.clone())),
            };
            if let Some((handle, _)) = take(&self.buffer[..len], pool, &mut self.counters) {
                into.push(Arrival { at: clock.now(), port: id, handle });
            }
        }
        Ok(())
    }

    fn transmit(&mut self, pool: &mut Pool, handles: &[u32]) -> Result<(), PortError> {
        for &handle in handles {
            match nix::unistd::write(&self.device, pool.datagram(handle)) {
                Ok(len) => {
                    self.counters.sent_packets += 1;
                    self.counters.sent_bytes += len as u64;
                }
                Err(Errno::EBADFD | Errno::ENODEV) => return Err(PortError::Vanished(self.name.clone())),
                Err(_) => self.counters.send_errors += 1,
            }
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), PortError> {
        // The device lives as long as its descriptor, unless another process deletes it: then reading fails.
        match rustix::io::read(&self.device, &mut [0u8; 0]) {
            Err(rustix::io::Errno::BADFD | rustix::io::Errno::NODEV) => {
                Err(PortError::Vanished(self.name.clone()))
            }
            _ => Ok(()),
        }
    }

    fn counters(&mut self) -> PortCounters {
        self.counters
    }
}
