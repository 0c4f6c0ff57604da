//! Radio links: what a radio's rate and delay do over time, by models from measurements and standards.
//!
//! Two kinds. Some are drawn before the run ([`Radio::draw`]): the rate and the delay then follow a schedule, as if they had been written down. Wi-Fi serves packets in
//! aggregates, so that what it does depends on what waits (`aggregate.rs`).

/// What the list of radios makes: their modules and names, and an enum of their parameters.
macro_rules! radios {
    ($($file:ident::$name:ident),+ $(,)?) => {
        $(
            mod $file;
            pub use $file::*;
        )+

        /// What sends on a link by radio, as plain data. As text it is a name and parameters: `wifi:rate=65Mbit/s`.
        #[derive(Clone, Debug, PartialEq, Choice)]
        #[choice("radio")]
        pub enum RadioKind {
            $(
                #[doc = concat!("[`", stringify!($name), "`].")]
                $name($name),
            )+
        }

        impl RadioKind {
            fn radio(&self) -> &dyn Radio {
                match self { $( RadioKind::$name(radio) => radio, )+ }
            }
        }
    };
}

// A new radio is one file beside this one and one line here. `cargo fmt` does not look behind the macro: `make format` does.
radios! {
    wifi::Wifi,
    leo::Leo,
    cellular::Cellular,
}

use warpline_core::parameter::Choice;
use warpline_core::{Stream, TimeDelta};

use crate::link::RateConfig;
use crate::schedule::Steps;

/// A radio for one run.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// How fast it sends.
    pub rate: RateConfig,
    /// Its least delay.
    pub delay: TimeDelta,
    /// Delay in addition to that, over time.
    pub detour: Option<Steps<TimeDelta>>,
}

/// A kind of radio, with its parameters.
pub trait Radio {
    /// What it does in a run of this length. What is random about it comes from `stream`.
    fn draw(&self, span: TimeDelta, stream: Stream) -> Drawn;

    /// What it is, in words for people: "Wi-Fi at 65 Mbit/s".
    fn words(&self) -> String;
}

impl Radio for RadioKind {
    fn draw(&self, span: TimeDelta, stream: Stream) -> Drawn {
        self.radio().draw(span, stream)
    }
    fn words(&self) -> String {
        self.radio().words()
    }
}
