//! Whether the changes of links make sense. That the links exist and can be changed like that is found where they are expanded and planned.

use warpline_core::parameter::Choice as _;

use super::change::Change;
use super::checker::Check;
use super::component::{self, Written};
use super::document::{entry, key};

/// Checks all changes.
pub(crate) fn check(check: &mut Check<'_>) {
    let scenario = check.scenario;
    for (i, change) in scenario.change.iter().enumerate() {
        one_change(check, i, change);
        if i > 0 && change.at < scenario.change[i - 1].at {
            let message = "the changes are not in order of time";
            check.error(&entry("change", i, &["at"]), message, "none may be earlier than the one before");
        } else if change.at >= scenario.duration {
            let message =
                format!("the change is at {}, when the run ({}) is over", change.at, scenario.duration);
            let help = "make it earlier, or raise `duration`";
            check.error(&entry("change", i, &["at"]), message, help);
        }
    }
}

fn one_change(check: &mut Check<'_>, i: usize, change: &Change) {
    if change.is_empty() {
        let help = format!("give one of {}", Change::keys().join(", "));
        check.error(&entry("change", i, &[]), "the change changes nothing", help);
    }
    let models = [("loss", &change.loss), ("duplicate", &change.duplicate), ("corrupt", &change.corrupt)];
    for (name, chosen) in models {
        if let Some(Written(chosen)) = chosen {
            component::check(check, &entry("change", i, &[name]), chosen.faults());
            check.component_files(&entry("change", i, &[name]), chosen);
        }
    }
    if let Some(Written(jitter)) = &change.jitter {
        component::check(check, &entry("change", i, &["jitter"]), jitter.faults());
        check.component_files(&entry("change", i, &["jitter"]), jitter);
    }
    if !check.scenario.fast_forward {
        return;
    }
    let files =
        models.into_iter().map(|(name, chosen)| (name, chosen.as_ref().is_some_and(component::has_file)));
    let jitter = ("jitter", change.jitter.as_ref().is_some_and(component::has_file));
    for (name, _) in files.chain([jitter]).filter(|(_, has)| *has) {
        let path = [entry("change", i, &[]), vec![key(name)]].concat();
        let message = "`fast_forward` cannot go with a file that says what happens at each moment";
        check.error(&path, message, "leave it out, or leave out `fast_forward`");
    }
}
