//! BPF programs in the running kernel: TCP Nice as a congestion control, and what puts a cgroup's sockets in the background.
//!
//! The programs are in `native/bpf`; the build compiles them and this module holds the objects (feature "bpf", and clang at the build).
//! A build without them has the same functions, which say what is missing.
//!
//! - [`control`]: TCP Nice itself: loaded, found, unloaded.
//! - [`background`]: the programs of a cgroup.
//! - [`sockets`]: the sockets that Nice governs.

use std::io;

use serde::{Deserialize, Serialize};

#[cfg(not(bpf_object))]
mod absent;
#[cfg(bpf_object)]
pub mod background;
#[cfg(bpf_object)]
pub mod control;
#[cfg(bpf_object)]
mod object;
#[cfg(bpf_object)]
pub mod sockets;

#[cfg(not(bpf_object))]
pub use absent::{background, control, sockets};

/// The name under which the congestion control is known to the kernel.
pub const NAME: &str = "nice";

/// Whether this build holds the BPF objects.
pub const fn is_built() -> bool {
    cfg!(bpf_object)
}

/// Why something with BPF could not be done.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// The objects are not in this build.
    #[error(
        "this build of warpline holds no BPF programs: build it again with clang, libelf and zlib there (Debian: apt install clang \
         libelf-dev zlib1g-dev; then make run, or cargo build --features bpf)"
    )]
    NotBuilt,
    /// This process may not.
    #[error(
        "loading programs into the kernel takes root's privileges (CAP_BPF, CAP_NET_ADMIN, CAP_SYS_ADMIN); use sudo"
    )]
    Privilege,
    /// The kernel lacks something.
    #[error("this kernel cannot run TCP Nice: {0}")]
    Kernel(String),
    /// Loaded already, and not as asked.
    #[error(
        "TCP Nice is in the kernel already, with other parameters ({0}); leave the options out, or change them for all with \
         warpline nice load"
    )]
    Otherwise(String),
    /// A value is out of its range.
    #[error("{what} {value} is not allowed: {allowed}")]
    Parameter {
        /// Which.
        what: &'static str,
        /// What was given.
        value: f64,
        /// What may be.
        allowed: &'static str,
    },
    /// The system refused something.
    #[error("cannot {what}: {source}")]
    System {
        /// What was being done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

/// Parameters of TCP Nice in the kernel; the defaults are the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameters {
    /// Where between the smallest RTT (0) and the largest (1) a packet counts as late.
    pub threshold: f64,
    /// Part of a round's packets that must be late for the window to halve.
    pub fraction: f64,
    /// What remains of the window when it is reduced for delay.
    pub decrease: f64,
    /// Smallest window in segments.
    pub floor: f64,
    /// Vegas's alpha in segments.
    pub alpha: f64,
    /// Vegas's beta in segments.
    pub beta: f64,
    /// Vegas's gamma in segments.
    pub gamma: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters {
            threshold: 0.2,
            fraction: 0.5,
            decrease: 0.5,
            floor: 1.0 / 48.0,
            alpha: 1.0,
            beta: 3.0,
            gamma: 1.0,
        }
    }
}

/// As `struct nice_parameters` in `native/bpf/nice.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
struct RawParameters {
    threshold: u32,
    fraction: u32,
    decrease: u32,
    floor: u32,
    alpha: u32,
    beta: u32,
    gamma: u32,
    layout: u32,
}

/// `NICE_LAYOUT` in `native/bpf/nice.h`.
const LAYOUT: u32 = 1;
/// `NICE_ONE`: a segment.
const SEGMENT: f64 = 4096.0;
const PART: f64 = 65536.0;

impl Parameters {
    /// Checks the ranges.
    ///
    /// # Errors
    /// If a value is out of its range.
    pub fn validate(&self) -> Result<(), BpfError> {
        let check = |what, value: f64, low: f64, high: f64, allowed| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err(BpfError::Parameter { what, value, allowed })
            }
        };
        check("threshold", self.threshold, 0.0, 1.0, "0 to 1")?;
        check("fraction", self.fraction, 0.0, 1.0, "0 to 1")?;
        check("decrease", self.decrease, 0.0, 0.99, "0 to 0.99")?;
        check("floor", self.floor, 1.0 / 1024.0, 1000.0, "1/1024 to 1000 segments")?;
        check("alpha", self.alpha, 0.0, 1000.0, "0 to 1000 segments")?;
        check("beta", self.beta, self.alpha, 1000.0, "alpha to 1000 segments")?;
        check("gamma", self.gamma, 0.0, 1000.0, "0 to 1000 segments")
    }

    #[cfg_attr(not(bpf_object), allow(dead_code))]
    fn raw(&self) -> RawParameters {
        let part = |value: f64| (value * PART).round() as u32;
        let segments = |value: f64| (value * SEGMENT).ceil() as u32;
        RawParameters {
            threshold: part(self.threshold),
            fraction: part(self.fraction),
            decrease: part(self.decrease),
            floor: segments(self.floor).max(1),
            alpha: segments(self.alpha),
            beta: segments(self.beta),
            gamma: segments(self.gamma),
            layout: LAYOUT,
        }
    }
}

#[cfg_attr(not(bpf_object), allow(dead_code))]
impl RawParameters {
    const SIZE: usize = 32;

    fn bytes(self) -> [u8; Self::SIZE] {
        let words = [
            self.threshold,
            self.fraction,
            self.decrease,
            self.floor,
            self.alpha,
            self.beta,
            self.gamma,
            self.layout,
        ];
        let mut bytes = [0; Self::SIZE];
        for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<RawParameters> {
        let bytes: &[u8; Self::SIZE] = bytes.try_into().ok()?;
        let word = |index: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&bytes[4 * index..4 * index + 4]);
            u32::from_ne_bytes(word)
        };
        Some(RawParameters {
            threshold: word(0),
            fraction: word(1),
            decrease: word(2),
            floor: word(3),
            alpha: word(4),
            beta: word(5),
            gamma: word(6),
            layout: word(7),
        })
    }

    fn parameters(self) -> Parameters {
        Parameters {
            threshold: f64::from(self.threshold) / PART,
            fraction: f64::from(self.fraction) / PART,
            decrease: f64::from(self.decrease) / PART,
            floor: f64::from(self.floor) / SEGMENT,
            alpha: f64::from(self.alpha) / SEGMENT,
            beta: f64::from(self.beta) / SEGMENT,
            gamma: f64::from(self.gamma) / SEGMENT,
        }
    }
}

/// TCP Nice as the kernel has it now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loaded {
    /// Its parameters; none if another program's, or another version's, Nice is loaded.
    pub parameters: Option<Parameters>,
    /// Whether it stays until it is unloaded (`warpline nice load`), and not only while a command runs.
    pub stays: bool,
}

/// What the programs of a cgroup have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Sockets that were given the congestion control (a socket may be counted when it listens, connects and is accepted).
    pub switched: u64,
    /// Sockets that could not be.
    pub refused: u64,
    /// Sockets whose advertised window is governed.
    pub received: u64,
    /// Sockets among them that have no timestamps, and are therefore left alone.
    pub unstamped: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_survive_their_way_to_the_kernel() {
        let raw = Parameters::default().raw();
        assert_eq!(
            (raw.threshold, raw.fraction, raw.floor, raw.alpha, raw.beta),
            (13107, 32768, 86, 4096, 12288)
        );
        assert_eq!(RawParameters::from_bytes(&raw.bytes()), Some(raw));
        assert!((raw.parameters().threshold - 0.2).abs() < 1e-4);
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        assert!(Parameters::default().validate().is_ok());
        for wrong in [
            Parameters { threshold: 1.1, ..Parameters::default() },
            Parameters { fraction: f64::NAN, ..Parameters::default() },
            Parameters { decrease: 1.0, ..Parameters::default() },
            Parameters { floor: 0.0, ..Parameters::default() },
            Parameters { beta: 0.5, ..Parameters::default() },
        ] {
            assert!(wrong.validate().is_err(), "{wrong:?}");
        }
    }
}
