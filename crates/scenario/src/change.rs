//! Changes of links during a run: what a scenario plans, and what `warpline set` does to a run in progress.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::component::has_file;
use super::expand::{LinkKind, Speed};
use super::link::{Jitter, Loss};
use super::quantity::{BitRate, Time};
use super::schema::json_schema;

/// A change of a link during the run, written `[[change]]`: what is given is in force from then on, the rest stays. The same words as in a `[[link]]`.
///
/// A packet in transmission finishes at the rate it began with. A packet takes the delay in force when it leaves, and none overtakes another by that. BDPs
/// and routes go by what the link is like at first.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// When, from the run's start. The changes stand in order of time.
    #[schemars(example = &"10s")]
    pub at: Time,
    /// Which link: the name of a `[[link]]`, or its two nodes with a dash, for both directions; or "r1>r2", the direction from r1 to r2.
    #[schemars(example = &"r1-r2", example = &"r1>r2")]
    pub link: String,
    /// The rate from then on, in place of a constant one; 0 stops the link, packets wait.
    #[schemars(example = &"5Mbit/s")]
    pub rate: Option<BitRate>,
    /// The propagation delay from then on, one way, where no `delays` or `radio` say what it is.
    #[schemars(example = &"70ms")]
    pub delay: Option<Time>,
    /// What is lost from then on.
    #[schemars(example = &"2%")]
    pub loss: Option<Loss>,
    /// What arrives twice from then on.
    #[schemars(example = &"0.1%")]
    pub duplicate: Option<Loss>,
    /// What arrives with a bit changed from then on.
    #[schemars(example = &"0.1%")]
    pub corrupt: Option<Loss>,
    /// The random delay from then on.
    #[schemars(example = &"uniform,max=5ms")]
    pub jitter: Option<Jitter>,
    /// Whether the link is down from then on: what waits or comes is lost, what is under way arrives. The times in the link's own
    /// `down` hold, too.
    pub down: Option<bool>,
}

/// The keys that say when and where, not what.
const PLACE: [&str; 2] = ["at", "link"];

impl Change {
    /// The keys of what can be changed, in the order of the reference.
    pub fn keys() -> Vec<&'static str> {
        let properties = json_schema()["$defs"]["Change"]["properties"].as_object();
        let keys = properties.into_iter().flat_map(serde_json::Map::keys).map(String::as_str);
        keys.filter(|key| !PLACE.contains(key)).collect()
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Change { at: self.at, link: self.link.clone(), ..Change::default() }
    }

    /// Whether it goes by a file.
    pub fn has_file(&self) -> bool {
        let chosen = [&self.loss, &self.duplicate, &self.corrupt];
        chosen.into_iter().flatten().any(has_file) || self.jitter.as_ref().is_some_and(has_file)
    }
}

impl LinkKind {
    /// What a link like this is like after a change, but for whether it is down.
    #[must_use]
    pub fn changed(mut self, change: &Change) -> LinkKind {
        if let Some(rate) = change.rate {
            self.speed = Speed::Constant(rate.0);
        }
        self.delay = change.delay.map_or(self.delay, |delay| delay.0);
        self.loss = change.loss.clone().unwrap_or(self.loss);
        self.duplicate = change.duplicate.clone().unwrap_or(self.duplicate);
        self.corrupt = change.corrupt.clone().unwrap_or(self.corrupt);
        self.jitter = change.jitter.clone().unwrap_or(self.jitter);
        self
    }
}
