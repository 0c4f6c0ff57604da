//! Checks the names of congestion controls, which depend on the host that sends: the kernel of a guest or a stack may have others.

use serde_json::Value;

use super::cc::Cc;
use super::diagnostics::{Collector, spelling_help};
use super::document::{Node, entry};
use super::endpoint::{Endpoint, Traffic};
use super::short;

/// Checks the congestion controls that flows name. Flows from a guest may name any of Linux, and those of a stack are checked with the stack;
/// all others need a built-in one.
pub(super) fn check(root: &Node, errors: &mut Collector) {
    let value = root.to_json();
    let list = |key: &str| value[key].as_array().cloned().unwrap_or_default();
    let hosts = list("host");
    let has_own = |endpoint: &Value| {
        let about = endpoint.as_str().and_then(Endpoint::named);
        about.is_some_and(|about| matches!(about.traffic, Traffic::Kernel | Traffic::Stack))
    };
    let sends_own = |from: &str| {
        let senders = hosts.iter().filter(|host| has_own(&host["endpoint"]));
        let names = senders.filter_map(|host| host["name"].as_str());
        // The node itself, or a node of a group of the topology.
        names
            .into_iter()
            .any(|name| name.strip_prefix(from).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
    };
    let kinds = Cc::kinds();
    for (i, flow) in list("flow").iter().enumerate() {
        let Some(name) = flow["cc"].as_str().filter(|name| !kinds.contains(name)) else {
            continue;
        };
        let from = flow["from"].as_str().unwrap_or_default();
        if sends_own(from) {
            continue;
        }
        let mut help = spelling_help(name, &kinds);
        if name.contains(':') {
            // The checks have found its short form to be unreadable.
            help.extend(short::read(short::CC, name).and_then(Result::err));
        }
        help.push("or a table".to_owned());
        let kernels = Endpoint::list(|about| about.traffic == Traffic::Kernel);
        help.push(format!(
            "a flow from a guest can name any that Linux has: a [[host]] for `from` with endpoint = {kernels}"
        ));
        errors.about(root, &entry("flow", i, &["cc"]), format!("`cc` cannot be {name:?}"), help);
    }
}
