//! What cannot go with `fast_forward`, which skips stretches of time: whatever has a clock of its own, and whatever records moments.

use super::application::Skipping;
use super::checker::Check;
use super::component::has_file;
use super::document::{Step, entry, key};
use super::endpoint::Traffic;
use super::flow::FlowRecordKind;
use super::link::LinkOptions;
use super::topology::{self, Part};
use super::{ClockMode, Flow};

/// What to do about anything that is refused.
const HELP: &str = "leave it out, or leave out `fast_forward`";

/// Checks the scenario if it skips.
pub(crate) fn check(check: &mut Check<'_>) {
    let scenario = check.scenario;
    if !scenario.fast_forward {
        return;
    }
    if scenario.clock.mode != ClockMode::Virtual {
        let message = format!("`fast_forward` cannot go with mode = \"{}\"", scenario.clock.mode.name());
        let help = "this clock passes by itself: nothing of it can be skipped; leave out `fast_forward`";
        check.error(&[key("clock"), key("mode")], message, help);
    }
    for (i, host) in scenario.host.iter().enumerate().filter(|(_, host)| host.traffic() != Traffic::Model) {
        let what = if host.traffic() == Traffic::Stack { "stacks, which" } else { "programs, which" };
        let message = format!("`fast_forward` cannot go with real {what} `{}` runs", host.name);
        check.error(
            &entry("host", i, &["endpoint"]),
            message,
            "use endpoint = \"model\", or leave out `fast_forward`",
        );
    }
    for (i, flow) in scenario.flow.iter().enumerate() {
        one_flow(check, i, flow);
    }
    for (i, link) in scenario.link.iter().enumerate() {
        duplex(check, &entry("link", i, &[]), &link.options, link.reverse.as_ref());
    }
    if let Some(mut topology) = scenario.topology.clone() {
        for Part { key, options, .. } in topology.layout_mut().parts() {
            duplex(check, &topology::at(key), &options.options, options.reverse.as_ref());
        }
    }
}

fn one_flow(check: &mut Check<'_>, i: usize, flow: &Flow) {
    if flow.app.skipping() == Skipping::Refused {
        let message = format!("`fast_forward` cannot go with app = \"{}\"", flow.app.name());
        let help = "its report is about moments, which skipping would move; leave out `fast_forward`";
        check.error(&entry("flow", i, &["app"]), message, help);
    }
    if flow.record.iter().any(|kind| matches!(kind, FlowRecordKind::Tcp | FlowRecordKind::Qlog)) {
        let message = "`fast_forward` cannot go with the record of every event: it would have gaps";
        check.error(&entry("flow", i, &["record"]), message, HELP);
    }
}

fn duplex(check: &mut Check<'_>, at: &[Step], options: &LinkOptions, reverse: Option<&LinkOptions>) {
    direction(check, at, options);
    if let Some(reverse) = reverse {
        let mut path = at.to_vec();
        path.push(key("reverse"));
        direction(check, &path, reverse);
    }
}

fn direction(check: &mut Check<'_>, at: &[Step], options: &LinkOptions) {
    let mut refuse = |name: &str, message: &str| {
        let mut path = at.to_vec();
        path.push(key(name));
        check.error(&path, message, HELP);
    };
    if options.record.as_ref().is_some_and(|kinds| !kinds.is_empty()) {
        refuse("record", "`fast_forward` cannot go with the record of every packet: it would have gaps");
    }
    if options.trace.is_some() {
        refuse("trace", "`fast_forward` cannot go with a trace, whose rate changes all the time");
    }
    if options.radio.is_some() {
        refuse("radio", "`fast_forward` cannot go with a radio, whose rate or delay changes all the time");
    }
    // By time, or by a file that is not moved along.
    let chosen = [("loss", &options.loss), ("duplicate", &options.duplicate), ("corrupt", &options.corrupt)];
    for (name, _) in chosen.into_iter().filter(|(_, chosen)| chosen.as_ref().is_some_and(has_file)) {
        refuse(name, "`fast_forward` cannot go with a file that says what becomes of each packet");
    }
    if options.jitter.as_ref().is_some_and(has_file) {
        refuse("jitter", "`fast_forward` cannot go with a file of delays, which change all the time");
    }
}
