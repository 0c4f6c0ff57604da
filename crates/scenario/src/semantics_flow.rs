//! Whether flows and TCP options make sense.

use warpline_core::parameter::Choice;
use warpline_transport::media;
use warpline_transport::tcp::TcpConfig;

use super::application::{App, Application};
use super::checker::Check;
use super::document::{Node, Step, entry, key};
use super::endpoint::Traffic;
use super::flow::{Flow, FlowRecordKind, Transport};
use super::tcp::TcpOptions;
use super::{Cc, ClockMode, component, multipath};

/// Checks all flows and all TCP options of the scenario.
pub(super) fn check(check: &mut Check<'_>) {
    let scenario = check.scenario;
    // As it is written: programs that are refused where they stand were meant as traffic.
    let hosts = check.root.at(&[key("host")]).map_or(&[][..], Node::items);
    let programs = hosts.iter().any(|host| {
        host.table().is_some_and(|host| host.value("program").is_some_and(|list| !list.items().is_empty()))
    });
    let outside = scenario.host.iter().any(|host| host.traffic() == Traffic::Outside);
    // On their own clock, hosts can be given commands while the run goes on.
    let open = scenario.clock.mode != ClockMode::Virtual
        && scenario.host.iter().any(|host| host.endpoint.real().is_some());
    if scenario.flow.is_empty() && !programs && !outside && !open {
        let help = "add a [[flow]] with `from` and `to`; with mode = \"real\", a [[host.program]] or a host with endpoint = \"live\" will do";
        check.error(&[key("flow")], "the scenario has no traffic", help);
    }
    tcp(check, &[key("tcp")], &scenario.tcp);
    for (i, host) in scenario.host.iter().enumerate() {
        if let Some(options) = host.endpoint.tcp() {
            tcp(check, &entry("host", i, &["tcp"]), options);
        }
    }
    for (i, flow) in scenario.flow.iter().enumerate() {
        app(check, i, flow);
        transport(check, i, flow);
        times(check, i, flow);
        multipath::check(check, i, flow);
        if let Some(options) = &flow.tcp {
            tcp(check, &entry("flow", i, &["tcp"]), options);
        }
        if let Some(cc) = &flow.cc {
            let path = entry("flow", i, &["cc"]);
            match cc {
                Cc::BuiltIn(algorithm) => component::check(check, &path, algorithm.faults()),
                Cc::Media(algorithm) => component::check(check, &path, algorithm.faults()),
                Cc::Custom { name } if name.is_empty() => {
                    check.error(&path, "a custom congestion control needs a name", "");
                }
                Cc::Custom { .. } => {}
            }
            congestion_control(check, &path, flow, cc);
        }
    }
}

/// Checks that a congestion control for media carries media, and no other does.
fn congestion_control(check: &mut Check<'_>, path: &[Step], flow: &Flow, cc: &Cc) {
    let name = cc.name();
    let others = media::Algorithm::KINDS.join(" or ");
    match (cc, flow.app) {
        (Cc::Media(_), App::Media) => {}
        (Cc::Media(_), other) => {
            let message =
                format!("`{name}` is a congestion control for media, and app = \"{}\"", other.name());
            check.error(path, message, "take one for TCP (cubic, bbr, ...), or say app = \"media\"");
        }
        (_, App::Media) => {
            let message = format!("`{name}` is no congestion control for media");
            check.error(path, message, format!("app = \"media\" takes {others}"));
        }
        _ => {}
    }
}

fn app(check: &mut Check<'_>, i: usize, flow: &Flow) {
    let name = flow.app.name();
    let mut application = flow.application();
    let parameters = application.describe();
    let mut own: Vec<&str> = parameters.iter().map(|parameter| parameter.name).collect();
    own.extend((flow.app == App::Web).then_some("web"));
    let given: Vec<&str> = flow.keys.names().chain(flow.web.is_some().then_some("web")).collect();
    for parameter in given.iter().filter(|parameter| !own.contains(parameter)) {
        let help = match (*parameter, own.as_slice()) {
            ("rate", []) => {
                "a cap on a TCP flow's rate is `max_rate`; a constant rate is app = \"cbr\"".to_owned()
            }
            (_, []) => format!("app = \"{name}\" has no parameters of its own"),
            (_, own) => format!("parameters of app = \"{name}\": {}", own.join(", ")),
        };
        let message = format!("`{parameter}` does not apply to app = \"{name}\"");
        check.error(&entry("flow", i, &[parameter]), message, help);
    }
    for needed in parameters.iter().filter(|needed| needed.required && !given.contains(&needed.name)) {
        let message = format!("app = \"{name}\" needs `{}`", needed.name);
        let example = needed.default.clone().map(component::value).unwrap_or_default();
        check.error(&entry("flow", i, &[]), message, format!("for example {} = {example}", needed.name));
    }
    component::check(check, &entry("flow", i, &[]), application.faults());
    application.check(check, i, flow);
    let (max_window, max_rate) = (flow.max_window.map(|window| window.0), flow.max_rate.map(|rate| rate.0));
    let short = TcpConfig { max_window, max_rate, ..TcpConfig::default() };
    component::check(check, &entry("flow", i, &[]), short.faults());
}

fn transport(check: &mut Check<'_>, i: usize, flow: &Flow) {
    let (app, transport) = (flow.app.name(), flow.transport());
    if !flow.app.carriers().contains(&transport) {
        let (word, help) = match transport {
            Transport::Tcp => ("TCP", "leave `transport` out: it sends datagrams".to_owned()),
            Transport::Udp => {
                let others = Application::over_udp().join(", ");
                let help =
                    format!("it relies on TCP's reliability and congestion control; UDP can carry {others}");
                ("UDP", help)
            }
        };
        check.error(
            &entry("flow", i, &["transport"]),
            format!("app = \"{app}\" cannot run over {word}"),
            help,
        );
    }
    if transport == Transport::Tcp {
        for (name, short) in
            [("max_window", flow.max_window.is_some()), ("max_rate", flow.max_rate.is_some())]
        {
            if short && flow.tcp.as_ref().is_some_and(|tcp| tcp.gives(name)) {
                let message = format!("`{name}` and `tcp.{name}` are the same option");
                check.error(&entry("flow", i, &[name]), message, "leave one out");
            }
        }
        return;
    }
    let tcp_only = [
        ("cc", flow.cc.is_some()),
        ("tcp", flow.tcp.is_some()),
        ("max_window", flow.max_window.is_some()),
        ("max_rate", flow.max_rate.is_some()),
        ("record", flow.record.contains(&FlowRecordKind::Tcp) || flow.record.contains(&FlowRecordKind::Qlog)),
    ];
    let taken = |name: &str| match flow.app {
        App::Treno => name == "tcp",
        App::Media => name == "cc",
        _ => false,
    };
    for (name, _) in tcp_only.into_iter().filter(|(name, is_given)| *is_given && !taken(name)) {
        let message = format!("`{name}` is for TCP, and this flow is UDP");
        let help = format!("leave it out, or say transport = \"tcp\" (app = \"{app}\" uses UDP unless told)");
        check.error(&entry("flow", i, &[name]), message, help);
    }
}

fn times(check: &mut Check<'_>, i: usize, flow: &Flow) {
    let duration = check.scenario.duration;
    if flow.start.latest >= duration.0 {
        let message =
            format!("the flow may start at {}, when the run ({duration}) is over", flow.start.latest);
        check.error(&entry("flow", i, &["start"]), message, "start it earlier, or raise `duration`");
    }
    if let Some(stop) = flow.stop
        && stop.0 <= flow.start.latest
    {
        let message = format!("the flow stops at {stop}, but may start as late as {}", flow.start.latest);
        check.error(
            &entry("flow", i, &["stop"]),
            message,
            "`stop` is a time from the run's start, as `start` is",
        );
    }
}

fn tcp(check: &mut Check<'_>, path: &[Step], options: &TcpOptions) {
    // Against what is in force beside them on this level.
    let config = TcpOptions::resolve(&[options]);
    let faults = config.faults();
    component::check(check, path, faults.into_iter().filter(|fault| options.gives(fault.parameter)));
    // By default they are on, and without SACK they do nothing.
    for (name, on) in [("rack", config.rack), ("tlp", config.tlp)] {
        if on && !config.sack && options.gives(name) {
            let mut at = path.to_vec();
            at.push(key(name));
            check.error(
                &at,
                format!("`{name}` goes by SACK, which is off here"),
                "leave it out, or set sack = true",
            );
        }
    }
}
