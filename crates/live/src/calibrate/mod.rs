//! Calibration: how fast and how exact the emulator is on this machine, measured with real packets.

pub mod bed;
pub mod measure;
pub mod statistics;
