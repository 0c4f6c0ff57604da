//! Wi-Fi as a radio: it draws nothing before the run. How it sends is in `aggregate.rs`.

use warpline_core::{Stream, TimeDelta};

use super::{Drawn, Radio};
pub use crate::aggregate::Wifi;
use crate::link::RateConfig;

impl Radio for Wifi {
    fn draw(&self, _: TimeDelta, _: Stream) -> Drawn {
        Drawn { rate: RateConfig::Wifi(*self), delay: TimeDelta::ZERO, detour: None }
    }
    fn words(&self) -> String {
        format!("Wi-Fi at {}", self.rate)
    }
}
