//! What is wrong with a key of a scenario, as spelling it out finds it.

use super::document::Step;

/// Something that does not expand: the key it is about, what is wrong, what to do.
pub(crate) struct Problem {
    pub(crate) path: Vec<Step>,
    pub(crate) message: String,
    pub(crate) help: Vec<String>,
}
