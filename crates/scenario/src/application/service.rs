//! Services that a simulated host offers to real programs.

use warpline_core::Bytes;
use warpline_core::parameter::Parameters;

use super::Pattern;

/// A service on `to` for the programs on `from`: takes what they send (RFC 863).
#[derive(Clone, Debug, PartialEq, Parameters)]
#[component("discard")]
pub struct Discard {}

impl Pattern for Discard {
    fn is_service(&self) -> bool {
        true
    }
}

/// A service on `to` for the programs on `from`: sends back what they send (RFC 862).
#[derive(Clone, Debug, PartialEq, Parameters)]
#[component("echo")]
pub struct Echo {}

impl Pattern for Echo {
    fn is_service(&self) -> bool {
        true
    }
}

/// A service on `to` for the programs on `from`: sends `size` bytes and closes, or sends until they close.
#[derive(Clone, Debug, PartialEq, Parameters)]
#[component("source")]
pub struct Source {
    /// Bytes of each connection; without it, as many as the program takes.
    #[parameter(above = Some(Bytes(0)))]
    pub size: Option<Bytes>,
}

impl Pattern for Source {
    fn is_service(&self) -> bool {
        true
    }
}

/// A service on `to` for the programs on `from`: a web server, that answers `GET /bytes/N` with N bytes and any other path
/// with `size` bytes.
#[derive(Clone, Debug, PartialEq, Parameters)]
#[component("http")]
pub struct Http {
    /// Bytes of every path but `/bytes/N`; without it, none.
    #[parameter(above = Some(Bytes(0)))]
    pub size: Option<Bytes>,
}

impl Pattern for Http {
    fn is_service(&self) -> bool {
        true
    }
}
