//! Checks hosts, their programs and the flows to and from them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use warpline_core::NodeId;
use warpline_core::parameter::Choice as _;

use super::Expect;
use super::application::{App, Application};
use super::cc::Cc;
use super::checker::Check;
use super::diagnostics::spelling_help;
use super::document::{Step, entry, key};
use super::endpoint::{About, Endpoint, Protocol, Traffic};
use super::expand::Expanded;
use super::flow::{Flow, Transport};
use super::host::{Host, HostsByName};
use super::program::Program;
use super::semantics_program::program_path;
use crate::addresses::{AddressPlan, names_in_braces};

/// Checks all hosts of the scenario.
pub(super) fn check(check: &mut Check<'_>, expanded: &Expanded) {
    let scenario = check.scenario;
    for (i, host) in scenario.host.iter().enumerate() {
        if expanded.nodes.find(&host.name).is_none() {
            let known: Vec<&str> = expanded.nodes.iter().collect();
            let help = spelling_help(&host.name, &known);
            let message = format!("there is no node `{}`", host.name);
            check.errors.about(check.root, &entry("host", i, &["name"]), message, help);
        }
        endpoint(check, i, host);
        for (number, program) in host.programs().iter().enumerate() {
            self::program(check, &program_path(i, number, &[]), program);
            names(check, &program_path(i, number, &[]), program, expanded);
        }
    }
    addresses(check, expanded);
    if scenario.host.iter().any(|host| host.endpoint.rebind().is_some()) {
        let plan = AddressPlan::new(scenario, expanded);
        for (i, host) in scenario.host.iter().enumerate() {
            if let Some(rebind) = host.endpoint.rebind() {
                rebind.check(check, i, expanded.nodes.find(&host.name), &plan);
            }
        }
    }
    flows(check, expanded);
}

/// Checks that the host can follow the clock, and what is particular to its endpoint.
fn endpoint(check: &mut Check<'_>, i: usize, host: &Host) {
    let mode = check.scenario.clock.mode;
    let About { name, clocks, why, .. } = host.endpoint.about();
    if !clocks.contains(&mode) {
        let message = format!("a host with endpoint = {name:?} cannot follow this clock: {why}");
        let own: Vec<String> = clocks.iter().map(|clock| format!("{:?}", clock.name())).collect();
        let others = Endpoint::list(|about| about.clocks.contains(&mode));
        let help = format!("[clock] mode = {} (or --clock); or endpoint = {others}", own.join(" or "));
        check.error(&entry("host", i, &["endpoint"]), message, &help);
    }
    host.endpoint.check(check, i);
}

fn program(check: &mut Check<'_>, at: &[Step], program: &Program) {
    let below = |name: &str| {
        let mut path = at.to_vec();
        path.push(key(name));
        path
    };
    if program.command.is_empty() {
        check.error(
            &below("command"),
            "`command` is empty",
            "for example [\"ping\", \"-c\", \"3\", \"{server}\"]",
        );
    }
    if program.start >= check.scenario.duration {
        let message = format!(
            "`start` ({}) is not before the end of the run ({})",
            program.start, check.scenario.duration
        );
        let help = match program.expect {
            Expect::Running => "a program that must be running at the end has to start before it",
            _ => "the program would never run",
        };
        check.error(&below("start"), message, help);
    }
    for name in program.environment.keys() {
        if name.is_empty() || name.contains(['=', '\0']) {
            let message = format!("{name:?} cannot be the name of an environment variable");
            check.error(&below("environment"), message, "names have letters, digits and `_`");
        }
    }
}

/// Names in braces must be names of nodes.
fn names(check: &mut Check<'_>, at: &[Step], program: &Program, expanded: &Expanded) {
    let words = program.command.words();
    let command = words.iter().map(|word| ("command", word));
    for (key_name, word) in command.chain(program.environment.values().map(|value| ("environment", value))) {
        for name in names_in_braces(word).into_iter().filter(|name| expanded.nodes.find(name).is_none()) {
            let known: Vec<&str> = expanded.nodes.iter().collect();
            let mut path = at.to_vec();
            path.push(key(key_name));
            let mut help = spelling_help(name, &known);
            help.push(format!(
                "`{{NAME}}` stands for the address of a node; braces with spaces are left alone: `{{ {name} }}`"
            ));
            check.errors.about(
                check.root,
                &path,
                format!("there is no node `{name}`, as in `{{{name}}}`"),
                help,
            );
        }
    }
}

/// No two nodes may have the same address.
fn addresses(check: &mut Check<'_>, expanded: &Expanded) {
    let scenario = check.scenario;
    let hosts: BTreeMap<&str, usize> =
        scenario.host.iter().enumerate().map(|(i, host)| (host.name.as_str(), i)).collect();
    let is_given = |host: &Host| {
        matches!(host.endpoint, Endpoint::Interface(_))
            || host.endpoint.addresses().is_some_and(|own| own.address.is_some() || own.address6.is_some())
    };
    if !scenario.host.iter().any(is_given) {
        return;
    }
    let mut owners: BTreeMap<IpAddr, usize> = BTreeMap::new();
    let own = |node: usize| {
        let host = hosts.get(&expanded.nodes[node]);
        let host = host.and_then(|&i| Some((i, scenario.host[i].endpoint.addresses()?)));
        let v4 = host.and_then(|(i, host)| Some((i, "address", host.address?.0.into())));
        let v6 = host.and_then(|(i, host)| Some((i, "address6", host.address6?.0.into())));
        [v4, v6]
    };
    for node in 0..expanded.nodes.len() {
        let [v4, v6] = own(node);
        if v4.is_none() {
            owners.insert(NodeId(node as u32).ipv4().into(), node);
        }
        if v6.is_none() {
            owners.insert(NodeId(node as u32).ipv6().into(), node);
        }
    }
    for node in 0..expanded.nodes.len() {
        for (i, name, address) in own(node).into_iter().flatten() {
            let path = entry("host", i, &[name]);
            let address: IpAddr = address;
            if address.is_unspecified() || address.is_loopback() || address.is_multicast() {
                check.error(
                    &path,
                    format!("{address} cannot be a host's address"),
                    "for example 192.0.2.1 or 2001:db8::1",
                );
            } else if let Some(other) = owners.insert(address, node) {
                let message = format!("{address} is already the address of `{}`", &expanded.nodes[other]);
                check.error(&path, message, "leave it out for a default address, or give another");
            }
        }
    }
    for (i, host) in scenario.host.iter().enumerate() {
        let Endpoint::Interface(outside) = &host.endpoint else { continue };
        for (number, address) in outside.singles() {
            if let Some(other) = owners.get(&address) {
                let mut path = entry("host", i, &["addresses"]);
                path.push(Step::Index(number));
                let message = format!("{address} is already the address of `{}`", &expanded.nodes[*other]);
                check.error(&path, message, "leave it out, or give another");
            }
        }
        for (name, address) in outside.gateway_keys() {
            if let Some(other) = owners.get(&address) {
                let message = format!("{address} is already the address of `{}`", &expanded.nodes[*other]);
                let help = "leave it out: the machines outside can use the address of any other node as their gateway; or give another";
                check.error(&entry("host", i, &[name]), message, help);
            }
        }
    }
}

/// Checks flows with live hosts: which end may be live, and what the flow then needs.
fn flows(check: &mut Check<'_>, expanded: &Expanded) {
    let scenario = check.scenario;
    let hosts = scenario.hosts_by_name();
    let live = |node: usize| hosts.traffic(&expanded.nodes[node]).has_programs();
    let mut reported: BTreeSet<usize> = BTreeSet::new();
    let mut services: BTreeMap<(usize, u16), Arc<str>> = BTreeMap::new();
    for spec in &expanded.flows {
        let flow = &scenario.flow[spec.entry];
        let (from, to) = (&expanded.nodes[spec.from], &expanded.nodes[spec.to]);
        let app = flow.app.name();
        if let Some((name, message, help)) = protocols(&hosts, [from, to]) {
            if reported.insert(spec.entry) {
                check.error(&entry("flow", spec.entry, &[name]), message, help);
            }
            continue;
        }
        let kernel = |node: &str| hosts.traffic(node) == Traffic::Kernel;
        let guests = (kernel(from), kernel(to));
        if flow.verify
            && let Some(message) = unverified(flow, guests)
            && reported.insert(spec.entry)
        {
            let help = "leave it out, or let a guest send or receive a bulk flow or a transfer by itself";
            check.error(&entry("flow", spec.entry, &["verify"]), message, help);
            continue;
        }
        if flow.app == App::Request && guests != (true, true) {
            if reported.insert(spec.entry) {
                let node = if guests.0 { to } else { from };
                let message =
                    format!("app = \"request\" needs guests at both ends, and `{node}` is not a guest");
                let help = "a [[host]] with endpoint = \"guest\" at both ends; between simulated hosts, app = \"web\" sends requests and answers";
                check.error(&entry("flow", spec.entry, &["app"]), message, help);
            }
            continue;
        }
        if guests.0 && !flow.app.is_service() || guests.1 && flow.port.is_none() {
            if let Some((name, message, help)) = carried(flow, guests)
                && reported.insert(spec.entry)
            {
                check.error(&entry("flow", spec.entry, &[name]), message, help);
            }
            continue;
        }
        if let Some((name, message, help)) = stacks(&hosts, flow, [from, to])
            && reported.insert(spec.entry)
        {
            check.error(&entry("flow", spec.entry, &[name]), message, help);
            continue;
        }
        let problem = match (live(spec.from), live(spec.to)) {
            (false, false) => simulated(flow),
            (true, true) => Some((
                "from",
                format!(
                    "both `{from}` and `{to}` are live: a [[flow]] needs a simulated host at one end at least"
                ),
                "traffic between live hosts comes from programs ([[host.program]])",
            )),
            (true, false) if !flow.app.is_service() => Some((
                "from",
                format!("`{from}` is live: only its programs send, so app = \"{app}\" cannot"),
                "app = \"discard\", \"echo\", \"source\" or \"http\" is a service of `to` that programs on `from` can use, on `port`",
            )),
            (false, true) if flow.app.is_service() => Some((
                "app",
                format!("app = \"{app}\" is a service for programs, and `{from}` has none"),
                "let `from` be the live host whose programs use it, and `to` the simulated one",
            )),
            (false, true) if matches!(flow.app, App::Cap | App::Treno) => Some((
                "app",
                format!("app = \"{app}\" needs simulated hosts at both ends, and `{to}` is live"),
                "on live hosts run `warpline capd`, `warpline cap` and `warpline treno` as programs ([[host.program]])",
            )),
            (false, true) if flow.app == App::Web => Some((
                "app",
                format!("app = \"web\" needs simulated hosts at both ends, and `{to}` is live"),
                "for a web server, app = \"http\" with `from` and `to` exchanged; to send to a program, bulk, transfer, cbr, onoff or poisson",
            )),
            (false, true) if flow.transport() == Transport::Udp => Some((
                if flow.transport.is_some() { "transport" } else { "app" },
                format!("a flow cannot send UDP to a live host in this version, and `{to}` is live"),
                "transport = \"tcp\"; for UDP let a program send",
            )),
            // A port that cannot be read has been reported already.
            _ if flow.port.is_none() && check.root.at(&entry("flow", spec.entry, &["port"])).is_some() => {
                None
            }
            _ => met(flow),
        };
        let outside = hosts.traffic(to) == Traffic::Outside;
        let problem = problem.or_else(|| {
            (outside && flow.wait.is_some()).then(|| {
                let message = format!("nobody here sees what listens on `{to}`, which is outside");
                ("wait", message, "leave `wait` out: the flow connects at its start")
            })
        });
        let problem = problem.or_else(|| {
            let number = flow.port.filter(|_| live(spec.from))?;
            let other = services.insert((spec.to, number), Arc::clone(&spec.group))?;
            Some((
                if flow.count > 1 { "count" } else { "port" },
                format!("port {number} of `{to}` already has the service `{other}`"),
                "a service takes any number of connections; one is enough",
            ))
        });
        if let Some((name, message, help)) = problem
            && reported.insert(spec.entry)
        {
            check.error(&entry("flow", spec.entry, &[name]), message, help);
        }
    }
}

/// What is wrong with a flow: the key, the message, and what to do.
type Wrong = (&'static str, String, &'static str);

/// Why the bytes of a flow cannot be compared. `guests` says which ends are guests.
fn unverified(flow: &Flow, guests: (bool, bool)) -> Option<String> {
    match flow.app {
        _ if guests == (false, false) => {
            Some("`verify` is for flows of guests, and no end is a guest".to_owned())
        }
        _ if flow.port.is_some() => {
            Some("`verify` needs both ends of the flow, and `port` names a program".to_owned())
        }
        App::Bulk | App::Transfer => None,
        app => Some(format!("`verify` is for bulk and transfer, and not for {}", app.name())),
    }
}

/// Checks a flow that the kernels of guests carry. `guests` says which ends are guests.
fn carried(flow: &Flow, guests: (bool, bool)) -> Option<(&'static str, String, String)> {
    let by_itself = || {
        format!(
            "app = \"{}\"; for anything else let a program send ([[host.program]])",
            Application::for_kernels().join("\" or \"")
        )
    };
    match flow.application() {
        Application::Transfer(own) if own.transfers != 1 => {
            return Some((
                "app",
                "a flow from a guest makes one transfer only".to_owned(),
                "transfers = 1; for ten of them, count = 10 and a range of `start`".to_owned(),
            ));
        }
        _ if flow.app.is_for_kernels() => {}
        // What the model sends to a guest is discarded there.
        _ if !guests.0 && flow.app != App::Web && !flow.app.is_service() => {}
        _ => {
            let message =
                format!("a guest's kernel cannot send or receive app = \"{}\" by itself", flow.app.name());
            return Some(("app", message, by_itself()));
        }
    }
    if flow.transport() == Transport::Udp {
        return Some((
            "transport",
            "a guest's kernel cannot send or receive UDP by itself".to_owned(),
            by_itself(),
        ));
    }
    // The sender's kernel knows the congestion control by its name alone.
    if guests.0
        && let Some(cc @ Cc::BuiltIn(algorithm)) = &flow.cc
        && !algorithm.given().is_empty()
    {
        let name = cc.name();
        let message = format!("`{name}` of a guest's kernel has no parameters");
        return Some(("cc", message, format!("cc = \"{name}\"")));
    }
    let model = [
        ("tcp", flow.tcp.is_some()),
        ("max_window", flow.max_window.is_some()),
        ("max_rate", flow.max_rate.is_some()),
    ];
    let model = model.into_iter().find(|&(_, given)| given && guests == (true, true))?;
    Some((
        model.0,
        format!("`{}` is for model hosts, and both ends are guests", model.0),
        "`sysctl` of the hosts".to_owned(),
    ))
}

/// Checks a flow that a transport stack of this process sends or receives. `ends` are the names of its nodes.
fn stacks(hosts: &HostsByName<'_>, flow: &Flow, ends: [&str; 2]) -> Option<(&'static str, String, String)> {
    let stacks = ends.map(|node| hosts.find(node).filter(|host| host.traffic() == Traffic::Stack));
    let host = stacks.iter().flatten().next()?;
    let (app, kind) = (flow.app.name(), host.endpoint.about().name);
    if flow.transport() == Transport::Udp {
        let carries = host.endpoint.about().protocol.name();
        let message = format!(
            "`{}` is a stack, which carries {carries} only, and app = \"{app}\" runs over UDP",
            host.name
        );
        let help = "transport = \"tcp\" where the app allows it, or endpoint = \"model\"";
        return Some(("app", message, help.to_owned()));
    }
    let model = [
        ("tcp", flow.tcp.is_some()),
        ("max_window", flow.max_window.is_some()),
        ("max_rate", flow.max_rate.is_some()),
    ];
    // Where the model receives, its options are its own; how fast to send is the stack's.
    let model_receives = hosts.traffic(ends[1]) == Traffic::Model;
    let applies = |name: &str| stacks[0].is_none() || (name == "tcp" && model_receives);
    if let Some((name, _)) = model.into_iter().find(|&(name, given)| given && !applies(name)) {
        let message = format!("`{name}` is for model hosts, and `{}` is a stack", ends[0]);
        return Some((name, message, format!("leave it out; see the keys of endpoint = \"{kind}\"")));
    }
    let sender = &stacks[0]?.endpoint;
    let (known, cc) = (sender.congestion_controls()?, flow.cc.as_ref()?);
    let name = cc.name();
    if !known.contains(&name) {
        let message = format!("{kind} has no congestion control `{name}`");
        return Some(("cc", message, format!("allowed: {}", known.join(", "))));
    }
    let is_given = matches!(cc, Cc::BuiltIn(algorithm) if !algorithm.given().is_empty());
    (is_given && !sender.has_parameters()).then(|| {
        let message = format!("`{name}` of {kind} has no parameters");
        ("cc", message, format!("cc = \"{name}\""))
    })
}

/// Checks that both ends of a flow speak the same protocol. `ends` are the names of its nodes.
fn protocols(hosts: &HostsByName<'_>, ends: [&str; 2]) -> Option<(&'static str, String, String)> {
    let protocol = |node: &str| hosts.find(node).map_or(Protocol::Tcp, |host| host.endpoint.about().protocol);
    let [from, to] = ends.map(protocol);
    (from != to).then(|| {
        let names = [from.name(), to.name()];
        let message = format!(
            "`{}` speaks {} and `{}` speaks {}: no flow can go between them",
            ends[0], names[0], ends[1], names[1]
        );
        let rare = [from, to].into_iter().filter(|protocol| *protocol != Protocol::Tcp).map(|protocol| {
            let kinds = Endpoint::list(|about| about.protocol == protocol);
            format!("endpoint = {kinds}, which speaks {}", protocol.name())
        });
        let rare: Vec<String> = rare.collect();
        ("to", message, format!("at both ends or at none of them: {}", rare.join("; ")))
    })
}

/// Checks a flow between simulated hosts.
fn simulated(flow: &Flow) -> Option<Wrong> {
    let live_only =
        "one end must be a live host or a guest: a [[host]] with endpoint = \"live\" or \"guest\"";
    if flow.app.is_service() {
        let message = format!(
            "app = \"{}\" is a service for programs: `from` must be a live host or a guest",
            flow.app.name()
        );
        return Some((
            "app",
            message,
            "a [[host]] with endpoint = \"live\" or \"guest\", or one of the other apps",
        ));
    }
    let name = if flow.port.is_some() {
        "port"
    } else if flow.wait.is_some() {
        "wait"
    } else if flow.ipv6 {
        "ipv6"
    } else {
        return None;
    };
    Some((name, format!("`{name}` is for flows to or from programs, and both ends are simulated"), live_only))
}

/// Checks a flow to or from a program.
fn met(flow: &Flow) -> Option<Wrong> {
    let service = flow.app.is_service();
    match flow.port {
        None if service => Some(("app", "the service needs a `port`".to_owned(), "for example port = 80")),
        None => Some((
            "to",
            "a flow to a live host needs the `port` at which a program listens there".to_owned(),
            "for example port = 5001, with [[host.program]] command = \"nc -l 5001 > /dev/null\"",
        )),
        Some(_) if service && flow.wait.is_some() => {
            Some(("wait", "a service cannot `wait`".to_owned(), "leave `wait` out"))
        }
        Some(_) if service && flow.ipv6 => {
            Some(("ipv6", "a service always has IPv4 and IPv6".to_owned(), "leave `ipv6` out"))
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::Scenario;

    const LINKS: &str = r#"duration = "1s"
link = [{ between = ["a", "r"], rate = "1Mbit/s" }, { between = ["r", "b"], rate = "1Mbit/s", mtu = "1400B" }]
"#;

    fn load(text: &str) -> Result<Scenario, String> {
        Scenario::from_toml("test.toml", &format!("{LINKS}{text}"), &[]).map_err(|errors| errors.to_string())
    }

    /// A live host `a` with these keys and this program, on the real clock.
    fn live(keys: &str, program: &str) -> Result<Scenario, String> {
        load(&format!(
            "clock = {{ mode = \"real\" }}\n[[host]]\nname = \"a\"\nendpoint = \"live\"\n{keys}\n[[host.program]]\n{program}\n"
        ))
    }

    /// A flow with these keys beside the live host `a`.
    fn meets(keys: &str) -> Result<Scenario, String> {
        live("", &format!("command = \"true\"\n[[flow]]\n{keys}"))
    }

    #[test]
    fn flows_from_guests_may_name_the_congestion_controls_of_linux() {
        let flow = |cc: &str| {
            load(&format!(
                "[[host]]\nname = \"a\"\nendpoint = \"guest\"\n[[host]]\nname = \"b\"\nendpoint = \"guest\"\n[[flow]]\nfrom = \"a\"\nto = \"b\"\ncc = {cc}"
            ))
        };
        assert!(flow("\"brutal\"").is_ok());
        let errors = load("[[flow]]\nfrom = \"a\"\nto = \"b\"\ncc = \"brutal\"").unwrap_err();
        for part in [
            "`cc` cannot be \"brutal\"",
            "allowed: reno, cubic",
            "a flow from a guest can name any that Linux has",
            "endpoint = \"guest\"",
        ] {
            assert!(errors.contains(part), "{part}: {errors}");
        }
        let errors = load("[[flow]]\nfrom = \"a\"\nto = \"b\"\ncc = \"vegass\"").unwrap_err();
        assert!(errors.contains("did you mean `vegas`?"), "{errors}");
        // A class of a program has to be named in a table.
        assert!(
            load("[[flow]]\nfrom = \"a\"\nto = \"b\"\ncc = { kind = \"custom\", name = \"mine\" }").is_ok()
        );
    }

    #[test]
    fn either_end_of_a_flow_can_be_a_program() {
        for keys in [
            "from = \"b\"\nto = \"a\"\nport = 5001\nipv6 = true\ncount = 3",
            "from = \"b\"\nto = \"a\"\nport = 5001\napp = \"cbr\"\nrate = \"1Mbit/s\"\ntransport = \"tcp\"",
            "from = \"a\"\nto = \"b\"\nport = 80\napp = \"http\"\nsize = \"1MB\"\ncc = \"reno\"",
        ] {
            let scenario = meets(keys).unwrap_or_else(|errors| panic!("{errors}"));
            let again = Scenario::from_toml("test.toml", &scenario.to_toml(), &[]);
            assert_eq!(again.map_err(|errors| errors.to_string()), Ok(scenario));
        }
    }

    #[test]
    fn a_live_host_with_programs_is_accepted_on_the_real_clock_and_survives_the_round_trip() {
        let scenario = live(
            "address = \"192.0.2.1\"\naddress6 = \"2001:db8::1\"",
            "command = [\"true\"]\nstart = \"500ms\"\nexpect = \"running\"\nstop = \"INT\"\nenvironment = { A = \"1\", B_C = \"\" }",
        );
        let scenario = scenario.unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(
            Scenario::from_toml("test.toml", &scenario.to_toml(), &[]).map_err(|e| e.to_string()),
            Ok(scenario)
        );
        // Models run on any clock.
        let flow = "clock = { mode = \"real\", max_lag = \"5ms\" }\nflow = [{ from = \"a\", to = \"b\" }]\n";
        load(flow).unwrap_or_else(|errors| panic!("{errors}"));
    }

    #[test]
    fn errors_have_a_place_and_say_what_to_do() {
        let program = "command = \"true\"";
        let flow = "[[flow]]\nfrom = \"b\"\nto = \"a\"\n";
        for (result, parts) in [
            (
                load(&format!("[[host]]\nname = \"a\"\nendpoint = \"live\"\n[[host.program]]\n{program}\n")),
                ["test.toml:5:", "cannot follow this clock", "mode = \"real\""],
            ),
            (
                load(&format!(
                    "clock = {{ mode = \"real\" }}\n[[host]]\nname = \"a\"\n[[host.program]]\n{program}\n"
                )),
                ["test.toml:6:", "`program` goes with endpoint = \"live\"", "this is \"model\""],
            ),
            (
                load("clock = { max_lag = \"1ms\" }\nflow = [{ from = \"a\", to = \"b\" }]\n"),
                ["test.toml:3:", "`max_lag` belongs to mode", "real"],
            ),
            (live("tcp = {}", program), ["test.toml:7:", "`tcp` goes with endpoint = \"model\"", "`sysctl`"]),
            (
                live("address = \"10.0.0.2\"", program),
                ["test.toml:7:", "already the address of `r`", "leave it out"],
            ),
            (
                live("address = \"127.0.0.1\"", program),
                ["test.toml:7:", "cannot be a host's address", "192.0.2.1"],
            ),
            (live("address = \"10.0.0\"", program), ["test.toml:7:", "`address` cannot be", "192.0.2.1"]),
            (
                live("address6 = \"10.0.0.1\"", program),
                ["test.toml:7:", "`address6` cannot be", "2001:db8::1"],
            ),
            (
                live("", "command = \"curl http://{bb}/\""),
                ["test.toml:9:", "there is no node `bb`", "did you mean `b`"],
            ),
            (
                live("", &format!("{program}\nenvironment = {{ SERVER = \"{{srv:6}}\" }}")),
                ["test.toml:10:", "there is no node `srv`", "allowed: a, r, b"],
            ),
            (live("", "command = []"), ["test.toml:9:", "`command` is empty", "ping"]),
            (live("", "command = 7"), ["test.toml:9:", "`command` must be", "array"]),
            (
                live("", &format!("{program}\nstart = \"2s\"")),
                ["test.toml:10:", "not before the end", "never run"],
            ),
            (
                live("", &format!("{program}\nexpect = \"gone\"")),
                ["test.toml:10:", "`expect` cannot be", "running"],
            ),
            (live("", &format!("{program}\nexpect = 256")), ["test.toml:10:", "out of range", "255"]),
            (live("", &format!("{program}\nstop = \"STOP\"")), ["test.toml:10:", "`stop` cannot be", "TERM"]),
            (
                live("", &format!("{program}\nenvironment = {{ A = 1 }}")),
                ["test.toml:10:", "`A` must be a string", ""],
            ),
            (
                live("", &format!("{program}\nenvironment = {{ \"A=B\" = \"\" }}")),
                ["test.toml:10:", "cannot be the name", ""],
            ),
            (live("", &format!("{program}\n{flow}")), ["test.toml:12:", "needs the `port`", "5001"]),
            (meets("from = \"b\"\nto = \"a\"\nport = 0"), ["test.toml:13:", "out of range: 0", "65535"]),
            (meets("from = \"b\"\nto = \"a\"\nport = 70000"), ["test.toml:13:", "out of range", "65535"]),
            (
                meets("from = \"b\"\nto = \"a\"\nport = 9\napp = \"cbr\"\nrate = \"1Mbit/s\""),
                ["test.toml:14:", "cannot send UDP", "transport = \"tcp\""],
            ),
            (
                meets("from = \"b\"\nto = \"a\"\nport = 9\napp = \"web\""),
                ["test.toml:14:", "simulated hosts at both ends", "http"],
            ),
            (
                meets("from = \"b\"\nto = \"a\"\nport = 9\napp = \"http\""),
                ["test.toml:14:", "a service for programs", "be the live host"],
            ),
            (meets("from = \"a\"\nto = \"b\"\nport = 9"), ["test.toml:11:", "its programs", "discard"]),
            (meets("from = \"a\"\nto = \"b\"\napp = \"echo\""), ["test.toml:13:", "needs a `port`", "80"]),
            (
                meets("from = \"a\"\nto = \"b\"\napp = \"echo\"\nport = 7\nipv6 = true"),
                ["test.toml:15:", "IPv4 and IPv6", "leave"],
            ),
            (
                meets("from = \"a\"\nto = \"b\"\napp = \"echo\"\nport = 7\ncount = 2"),
                ["test.toml:15:", "already has the service `echo`", "one is enough"],
            ),
            (
                meets("from = \"r\"\nto = \"b\"\napp = \"echo\"\nport = 7"),
                ["test.toml:13:", "`from` must be a live host", ""],
            ),
            (
                meets("from = \"r\"\nto = \"b\"\nport = 7"),
                ["test.toml:13:", "both ends are simulated", "live"],
            ),
            (
                meets("from = \"r\"\nto = \"b\"\nipv6 = true"),
                ["test.toml:13:", "both ends are simulated", "live"],
            ),
        ] {
            let text = result.expect_err("the scenario is wrong");
            for part in parts {
                assert!(text.contains(part), "{part}\n{text}");
            }
            assert!(!text.contains("2 errors"), "{text}");
        }
    }
}
