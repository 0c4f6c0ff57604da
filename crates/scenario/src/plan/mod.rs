//! Turns an expanded scenario into the configuration of the network, TCP and the measuring tools: every default has a value, and units
//! are plain numbers.

mod faults;
mod link;
mod tcp;
mod tool;

pub(crate) use faults::faults;
pub use link::{Capacity, link_change, link_config};
pub use tcp::endpoints;
pub use tool::{Tool, tool};

/// A link or a flow that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The key at fault, below the link or the flow.
    pub(crate) key: Vec<&'static str>,
    /// The index of the change that it is about, in place of the link.
    pub(crate) change: Option<usize>,
    /// What is wrong, and what is allowed.
    pub message: String,
}

impl Fault {
    fn new(key: &[&'static str], message: impl ToString) -> Self {
        Fault { key: key.to_vec(), change: None, message: message.to_string() }
    }
}
