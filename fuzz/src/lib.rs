//! The fuzz targets: each is a function of any bytes. `fuzz_targets` runs it with libFuzzer, and a test runs it on the committed corpus.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

pub mod access_log;
pub mod af_packet;
pub mod btc;
pub mod capture;
pub mod card;
pub mod datagram;
pub mod mahimahi;
pub mod model_host;
pub mod netem;
pub mod network;
pub mod oracle;
pub mod page_ring;
pub mod parquet;
pub mod probe;
pub mod registry;
pub mod replicate;
pub mod scenario;
pub mod series;
pub mod tcp;
pub mod wire;

/// A target's function.
pub type Target = fn(&[u8]);

/// All targets, by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("access_log", access_log::run),
    ("af_packet", af_packet::run),
    ("btc", btc::run),
    ("capture", capture::run),
    ("card", card::run),
    ("datagram", datagram::run),
    ("mahimahi", mahimahi::run),
    ("model_host", model_host::run),
    ("netem", netem::run),
    ("network", network::run),
    ("oracle", oracle::run),
    ("page_ring", page_ring::run),
    ("parquet", parquet::run),
    ("probe", probe::run),
    ("registry", registry::run),
    ("replicate", replicate::run),
    ("scenario", scenario::run),
    ("series", series::run),
    ("tcp", tcp::run),
    ("wire", wire::run),
];
