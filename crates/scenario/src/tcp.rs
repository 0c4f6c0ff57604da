//! TCP options as scenarios give them, level by level. What options there are, `warpline_transport` says.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Map;
use warpline_core::parameter::{Component, Parameters, Value};
use warpline_transport::tcp::{TcpConfig, TcpPreset};

use super::component;
use super::given::GivenParameters;

/// Options of a TCP endpoint. An option that is not given comes from the host, then the scenario's `[tcp]`, then the preset "modern". A preset
/// sets many options. Options given beside it override it, and everything given at an inner level (flow) overrides the outer levels (host,
/// scenario), also a preset. A flow's options hold for both of its ends; a host's options hold for the connections that end there.
#[derive(Parameters)]
#[component("tcp")]
struct Table {
    /// A set of values for the options; an option given beside it overrides it.
    #[parameter(preset = Table::of)]
    preset: TcpPreset,
    #[parameter(flatten)]
    options: TcpConfig,
}

impl Table {
    fn of(preset: TcpPreset) -> Self {
        Table { preset, options: preset.config() }
    }
}

/// What a scenario, a host or a flow says of TCP: a preset, and options that override it.
///
/// ```
/// use warpline_scenario::TcpOptions;
///
/// let read = |json| serde_json::from_str::<TcpOptions>(json).unwrap();
/// let (scenario, flow) = (read(r#"{"preset": "1990-reno"}"#), read(r#"{"sack": true}"#));
/// let config = TcpOptions::resolve(&[&scenario, &flow]);
/// assert_eq!((config.sack, config.timestamps), (true, false));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct TcpOptions(GivenParameters);

impl TcpOptions {
    /// The options that TReno uses; it emulates a TCP of its own.
    pub const OF_TRENO: [&'static str; 8] = [
        "mss",
        "receive_buffer",
        "initial_window",
        "dupack_threshold",
        "delayed_ack",
        "initial_rto",
        "min_rto",
        "max_rto",
    ];

    /// Names of the options given here that TReno does not use.
    pub(crate) fn useless_to_treno(&self) -> impl Iterator<Item = &'static str> {
        self.0.names().filter(|name| !Self::OF_TRENO.contains(name))
    }

    /// Whether the option is given here by its name.
    pub fn gives(&self, name: &str) -> bool {
        self.0.get(name).is_some()
    }

    /// Sets what is given here; the rest of `config` stays as it is.
    pub fn put_into(&self, config: &mut TcpConfig) {
        let mut preset = TcpPreset::default();
        if self.0.get("preset").is_some_and(|word| preset.take(word)) {
            // An option without a value in the preset stays, too.
            for (own, of) in config.fields().into_iter().zip(preset.config().fields()) {
                of.value.given().map(|given| own.value.take(&given));
            }
        }
        self.0.put_into(config);
    }

    /// The options in force when `levels` are given, from the outermost (scenario) to the innermost (flow), on top of the preset "modern".
    pub fn resolve(levels: &[&TcpOptions]) -> TcpConfig {
        let mut config = TcpConfig::default();
        levels.iter().for_each(|level| level.put_into(&mut config));
        config
    }
}

impl<'de> Deserialize<'de> for TcpOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let table = Map::deserialize(deserializer)?;
        GivenParameters::read(&mut Table::default(), &table).map(TcpOptions).map_err(de::Error::custom)
    }
}

impl JsonSchema for TcpOptions {
    fn schema_name() -> Cow<'static, str> {
        "TcpOptions".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let parameters: &mut dyn Parameters = &mut Table::default();
        json_schema!({
            "type": "object",
            "description": Table::ABOUT,
            "properties": component::properties(&parameters.describe(), generator),
            "additionalProperties": false,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use warpline_core::parameter::Words;
    use warpline_core::{Bytes, Rate, TimeDelta};
    use warpline_transport::tcp::{Recovery, Window};

    use super::super::Scenario;
    use super::*;

    fn options(table: serde_json::Value) -> TcpOptions {
        serde_json::from_value(table).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn inner_levels_override_outer_ones_and_options_override_the_preset_beside_them() {
        let scenario = options(json!({"mss": "512B", "ecn": true, "max_window": 4, "max_rate": "1Mbit/s"}));
        let host = options(json!({"preset": "1988-tahoe", "sack": true, "max_window": null}));
        let flow = options(json!({"recovery": "newreno"}));
        let resolved = TcpOptions::resolve(&[&scenario, &host, &flow]);
        assert_eq!(resolved.recovery, Recovery::NewReno);
        assert!(resolved.sack);
        assert_eq!(resolved.tick, TimeDelta::from_millis(500));
        // The preset sets these too, at an inner level.
        assert_eq!((resolved.mss, resolved.ecn), (Bytes(1460), false));
        // It does not say whether these are bounded.
        assert_eq!(resolved.max_window, Some(Window::Segments(4.0)));
        assert_eq!(resolved.max_rate, Some(Rate::from_bps(1_000_000)));
        // "modern" bounds no buffer either.
        let modern = TcpOptions::resolve(&[&host, &options(json!({"preset": "modern"}))]);
        assert_eq!((modern.send_buffer, modern.window_scaling), (Some(Bytes(65_535)), true));
    }

    #[test]
    fn without_options_tcp_is_modern() {
        assert_eq!(TcpOptions::resolve(&[]), TcpPreset::Modern.config());
        assert_eq!(TcpOptions::resolve(&[&TcpOptions::default()]), TcpConfig::default());
        TcpPreset::ALL.iter().for_each(|preset| assert_eq!(preset.config().faults(), []));
    }

    #[test]
    fn a_preset_sets_all_that_it_says() {
        for preset in TcpPreset::ALL {
            assert_eq!(TcpOptions::resolve(&[&options(json!({"preset": preset.word()}))]), preset.config());
        }
    }

    #[test]
    fn what_is_given_is_written_in_the_order_of_the_options_and_read_back() {
        let given = options(
            json!({"pacing_gain": 2, "delayed_ack": "0.5s", "preset": "modern", "initial_window": 10}),
        );
        let written = serde_json::to_string(&given).unwrap_or_default();
        assert_eq!(
            written,
            r#"{"preset":"modern","pacing_gain":2.0,"delayed_ack":"500ms","initial_window":"10p"}"#
        );
        assert_eq!(serde_json::from_str::<TcpOptions>(&written).ok(), Some(given));
        for (table, message) in [
            (json!({"mss": 5}), "`mss` is 5; allowed: a size, such as 1500B"),
            (
                json!({"initial_window": "ten"}),
                "`initial_window` is ten; allowed: a window, such as 10p or 64kB",
            ),
            (json!({"sacks": true}), "there is no parameter `sacks`"),
        ] {
            let error = serde_json::from_value::<TcpOptions>(table).unwrap_err().to_string();
            assert_eq!(error, message);
        }
    }

    #[test]
    fn what_is_out_of_range_is_said_at_its_place() {
        for (line, place, value, allowed) in [
            ("max_window = \"0p\"", "6:14", "`max_window` is out of range: 0p", "above 0p"),
            ("max_rate = \"0bit/s\"", "6:12", "`max_rate` is out of range: 0bit/s", "above 0bit/s"),
            ("tcp = { mss = \"63B\" }", "6:15", "`mss` is out of range: 63B", "64B to 65.495kB"),
            ("tcp = { pacing_gain = 0 }", "6:23", "`pacing_gain` is out of range: 0", "above 0"),
            (
                "tcp = { heartbeat = true }",
                "6:21",
                "`heartbeat` is out of range: true",
                "a `tick`, such as 500ms",
            ),
            (
                "tcp = { max_rto = \"1ms\" }",
                "6:19",
                "`max_rto` is out of range: 1ms",
                "not below `initial_rto`",
            ),
            // The preset beside it says 64s.
            (
                "tcp = { preset = \"1990-reno\", min_rto = \"65s\" }",
                "6:41",
                "`min_rto` is out of range: 65s",
                "not above `max_rto`",
            ),
        ] {
            let text = format!(
                "duration = \"1s\"\nlink = [{{ between = [\"a\", \"b\"], rate = \"1Mbit/s\" }}]\n[[flow]]\nfrom = \"a\"\nto = \"b\"\n{line}\n"
            );
            let error = Scenario::from_toml("x.toml", &text, &[]).unwrap_err();
            assert_eq!(error.errors.len(), 1, "{error}");
            let error = error.to_string();
            let parts = [&format!("x.toml:{place}\n"), value, allowed];
            assert!(parts.iter().all(|part| error.contains(part)), "{parts:?}: {error}");
        }
    }
}
