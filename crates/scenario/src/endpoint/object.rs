//! A transport stack of one's own, in a shared object.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{About, Buffers, Kind, Protocol, Traffic};
use crate::ClockMode;
use crate::checker::Check;
use crate::document::entry;

/// The keys of a host with `endpoint = "stack:object"`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Object {
    /// The shared object, which exports the functions of `warpline_stack.h`; relative to the scenario's directory.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(example = &"./mine.so")]
    pub library: String,
    /// Sizes of its sockets' buffers.
    #[serde(flatten)]
    pub buffers: Buffers,
}

impl Kind for Object {
    const ABOUT: About = About {
        name: "stack:object",
        what: "A transport stack of your own in a shared object (`library`), in this process.",
        clocks: &[ClockMode::Virtual, ClockMode::Real, ClockMode::Dilated],
        why: "",
        traffic: Traffic::Stack,
        protocol: Protocol::Tcp,
        needs: "Linux",
    };

    fn check(&self, check: &mut Check<'_>, number: usize) {
        if self.library.is_empty() {
            let help = "the path of a shared object, for example library = \"./mine.so\"";
            check.error(
                &entry("host", number, &["endpoint"]),
                "a host with this endpoint needs `library`",
                help,
            );
        }
        // 0 tells the stack that no size is given.
        self.buffers.check(check, number, "a stack");
    }
}
