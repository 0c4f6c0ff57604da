//! placeholder
pub mod scenario;
