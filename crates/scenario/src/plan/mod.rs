//! From a scenario spelt out to what the network, TCP and the measuring tools are configured with: every default has become a value, and
//! units are gone.

mod faults;
mod link;
mod tcp;
mod tool;

pub(crate) use faults::faults;
pub use link::{Capacity, link_config};
pub use tcp::endpoints;
pub use tool::{Tool, tool};

/// Something of a link or a flow that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The key that it is about, below the link's or the flow's own.
    pub(crate) key: Vec<&'static str>,
    /// What is wrong, and what is allowed.
    pub message: String,
}

impl Fault {
    fn new(key: &[&'static str], message: impl ToString) -> Self {
        Fault { key: key.to_vec(), message: message.to_string() }
    }
}
