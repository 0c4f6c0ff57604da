//! How many simulated flows fit beside a live one.
//!
//! A live TCP stream crosses a link of 2 Mbit/s and 50 ms. In the same run, simulated flows of 2 Mbit/s cross links of the same kind,
//! one each. With too many of them the emulator falls behind, and the live stream slows down.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use warpline_lab::run::{RunOptions, run};
use warpline_live::load::Streamed;
use warpline_net::Control;
use warpline_scenario::Scenario;

use super::CalibrateError;

/// The live link's rate, in bit/s.
const RATE: f64 = 2e6;
/// Payload as a share of a full packet with timestamps.
const PAYLOAD: f64 = 1448.0 / 1500.0;
/// The live stream holds its throughput above this share of the full one.
pub const HELD: f64 = 0.95;
/// The numbers of simulated links to try.
const LINKS: [u32; 9] = [50, 150, 400, 800, 1500, 2500, 4000, 6000, 9000];
const QUICK: [u32; 2] = [150, 1500];

/// The kind of the simulated flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simulated {
    /// UDP at a constant rate.
    Cbr,
    /// TCP, as much as it can send.
    Tcp,
}

/// A point of the curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Simulated links, each with its flow and two nodes.
    pub links: u32,
    /// Goodput of the live stream, in bit/s.
    pub goodput_bps: f64,
    /// The goodput as a share of what the link can carry.
    pub share: f64,
    /// Share of one core that the emulator used.
    pub cpu: f64,
    /// Median lateness of live packets, in microseconds.
    pub lateness_us: f64,
    /// Whether the emulator kept pace with the clock.
    pub kept_pace: bool,
}

/// Both curves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KeepPace {
    /// Beside flows at a constant rate.
    pub cbr: Vec<Point>,
    /// Beside TCP flows.
    pub tcp: Vec<Point>,
}

/// The largest number of links up to which the live stream always held its throughput.
pub fn held(points: &[Point]) -> Option<u32> {
    points.iter().take_while(|point| point.share >= HELD).map(|point| point.links).last()
}

/// Measures both curves, each until the live stream loses half of its throughput.
pub(super) fn measure(
    program: &Path,
    quick: bool,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(f64, &str),
) -> Result<KeepPace, CalibrateError> {
    let counts: &[u32] = if quick { &QUICK } else { &LINKS };
    let mut curve = |simulated: Simulated, base: f64, name: &str| {
        let mut points: Vec<Point> = Vec::new();
        for (number, &links) in counts.iter().enumerate() {
            let share = base + 0.5 * number as f64 / counts.len() as f64;
            progress(share, &format!("a live stream beside {links} simulated links with {name}"));
            let point = point(program, simulated, links, if quick { 4 } else { 7 }, stop)?;
            points.push(point);
            if point.share < 0.5 {
                break;
            }
        }
        Ok::<_, CalibrateError>(points)
    };
    Ok(KeepPace { cbr: curve(Simulated::Cbr, 0.0, "CBR")?, tcp: curve(Simulated::Tcp, 0.5, "TCP")? })
}

/// Runs the experiment with `links` simulated links.
fn point(
    program: &Path,
    simulated: Simulated,
    links: u32,
    seconds: u32,
    stop: &AtomicBool,
) -> Result<Point, CalibrateError> {
    let failed = |why: String| CalibrateError::Scenario(why);
    let scratch = tempfile::tempdir().map_err(|error| failed(error.to_string()))?;
    let output = scratch.path().join("output");
    let scenario = Scenario::from_toml("keep-pace", &text(program, &output, simulated, links, seconds), &[])
        .map_err(|error| failed(error.to_string()))?;
    let stopped = || stop.load(Ordering::Relaxed);
    let outcome = run(&scenario, &RunOptions::default(), &mut |_| {
        if stopped() { Control::Stop } else { Control::Continue }
    });
    let outcome = outcome.map_err(|error| failed(error.to_string()))?;
    if stopped() {
        return Err(CalibrateError::Stopped);
    }
    let text = std::fs::read_to_string(&output).unwrap_or_default();
    // A stream that did not end within the run, because the emulator was far behind, has no useful throughput.
    let streamed: Streamed = serde_json::from_str(&text).unwrap_or_default();
    // Leave out the start (1.5 s), and the last tenth of a second, which may be incomplete.
    let tenths: Vec<u64> = streamed.tenths.iter().copied().skip(15).collect();
    let steady = tenths.get(..tenths.len().saturating_sub(1)).unwrap_or_default();
    let goodput_bps = match steady.len() {
        0 => 0.0,
        len => steady.iter().sum::<u64>() as f64 * 80.0 / len as f64,
    };
    let live = outcome.summary.live.unwrap_or_default();
    Ok(Point {
        links,
        goodput_bps,
        share: goodput_bps / (RATE * PAYLOAD),
        cpu: live.audit.cpu_share,
        lateness_us: live.audit.lateness.median_us,
        kept_pace: live.kept_pace,
    })
}

/// The scenario.
fn text(program: &Path, output: &Path, simulated: Simulated, links: u32, seconds: u32) -> String {
    let flow = match simulated {
        Simulated::Cbr => "app = \"cbr\", rate = \"2Mbit/s\"",
        Simulated::Tcp => "app = \"bulk\", cc = \"reno\"",
    };
    // A path may hold any characters, so write the paths as TOML strings, one word each.
    let words = [
        "sh".to_owned(),
        "-c".to_owned(),
        format!("exec \"$0\" load tcp {{sink}}:9 {seconds} 0 cubic > \"$1\""),
        program.display().to_string(),
        output.display().to_string(),
    ];
    let command: Vec<String> =
        words.iter().map(|word| toml::Value::from(word.as_str()).to_string()).collect();
    let sink = toml::Value::from(program.display().to_string()).to_string();
    let mut text = format!(
        r#"name = "keep-pace"
duration = "{}s"
clock = {{ mode = "real" }}

[[host]]
name = "source"
endpoint = "live"
program = [{{ command = [{}], start = "500ms", expect = "any" }}]
[[host]]
name = "sink"
endpoint = "live"
program = [{{ command = [{sink}, "load", "tcp-sink", "9"], expect = "any" }}]

[[link]]
between = ["source", "sink"]
rate = "2Mbit/s"
delay = "50ms"
queue = {{ kind = "droptail", limit = "50p" }}
"#,
        seconds + 3,
        command.join(", ")
    );
    for number in 0..links {
        let _ = write!(
            text,
            "[[link]]\nbetween = [\"a{number}\", \"b{number}\"]\nrate = \"2Mbit/s\"\ndelay = \"50ms\"\n\
             queue = {{ kind = \"droptail\", limit = \"50p\" }}\n"
        );
    }
    // Inline tables, since many sections would take longer to read than to run.
    let flows = (0..links).map(|number| {
        format!(
            "{{ name = \"f{number}\", from = \"a{number}\", to = \"b{number}\", {flow}, start = \"0s..1s\" }}"
        )
    });
    let flows: Vec<String> = flows.collect();
    // Top-level keys must come before the first section.
    format!("flow = [\n{}\n]\n{text}", flows.join(",\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scenario_is_valid_with_any_path() {
        let program = Path::new("/a \"strange\" place/warpline");
        for simulated in [Simulated::Cbr, Simulated::Tcp] {
            let text = text(program, Path::new("/tmp/x"), simulated, 3, 4);
            let scenario = Scenario::from_toml("keep-pace", &text, &[]);
            let scenario = scenario.unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!((scenario.link.len(), scenario.flow.len()), (4, 3));
        }
    }

    #[test]
    fn held_ends_at_the_first_loss_of_throughput() {
        let point = |links, share| Point { links, share, ..Point::default() };
        let points = [point(50, 1.0), point(150, 0.99), point(400, 0.9), point(800, 1.0)];
        assert_eq!(held(&points), Some(150));
        assert_eq!((held(&points[2..]), held(&[])), (None, None));
    }
}
