//! One measurement of `warpline calibrate` at a time, for work on the emulator: prints it as JSON.
//!
//! ```text
//! measure delay MS BYTES COUNT | rate MBPS BYTES QUEUE SECONDS | loss P BYTES PPS SECONDS
//! measure one-way PPS BYTES SECONDS | round-trips WINDOW SECONDS | stream CONTROL SECONDS [MBPS MS]
//! ```
//!
//! With `WAY=ports`, `tun` or `veth` in the environment without an emulated network, where that is possible.

#![allow(clippy::print_stdout, reason = "a measuring program prints what it measured")]

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::sync::atomic::AtomicBool;
    use warpline_live::calibrate::bed::Bed;
    use warpline_live::calibrate::measure::{self, Way};

    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "load") {
        return Ok(warpline_live::load::run(&words[1..])?);
    }
    warpline_live::host::prepare_process()?;
    let stop = AtomicBool::new(false);
    let bed = Bed::new(std::env::current_exe()?, &stop)?;
    let way = match std::env::var("WAY").as_deref() {
        Ok("ports") => Way::Ports,
        Ok("tun") => Way::Tun,
        Ok("veth") => Way::Veth,
        _ => Way::Emulator,
    };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let value = match words[..] {
        ["delay", ms, bytes, count] => {
            serde_json::to_value(measure::delay(&bed, way, ms.parse()?, bytes.parse()?, count.parse()?)?)?
        }
        ["rate", mbps, bytes, queue, seconds] => serde_json::to_value(measure::rate(
            &bed,
            mbps.parse()?,
            bytes.parse()?,
            queue.parse()?,
            seconds.parse()?,
        )?)?,
        ["loss", p, bytes, pps, seconds] => serde_json::to_value(measure::loss(
            &bed,
            p.parse()?,
            bytes.parse()?,
            pps.parse()?,
            seconds.parse()?,
        )?)?,
        ["one-way", pps, bytes, seconds] => serde_json::to_value(measure::one_way(
            &bed,
            way,
            pps.parse()?,
            bytes.parse()?,
            seconds.parse()?,
        )?)?,
        ["round-trips", window, seconds] => {
            serde_json::to_value(measure::round_trips(&bed, way, window.parse()?, seconds.parse()?)?)?
        }
        ["stream", control, seconds, ref limit @ ..] => {
            let limit = match limit {
                [mbps, ms] => Some((mbps.parse()?, ms.parse()?)),
                _ => None,
            };
            serde_json::to_value(measure::stream(&bed, way, control, limit, seconds.parse()?)?)?
        }
        _ => return Err("see the head of measure.rs for the words".into()),
    };
    println!("{value}");
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("Linux only");
}
