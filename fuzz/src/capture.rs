//! Captures from which a scenario is inferred: whatever the bytes are, there is an error, or a scenario that can be run, with numbers that the
//! capture can have shown.

use std::path::Path;

use warpline_lab::run::{CustomCc, check};
use warpline_scenario::Source;
use warpline_study::infer::{Inferred, infer_from};

/// Infers from bytes. What is proposed must be a scenario that can be run, unless it has numbers that no scenario may have.
pub fn run(data: &[u8]) {
    let Ok(Some(inferred)) = infer_from(data, "cubic") else { return };
    bounds(&inferred);
    let text = &inferred.scenario;
    match Source::from_text("inferred", text, Path::new("")).load(&[]) {
        Ok(scenario) => {
            let checked = check(&scenario, &CustomCc::default());
            assert!(checked.is_ok(), "{checked:?}\n{text}");
            assert!(scenario.duration.0.as_secs_f64() >= inferred.seconds, "{text}");
        }
        // A capture of damaged times can be longer than a run may be.
        Err(error) => assert!(!error.to_string().contains("expected"), "{error}\n{text}"),
    }
}

/// No estimate is beyond what the packets and their times allow.
fn bounds(inferred: &Inferred) {
    // A round trip is the sum of two times in the capture, and a wait the difference of two, of which damaged packets may turn one around.
    let within = |seconds: f64| (0.0..=2.0 * inferred.seconds).contains(&seconds);
    let path = &inferred.path;
    assert!(inferred.connections as u64 <= inferred.packets, "{inferred:?}");
    assert!(path.rtt.is_none_or(within), "{path:?}");
    for way in &path.ways {
        assert!(within(way.queueing) && way.rtt.is_none_or(|(half, most)| half <= most), "{way:?}");
        assert!((0.0..=1.0).contains(&way.loss()) && (0.0..=1.0).contains(&way.calm), "{way:?}");
        assert!(
            way.most.is_finite() && way.rate.is_none_or(|rate| rate.is_finite() && rate > 0.0),
            "{way:?}"
        );
        assert!(way.queue().is_none_or(|packets| packets >= 1.0), "{way:?}");
    }
}
