//! Whether flows and TCP options make sense.

use warpline_core::TimeDelta;

use super::document::{Node, Step};
use super::expand::{entry, key};
use super::flow::{App, Distribution, Flow, FlowRecordKind, Transport};
use super::semantics::Check;
use super::tcp::TcpOptions;
use super::{Cc, component, files};

/// Checks all flows and all TCP options of the scenario.
pub(super) fn check(check: &mut Check<'_>) {
    let scenario = check.scenario;
    // As it is written: programs that are refused where they stand were meant as traffic.
    let hosts = check.root.at(&[key("host")]).map_or(&[][..], Node::items);
    let programs = hosts.iter().any(|host| {
        host.table().is_some_and(|host| host.value("program").is_some_and(|list| !list.items().is_empty()))
    });
    if scenario.flow.is_empty() && !programs {
        let help = "add a [[flow]] with `from` and `to`; with mode = \"real\", a [[host.program]] will do";
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
        if let Some(options) = &flow.tcp {
            tcp(check, &entry("flow", i, &["tcp"]), options);
        }
        if let Some(cc) = &flow.cc {
            let path = entry("flow", i, &["cc"]);
            match cc {
                Cc::BuiltIn(algorithm) => component::check(check, &path, algorithm),
                Cc::Custom { name } if name.is_empty() => {
                    check.error(&path, "a custom congestion control needs a name", "");
                }
                Cc::Custom { .. } => {}
            }
        }
        web(check, i, flow);
    }
}

/// Which of the per-app parameters are given.
fn given(flow: &Flow) -> [(&'static str, bool); 13] {
    [
        ("size", flow.size.is_some()),
        ("transfers", flow.transfers.is_some()),
        ("request_size", flow.request_size.is_some()),
        ("requests", flow.requests.is_some()),
        ("pause", flow.pause.is_some()),
        ("rate", flow.rate.is_some()),
        ("packet_size", flow.packet_size.is_some()),
        ("message_size", flow.message_size.is_some()),
        ("message_rate", flow.message_rate.is_some()),
        ("mean_on", flow.mean_on.is_some()),
        ("mean_off", flow.mean_off.is_some()),
        ("shape", flow.shape.is_some()),
        ("web", flow.web.is_some()),
    ]
}

fn app(check: &mut Check<'_>, i: usize, flow: &Flow) {
    let name = flow.app.name();
    for (parameter, is_given) in given(flow) {
        let applies = flow.app.parameters().contains(&parameter);
        if is_given && !applies {
            let own = flow.app.parameters();
            let help = match (parameter, own) {
                ("rate", []) => {
                    "a cap on a TCP flow's rate is `max_rate`; a constant rate is app = \"cbr\"".to_owned()
                }
                (_, []) => format!("app = \"{name}\" has no parameters of its own"),
                (_, own) => format!("parameters of app = \"{name}\": {}", own.join(", ")),
            };
            let message = format!("`{parameter}` does not apply to app = \"{name}\"");
            check.error(&entry("flow", i, &[parameter]), message, help);
        }
        if !is_given && flow.app.required().contains(&parameter) {
            let message = format!("app = \"{name}\" needs `{parameter}`");
            let example = match parameter {
                "size" => "for example size = \"10MB\"",
                "message_rate" => "for example message_rate = 100, per second",
                _ => "for example rate = \"1Mbit/s\"",
            };
            check.error(&entry("flow", i, &[]), message, example);
        }
    }
    let positive = [
        ("size", flow.size.is_some_and(|s| s.0.0 == 0)),
        ("rate", flow.rate.is_some_and(|r| r.0.as_bps() == 0)),
        ("message_size", flow.message_size.is_some_and(|s| s.0.0 == 0)),
        ("message_rate", flow.message_rate.is_some_and(|r| r <= 0.0)),
        ("mean_on", flow.mean_on.is_some_and(|t| t.0.is_zero())),
        ("max_rate", flow.max_rate.is_some_and(|r| r.0.as_bps() == 0)),
    ];
    for (parameter, _) in positive.into_iter().filter(|(_, zero)| *zero) {
        check.error(&entry("flow", i, &[parameter]), format!("`{parameter}` must be above zero"), "");
    }
    if flow.request_size.is_some_and(|size| size.0.0 < 16) {
        let help = "a request says how long it and the answer are, which takes 16 bytes";
        check.error(&entry("flow", i, &["request_size"]), "`request_size` must be at least 16B", help);
    }
    if let Some(size) = flow.packet_size
        && !(29..=65_535).contains(&size.0.0)
    {
        let help = "allowed: 29B to 65535B (a UDP packet has 28 bytes of headers)";
        check.error(&entry("flow", i, &["packet_size"]), format!("a packet cannot have {size}"), help);
    }
    if flow.shape.is_some_and(|shape| shape <= 1.0) {
        let help = "a Pareto distribution has a mean only with a shape above 1; for example 1.5";
        check.error(&entry("flow", i, &["shape"]), "`shape` must be above 1", help);
    }
}

fn transport(check: &mut Check<'_>, i: usize, flow: &Flow) {
    if flow.transport() == Transport::Tcp {
        if flow.app == App::Treno {
            let help = "leave `transport` out: probes are datagrams";
            check.error(&entry("flow", i, &["transport"]), "app = \"treno\" cannot run over TCP", help);
        }
        let both_windows =
            flow.max_window.is_some() && flow.tcp.as_ref().is_some_and(|t| t.max_window.is_some());
        let both_rates = flow.max_rate.is_some() && flow.tcp.as_ref().is_some_and(|t| t.max_rate.is_some());
        for (name, both) in [("max_window", both_windows), ("max_rate", both_rates)] {
            if both {
                let message = format!("`{name}` and `tcp.{name}` are the same option");
                check.error(&entry("flow", i, &[name]), message, "leave one out");
            }
        }
        return;
    }
    if matches!(flow.app, App::Bulk | App::Cap | App::Transfer | App::Web | App::Request)
        || flow.app.is_service()
    {
        let message = format!("app = \"{}\" cannot run over UDP", flow.app.name());
        let help =
            "it relies on TCP's reliability and congestion control; cbr, onoff and poisson can use UDP";
        check.error(&entry("flow", i, &["transport"]), message, help);
    }
    if let Some(size) = flow.message_size
        && size.0.0 > 65_507
    {
        let help = "allowed: at most 65507B, which an IPv4 packet has room for; or transport = \"tcp\"";
        check.error(&entry("flow", i, &["message_size"]), format!("a datagram cannot carry {size}"), help);
    }
    let tcp_only = [
        ("cc", flow.cc.is_some()),
        ("tcp", flow.tcp.is_some()),
        ("max_window", flow.max_window.is_some()),
        ("max_rate", flow.max_rate.is_some()),
        ("record", flow.record.contains(&FlowRecordKind::Tcp) || flow.record.contains(&FlowRecordKind::Qlog)),
    ];
    if flow.app == App::Treno {
        let useless = flow.tcp.as_ref().map_or_else(Vec::new, TcpOptions::useless_to_treno);
        for name in useless {
            let message = format!("app = \"treno\" has no use for `tcp.{name}`");
            let help = format!("it takes {}", TcpOptions::OF_TRENO.join(", "));
            check.error(&entry("flow", i, &["tcp", &name]), message, help);
        }
    }
    let taken = |name: &str| name == "tcp" && flow.app == App::Treno;
    for (name, _) in tcp_only.into_iter().filter(|(name, is_given)| *is_given && !taken(name)) {
        let message = format!("`{name}` is for TCP, and this flow is UDP");
        let help = format!(
            "leave it out, or say transport = \"tcp\" (app = \"{}\" uses UDP unless told)",
            flow.app.name()
        );
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

fn distribution<T: PartialOrd + Copy + Default>(
    check: &mut Check<'_>,
    path: &[Step],
    d: Option<Distribution<T>>,
) {
    let below = |name: &str| {
        let mut path = path.to_vec();
        path.push(key(name));
        path
    };
    let zero = T::default();
    match d {
        Some(Distribution::Uniform { min, max }) if min > max => {
            check.error(&below("min"), "`min` is above `max`", "");
        }
        Some(Distribution::Pareto { shape, .. }) if shape <= 1.0 => {
            check.error(&below("shape"), "`shape` must be above 1", "for example 1.5");
        }
        Some(Distribution::Lognormal { sigma, .. }) if sigma <= 0.0 => {
            check.error(&below("sigma"), "`sigma` must be above 0", "for example 1.0");
        }
        Some(
            Distribution::Pareto { mean, max: Some(max), .. }
            | Distribution::Lognormal { median: mean, max: Some(max), .. },
        ) if max < mean => {
            check.error(&below("max"), "`max` is below the middle of the distribution", "");
        }
        Some(
            Distribution::Exponential { mean: middle }
            | Distribution::Pareto { mean: middle, .. }
            | Distribution::Lognormal { median: middle, .. },
        ) if middle <= zero => {
            let name = if matches!(d, Some(Distribution::Lognormal { .. })) { "median" } else { "mean" };
            check.error(&below(name), format!("`{name}` must be above zero"), "");
        }
        Some(Distribution::Constant { value }) if value < zero => {
            check.error(&below("value"), "`value` must not be negative", "");
        }
        _ => {}
    }
}

fn web(check: &mut Check<'_>, i: usize, flow: &Flow) {
    let Some(web) = &flow.web else { return };
    let at = |name: &str| entry("flow", i, &["web", name]);
    if let Some(log) = &web.access_log {
        check.file(&at("access_log"), log, "access log", files::log);
        let others = [
            ("session_rate", web.session_rate.is_some()),
            ("pages", web.pages.is_some()),
            ("objects", web.objects.is_some()),
            ("object_size", web.object_size.is_some()),
            ("think_time", web.think_time.is_some()),
            ("connections", web.connections.is_some()),
        ];
        for (name, _) in others.into_iter().filter(|(_, is_given)| *is_given) {
            check.error(
                &at(name),
                format!("`{name}` has no effect beside `access_log`"),
                "leave one of them out",
            );
        }
    }
    if web.session_rate.is_some_and(|rate| rate <= 0.0) {
        check.error(&at("session_rate"), "`session_rate` must be above zero", "for example 0.5, per second");
    }
    distribution(check, &at("pages"), web.pages);
    distribution(check, &at("objects"), web.objects);
    distribution(check, &at("object_size"), web.object_size);
    distribution(check, &at("think_time"), web.think_time);
}

fn tcp(check: &mut Check<'_>, path: &[Step], options: &TcpOptions) {
    let mut wrong = |name: &str, is_wrong: bool, allowed: &str| {
        if is_wrong {
            let mut path = path.to_vec();
            path.push(key(name));
            check.error(&path, format!("`{name}` is out of range"), format!("allowed: {allowed}"));
        }
    };
    wrong("mss", options.mss.is_some_and(|s| !(64..=65_495).contains(&s.0.0)), "64B to 65495B");
    wrong(
        "receive_buffer",
        options.receive_buffer.is_some_and(|s| !(1..=65_535 << 14).contains(&s.0.0)),
        "1B to 1073725440B (a 16-bit window scaled by 14)",
    );
    wrong("send_buffer", options.send_buffer.is_some_and(|s| s.0.0 == 0), "above zero");
    wrong("max_rate", options.max_rate.is_some_and(|r| r.0.as_bps() == 0), "above zero");
    let zero = |window: Option<super::Window>| {
        window.is_some_and(|w| matches!(w, super::Window::Bytes(0)) || w == super::Window::Segments(0.0))
    };
    wrong("initial_window", zero(options.initial_window), "above zero");
    wrong("initial_ssthresh", zero(options.initial_ssthresh), "above zero");
    wrong("max_window", zero(options.max_window), "above zero");
    wrong("initial_rto", options.initial_rto.is_some_and(|t| t.0.is_zero()), "above zero");
    wrong("max_rto", options.max_rto.is_some_and(|t| t.0.is_zero()), "above zero");
    let bad_gain = |gain: Option<f64>| gain.is_some_and(|g| g <= 0.0);
    wrong("pacing_gain", bad_gain(options.pacing_gain), "above zero");
    wrong("pacing_gain_slow_start", bad_gain(options.pacing_gain_slow_start), "above zero");
    // Against what is in force beside them on this level.
    let resolved = TcpOptions::resolve(&[options]);
    let above_max = |t: Option<super::Time>| t.is_some() && t > resolved.max_rto;
    let tick = resolved.tick.map_or(TimeDelta::ZERO, |tick| tick.0);
    wrong(
        "heartbeat",
        options.heartbeat == Some(true) && tick.is_zero(),
        "true only with a `tick`, such as 500ms",
    );
    wrong("min_rto", above_max(options.min_rto), "at most max_rto");
    wrong("initial_rto", above_max(options.initial_rto), "at most max_rto");
}
