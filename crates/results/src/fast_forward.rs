//! What a run with `fast_forward` says of itself: which stretches it skipped, and how far off its results are for that.

use crate::column::table;
use crate::summary::Summary;
use crate::units::Unit;

/// The measure of [`AuditedMeasure`] that the terminal shows: the goodput of all flows together.
pub const GOODPUT: &str = "goodput";

table! {
    /// What a run with `fast_forward` skipped, and how far off its results are for that.
    pub struct FastForwardSummary: "fast_forward" #[serde(default)] {
        /// Time that was run exactly, in seconds.
        exact_s: f64 ["s"],
        /// Time that was skipped, in seconds.
        skipped_s: f64 ["s"],
        /// Stretches that were skipped.
        skipped: u64 [""],
        /// Stretches that were run exactly although they could have been skipped, to see how far off skipping them would have been.
        audited: u64 [""],
        /// The total goodput is this close to that of an exact run, as a share of it: half of a 95 % interval, widened if audits found more; absent if nothing was skipped.
        goodput_within: Option<f64> ["1"],
        /// The same for the goodput of a flow, on average.
        flow_goodput_within_mean: Option<f64> ["1"],
        /// The same for the flow for which it is worst.
        flow_goodput_within_max: Option<f64> ["1"],
        /// Why nothing was skipped; absent if something was.
        obstacle: Option<String> [""],
    }
}

table! {
    /// A stretch of time that a run with `fast_forward` skipped, or could have skipped and ran to compare.
    pub struct Stretch: "stretches" #[serde(default)] {
        /// Its start, in seconds since the start of the run.
        from_s: f64 ["s"],
        /// Its end.
        until_s: f64 ["s"],
        /// Whether it was run after all.
        audited: bool [""],
        /// Of an audited stretch: how many more bytes skipping would have counted than all flows delivered, as a share of what they delivered; below zero
        /// if fewer.
        goodput_error: Option<f64> ["1"],
        /// Of an audited stretch: `goodput_error` of the flow for which it is farthest from zero.
        flow_goodput_error_max: Option<f64> ["1"],
    }
}

impl Stretch {
    /// Those that were skipped, in order: start and end, in seconds. Of these there are no samples; what was audited was run, and has some.
    pub fn skipped(stretches: &[Stretch]) -> Vec<[f64; 2]> {
        let skipped = stretches.iter().filter(|stretch| !stretch.audited);
        skipped.map(|stretch| [stretch.from_s, stretch.until_s]).collect()
    }
}

table! {
    /// What the audited stretches of a run with `fast_forward` say of a measure.
    pub struct AuditedMeasure: "audits" #[serde(default)] {
        /// What was compared.
        measure: String [""],
        /// By what share more would have been counted than there was, on average.
        error: f64 ["1"],
        /// Lower end of its 95 % interval, over the quarters of all audited stretches.
        low: f64 ["1"],
        /// Upper end.
        high: f64 ["1"],
        /// The error of the stretch, or of the flow in a stretch, for which it is farthest from zero.
        worst: f64 ["1"],
    }
}

/// Why nothing was skipped in a run that ended before anything could be.
pub const TOO_SHORT: &str = "the time was too short";
/// Why nothing was skipped in a run of which each stretch that could be was run to compare.
pub const ONLY_AUDITED: &str = "the time was too short for more than what was run to compare";

impl Summary {
    /// What was skipped and how far off the results are, in sentences; none where the scenario does not ask for it.
    pub fn skipping(&self) -> Vec<String> {
        let Some(part) = &self.fast_forward else { return Vec::new() };
        let seconds = |value: f64| format!("{} s", (value * 1e3).round() / 1e3);
        if part.skipped == 0 {
            let why = part.obstacle.as_deref().unwrap_or(TOO_SHORT);
            return vec![format!("Fast-forward: nothing was skipped ({why}).")];
        }
        let mut said = vec![format!(
            "Fast-forward: {} run exactly, {} skipped in {}.",
            seconds(part.exact_s),
            seconds(part.skipped_s),
            stretches(part.skipped)
        )];
        if let (Some(total), Some(flow)) = (part.goodput_within, part.flow_goodput_within_max) {
            let [total, flow] = [total, flow].map(|share| Unit::Share.show(share));
            said.push(format!("Goodput within {total} of an exact run, that of each flow within {flow}."));
        }
        if let Some(audit) = self.audits.iter().find(|audit| audit.measure == GOODPUT) {
            let [error, low, high] =
                [audit.error, audit.low, audit.high].map(|share| Unit::Share.show(share));
            let audited = stretches(part.audited);
            said.push(format!("Checked by running {audited}: goodput off by {error} ({low} to {high})."));
        }
        said
    }
}

fn stretches(count: u64) -> String {
    if count == 1 { "1 stretch".to_owned() } else { format!("{count} stretches") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_skipped_is_said_in_plain_sentences() {
        let mut summary = Summary::default();
        assert!(summary.skipping().is_empty());
        let obstacle = Some("bulk.0 varies too much".to_owned());
        summary.fast_forward = Some(FastForwardSummary { exact_s: 60.0, obstacle, ..Default::default() });
        assert_eq!(summary.skipping(), ["Fast-forward: nothing was skipped (bulk.0 varies too much)."]);
        summary.fast_forward = Some(FastForwardSummary {
            exact_s: 71.3,
            skipped_s: 528.7,
            skipped: 9,
            audited: 1,
            goodput_within: Some(0.0041),
            flow_goodput_within_max: Some(0.0312),
            ..Default::default()
        });
        let measure = GOODPUT.to_owned();
        summary.audits =
            vec![AuditedMeasure { measure, error: 0.001, low: -0.002, high: 0.004, worst: 0.001 }];
        let said = [
            "Fast-forward: 71.3 s run exactly, 528.7 s skipped in 9 stretches.",
            "Goodput within 0.41 % of an exact run, that of each flow within 3.12 %.",
            "Checked by running 1 stretch: goodput off by 0.10 % (-0.20 % to 0.40 %).",
        ];
        assert_eq!(summary.skipping(), said);
        assert!(crate::render(&summary, 80).contains(&said.join("\n  ")));
    }
}
